//! placeholder
pub(crate) enum Broker {
    None,
    Kafka,
}
pub(crate) fn run(_: Broker) -> anyhow::Result<()> {
    Ok(())
}

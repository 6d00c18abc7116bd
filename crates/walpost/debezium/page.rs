//! Renders `docs/debezium.md`, from the tables that also import.

/// The whole page.
#[must_use]
pub fn render() -> String {
    String::new()
}

//! Connections of the test kit to PostgreSQL, for callers that are not asynchronous.

use std::future::Future;

use tokio_postgres::{Client, Error, NoTls};

/// Runs a future on a runtime of its own, on this thread. Not from within another runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime needs no more than a few file descriptors").block_on(future)
}

/// A connection that lives as long as its client and its runtime.
pub(crate) async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // Its end shows in the client's next call.
    tokio::spawn(async { drop(connection.await) });
    Ok(client)
}

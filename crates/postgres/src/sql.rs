//! The ordinary session: an SQL connection with a statement timeout, and a watcher that tells when and why it ended.
//!
//! The watcher is what keeps a shutdown of PostgreSQL from waiting for walpost: the server ends ordinary sessions first and
//! its walsenders last, so whoever streams closes the stream as soon as this session has ended, whatever the reason.
//!
//! Every statement has two deadlines: the server's own `statement_timeout`, and ours a little later, for a server that is
//! frozen or cut off keeps no promise of its own.
//!
//! A session that hangs alone, while the server is well, watches over nothing, and nobody is told: whoever finds it out by
//! [`Session::ping`] gives it up, and that is its end as any other.
//!
//! A session does not reconnect; whoever owns it opens another.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::{FromSql, ToSql};
use tokio_postgres::{Client, Config, CopyOutStream, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connection::{ConnectionSettings, Endpoint, Host, TEXT_FORMS, TlsMode};
use crate::error::{Error, Phase};
use crate::tls;

/// How long an answer may be on its way, beyond what the statement may take.
const ON_ITS_WAY: Duration = Duration::from_secs(5);

/// An open SQL session.
pub struct Session {
    client: Client,
    endpoint: Endpoint,
    end: watch::Sender<Option<Arc<Error>>>,
    statement_timeout: Duration,
}

/// Tells when a session ended. Outlives it.
#[derive(Clone)]
pub struct Watcher(watch::Receiver<Option<Arc<Error>>>);

impl Session {
    /// Opens a session on the first server of the list that accepts writes; if none does, on the first that answers.
    ///
    /// # Errors
    /// No server could be reached, or the last one refused.
    pub async fn connect(settings: &ConnectionSettings, statement_timeout: Duration) -> Result<Self, Error> {
        let mut attempts = Vec::new();
        let mut standby = None;
        for endpoint in settings.endpoints() {
            match Self::attempt(settings, endpoint, statement_timeout).await {
                Ok(session) if settings.endpoints().len() == 1 => return Ok(session),
                Ok(session) => match session.is_in_recovery().await {
                    Ok(false) => return Ok(session),
                    Ok(true) => standby = standby.or(Some(session)),
                    Err(error) => attempts.push((endpoint, error)),
                },
                Err(error) => attempts.push((endpoint, error)),
            }
        }
        standby.ok_or_else(|| Error::of_attempts(settings, attempts))
    }

    /// Opens a session on one server. The settings' connect timeout covers the whole of it.
    ///
    /// # Errors
    /// The server cannot be reached, refused, or took too long.
    pub async fn connect_to(
        settings: &ConnectionSettings,
        endpoint: &Endpoint,
        statement_timeout: Duration,
    ) -> Result<Self, Error> {
        let attempt = Self::attempt(settings, endpoint, statement_timeout).await;
        attempt.map_err(|error| error.of_servers(settings, std::slice::from_ref(endpoint)))
    }

    async fn attempt(
        settings: &ConnectionSettings,
        endpoint: &Endpoint,
        statement_timeout: Duration,
    ) -> Result<Self, Error> {
        let after = settings.connect_timeout();
        let open = Self::open(settings, endpoint, statement_timeout);
        tokio::time::timeout(after, open).await.unwrap_or(Err(Error::Deadline { phase: Phase::Connecting, after }))
    }

    async fn open(
        settings: &ConnectionSettings,
        endpoint: &Endpoint,
        statement_timeout: Duration,
    ) -> Result<Self, Error> {
        let config = config(settings, endpoint, statement_timeout);
        let seen = tls::SeenName::default();
        let tls = MakeRustlsConnect::new(tls::client_config(settings.tls(), &seen)?);
        let (client, connection) =
            config.connect(tls).await.map_err(|error| Error::from_sql(error, Phase::Connecting))?;
        let end = watch::Sender::new(None);
        let tell = end.clone();
        tokio::spawn(async move {
            let error = match connection.await {
                Ok(()) => Error::Ended,
                Err(error) => Error::from_sql(error, Phase::Query),
            };
            tell.send_replace(Some(Arc::new(error)));
        });
        let endpoint = Endpoint { certificate_name: seen.get().cloned(), ..endpoint.clone() };
        let session = Self { client, endpoint, end, statement_timeout };
        session.undo_defaults().await?;
        Ok(session)
    }

    /// What a server, database or role may have for a default and a session of ours cannot do with: an `idle_session_timeout` (PostgreSQL 14)
    /// would end one that has nothing to do, and with `default_transaction_read_only` nothing of ours could be made or written.
    async fn undo_defaults(&self) -> Result<(), Error> {
        let undo = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
                    WHERE name IN ('idle_session_timeout', 'idle_in_transaction_session_timeout'); \
                    SET default_transaction_read_only = off";
        self.execute_batch(undo).await
    }

    async fn is_in_recovery(&self) -> Result<bool, Error> {
        let row = self.query_one("SELECT pg_catalog.pg_is_in_recovery()", &[]).await?;
        field(&row, 0)
    }

    /// Runs statements that return nothing of interest.
    ///
    /// # Errors
    /// The server refused one, and those after it did not run; or it did not answer.
    pub async fn execute_batch(&self, statements: &str) -> Result<(), Error> {
        self.in_time(self.client.batch_execute(statements)).await
    }

    /// Runs a statement and answers all of its rows.
    pub(crate) async fn query(&self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.in_time(self.client.query(statement, parameters)).await
    }

    /// Runs a statement that has one row.
    pub(crate) async fn query_one(&self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        self.in_time(self.client.query_one(statement, parameters)).await
    }

    /// Runs a statement that has one row, and may take as long as this.
    pub(crate) async fn query_one_within(
        &self,
        limit: Duration,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, Error> {
        let set = |limit: Duration| format!("SET statement_timeout = {}", limit.as_millis());
        self.execute_batch(&set(limit)).await?;
        let answer = within(limit.saturating_add(ON_ITS_WAY), self.client.query_one(statement, parameters)).await;
        // Whoever has not answered answers nothing more.
        if !matches!(answer, Err(Error::Deadline { .. })) {
            // Where that fails, the answer still stands; the session is over, or has the longer limit.
            let _ = self.execute_batch(&set(self.statement_timeout)).await;
        }
        answer
    }

    /// Waits for a sign of life, which no lock can hold up.
    ///
    /// # Errors
    /// The session has ended, or nobody answered.
    pub async fn ping(&self, after: Duration) -> Result<(), Error> {
        within(after, self.client.batch_execute("")).await
    }

    /// Has the watchers told that it is over, for this reason.
    pub fn give_up(&self, reason: Error) {
        self.end.send_replace(Some(Arc::new(reason)));
    }

    async fn in_time<T>(&self, answer: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, Error> {
        within(self.statement_timeout.saturating_add(ON_ITS_WAY), answer).await
    }

    /// The server that was taken: the replication session has to go to the same one.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// A watcher for the session's end.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        Watcher(self.end.subscribe())
    }

    /// Runs statements in one transaction. Each may take as long as any, or as long as stands beside it, and then has to have the server's
    /// `statement_timeout` set to that before.
    pub(crate) async fn transact<'a>(
        &mut self,
        statements: impl IntoIterator<Item = (&'a str, Option<Duration>)>,
    ) -> Result<(), Error> {
        let ours = self.statement_timeout;
        let after = |limit: Option<Duration>| limit.unwrap_or(ours).saturating_add(ON_ITS_WAY);
        let transaction = within(after(None), self.client.transaction()).await?;
        for (statement, limit) in statements {
            within(after(limit), transaction.batch_execute(statement)).await?;
        }
        within(after(None), transaction.commit()).await
    }

    /// Begins to copy out of the database; how long its rows may take is for the caller to say.
    pub(crate) async fn copy_out(&mut self, statement: &str) -> Result<CopyOutStream, Error> {
        self.in_time(self.client.copy_out(statement)).await
    }

    /// For what keeps a deadline of its own.
    pub(crate) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

async fn within<T>(
    after: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Error> {
    match tokio::time::timeout(after, answer).await {
        Ok(answer) => answer.map_err(|error| Error::from_sql(error, Phase::Query)),
        Err(_) => Err(Error::Deadline { phase: Phase::Query, after }),
    }
}

impl Watcher {
    /// Waits until the session has ended and says why. Cancel-safe; answers again when asked again.
    pub async fn ended(&mut self) -> Arc<Error> {
        match self.0.wait_for(Option::is_some).await {
            Ok(error) => error.clone().unwrap_or_else(|| Arc::new(Error::Ended)),
            // The connection's task is gone without a word: the runtime is going down.
            Err(_) => Arc::new(Error::Ended),
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

fn config(settings: &ConnectionSettings, endpoint: &Endpoint, statement_timeout: Duration) -> Config {
    let mut config = Config::new();
    let mut mode = settings.tls().effective_mode();
    match &endpoint.host {
        Host::Name(name) => config.host(name),
        Host::SocketFolder(folder) => {
            // There is no TLS over a socket file; libpq does not try either.
            mode = TlsMode::Disable;
            config.host_path(folder)
        }
    };
    config.port(endpoint.port).user(settings.user()).dbname(settings.database());
    if let Some(password) = settings.password() {
        config.password(password);
    }
    config.ssl_mode(match mode {
        TlsMode::Disable => tokio_postgres::config::SslMode::Disable,
        TlsMode::Prefer => tokio_postgres::config::SslMode::Prefer,
        TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => tokio_postgres::config::SslMode::Require,
    });
    // A function or operator of somebody's search_path must not stand in for the catalogue's.
    let timeout = statement_timeout.as_millis();
    let ours = format!("{TEXT_FORMS} -c statement_timeout={timeout} -c search_path=pg_catalog");
    config.options(settings.options_with(&ours)).application_name(settings.application_name());
    let keepalive = settings.keepalive();
    config.keepalives(keepalive.enabled).keepalives_idle(keepalive.idle).connect_timeout(settings.connect_timeout());
    if let Some(interval) = keepalive.interval {
        config.keepalives_interval(interval);
    }
    if let Some(retries) = keepalive.retries {
        config.keepalives_retries(retries);
    }
    if let Some(timeout) = keepalive.user_timeout {
        config.tcp_user_timeout(timeout);
    }
    config
}

/// A column of a row, by its name or place.
pub(crate) fn field<'a, T: FromSql<'a>>(row: &'a Row, column: impl RowIndex + Display) -> Result<T, Error> {
    row.try_get(column).map_err(|error| Error::from_sql(error, Phase::Query))
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// The answer to a statement without rows.
    pub(crate) const DONE: &[u8] = b"C\0\0\0\x0DSELECT 0\0Z\0\0\0\x05I";

    /// A server that lets everybody in, gives these answers, one to each message, and freezes.
    async fn answer_and_freeze(mut client: TcpStream, answers: Vec<Vec<u8>>) -> std::io::Result<()> {
        const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
        let mut ignored = [0; 1024];
        for answer in [WELCOME, DONE].into_iter().chain(answers.iter().map(Vec::as_slice)) {
            let _ = client.read(&mut ignored).await?;
            client.write_all(answer).await?;
        }
        while client.read(&mut ignored).await? > 0 {}
        Ok(())
    }

    /// Starts such a server, which takes one session.
    pub(crate) async fn frozen_server(answers: Vec<Vec<u8>>) -> ConnectionSettings {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::new("127.0.0.1", listener.local_addr().unwrap().port());
        tokio::spawn(async move {
            let (client, _) = listener.accept().await?;
            answer_and_freeze(client, answers).await
        });
        ConnectionSettings::new(endpoint, "u", "d")
            .with_tls(crate::connection::TlsSettings { mode: TlsMode::Disable, ..Default::default() })
    }

    /// A session with a server that gives these answers and freezes.
    pub(crate) async fn scripted(answers: Vec<Vec<u8>>) -> Session {
        let settings = frozen_server(answers).await;
        Session::connect_to(&settings, &settings.endpoints()[0], Duration::from_millis(1)).await.unwrap()
    }

    #[tokio::test]
    async fn a_session_that_hangs_is_found_out_and_its_watchers_are_told_what_it_was_given_up_for() {
        let session = scripted(Vec::new()).await;
        let mut watcher = session.watcher();
        let reason = session.ping(Duration::from_millis(1)).await.expect_err("nobody answered");
        assert!(matches!(reason, Error::Deadline { .. }) && !session.is_closed(), "{reason}");
        session.give_up(reason);
        assert!(matches!(*watcher.ended().await, Error::Deadline { .. }));
    }

    #[tokio::test]
    async fn a_server_that_freezes_under_a_statement_is_given_up() {
        let session = scripted(Vec::new()).await;
        let error = session.query("SELECT 1", &[]).await.expect_err("nobody answered");
        assert!(matches!(error, Error::Deadline { phase: Phase::Query, .. }), "{error}");
        assert_eq!(error.class(), crate::error::Class::Transient);
    }
}

//! The ordinary session: an SQL connection with a statement timeout, and a watcher that tells when and why it ended.
//!
//! The watcher is what keeps a shutdown of PostgreSQL from waiting for walpost: the server ends ordinary sessions first and
//! its walsenders last, so SQLSTATE 57P01–57P03 here means that the stream has to be closed at once.
//!
//! A session does not reconnect; whoever owns it opens another.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio_postgres::{Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::connection::{ConnectionSettings, Endpoint, Host, TlsMode};
use crate::error::{Class, Error, Phase};
use crate::tls;

/// An open SQL session.
pub struct Session {
    client: Client,
    endpoint: Endpoint,
    ended: watch::Receiver<Option<Arc<Error>>>,
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
        let mut last_error = Error::Ended;
        let mut standby = None;
        for endpoint in settings.endpoints() {
            match Self::connect_to(settings, endpoint, statement_timeout).await {
                Ok(session) if settings.endpoints().len() == 1 => return Ok(session),
                Ok(session) => match session.is_in_recovery().await {
                    Ok(false) => return Ok(session),
                    Ok(true) => standby = standby.or(Some(session)),
                    Err(error) => last_error = error,
                },
                Err(error) => last_error = error,
            }
        }
        standby.ok_or(last_error)
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
        let (tell, ended) = watch::channel(None);
        tokio::spawn(async move {
            let error = match connection.await {
                Ok(()) => Error::Ended,
                Err(error) => Error::from_sql(error, Phase::Query),
            };
            tell.send_replace(Some(Arc::new(error)));
        });
        let endpoint = Endpoint { certificate_name: seen.get().cloned(), ..endpoint.clone() };
        let session = Self { client, endpoint, ended, statement_timeout };
        session.never_time_out_when_idle().await?;
        Ok(session)
    }

    /// An operator's `idle_session_timeout` (PostgreSQL 14) would end a session that has nothing to do.
    async fn never_time_out_when_idle(&self) -> Result<(), Error> {
        let disable = "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings \
                       WHERE name IN ('idle_session_timeout', 'idle_in_transaction_session_timeout')";
        self.execute_batch(disable).await
    }

    async fn is_in_recovery(&self) -> Result<bool, Error> {
        let row = self.client.query_one("SELECT pg_catalog.pg_is_in_recovery()", &[]).await;
        row.and_then(|row| row.try_get(0)).map_err(|error| Error::from_sql(error, Phase::Query))
    }

    /// Runs statements that return nothing of interest.
    ///
    /// # Errors
    /// The server refused one; those behind it did not run.
    pub async fn execute_batch(&self, statements: &str) -> Result<(), Error> {
        self.client.batch_execute(statements).await.map_err(|error| Error::from_sql(error, Phase::Query))
    }

    /// The server that was taken: the replication session has to go to the same one.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The statement timeout that was asked for.
    #[must_use]
    pub fn statement_timeout(&self) -> Duration {
        self.statement_timeout
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// A watcher for the session's end.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        Watcher(self.ended.clone())
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
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

    /// Waits until the session has ended and says whether the server is shutting down: if so, the stream has to be closed
    /// at once, or the shutdown waits for it.
    pub async fn ended_by_shutdown(&mut self) -> bool {
        self.ended().await.class() == Class::ShuttingDown
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
    let ours = format!("-c statement_timeout={} -c search_path=pg_catalog", statement_timeout.as_millis());
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

//! How to reach a server: the same settings for the ordinary and for the replication session.
//!
//! libpq's names and rules are kept where both sessions can follow them; what only one of the two libraries could do is
//! refused with a sentence instead of being dropped. A password is never shown, not even by `Debug`.

mod passfile;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The settings that a default of database or role must not change, for they change the text of a value: of a row, and of a DEFAULT.
pub(crate) const TEXT_FORMS: &str = "-c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c extra_float_digits=1 \
                                     -c lc_monetary=C -c TimeZone=UTC";

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// A host name or an address.
    Name(String),
    /// The folder of a Unix-domain socket.
    SocketFolder(PathBuf),
}

/// One server of the list.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Its host or socket folder.
    pub host: Host,
    /// Its port; of a socket, the number in the file's name.
    pub port: u16,
    /// A name in the certificate that was seen there, where it is not the host's and need not be (`verify-ca`).
    pub(crate) certificate_name: Option<String>,
}

/// What of TLS is asked for (`sslmode`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never TLS.
    Disable,
    /// TLS where the server offers it; nothing is verified.
    #[default]
    Prefer,
    /// TLS or no connection; nothing is verified, unless a root certificate is named: then as `VerifyCa`, as in libpq.
    Require,
    /// The server's certificate must come from a trusted authority. The replication session's library wants the host's name
    /// in it too (it tells a wrong name from a wrong authority only by an error that rustls no longer gives), so a name that
    /// does not match is refused there.
    VerifyCa,
    /// And it must bear the host's name.
    VerifyFull,
}

/// The TLS side of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// What is asked for.
    pub mode: TlsMode,
    /// The PEM file of trusted authorities; without one, Mozilla's list.
    pub root_certificate: Option<PathBuf>,
    /// The PEM files of the client's certificate and key.
    pub client: Option<(PathBuf, PathBuf)>,
}

impl TlsSettings {
    /// The mode that is meant: a named root certificate turns `require` into `verify-ca`, as in libpq.
    #[must_use]
    pub fn effective_mode(&self) -> TlsMode {
        match self.mode {
            TlsMode::Require if self.root_certificate.is_some() => TlsMode::VerifyCa,
            mode => mode,
        }
    }
}

/// TCP keepalive of the ordinary session. The replication session has the server's pings and a deadline instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keepalive {
    /// Whether it is on.
    pub enabled: bool,
    /// Silence before the first probe.
    pub idle: Duration,
    /// Time between probes; the system's own where `None`.
    pub interval: Option<Duration>,
    /// Probes before the connection is given up; the system's own where `None`.
    pub retries: Option<u32>,
    /// How long sent data may stay unacknowledged (`TCP_USER_TIMEOUT`).
    pub user_timeout: Option<Duration>,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            enabled: true,
            idle: Duration::from_secs(30),
            interval: Some(Duration::from_secs(10)),
            retries: Some(3),
            user_timeout: None,
        }
    }
}

/// A text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to reach a server and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionSettings {
    endpoints: Vec<Endpoint>,
    user: String,
    password: Option<Secret>,
    database: String,
    tls: TlsSettings,
    connect_timeout: Duration,
    application_name: String,
    options: Option<String>,
    keepalive: Keepalive,
}

impl ConnectionSettings {
    /// The port where none is given.
    pub const DEFAULT_PORT: u16 = 5432;
    /// How long connecting, TLS and authentication may take together, where nothing is said.
    pub const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

    /// Settings for one server, one role and one database, everything else as by default.
    pub fn new(endpoint: Endpoint, user: impl Into<String>, database: impl Into<String>) -> Self {
        Self {
            endpoints: vec![endpoint],
            user: user.into(),
            password: None,
            database: database.into(),
            tls: TlsSettings::default(),
            connect_timeout: Self::DEFAULT_CONNECT_TIMEOUT,
            application_name: "walpost".to_owned(),
            options: None,
            keepalive: Keepalive::default(),
        }
    }

    /// Reads a `postgres://` URL as libpq does; what it leaves out comes from libpq's `PG*` variables by `lookup`, then
    /// from the password file, then from the defaults.
    ///
    /// # Errors
    /// The part of the URL, or the variable, that cannot be understood. No error bears the password.
    pub fn from_url(url: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        url::read(url, lookup)
    }

    /// Adds a server to try after those that are there.
    #[must_use]
    pub fn with_endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Sets the password.
    #[must_use]
    pub fn with_password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(Secret(password.into()));
        self
    }

    /// Sets the TLS side.
    #[must_use]
    pub fn with_tls(mut self, tls: TlsSettings) -> Self {
        self.tls = tls;
        self
    }

    /// Sets how long connecting, TLS and authentication may take together.
    #[must_use]
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the name that `pg_stat_activity` shows.
    #[must_use]
    pub fn with_application_name(mut self, name: impl Into<String>) -> Self {
        self.application_name = name.into();
        self
    }

    /// Sets command-line options for the server, such as `-c work_mem=8MB`. walpost's own come after them and win.
    #[must_use]
    pub fn with_options(mut self, options: impl Into<String>) -> Self {
        self.options = Some(options.into());
        self
    }

    /// Sets TCP keepalive.
    #[must_use]
    pub fn with_keepalive(mut self, keepalive: Keepalive) -> Self {
        self.keepalive = keepalive;
        self
    }

    /// The servers, in the order in which they are tried; at least one.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The role.
    #[must_use]
    pub fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(|secret| secret.0.as_str())
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The TLS side.
    #[must_use]
    pub fn tls(&self) -> &TlsSettings {
        &self.tls
    }

    /// How long connecting, TLS and authentication may take together.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// The name that `pg_stat_activity` shows.
    #[must_use]
    pub fn application_name(&self) -> &str {
        &self.application_name
    }

    /// The operator's options, followed by `ours`.
    pub(crate) fn options_with(&self, ours: &str) -> String {
        match &self.options {
            Some(options) => format!("{options} {ours}"),
            None => ours.to_owned(),
        }
    }

    /// TCP keepalive of the ordinary session.
    #[must_use]
    pub fn keepalive(&self) -> &Keepalive {
        &self.keepalive
    }
}

impl Endpoint {
    /// The server at this host and port. A host that starts with `/` is the folder of a socket, as in libpq.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        let host = host.into();
        let host = if host.starts_with('/') { Host::SocketFolder(PathBuf::from(host)) } else { Host::Name(host) };
        Self { host, port, certificate_name: None }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Name(name) if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
            Host::SocketFolder(folder) => write!(f, "{}/.s.PGSQL.{}", folder.display(), self.port),
        }
    }
}

/// A connection setting that cannot be understood. None bears a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// It is no PostgreSQL URL at all.
    #[error("the URL does not start with postgres:// or postgresql://; write postgres://user@host:port/database")]
    NotPostgres,
    /// A part of the URL has a percent sign that does not stand for a byte, or bytes that are not UTF-8, or a NUL.
    #[error("the {part} in the URL is not percent-encoded UTF-8 text; a literal % is written %25")]
    Encoding {
        /// Which part.
        part: &'static str,
    },
    /// The host part cannot be read.
    #[error("the host in the URL cannot be read: {reason}")]
    Host {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A parameter that libpq does not know.
    #[error("unknown parameter \"{name}\" in the URL{}", .nearest.map(|known| format!("; did you mean \"{known}\"?")).unwrap_or_default())]
    UnknownParameter {
        /// As it was written.
        name: String,
        /// The known one that is nearest.
        nearest: Option<&'static str>,
    },
    /// A parameter that libpq knows and walpost cannot honour.
    #[error("{name} is not supported: {reason}")]
    Unsupported {
        /// The parameter.
        name: &'static str,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A value that its parameter does not take.
    #[error("\"{value}\" is no value for {name}: {expected}")]
    Value {
        /// The parameter, or the environment variable that stands for it.
        name: String,
        /// As it was written.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// A port that is none.
    #[error("{name} is not a number from 1 to 65535; a / or ? in the password is written %2F or %3F")]
    Port {
        /// The parameter, or the environment variable that stands for it.
        name: String,
    },
    /// There are more or fewer ports than hosts.
    #[error("{ports} ports are given for {hosts} hosts; give one port for all or one for each")]
    PortCount {
        /// How many ports.
        ports: usize,
        /// How many hosts.
        hosts: usize,
    },
    /// Nobody said who connects.
    #[error("no user is given; write postgres://user@host/database or set PGUSER")]
    NoUser,
    /// A client certificate without a key, or the other way round.
    #[error("sslcert and sslkey belong together, and only one of them is set")]
    HalfClientCertificate,
    /// A password file that cannot be read.
    #[error("the password file {} cannot be read; correct PGPASSFILE or make the file readable", .path.display())]
    PasswordFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A password file that others can read, which libpq refuses too.
    #[error("the password file {} can be read by others; run: chmod 0600 {}", .path.display(), .path.display())]
    PasswordFileMode {
        /// Which file.
        path: PathBuf,
    },
}

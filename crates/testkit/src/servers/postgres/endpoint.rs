//! How a PostgreSQL server is reached, and a runner of SQL by its own client.

use std::fmt;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::servers::process::check;
use crate::servers::{Error, Result};

/// A row as text, a cell a string; NULL is empty.
pub type Row = Vec<String>;

/// Between the cells of a row; no text that a test writes holds it.
const CELL_END: char = '\u{1f}';

/// A server's address, and as whom to come.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresEndpoint {
    user: String,
    password: Option<String>,
    host: String,
    port: u16,
    /// With its question mark, or empty.
    parameters: String,
}

impl PostgresEndpoint {
    /// A server of ours, for its superuser.
    pub(super) fn new(port: u16, password: Option<&str>) -> Self {
        let (user, host) = ("postgres".to_owned(), "127.0.0.1".to_owned());
        Self { user, password: password.map(escape), host, port, parameters: String::new() }
    }

    /// The server that a URL names: `postgres://user[:password]@host:port[/database][?parameters]`. The database in it
    /// does not matter.
    ///
    /// # Errors
    ///
    /// [`Error::Malformed`] for any other form.
    pub fn at(url: &str) -> Result<Self> {
        Self::parse(url)
            .ok_or_else(|| Error::Malformed { what: "the URL of a PostgreSQL server", text: without_password(url) })
    }

    fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"))?;
        let (rest, parameters) =
            rest.split_once('?').map_or((rest, String::new()), |(rest, text)| (rest, format!("?{text}")));
        let (credentials, place) = rest.split_once('@')?;
        let (user, password) = credentials
            .split_once(':')
            .map_or((credentials, None), |(user, password)| (user, Some(password.to_owned())));
        let (place, _database) = place.split_once('/').unwrap_or((place, ""));
        let (host, port) = place.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let is_whole = !user.is_empty() && !host.is_empty();
        is_whole.then(|| Self { user: user.to_owned(), password, host: host.to_owned(), port, parameters })
    }

    /// The name or address of its machine.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of one of its databases.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.url_as(&self.user, self.password.as_deref(), database)
    }

    /// The URL of one of its databases for another role; a password is given as it is typed.
    #[must_use]
    pub fn url_for(&self, role: &str, password: Option<&str>, database: &str) -> String {
        self.url_as(&escape(role), password.map(escape).as_deref(), database)
    }

    fn url_as(&self, user: &str, password: Option<&str>, database: &str) -> String {
        let password = password.map(|password| format!(":{password}")).unwrap_or_default();
        let Self { host, port, parameters, .. } = self;
        format!("postgres://{user}{password}@{host}:{port}/{}{parameters}", escape(database))
    }

    /// Runs a script in one session of `psql`, which stops at the first error, and returns the rows of its results,
    /// one a line: for cells without line breaks.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] with what `psql` wrote when the server cannot be reached or refuses a statement.
    pub fn psql(&self, database: &str, sql: &str) -> Result<Vec<Row>> {
        let mut psql = Command::new("psql");
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--no-password", "--set=ON_ERROR_STOP=1"]);
        psql.arg(format!("--field-separator={CELL_END}")).args(["--file=-", "--dbname"]).arg(self.url(database));
        // Nothing of the caller's own servers.
        for variable in ["PGHOST", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE", "PGOPTIONS"] {
            psql.env_remove(variable);
        }
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = psql.spawn().map_err(Error::io("run psql"))?;
        if let Some(mut input) = child.stdin.take() {
            // It may have failed to connect and be gone; its own words, below, are better than ours.
            let _ = input.write_all(sql.as_bytes());
        }
        let output = child.wait_with_output().map_err(Error::io("wait for psql"))?;
        let rows = check(&output, "psql")?;
        Ok(rows
            .lines()
            .filter(|line| !line.is_empty())
            .map(|line| line.split(CELL_END).map(str::to_owned).collect())
            .collect())
    }

    /// The first cell of the first row.
    ///
    /// # Errors
    ///
    /// As [`PostgresEndpoint::psql`], and [`Error::Malformed`] when there is no row.
    pub fn value(&self, database: &str, sql: &str) -> Result<String> {
        let first = self.psql(database, sql)?.into_iter().flatten().next();
        first.ok_or_else(|| Error::Malformed {
            what: "the empty result of a query that must have a row",
            text: sql.to_owned(),
        })
    }

    /// Makes a database that no other test has, with a name that begins with `label` (lower-case letters, digits and
    /// underscores).
    ///
    /// # Errors
    ///
    /// As [`PostgresEndpoint::psql`].
    pub fn fresh_database(&self, label: &str) -> Result<Database> {
        self.fresh_database_with(label, "")
    }

    /// As [`PostgresEndpoint::fresh_database`], with these options of CREATE DATABASE.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn fresh_database_with(&self, label: &str, options: &str) -> Result<Database> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("{label}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name} {options}"))?;
        Ok(Database { endpoint: self.clone(), name })
    }
}

/// Without the password.
impl fmt::Debug for PostgresEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresEndpoint")
            .field("user", &self.user)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish()
    }
}

/// A database of one test on a server that others use too. Its name is unique on this server and makes good names for
/// what is not inside a database: slots above all. Dropped, it takes its slots and itself away.
#[derive(Debug)]
pub struct Database {
    endpoint: PostgresEndpoint,
    name: String,
}

impl Database {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server that it is on.
    #[must_use]
    pub fn endpoint(&self) -> &PostgresEndpoint {
        &self.endpoint
    }

    /// Its URL, for the superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.endpoint.url(&self.name)
    }

    /// As [`PostgresEndpoint::psql`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn psql(&self, sql: &str) -> Result<Vec<Row>> {
        self.endpoint.psql(&self.name, sql)
    }

    /// As [`PostgresEndpoint::value`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn value(&self, sql: &str) -> Result<String> {
        self.endpoint.value(&self.name, sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // A slot in use cannot be dropped, and a database with slots cannot either. One statement each: a walsender
        // takes a moment to go.
        let name = &self.name;
        let slots = format!("FROM pg_replication_slots WHERE database = '{name}'");
        let script = format!(
            "ALTER DATABASE {name} ALLOW_CONNECTIONS false;\n\
             DO $$ BEGIN\n\
               FOR attempt IN 1..200 LOOP\n\
                 PERFORM pg_terminate_backend(active_pid) {slots} AND active_pid IS NOT NULL;\n\
                 EXIT WHEN NOT EXISTS (SELECT {slots} AND active);\n\
                 PERFORM pg_sleep(0.02);\n\
               END LOOP;\n\
             END $$;\n\
             SELECT pg_drop_replication_slot(slot_name) {slots};\n\
             DROP DATABASE {name} WITH (FORCE);"
        );
        // The server may be stopped, or gone before its databases: then they go with it.
        let _ = self.endpoint.psql("postgres", &script);
    }
}

/// Percent-encodes what has a meaning in a URL.
fn escape(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// For a message.
fn without_password(url: &str) -> String {
    url.rsplit_once('@').map_or(url, |(_, place)| place).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::shared_postgres;

    #[test]
    fn an_endpoint_comes_back_from_its_own_url() {
        for url in ["postgres://postgres@127.0.0.1:15000/app", "postgres://a:p%20w@db.test:1/app?sslmode=require"] {
            assert_eq!(PostgresEndpoint::at(url).unwrap().url("app"), url);
        }
    }

    #[test]
    fn what_is_no_url_of_a_server_is_refused_without_its_password() {
        let urls =
            ["", "mysql://a@b:1", "postgres://b:1", "postgres://a@b", "postgres://a:pearl@b:x/c", "postgres://@b:1"];
        for url in urls {
            let refused = PostgresEndpoint::at(url).unwrap_err().to_string();
            assert!(!refused.contains("pearl"), "{refused}");
        }
    }

    #[test]
    fn a_script_returns_its_rows_and_stops_at_its_first_error() {
        let database = shared_postgres().fresh_database("psql").unwrap();
        let rows =
            database.psql("CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (2, NULL); TABLE t").unwrap();
        assert_eq!(rows, [["1", "x"], ["2", ""]]);
        let refused = database.psql("SELECT no_such_function(); DROP TABLE t").unwrap_err();
        assert!(refused.to_string().contains("no_such_function"), "{refused}");
        assert_eq!(database.value("SELECT count(*) FROM t").unwrap(), "2");
    }

    #[test]
    fn a_dropped_database_takes_its_slots_along() {
        let server = shared_postgres();
        let database = server.fresh_database("dropped").unwrap();
        let name = database.name().to_owned();
        database.psql(&format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")).unwrap();
        drop(database);
        let left = format!(
            "SELECT (SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{name}')
                  + (SELECT count(*) FROM pg_database WHERE datname = '{name}')"
        );
        assert_eq!(server.value("postgres", &left).unwrap(), "0");
    }
}

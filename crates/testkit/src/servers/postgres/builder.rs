//! What a PostgreSQL server is to be like, and the steps to its first start.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Layout, Postgres, PostgresEndpoint, SERVER, spawn, wait_until_ready};
use crate::servers::account::Account;
use crate::servers::daemon::{self, Daemon};
use crate::servers::install::postgres_programs;
use crate::servers::process::{Lifetime, Signal, command, run};
use crate::servers::scratch::{Place, write_file};
use crate::servers::{Certificates, Error, Need, Result, install, ports};

/// Generous where tests would hit a limit, quick where they would wait.
const SETTINGS: &[(&str, &str)] = &[
    ("listen_addresses", "127.0.0.1"),
    ("wal_level", "logical"),
    ("max_wal_senders", "60"),
    ("max_replication_slots", "60"),
    ("max_connections", "200"),
    ("max_prepared_transactions", "20"),
    // In the data folder: its files go with it, even after a kill.
    ("dynamic_shared_memory_type", "mmap"),
    ("log_line_prefix", "%m [%p] %q%a %d "),
    ("log_replication_commands", "on"),
];

/// How clients prove who they are.
#[derive(Clone, PartialEq, Eq)]
pub enum Authentication {
    /// Everybody is believed.
    Trust,
    /// SCRAM-SHA-256 for every connection by TCP; other roles get a password by `ALTER ROLE`.
    Scram {
        /// The superuser's password.
        password: String,
    },
}

impl std::fmt::Debug for Authentication {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.method())
    }
}

impl Authentication {
    fn method(&self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Scram { .. } => "scram-sha-256",
        }
    }

    fn password(&self) -> Option<&str> {
        match self {
            Self::Trust => None,
            Self::Scram { password } => Some(password),
        }
    }
}

/// A server to be started; see [`Postgres::builder`] for the defaults.
#[derive(Clone, Debug)]
pub struct PostgresBuilder {
    programs: Option<PathBuf>,
    settings: Vec<(String, String)>,
    hba: Vec<String>,
    authentication: Authentication,
    fsync: bool,
    tls: bool,
    original: Option<PathBuf>,
    is_standby: bool,
    kept: Option<PathBuf>,
}

impl Default for PostgresBuilder {
    fn default() -> Self {
        Self {
            programs: None,
            settings: Vec::new(),
            hba: Vec::new(),
            authentication: Authentication::Trust,
            fsync: false,
            tls: false,
            original: None,
            is_standby: false,
            kept: None,
        }
    }
}

impl PostgresBuilder {
    /// A line of `postgresql.conf`, such as `("wal_sender_timeout", "2s")`; a later one wins.
    #[must_use]
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A line of `pg_hba.conf` before the usual ones; the first that fits a connection decides.
    #[must_use]
    pub fn hba(mut self, line: &str) -> Self {
        self.hba.push(line.to_owned());
        self
    }

    /// How clients prove who they are.
    #[must_use]
    pub fn authentication(mut self, authentication: Authentication) -> Self {
        self.authentication = authentication;
        self
    }

    /// Whether it forces its writes to the disk: needless against the death of processes, needed for honest figures.
    #[must_use]
    pub fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }

    /// Offers TLS, with a certificate for `localhost` and `127.0.0.1` from an authority of its own.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// The folder of the server's programs, for a version other than the newest one installed.
    #[must_use]
    pub fn programs(mut self, folder: &Path) -> Self {
        self.programs = Some(folder.to_owned());
        self
    }

    /// Begins with a copy of a stopped server's data instead of an empty system.
    #[must_use]
    pub fn copy_of(mut self, original: &Postgres) -> Self {
        self.original = Some(original.data().to_owned());
        self
    }

    /// Follows a server, from a copy of its data: that one has to be stopped meanwhile, and keeps log for the standby in a physical slot
    /// of the name `standby`. `database` is the one that it connects to for what is not in the log.
    #[must_use]
    pub fn standby_of(mut self, primary: &Postgres, database: &str) -> Self {
        self.is_standby = true;
        let connection = format!("host=127.0.0.1 port={} user=postgres dbname={database}", primary.endpoint().port());
        self.copy_of(primary).setting("primary_conninfo", &connection).setting("primary_slot_name", "standby")
    }

    /// Keeps server and data, in this folder, beyond the end of this process: whoever starts it so must stop it.
    #[must_use]
    pub fn kept(mut self, folder: &Path) -> Self {
        self.kept = Some(folder.to_owned());
        self
    }

    /// Installs PostgreSQL if need be, makes the data, starts the server and waits until it is ready.
    ///
    /// # Errors
    ///
    /// What [`install`] refuses; [`Error::Ended`] with the server's log when it does not like its settings;
    /// [`Error::TimedOut`] when it is not ready within a minute.
    pub fn start(self) -> Result<Postgres> {
        install_once()?;
        let account = Account::for_server()?;
        let place = Place::choose(self.kept.as_deref(), "postgres")?;
        let folder = place.path();
        if let Some(account) = &account {
            account.give(folder)?;
        }
        let layout = self.layout(folder)?;
        self.make_data(&layout, folder, account.as_ref())?;
        let certificates = self.make_certificates(folder, account.as_ref())?;
        let (daemon, port) =
            self.first_start(&layout, folder, certificates.as_ref(), account.as_ref(), place.lifetime())?;
        let endpoint = PostgresEndpoint::new(port, self.authentication.password());
        Ok(Postgres { endpoint, certificates, layout, account, daemon, place })
    }

    fn layout(&self, folder: &Path) -> Result<Layout> {
        let programs = self.programs.clone().or_else(postgres_programs);
        let programs =
            programs.ok_or(Error::Missing { packages: vec!["postgresql"], reason: "they are not there".to_owned() })?;
        Ok(Layout { programs, data: folder.join("data"), log: folder.join("log") })
    }

    fn make_data(&self, layout: &Layout, folder: &Path, account: Option<&Account>) -> Result<()> {
        if let Some(original) = &self.original {
            let mut copy = Command::new("cp");
            copy.arg("-a").arg(original).arg(&layout.data);
            run(copy, "cp -a of a data folder")?;
            if self.is_standby {
                write_file(&layout.data.join("standby.signal"), "")?;
                // A base backup leaves the slots out, and one of the same name would not be synchronised.
                let mut slots = Command::new("find");
                slots.arg(layout.data.join("pg_replslot")).args(["-mindepth", "1", "-delete"]);
                run(slots, "find -delete of the slots")?;
            }
            return Ok(());
        }
        let mut initdb = command(layout.programs.join("initdb"), Lifetime::WithUs, account);
        initdb.args(["--username=postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]).current_dir("/");
        initdb.arg("--auth").arg(self.authentication.method()).arg("--pgdata").arg(&layout.data);
        if let Some(password) = self.authentication.password() {
            let file = folder.join("password");
            write_private(&file, password, account)?;
            initdb.arg("--pwfile").arg(&file);
        }
        run(initdb, "initdb").map(drop)
    }

    fn make_certificates(&self, folder: &Path, account: Option<&Account>) -> Result<Option<Certificates>> {
        if !self.tls {
            return Ok(None);
        }
        let certificates = Certificates::make(folder)?;
        if let Some(account) = account {
            account.give(&certificates.key)?;
        }
        Ok(Some(certificates))
    }

    fn first_start(
        &self,
        layout: &Layout,
        folder: &Path,
        certificates: Option<&Certificates>,
        account: Option<&Account>,
        lifetime: Lifetime,
    ) -> Result<(Daemon, u16)> {
        let conf = layout.data.join("postgresql.conf");
        daemon::first_start(SERVER, "Address already in use", &layout.log, |_| {
            let port = ports::free()?;
            write_private(&conf, &self.configuration(port, folder, certificates), account)?;
            write_private(&layout.data.join("pg_hba.conf"), &self.host_based(), account)?;
            let mut process = spawn(layout, account, lifetime)?;
            let ready = wait_until_ready(layout, &mut process);
            if ready.is_err() {
                // So that it lets go of its shared memory.
                let _ = process.identity().signal(Signal::Quit);
            }
            Ok((process, port, ready))
        })
    }

    fn configuration(&self, port: u16, folder: &Path, certificates: Option<&Certificates>) -> String {
        let mut text = String::new();
        let mut set = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name} = '{}'", value.replace('\'', "''"));
        };
        for (name, value) in SETTINGS {
            set(name, value);
        }
        set("port", &port.to_string());
        set("unix_socket_directories", &folder.display().to_string());
        set("fsync", if self.fsync { "on" } else { "off" });
        if let Some(certificates) = certificates {
            set("ssl", "on");
            set("ssl_cert_file", &certificates.certificate.display().to_string());
            set("ssl_key_file", &certificates.key.display().to_string());
            set("ssl_ca_file", &certificates.authority.display().to_string());
        }
        for (name, value) in &self.settings {
            set(name, value);
        }
        text
    }

    fn host_based(&self) -> String {
        let method = self.authentication.method();
        let usual = [
            "local all all trust".to_owned(),
            "local replication all trust".to_owned(),
            format!("host all all 127.0.0.1/32 {method}"),
            format!("host replication all 127.0.0.1/32 {method}"),
        ];
        let lines: Vec<String> = self.hba.iter().cloned().chain(usual).collect();
        lines.join("\n") + "\n"
    }
}

/// Looks for PostgreSQL once a process, not once a server.
fn install_once() -> Result<()> {
    static DONE: std::sync::OnceLock<()> = std::sync::OnceLock::new();
    if DONE.get().is_none() {
        install(&[Need::Postgres])?;
        DONE.get_or_init(|| ());
    }
    Ok(())
}

/// Writes a file that only the server may read.
fn write_private(path: &Path, text: &str, account: Option<&Account>) -> Result<()> {
    let doing = || format!("write {}", path.display());
    fs::write(path, text).map_err(Error::io(doing()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(Error::io(doing()))?;
    account.map_or(Ok(()), |account| account.give(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_the_test_comes_last_and_its_quotes_are_doubled() {
        let text = Postgres::builder().setting("wal_level", "it's").configuration(1, Path::new("/f"), None);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("wal_level")).collect();
        assert_eq!(lines, ["wal_level = 'logical'", "wal_level = 'it''s'"]);
    }

    #[test]
    fn a_line_of_the_test_comes_before_the_usual_ones() {
        let text = Postgres::builder().hba("hostnossl all all all reject").host_based();
        assert!(text.starts_with("hostnossl all all all reject\nlocal "), "{text}");
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown =
            format!("{:?}", Postgres::builder().authentication(Authentication::Scram { password: "pearl".to_owned() }));
        assert!(!shown.contains("pearl"), "{shown}");
    }
}

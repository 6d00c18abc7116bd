//! Reads a `postgres://` URL, with libpq's variables and defaults for what it leaves out.
//!
//! Written by hand because a list of hosts, and a socket folder as a host, are no URL to the `url` crate.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use walpost_core::nearest::nearest;

use super::{ConnectionSettings, Endpoint, Keepalive, SettingsError, TlsMode, TlsSettings, passfile};

/// libpq's parameters that are honoured, each with its variable.
const KNOWN: &[(&str, Option<&str>)] = &[
    ("host", Some("PGHOST")),
    ("port", Some("PGPORT")),
    ("dbname", Some("PGDATABASE")),
    ("user", Some("PGUSER")),
    ("password", Some("PGPASSWORD")),
    ("passfile", Some("PGPASSFILE")),
    ("connect_timeout", Some("PGCONNECT_TIMEOUT")),
    ("application_name", Some("PGAPPNAME")),
    ("options", Some("PGOPTIONS")),
    ("sslmode", Some("PGSSLMODE")),
    ("sslrootcert", Some("PGSSLROOTCERT")),
    ("sslcert", Some("PGSSLCERT")),
    ("sslkey", Some("PGSSLKEY")),
    ("keepalives", None),
    ("keepalives_idle", None),
    ("keepalives_interval", None),
    ("keepalives_count", None),
    ("tcp_user_timeout", None),
];

/// libpq's parameters that would change what happens and cannot be honoured by both sessions.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("hostaddr", "write the address as the host"),
    ("service", "write its settings into the URL"),
    ("sslpassword", "the key file must not be encrypted"),
    ("sslcrl", "revocation lists are not read"),
    ("sslcrldir", "revocation lists are not read"),
    ("sslnegotiation", "TLS is asked for by the SSLRequest message only"),
    ("channel_binding", "the replication session cannot bind the channel; use sslmode=verify-full"),
    ("gssencmode", "there is no GSSAPI; leave it out"),
    ("krbsrvname", "there is no GSSAPI; leave it out"),
    ("require_auth", "leave it out and use sslmode=verify-full"),
    ("target_session_attrs", "of several hosts the first that accepts writes is taken"),
    ("load_balance_hosts", "hosts are tried in order"),
    ("client_encoding", "the encoding is always UTF8"),
    ("replication", "walpost opens its replication session itself"),
    ("requirepeer", "leave it out"),
];

const RAW_PASSWORD: &str = "a /, ? or @ in the user, password or database is written %2F, %3F or %40";

/// A value and the name by which the operator knows it.
struct Given {
    name: String,
    value: String,
}

type Values = BTreeMap<&'static str, Given>;

pub(super) fn read(url: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<ConnectionSettings, SettingsError> {
    let mut values = Values::new();
    for (keyword, variable) in KNOWN {
        if let Some((variable, value)) = variable.and_then(|name| Some((name, lookup(name)?))) {
            values.insert(keyword, Given { name: variable.to_owned(), value });
        }
    }
    split_url(url, &mut values)?;
    build(&values, lookup)
}

/// Takes the URL apart into libpq's parameters.
fn split_url(url: &str, values: &mut Values) -> Result<(), SettingsError> {
    let rest = ["postgres://", "postgresql://"]
        .iter()
        .find_map(|scheme| url.strip_prefix(scheme))
        .ok_or(SettingsError::NotPostgres)?;
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (authority, database) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let (user, hosts) = authority.rsplit_once('@').map_or(("", authority), |(user, hosts)| (user, hosts));
    // A raw / in the password makes a port or a host of its head and a database of its tail. A database with an @ in its name writes it %40.
    if database.contains('@') {
        return Err(SettingsError::Host { reason: RAW_PASSWORD });
    }
    let (user, password) = user.split_once(':').map_or((user, None), |(user, password)| (user, Some(password)));

    let mut set = |keyword: &'static str, value: String| {
        if !value.is_empty() {
            values.insert(keyword, Given { name: keyword.to_owned(), value });
        }
    };
    set("user", decode(user, "user")?);
    set("password", decode(password.unwrap_or(""), "password")?);
    set("dbname", decode(database, "database")?);
    let (hosts, ports) = split_hosts(hosts)?;
    set("host", hosts);
    set("port", ports);
    query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty()).try_for_each(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name, "parameter name")?;
        if name.contains('@') {
            return Err(SettingsError::Host { reason: RAW_PASSWORD });
        }
        let keyword = known_keyword(&name)?;
        let value = decode(value, keyword)?;
        values.insert(keyword, Given { name, value });
        Ok(())
    })
}

/// The hosts and the ports of the authority, each joined by commas as libpq's parameters have them.
fn split_hosts(hosts: &str) -> Result<(String, String), SettingsError> {
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for host in hosts.split(',').filter(|_| !hosts.is_empty()) {
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => {
                let (address, rest) = rest.split_once(']').ok_or(SettingsError::Host { reason: "a [ has no ]" })?;
                let port = match rest.strip_prefix(':') {
                    Some(port) => port,
                    None if rest.is_empty() => "",
                    None => return Err(SettingsError::Host { reason: "only :port may follow a ]" }),
                };
                (address, port)
            }
            None => host.split_once(':').unwrap_or((host, "")),
        };
        if port.contains(':') {
            return Err(SettingsError::Host { reason: "an IPv6 address is written in [ ]" });
        }
        let name = decode(name, "host")?;
        names.push(name);
        ports.push(port.to_owned());
    }
    let ports = if ports.iter().all(String::is_empty) { String::new() } else { ports.join(",") };
    Ok((names.join(","), ports))
}

fn known_keyword(name: &str) -> Result<&'static str, SettingsError> {
    if let Some((keyword, _)) = KNOWN.iter().find(|(keyword, _)| *keyword == name) {
        return Ok(keyword);
    }
    if let Some((name, reason)) = UNSUPPORTED.iter().find(|(keyword, _)| *keyword == name) {
        return Err(SettingsError::Unsupported { name, reason });
    }
    let nearest = nearest(name, KNOWN.iter().map(|(keyword, _)| *keyword));
    Err(SettingsError::UnknownParameter { name: name.to_owned(), nearest })
}

fn decode(text: &str, part: &'static str) -> Result<String, SettingsError> {
    let bytes = text.as_bytes();
    let is_escape =
        |at: usize| bytes.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let is_well_formed = bytes.iter().enumerate().all(|(at, byte)| *byte != b'%' || is_escape(at));
    let decoded = percent_decode_str(text).decode_utf8().ok().filter(|text| is_well_formed && !text.contains('\0'));
    decoded.map(std::borrow::Cow::into_owned).ok_or(SettingsError::Encoding { part })
}

fn build(values: &Values, lookup: impl Fn(&str) -> Option<String>) -> Result<ConnectionSettings, SettingsError> {
    let text = |keyword| values.get(keyword).map(|given: &Given| given.value.clone()).filter(|text| !text.is_empty());
    let endpoints = endpoints(values)?;
    let user = text("user").or_else(|| lookup("USER")).ok_or(SettingsError::NoUser)?;
    let database = text("dbname").unwrap_or_else(|| user.clone());
    let (first, others) = endpoints.split_first().ok_or(SettingsError::Host { reason: "it is empty" })?;
    let password = match text("password") {
        Some(password) => Some(password),
        None => password_from_file(values, &lookup, first, &database, &user)?,
    };
    let mut settings = ConnectionSettings::new(first.clone(), user, database)
        .with_tls(tls(values)?)
        .with_keepalive(keepalive(values)?)
        .with_connect_timeout(
            seconds(values, "connect_timeout")?.unwrap_or(ConnectionSettings::DEFAULT_CONNECT_TIMEOUT),
        );
    settings = others.iter().cloned().fold(settings, ConnectionSettings::with_endpoint);
    settings = password.into_iter().fold(settings, ConnectionSettings::with_password);
    settings = text("application_name").into_iter().fold(settings, ConnectionSettings::with_application_name);
    Ok(text("options").into_iter().fold(settings, ConnectionSettings::with_options))
}

fn endpoints(values: &Values) -> Result<Vec<Endpoint>, SettingsError> {
    let hosts = values.get("host").map_or("", |given| given.value.as_str());
    let hosts: Vec<&str> = hosts.split(',').map(|host| if host.is_empty() { "localhost" } else { host }).collect();
    let ports = match values.get("port") {
        Some(given) => given.value.split(',').map(|port| parse_port(given, port)).collect::<Result<_, _>>()?,
        None => vec![ConnectionSettings::DEFAULT_PORT],
    };
    if ports.len() != 1 && ports.len() != hosts.len() {
        return Err(SettingsError::PortCount { ports: ports.len(), hosts: hosts.len() });
    }
    Ok(hosts.iter().zip(ports.iter().cycle()).map(|(host, port)| Endpoint::new(*host, *port)).collect())
}

fn parse_port(given: &Given, port: &str) -> Result<u16, SettingsError> {
    match port {
        "" => Ok(ConnectionSettings::DEFAULT_PORT),
        // The value is not shown: it may be the head of a password whose / or ? was not encoded.
        port => {
            port.parse().ok().filter(|port| *port != 0).ok_or_else(|| SettingsError::Port { name: given.name.clone() })
        }
    }
}

fn tls(values: &Values) -> Result<TlsSettings, SettingsError> {
    let mode = match values.get("sslmode").map(|given| (given.value.as_str(), given)) {
        None => TlsMode::default(),
        Some(("disable", _)) => TlsMode::Disable,
        Some(("prefer", _)) => TlsMode::Prefer,
        Some(("require", _)) => TlsMode::Require,
        Some(("verify-ca", _)) => TlsMode::VerifyCa,
        Some(("verify-full", _)) => TlsMode::VerifyFull,
        Some(("allow", _)) => {
            return Err(SettingsError::Unsupported { name: "sslmode=allow", reason: "use prefer or disable" });
        }
        Some((_, given)) => return Err(given.refused("disable, prefer, require, verify-ca or verify-full")),
    };
    let path = |keyword| {
        values.get(keyword).filter(|given: &&Given| !given.value.is_empty()).map(|given| PathBuf::from(&given.value))
    };
    let client = match (path("sslcert"), path("sslkey")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err(SettingsError::HalfClientCertificate),
    };
    match path("sslrootcert") {
        // libpq means the system's list by it, and wants the host's name verified too.
        Some(word) if word.as_os_str() == "system" && mode != TlsMode::VerifyFull => Err(SettingsError::Unsupported {
            name: "sslrootcert=system",
            reason: "it asks for sslmode=verify-full; Mozilla's list of authorities is then used",
        }),
        Some(word) if word.as_os_str() == "system" => Ok(TlsSettings { mode, root_certificate: None, client }),
        root_certificate => Ok(TlsSettings { mode, root_certificate, client }),
    }
}

fn keepalive(values: &Values) -> Result<Keepalive, SettingsError> {
    let default = Keepalive::default();
    let number = |keyword| whole_number(values, keyword);
    Ok(Keepalive {
        enabled: number("keepalives")?.is_none_or(|switch| switch != 0),
        idle: seconds(values, "keepalives_idle")?.unwrap_or(default.idle),
        interval: seconds(values, "keepalives_interval")?.or(default.interval),
        retries: number("keepalives_count")?.filter(|count| *count != 0).or(default.retries),
        user_timeout: number("tcp_user_timeout")?
            .filter(|milliseconds| *milliseconds != 0)
            .map(|milliseconds| Duration::from_millis(u64::from(milliseconds))),
    })
}

/// Seconds, of which 0 means the default as in libpq.
fn seconds(values: &Values, keyword: &'static str) -> Result<Option<Duration>, SettingsError> {
    let number = whole_number(values, keyword)?.filter(|seconds| *seconds != 0);
    Ok(number.map(|seconds| Duration::from_secs(u64::from(seconds))))
}

fn whole_number(values: &Values, keyword: &'static str) -> Result<Option<u32>, SettingsError> {
    let given = values.get(keyword).filter(|given| !given.value.is_empty());
    given.map(|given| given.value.parse().map_err(|_| given.refused("a whole number from 0"))).transpose()
}

fn password_from_file(
    values: &Values,
    lookup: &impl Fn(&str) -> Option<String>,
    endpoint: &Endpoint,
    database: &str,
    user: &str,
) -> Result<Option<String>, SettingsError> {
    let explicit = values.get("passfile").map(|given| PathBuf::from(&given.value));
    let is_explicit = explicit.is_some();
    match explicit.or_else(|| Some(PathBuf::from(lookup("HOME")?).join(".pgpass"))) {
        Some(path) => passfile::password(&path, is_explicit, endpoint, database, user),
        None => Ok(None),
    }
}

impl Given {
    fn refused(&self, expected: &'static str) -> SettingsError {
        SettingsError::Value { name: self.name.clone(), value: self.value.clone(), expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    fn settings(url: &str) -> ConnectionSettings {
        read(url, none).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn a_full_url_is_taken_apart() {
        let read = settings(
            "postgres://wal%20post:p%40ss%2Fw%3Ard@db.example:6432/my%2Fapp?sslmode=verify-full&sslrootcert=/ca.pem\
             &sslcert=/c.pem&sslkey=/k.pem&connect_timeout=3&application_name=relay&options=-c%20work_mem%3D8MB\
             &keepalives=0&keepalives_idle=7&keepalives_interval=5&keepalives_count=2&tcp_user_timeout=9000",
        );
        assert_eq!(read.endpoints(), [Endpoint::new("db.example", 6432)]);
        assert_eq!((read.user(), read.database()), ("wal post", "my/app"));
        assert_eq!(read.password(), Some("p@ss/w:rd"));
        assert_eq!(read.tls().mode, TlsMode::VerifyFull);
        assert_eq!(read.tls().root_certificate, Some("/ca.pem".into()));
        assert_eq!(read.tls().client, Some(("/c.pem".into(), "/k.pem".into())));
        assert_eq!(read.connect_timeout(), Duration::from_secs(3));
        assert_eq!(read.application_name(), "relay");
        assert_eq!(read.options_with("-c a=b"), "-c work_mem=8MB -c a=b");
        assert_eq!(
            read.keepalive(),
            &Keepalive {
                enabled: false,
                idle: Duration::from_secs(7),
                interval: Some(Duration::from_secs(5)),
                retries: Some(2),
                user_timeout: Some(Duration::from_secs(9)),
            }
        );
    }

    #[test]
    fn hosts_ports_sockets_and_addresses_are_read_as_by_libpq() {
        let cases: &[(&str, &[(&str, u16)])] = &[
            ("postgres://u@h/d", &[("h", 5432)]),
            ("postgresql://u@h:1/d", &[("h", 1)]),
            ("postgres://u@/d", &[("localhost", 5432)]),
            ("postgres://u@a,b/d", &[("a", 5432), ("b", 5432)]),
            ("postgres://u@a:1,b:2/d", &[("a", 1), ("b", 2)]),
            ("postgres://u@a:1,b/d", &[("a", 1), ("b", 5432)]),
            ("postgres://u@[::1]:7,[fe80::1]/d", &[("::1", 7), ("fe80::1", 5432)]),
            ("postgres://u@%2Frun%2Fpg:7/d", &[("/run/pg", 7)]),
            ("postgres://u@/d?host=/run/pg&port=7", &[("/run/pg", 7)]),
            ("postgres:///d?user=u&host=a,b&port=9", &[("a", 9), ("b", 9)]),
        ];
        for (url, expected) in cases {
            let expected: Vec<_> = expected.iter().map(|(host, port)| Endpoint::new(*host, *port)).collect();
            assert_eq!(settings(url).endpoints(), expected, "{url}");
        }
    }

    #[test]
    fn variables_fill_what_the_url_leaves_out_and_lose_where_it_speaks() {
        let variables = |name: &str| {
            let value = match name {
                "PGHOST" => "env.example",
                "PGPORT" => "7777",
                "PGUSER" => "env_user",
                "PGPASSWORD" => "env secret",
                "PGDATABASE" => "env_db",
                "PGSSLMODE" => "require",
                "PGAPPNAME" => "env_app",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let read_all = read("postgres://", variables).unwrap();
        assert_eq!(read_all.endpoints(), [Endpoint::new("env.example", 7777)]);
        assert_eq!((read_all.user(), read_all.database()), ("env_user", "env_db"));
        assert_eq!(read_all.password(), Some("env secret"));
        assert_eq!(read_all.tls().mode, TlsMode::Require);
        let read_some = read("postgres://u:p@h:1/d?sslmode=disable", variables).unwrap();
        assert_eq!(read_some.endpoints(), [Endpoint::new("h", 1)]);
        assert_eq!((read_some.user(), read_some.database(), read_some.password()), ("u", "d", Some("p")));
        assert_eq!((read_some.tls().mode, read_some.application_name()), (TlsMode::Disable, "env_app"));
    }

    #[test]
    fn the_database_defaults_to_the_user() {
        assert_eq!(settings("postgres://u@h").database(), "u");
    }

    #[test]
    fn what_cannot_be_understood_is_refused_by_its_part() {
        for (url, part) in [
            ("mysql://h/d", "postgres://"),
            ("host=h", "postgres://"),
            ("postgres://h/d", "no user"),
            ("postgres://u:%zz@h/d", "the password"),
            ("postgres://u:%@h/d", "the password"),
            ("postgres://u%00@h/d", "the user"),
            ("postgres://u@h/%FF", "the database"),
            ("postgres://u@h:0/d", "port is not a number"),
            ("postgres://u@h:99999/d", "port is not a number"),
            ("postgres://u@h:x/d", "port is not a number"),
            ("postgres://u@a,b/d?port=1,2,3", "3 ports are given for 2 hosts"),
            ("postgres://u@[::1/d", "a [ has no ]"),
            ("postgres://u@[::1]x/d", "only :port"),
            ("postgres://u@::1/d", "IPv6"),
            ("postgres://u@h/d?slmode=require", "did you mean \"sslmode\"?"),
            ("postgres://u@h/d?colour=red", "unknown parameter \"colour\""),
            ("postgres://u@h/d?sslmode=maybe", "\"maybe\" is no value for sslmode"),
            ("postgres://u@h/d?sslmode=allow", "sslmode=allow is not supported"),
            ("postgres://u@h/d?channel_binding=require", "channel_binding is not supported"),
            ("postgres://u@h/d?sslcert=/c", "sslcert and sslkey"),
            ("postgres://u@h/d?sslrootcert=system", "sslrootcert=system"),
            ("postgres://u@h/d?connect_timeout=-1", "connect_timeout"),
            ("postgres://u@h/d?connect_timeout=soon", "connect_timeout"),
        ] {
            let error = read(url, none).expect_err(url).to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_understood_is_named() {
        let error = read("postgres://u@h/d", |name| (name == "PGPORT").then(|| "high".to_owned())).unwrap_err();
        assert!(error.to_string().contains("PGPORT is not a number"), "{error}");
    }

    #[test]
    fn no_form_of_the_settings_or_of_an_error_shows_the_password() {
        let shown = format!("{:?}", settings("postgres://u:hunter2@h/d"));
        assert!(shown.contains("***") && !shown.contains("hunter2"), "{shown}");
        for url in [
            "postgres://u:hunter2@h:x/d",
            "postgres://u:hunter2/@h/d",
            "postgres://u:hunter2%@h/d",
            "postgres://u:h@hunter2/w@h:5432/d",
            "postgres://u:7?hunter2@h/d",
        ] {
            let error = read(url, none).expect_err(url);
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn require_with_a_root_certificate_verifies_the_authority_as_in_libpq() {
        let tls = settings("postgres://u@h/d?sslmode=require&sslrootcert=/ca.pem").tls().clone();
        assert_eq!(tls.effective_mode(), TlsMode::VerifyCa);
        assert_eq!(settings("postgres://u@h/d?sslmode=require").tls().effective_mode(), TlsMode::Require);
    }
}

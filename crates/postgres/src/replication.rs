//! What every replication session has in common: where it goes, as whom, and with which settings of the server's.
//!
//! The library's configuration prints its password with `Debug`; it is never logged and never leaves this crate.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::Duration;

use pgwire_replication::{PgWireError, ReplicationClient, ReplicationConfig, SslMode, TlsConfig};
use walpost_core::position::Timeline;
use walpost_core::start::{Switch, parse_history};

use crate::connection::{ConnectionSettings, Endpoint, Host, TEXT_FORMS, TlsMode};
use crate::error::{Error, Phase};

/// The settings that would end a stream which is only slow.
const NO_TIMEOUTS: &str = "-c statement_timeout=0 -c lock_timeout=0";

/// The configuration of a session to this server; slot, publications and positions are still to be set.
pub(crate) fn config(
    settings: &ConnectionSettings,
    endpoint: &Endpoint,
    wal_sender_timeout: Duration,
) -> Result<ReplicationConfig, Error> {
    let host = match &endpoint.host {
        Host::Name(name) => name.as_str(),
        Host::SocketFolder(folder) => folder.to_str().ok_or_else(|| Error::Protocol {
            phase: Phase::Connecting,
            reason: "the path of the socket folder is not UTF-8".to_owned(),
        })?,
    };
    let password = prepared(settings.password().unwrap_or_default());
    let options = format!("{TEXT_FORMS} {NO_TIMEOUTS} -c wal_sender_timeout={}", wal_sender_timeout.as_millis());
    Ok(ReplicationConfig::new(host, settings.user(), password.as_ref(), settings.database(), "", Vec::<String>::new())
        .with_port(endpoint.port)
        .with_tls(tls(settings, endpoint))
        .with_options(settings.options_with(&options))
        .with_application_name(settings.application_name()))
}

/// The password as SCRAM hashes it (RFC 4013). The library leaves that out; like libpq, what cannot be prepared passes raw.
fn prepared(password: &str) -> Cow<'_, str> {
    stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password))
}

fn tls(settings: &ConnectionSettings, endpoint: &Endpoint) -> TlsConfig {
    let Host::Name(host) = &endpoint.host else { return TlsConfig::disabled() };
    let ours = settings.tls();
    let mode = match ours.effective_mode() {
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::Require => SslMode::Require,
        TlsMode::VerifyCa => SslMode::VerifyCa,
        TlsMode::VerifyFull => SslMode::VerifyFull,
    };
    let (certificate, key) = ours.client.clone().unzip();
    TlsConfig {
        mode,
        ca_pem_path: ours.root_certificate.clone(),
        // The library refuses verify-full for an address unless the name to verify is given: the address itself.
        sni_hostname: endpoint
            .certificate_name
            .clone()
            .or_else(|| host.parse::<IpAddr>().is_ok().then(|| host.clone())),
        client_cert_pem_path: certificate,
        client_key_pem_path: key,
    }
}

/// A session that does not stream, for commands; `options` are added to ours.
pub(crate) async fn open_gated(
    settings: &ConnectionSettings,
    endpoint: &Endpoint,
    options: &str,
) -> Result<ReplicationClient, Error> {
    let after = settings.connect_timeout();
    let mut config = config(settings, endpoint, after)?;
    config.slot = "none".to_owned();
    config.options = config.options.map(|ours| format!("{ours} {options}"));
    let open = async {
        let mut client = ReplicationClient::connect_gated(config).await?;
        client.identify_system().await?;
        Ok(client)
    };
    let answer: Result<Result<_, PgWireError>, _> = tokio::time::timeout(after, open).await;
    let answer = match answer {
        Ok(answer) => answer.map_err(|error| Error::from_replication(error, Phase::Connecting)),
        Err(_) => Err(Error::Deadline { phase: Phase::Connecting, after }),
    };
    answer.map_err(|error| error.of_servers(settings, std::slice::from_ref(endpoint)))
}

/// Asks the server which timelines its current one descends from.
///
/// A replication command, so it needs the same privileges as the stream; it also shows whether a stream can be opened at all.
/// Timeline 1 has no ancestors and no history file, so only the session is tried.
///
/// # Errors
/// No replication session can be had.
pub async fn timeline_history(
    settings: &ConnectionSettings,
    endpoint: &Endpoint,
    timeline: Timeline,
) -> Result<Option<Vec<Switch>>, Error> {
    let after = settings.connect_timeout();
    let ask = async {
        let mut client = open_gated(settings, endpoint, "").await?;
        if timeline == Timeline(1) {
            return Ok(Some(Vec::new()));
        }
        match client.timeline_history(timeline.0).await {
            Ok(history) => Ok(std::str::from_utf8(&history.content).ok().and_then(parse_history)),
            // The file may have been removed from pg_wal: the history is unknown, and the comparison refuses.
            Err(error) if error.is_server() => Ok(None),
            Err(error) => Err(Error::from_replication(error, Phase::Connecting)),
        }
    };
    let late = Err(Error::Deadline { phase: Phase::Connecting, after });
    tokio::time::timeout(after, ask).await.unwrap_or(late)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::TlsSettings;

    fn settings() -> ConnectionSettings {
        ConnectionSettings::new(Endpoint::new("10.0.0.1", 6543), "u", "d").with_password("p")
    }

    #[test]
    fn our_session_settings_come_last_so_that_they_win() {
        let settings = settings().with_options("-c DateStyle=German");
        let config = config(&settings, &settings.endpoints()[0], Duration::from_secs(30)).unwrap();
        let options = config.options.unwrap();
        assert!(options.starts_with("-c DateStyle=German -c DateStyle=ISO "), "{options}");
        assert!(options.ends_with(" -c wal_sender_timeout=30000"), "{options}");
        for value in
            ["IntervalStyle=postgres", "bytea_output=hex", "extra_float_digits=1", "lc_monetary=C", "TimeZone=UTC"]
        {
            assert!(options.contains(value), "{options}");
        }
    }

    #[test]
    fn a_password_is_prepared_as_the_server_prepared_it() {
        for (typed, hashed) in
            [("p", "p"), ("\u{aa}\u{a0}\u{ad}\u{2168}", "a IX"), ("\u{7}raw\u{aa}", "\u{7}raw\u{aa}")]
        {
            assert_eq!(prepared(typed), hashed);
        }
    }

    #[test]
    fn an_address_is_verified_as_itself_and_a_socket_has_no_tls() {
        let verified = TlsSettings { mode: TlsMode::VerifyFull, ..TlsSettings::default() };
        let settings = settings().with_tls(verified);
        let tls_of = |endpoint| config(&settings, &endpoint, Duration::from_secs(1)).unwrap().tls;
        assert_eq!(tls_of(Endpoint::new("10.0.0.1", 1)).sni_hostname.as_deref(), Some("10.0.0.1"));
        assert_eq!(tls_of(Endpoint::new("db.example", 1)).sni_hostname, None);
        assert_eq!(tls_of(Endpoint::new("db.example", 1)).mode, SslMode::VerifyFull);
        assert_eq!(tls_of(Endpoint::new("/run/pg", 1)).mode, SslMode::Disable);
    }
}

//! Asks the relay's own endpoint whether it is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::header::HOST;
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::config::Settings;

/// How long the relay may take to answer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// More than it would ever say.
const MAX_ANSWER: usize = 1 << 20;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// What came of asking.
pub(super) enum Answer {
    /// The configuration names no address that could be asked.
    NotAsked,
    /// Nobody answers there. The relay may run on another machine.
    None { address: SocketAddr, reason: String },
    /// The system takes connections for a process that does not answer them.
    Mute { address: SocketAddr },
    /// Another relay does, or another program.
    Other { address: SocketAddr },
    /// The relay has answered.
    Said { address: SocketAddr, answer: Value, reasons: Vec<String> },
}

impl Answer {
    /// What is wrong with the relay, by its own words or for want of any.
    pub(super) fn reasons(&self) -> Vec<String> {
        match self {
            Self::Said { reasons, .. } => reasons.clone(),
            Self::Mute { address } => vec![format!(
                "the process that listens at {address} does not answer within {} s: it is frozen or stuck; if it is the relay, start it again",
                TIMEOUT.as_secs()
            )],
            Self::NotAsked | Self::None { .. } | Self::Other { .. } => Vec::new(),
        }
    }
}

pub(super) async fn ask(settings: &Settings) -> Answer {
    let Some(address) = settings.http().listen().and_then(reachable) else { return Answer::NotAsked };
    let mut is_connected = false;
    let answer = match tokio::time::timeout(TIMEOUT, get(address, &mut is_connected)).await {
        Err(_) if is_connected => return Answer::Mute { address },
        Err(_) => return Answer::None { address, reason: "it does not answer in time".to_owned() },
        Ok(answer) => answer,
    };
    let answer = match answer {
        Ok(body) => serde_json::from_slice::<Value>(&body).unwrap_or_default(),
        Err(error) => return Answer::None { address, reason: error.to_string() },
    };
    let is = |key: &str, expected: &str| answer[key].as_str() == Some(expected);
    if !is("relay", settings.name()) || !is("slot", settings.source().slot().as_str()) {
        return Answer::Other { address };
    }
    let sentences = answer["reasons"].as_array().into_iter().flatten();
    let reasons = sentences.filter_map(Value::as_str).map(|reason| format!("the relay says: {reason}")).collect();
    Answer::Said { address, answer, reasons }
}

/// Where a relay that listens at this address can be reached from its own machine; nowhere, if the system chose the port.
fn reachable(listen: SocketAddr) -> Option<SocketAddr> {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    (listen.port() != 0).then(|| SocketAddr::new(ip, listen.port()))
}

async fn get(address: SocketAddr, is_connected: &mut bool) -> Result<Bytes, Error> {
    let stream = TcpStream::connect(address).await?;
    *is_connected = true;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get("/readyz").header(HOST, address.to_string()).body(Empty::<Bytes>::new())?;
    let exchange = async {
        let answer = sender.send_request(request).await?;
        Ok::<_, Error>(Limited::new(answer.into_body(), MAX_ANSWER).collect().await?.to_bytes())
    };
    tokio::pin!(connection);
    tokio::select! {
        body = exchange => body,
        // Where it ends well, the answer is there as well.
        Err(error) = &mut connection => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_that_listens_everywhere_is_asked_here() {
        for (listen, asked) in [
            ("127.0.0.1:9464", Some("127.0.0.1:9464")),
            ("0.0.0.0:9464", Some("127.0.0.1:9464")),
            ("[::]:9464", Some("[::1]:9464")),
            ("10.0.0.7:80", Some("10.0.0.7:80")),
            ("127.0.0.1:0", None),
        ] {
            assert_eq!(reachable(listen.parse().unwrap()), asked.map(|asked| asked.parse().unwrap()), "{listen}");
        }
    }
}

//! What a relay answers over HTTP.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its code.
    pub status: u16,
    /// Status line and headers, as they came.
    pub head: String,
    /// Its body.
    pub body: String,
}

/// Asks for a path. Works on whatever the other side sends until it closes.
///
/// # Errors
///
/// Nobody answers in time, or it is no HTTP.
pub fn ask(address: SocketAddr, method: &str, path: &str) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    Ok(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
}

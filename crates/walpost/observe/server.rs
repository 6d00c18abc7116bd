//! Answers `GET /metrics`, `/livez` and `/readyz`, on a thread of its own.
//!
//! It must not live on the loop that it watches: a loop that is stuck would take the answer with it. It refuses to be kept busy: one request a
//! connection, a few seconds for all of it, and no more connections at once than [`MAX_CONNECTIONS`].

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use walpost_core::time::Timestamp;

use super::board::Board;
use super::metrics::{self, About, Facts};
use super::probe::Probe;

/// How many connections are served at once. Others wait in the system's queue.
const MAX_CONNECTIONS: usize = 32;

/// How long a client may take to ask.
const REQUEST_TIME: Duration = Duration::from_secs(3);

/// How long a connection may last.
const CONNECTION_TIME: Duration = Duration::from_secs(6);

/// How long to wait when the system has no socket left for us.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Takes the address, so that whoever starts the relay learns at once that it is taken.
///
/// # Errors
/// As the system says.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Serves this board, and has the server asked about the slot, until the process ends.
///
/// # Errors
/// The system has no thread for it.
pub fn spawn(listener: TcpListener, board: Board, about: About, probe: Probe) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve = async move {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                tokio::join!(probe.ask(&board), accept(listener, Arc::new(Answers { board: board.clone(), about })));
            }
            Err(error) => tracing::error!(%error, "nothing is served over HTTP"),
        }
    };
    std::thread::Builder::new().name("observe".to_owned()).spawn(move || runtime.block_on(serve))?;
    Ok(())
}

async fn accept(listener: tokio::net::TcpListener, answers: Arc<Answers>) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // It is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((client, _)) => {
                let answers = Arc::clone(&answers);
                tokio::spawn(async move {
                    serve(client, answers).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
            }
        }
    }
}

async fn serve(client: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answers.to(request.method(), request.uri().path());
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .keep_alive(false)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(client), service);
    // A client that went away, or said what is no HTTP, has had its answer.
    let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
}

/// What there is to answer from.
struct Answers {
    board: Board,
    about: About,
}

impl Answers {
    fn to(&self, method: &Method, path: &str) -> Response<Full<Bytes>> {
        if !matches!(path, "/metrics" | "/livez" | "/readyz") {
            return text(StatusCode::NOT_FOUND, "there are /metrics, /livez and /readyz\n".to_owned());
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "it can only be read\n".to_owned());
            refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        let sight = self.board.read();
        let facts = Facts::new(&sight, &self.about, self.board.clock().now(), wall_clock());
        match path {
            "/metrics" => answer(StatusCode::OK, metrics::CONTENT_TYPE, metrics::render(&facts)),
            "/livez" => match &facts.health().dead {
                None => text(StatusCode::OK, "the loop turns\n".to_owned()),
                Some(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
            },
            _ => self.readiness(&facts),
        }
    }

    fn readiness(&self, facts: &Facts<'_>) -> Response<Full<Bytes>> {
        let health = facts.health();
        let body = json!({
            "relay": &*self.about.relay,
            "slot": &*self.about.slot,
            "live": health.is_live(),
            "ready": health.is_ready(),
            "state": health.state,
            "reasons": health.unready,
            "behind_seconds": facts.behind_seconds(),
        });
        let status = if health.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        answer(status, "application/json", format!("{body}\n"))
    }
}

fn text(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    answer(status, "text/plain; charset=utf-8", body)
}

fn answer(status: StatusCode, media_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

/// The wall clock, in the server's terms.
#[must_use]
pub fn wall_clock() -> Timestamp {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_unix_micros(micros).unwrap_or_default()
}

#[cfg(test)]
mod tests;

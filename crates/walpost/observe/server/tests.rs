//! The server, asked by clients good and bad.

use std::io::{Read, Write};
use std::time::Instant;

use walpost_postgres::{ConnectionSettings, Endpoint, SlotName};
use walpost_testkit::exposition::Page;
use walpost_testkit::relay::ask;

use super::*;
use crate::driver::Clock;
use crate::observe::health::Limits;

/// Twice as long as a loop rests between two beats.
const STUCK_AFTER: Duration = Duration::from_secs(2);

/// A server of a board, whose probe finds nobody.
fn served(board: &Board) -> SocketAddr {
    let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits { stuck_after: STUCK_AFTER, stalled_after: STUCK_AFTER, silence_timeout: STUCK_AFTER };
    let about = About { relay: "orders".into(), slot: "walpost".into(), database: "app".into(), limits };
    let nowhere = ConnectionSettings::new(Endpoint::new("127.0.0.1", 1), "u", "d");
    spawn(listener, board.clone(), about, Probe::new(nowhere, SlotName::new("walpost").unwrap())).unwrap();
    address
}

#[test]
fn each_path_is_answered_and_nothing_else() {
    let address = served(&Board::new(Clock::start()));
    let cases = [
        ("GET", "/metrics", 200, "text/plain; version=0.0.4"),
        ("GET", "/metrics?x=y", 200, "text/plain; version=0.0.4"),
        ("GET", "/livez", 200, "text/plain; charset=utf-8"),
        ("GET", "/readyz", 503, "application/json"),
        ("GET", "/", 404, "text/plain; charset=utf-8"),
        ("GET", "/metrics/", 404, "text/plain; charset=utf-8"),
        ("POST", "/metrics", 405, "allow: get, head"),
    ];
    for (method, path, status, header) in cases {
        let answer = ask(address, method, path).unwrap();
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(answer.head.contains(header) && !answer.body.is_empty(), "{method} {path}: {answer:?}");
    }
    let page = Page::parse(&ask(address, "GET", "/metrics").unwrap().body).unwrap();
    assert_eq!(page.value("walpost_ready", &[]), Some(0.0));
    let ready: serde_json::Value = serde_json::from_str(&ask(address, "GET", "/readyz").unwrap().body).unwrap();
    assert_eq!(
        (&ready["relay"], &ready["ready"], &ready["state"]),
        (&"orders".into(), &false.into(), &"starting".into())
    );
}

#[test]
fn head_has_the_length_and_no_body() {
    let address = served(&Board::new(Clock::start()));
    let answer = ask(address, "HEAD", "/livez").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, ""));
    assert!(answer.head.contains("content-length: 15"), "{answer:?}");
}

#[test]
fn a_loop_that_is_blocked_is_seen_not_to_live() {
    let board = Board::new(Clock::start());
    let address = served(&board);
    let livez = || ask(address, "GET", "/livez").unwrap();
    let loops = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let blocked = loops.block_on(async {
        tokio::spawn(board.clone().beat());
        tokio::time::sleep(2 * STUCK_AFTER).await;
        assert_eq!(livez().status, 200, "it turns");
        // From here on the thread waits, and no task of it runs.
        let (since, mut answer) = (Instant::now(), livez());
        while answer.status == 200 && since.elapsed() < 10 * STUCK_AFTER {
            answer = livez();
        }
        answer
    });
    assert_eq!(blocked.status, 503);
    assert!(blocked.body.contains("the loop has not turned for 2 s"), "{blocked:?}");
    assert!(ask(address, "GET", "/readyz").unwrap().body.contains("the loop has not turned"));
}

#[test]
fn clients_that_say_nothing_or_nonsense_do_not_keep_others_out() {
    let address = served(&Board::new(Clock::start()));
    let silent: Vec<_> = (0..MAX_CONNECTIONS).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
    let since = Instant::now();
    // Behind them in the queue; it gets its turn when their time is over.
    let mut last = std::net::TcpStream::connect(address).unwrap();
    write!(last, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && since.elapsed() < CONNECTION_TIME, "{answer}");
    drop(silent);
    let mut rude = std::net::TcpStream::connect(address).unwrap();
    rude.write_all(b"\x16\x03\x01 no http at all\r\n\r\n").unwrap();
    let mut answer = String::new();
    rude.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert_eq!(ask(address, "GET", "/metrics").unwrap().status, 200);
}

#[test]
fn an_address_that_is_taken_is_refused() {
    let taken = bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let error = bind(taken.local_addr().unwrap()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

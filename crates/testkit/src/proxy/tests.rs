use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::*;
use crate::servers::wait_until;

const LIMIT: Duration = Duration::from_secs(10);
/// Long enough for a byte on the loopback address, many times over.
const SILENCE: Duration = Duration::from_millis(150);

/// A client and a server with a proxy between them.
fn connected() -> (Proxy, TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
    let (client, server) = connect(&proxy, &listener);
    (proxy, client, server)
}

fn connect(proxy: &Proxy, listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(proxy.address()).unwrap();
    let (server, _) = listener.accept().unwrap();
    for stream in [&client, &server] {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
    }
    (client, server)
}

fn read(mut stream: &TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn is_silent(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let read = stream.read(&mut [0]);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    matches!(read, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
}

fn is_reset(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::ConnectionReset)
}

fn is_closed(mut stream: &TcpStream) -> bool {
    matches!(stream.read(&mut [0]), Ok(0))
}

#[test]
fn bytes_pass_both_ways_and_an_end_is_passed_on() {
    let (proxy, mut client, mut server) = connected();
    client.write_all(b"question").unwrap();
    assert_eq!(read(&server, 8), b"question");
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(is_closed(&server));
    server.write_all(b"answer").unwrap();
    assert_eq!(read(&client, 6), b"answer");
    assert_eq!((proxy.bytes(Direction::ToServer), proxy.bytes(Direction::ToClient)), (8, 6));
    drop(server);
    assert!(is_closed(&client));
    wait_until("the end of the connection", LIMIT, || proxy.open() == 0).unwrap();
}

#[test]
fn a_stalled_connection_stays_open_and_goes_on_where_it_was() {
    let (proxy, mut client, mut server) = connected();
    proxy.stall();
    client.write_all(b"a").unwrap();
    server.write_all(b"b").unwrap();
    assert!(is_silent(&server));
    assert!(is_silent(&client));
    proxy.pass();
    assert_eq!((read(&server, 1), read(&client, 1)), (b"a".to_vec(), b"b".to_vec()));
}

#[test]
fn what_a_muted_server_says_is_lost_with_the_connection() {
    let (proxy, mut client, mut server) = connected();
    proxy.mute();
    client.write_all(b"a").unwrap();
    assert_eq!(read(&server, 1), b"a");
    server.write_all(b"b").unwrap();
    assert!(is_silent(&client));
    proxy.cut(Cut::Reset);
    proxy.pass();
    assert!(is_reset(&client) && is_reset(&server));
    assert_eq!(proxy.bytes(Direction::ToClient), 0);
}

#[test]
fn a_cut_connection_is_over_for_both_and_the_next_one_passes() {
    type Sees = fn(&TcpStream) -> bool;
    for (cut, sees) in [(Cut::Reset, is_reset as Sees), (Cut::Close, is_closed)] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).unwrap();
        let (mut client, server) = connect(&proxy, &listener);
        client.write_all(b"a").unwrap();
        read(&server, 1);
        proxy.cut(cut);
        assert!(sees(&client) && sees(&server), "{cut:?}");
        let (mut client, server) = connect(&proxy, &listener);
        client.write_all(b"b").unwrap();
        assert_eq!(read(&server, 1), b"b");
        assert_eq!(proxy.accepted(), 2);
    }
}

#[test]
fn a_connection_is_cut_right_behind_the_byte_that_was_named() {
    let (proxy, mut client, mut server) = connected();
    proxy.cut_after(Direction::ToClient, 5, Cut::Close);
    client.write_all(b"not this way").unwrap();
    read(&server, 12);
    assert!(proxy.is_cut_pending());
    server.write_all(b"abc").unwrap();
    assert_eq!(read(&client, 3), b"abc");
    server.write_all(b"defgh").unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"de");
    assert!(!proxy.is_cut_pending());
}

#[test]
fn a_slow_connection_takes_its_time_and_loses_nothing() {
    let (proxy, mut client, server) = connected();
    proxy.slow(20_000);
    let bytes: Vec<u8> = (0..10_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    let since = Instant::now();
    client.write_all(&bytes).unwrap();
    assert_eq!(read(&server, bytes.len()), bytes);
    assert!(since.elapsed() > Duration::from_millis(350), "{:?}", since.elapsed());
}

#[test]
fn a_refused_connection_is_reset_and_an_open_one_goes_on() {
    let (proxy, mut client, server) = connected();
    client.write_all(b"a").unwrap();
    read(&server, 1);
    proxy.refuse();
    let refused = TcpStream::connect(proxy.address()).unwrap();
    refused.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(is_reset(&refused));
    client.write_all(b"b").unwrap();
    assert_eq!(read(&server, 1), b"b");
}

#[test]
fn a_half_open_connection_is_gone_for_the_server_and_silent_for_the_client() {
    let (proxy, mut client, server) = connected();
    client.write_all(b"a").unwrap();
    read(&server, 1);
    proxy.half_open();
    assert!(is_reset(&server));
    client.write_all(b"lost").unwrap();
    assert!(is_silent(&client));
    proxy.pass();
    client.write_all(b"lost").unwrap();
    assert!(is_silent(&client));
    proxy.cut(Cut::Reset);
    assert!(is_reset(&client));
}

#[test]
fn a_server_that_is_not_there_shows_as_a_reset() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let proxy = Proxy::to_port(port).unwrap();
    let client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(is_reset(&client));
}

#[test]
fn another_server_gets_the_connections_that_come_later() {
    let (proxy, _client, _server) = connected();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    proxy.set_upstream(listener.local_addr().unwrap());
    let (mut client, server) = connect(&proxy, &listener);
    client.write_all(b"a").unwrap();
    assert_eq!(read(&server, 1), b"a");
}

#[test]
fn a_dropped_proxy_ends_its_connections() {
    let (proxy, client, server) = connected();
    drop(proxy);
    let is_over = |stream| is_closed(stream);
    assert!(is_over(&client) && is_over(&server));
}

//! A network that fails on command: a TCP proxy on the loopback address, between the relay and a server.
//!
//! It works below every protocol: it passes bytes on, or does not. What it does is set for all its connections at once, those
//! that are open and those that come. It knows nothing of Kafka, whose clients go to the address that the broker gives them:
//! that has to be the proxy's. Only who is told to listens to what is said there ([`Proxy::listen_to_kafka`]).

mod connection;
mod kafka;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::workload::connection::block_on;
pub use kafka::Exchanges;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// How a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// By a reset, as by a host that lost its memory of the connection.
    Reset,
    /// By an orderly close, as by a process that died.
    Close,
}

/// What is done with connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    Pass,
    Stall,
    Mute,
    Slow { bytes_per_second: u32 },
    Refuse,
    HalfOpen,
}

/// What the connections go by.
#[derive(Clone, Copy, Debug)]
struct Rules {
    behaviour: Behaviour,
    upstream: SocketAddr,
    /// How many times everything was cut, and how the last time.
    cuts: u64,
    cut: Cut,
}

/// A cut that waits for its byte.
#[derive(Clone, Copy, Debug)]
struct Trap {
    direction: Direction,
    bytes_left: u64,
    cut: Cut,
}

/// What the connections share with their proxy.
#[derive(Debug, Default)]
struct Shared {
    trap: Mutex<Option<Trap>>,
    open: AtomicUsize,
    accepted: AtomicUsize,
    to_server: AtomicU64,
    to_client: AtomicU64,
    listens: AtomicBool,
    asked: Mutex<Exchanges>,
    kept_back: Mutex<Exchanges>,
}

impl Shared {
    fn trap(&self) -> std::sync::MutexGuard<'_, Option<Trap>> {
        self.trap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(exchanges: &Mutex<Exchanges>, names: &[&'static str]) {
        let mut exchanges = exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().for_each(|name| exchanges.add(name));
    }

    fn bytes(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }
}

/// A proxy in front of one server. Dropped, it ends with all its connections.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    rules: watch::Sender<Rules>,
    shared: Arc<Shared>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy that passes everything on to `upstream`.
    ///
    /// # Errors
    ///
    /// When no port can be listened on.
    pub fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (rules, watched) = watch::channel(Rules { behaviour: Behaviour::Pass, upstream, cuts: 0, cut: Cut::Reset });
        let shared = Arc::new(Shared::default());
        let (end, ended) = oneshot::channel();
        let theirs = Arc::clone(&shared);
        let thread = thread::spawn(move || block_on(serve(listener, watched, theirs, ended)));
        Ok(Self { address, rules, shared, end: Some(end), thread: Some(thread) })
    }

    /// A proxy in front of a server on this machine's loopback address.
    ///
    /// # Errors
    ///
    /// As [`Proxy::start`].
    pub fn to_port(port: u16) -> io::Result<Self> {
        Self::start((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The port that it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on tells apart what clients ask of a Kafka, on connections that come.
    pub fn listen_to_kafka(&self) {
        self.shared.listens.store(true, Ordering::Relaxed);
    }

    /// The requests to publish that were passed on so far.
    #[must_use]
    pub fn asked(&self) -> Exchanges {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The answers to such requests that a [`Proxy::mute`] kept back so far.
    #[must_use]
    pub fn kept_back(&self) -> Exchanges {
        self.shared.kept_back.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Leads connections that come from now on to another server.
    pub fn set_upstream(&self, upstream: SocketAddr) {
        self.rules.send_modify(|rules| rules.upstream = upstream);
    }

    /// Passes everything on, also what was held back by a stall.
    pub fn pass(&self) {
        self.behave(Behaviour::Pass);
    }

    /// Keeps connections open and takes nothing from either side.
    pub fn stall(&self) {
        self.behave(Behaviour::Stall);
    }

    /// Passes on what clients say, and nothing of what servers answer; those answers get lost for good by a [`Proxy::cut`] before
    /// anything else is ordered.
    pub fn mute(&self) {
        self.behave(Behaviour::Mute);
    }

    /// Passes on so many bytes a second, in each direction of each connection.
    pub fn slow(&self, bytes_per_second: u32) {
        self.behave(Behaviour::Slow { bytes_per_second });
    }

    /// Resets every new connection, and leaves those that are open.
    pub fn refuse(&self) {
        self.behave(Behaviour::Refuse);
    }

    /// Lets the server's side go, as if the client had vanished, while the client's stays open: what the client sends gets lost, and it hears
    /// nothing. A connection that this happened to stays so whatever is set afterwards.
    pub fn half_open(&self) {
        self.behave(Behaviour::HalfOpen);
    }

    /// Ends all connections that are open. Those that come are treated as before.
    pub fn cut(&self, cut: Cut) {
        self.rules.send_modify(|rules| {
            rules.cuts += 1;
            rules.cut = cut;
        });
    }

    /// Ends the connection that carries the `bytes`th byte from now on in this direction, right behind that byte. Once.
    pub fn cut_after(&self, direction: Direction, bytes: u64, cut: Cut) {
        *self.shared.trap() = Some(Trap { direction, bytes_left: bytes.max(1), cut });
    }

    /// Whether the cut that [`Proxy::cut_after`] ordered is still to come.
    #[must_use]
    pub fn is_cut_pending(&self) -> bool {
        self.shared.trap().is_some()
    }

    /// How many connections are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// How many connections have come so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// How many bytes were passed on so far.
    #[must_use]
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.shared.bytes(direction).load(Ordering::Relaxed)
    }

    fn behave(&self, behaviour: Behaviour) {
        self.rules.send_modify(|rules| rules.behaviour = behaviour);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked is reported by its own message.
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    rules: watch::Receiver<Rules>,
    shared: Arc<Shared>,
    mut ended: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                shared.accepted.fetch_add(1, Ordering::Relaxed);
                connections.spawn(connection::run(client, rules.clone(), Arc::clone(&shared)));
            }
            Some(_) = connections.join_next() => {}
            _ = &mut ended => return,
        }
    }
}

#[cfg(test)]
mod tests;

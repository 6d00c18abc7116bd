//! One connection through the proxy.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::kafka::Conversation;
use super::{Behaviour, Cut, Direction, Rules, Shared, Trap};

const BUFFER: usize = 16 * 1024;
/// What a muted server may say before nobody listens any more.
const MOST_KEPT_BACK: usize = 1 << 20;
/// A slow connection passes on its share so many times a second.
const SHARES: u32 = 20;

/// Why a connection is over, or one of its directions.
enum Over {
    /// Both sides have said all, or are to be closed in order.
    Closed,
    /// It is cut off.
    Cut(Cut),
    /// The server's side is to go alone.
    HalfOpen,
}

/// Carries one connection to its end.
pub(super) async fn run(client: TcpStream, mut rules: watch::Receiver<Rules>, shared: Arc<Shared>) {
    shared.open.fetch_add(1, Ordering::Relaxed);
    let first = *rules.borrow_and_update();
    match first.behaviour {
        Behaviour::Refuse => reset(&client),
        Behaviour::HalfOpen => swallow(client, rules, first.cuts).await,
        Behaviour::Pass | Behaviour::Stall | Behaviour::Mute | Behaviour::Slow { .. } => {
            carry(client, rules, first, &shared).await;
        }
    }
    shared.open.fetch_sub(1, Ordering::Relaxed);
}

async fn carry(mut client: TcpStream, rules: watch::Receiver<Rules>, first: Rules, shared: &Shared) {
    let Ok(mut server) = TcpStream::connect(first.upstream).await else { return reset(&client) };
    // A test wants its bytes at once. Without this it only gets them later.
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let over = {
        let (mut from_client, mut to_client) = client.split();
        let (mut from_server, mut to_server) = server.split();
        let listener = Listener::of(shared);
        let out = pump(&mut from_client, &mut to_server, Direction::ToServer, rules.clone(), &listener);
        let back = pump(&mut from_server, &mut to_client, Direction::ToClient, rules.clone(), &listener);
        tokio::select! {
            // What was held back is not to slip through when a cut and its end are ordered in one breath.
            biased;
            over = ordered(rules.clone(), first.cuts) => over,
            over = both(out, back) => over,
        }
    };
    match over {
        Over::Closed | Over::Cut(Cut::Close) => {}
        Over::Cut(Cut::Reset) => {
            reset(&client);
            reset(&server);
        }
        Over::HalfOpen => {
            reset(&server);
            drop(server);
            swallow(client, rules, first.cuts).await;
        }
    }
}

/// The end of both directions, or the first that is not orderly.
async fn both(out: impl Future<Output = Over>, back: impl Future<Output = Over>) -> Over {
    let (mut out, mut back) = (std::pin::pin!(out), std::pin::pin!(back));
    tokio::select! {
        over = &mut out => match over {
            Over::Closed => back.await,
            other => other,
        },
        over = &mut back => match over {
            Over::Closed => out.await,
            other => other,
        },
    }
}

/// The end that somebody orders for the whole connection.
async fn ordered(mut rules: watch::Receiver<Rules>, cuts: u64) -> Over {
    let ordered = rules.wait_for(|rules| rules.cuts > cuts || rules.behaviour == Behaviour::HalfOpen).await;
    match ordered {
        Ok(rules) if rules.cuts > cuts => Over::Cut(rules.cut),
        Ok(_) => Over::HalfOpen,
        // The proxy is being dropped.
        Err(_) => Over::Closed,
    }
}

/// Loses what the client says until it has nothing more to say, or is cut.
async fn swallow(mut client: TcpStream, mut rules: watch::Receiver<Rules>, cuts: u64) {
    let mut sink = tokio::io::sink();
    let cut = tokio::select! {
        // However it ends, it has ended.
        _ = tokio::io::copy(&mut client, &mut sink) => None,
        cut = rules.wait_for(|rules| rules.cuts > cuts) => cut.ok().map(|rules| rules.cut),
    };
    if cut == Some(Cut::Reset) {
        reset(&client);
    }
}

/// What is heard of a connection.
struct Listener<'a> {
    shared: &'a Shared,
    conversation: Option<Mutex<Conversation>>,
}

impl<'a> Listener<'a> {
    fn of(shared: &'a Shared) -> Self {
        let listens = shared.listens.load(Ordering::Relaxed);
        Self { shared, conversation: listens.then(Mutex::default) }
    }

    fn hear(&self, bytes: &[u8], direction: Direction, is_kept_back: bool) {
        let Some(conversation) = &self.conversation else { return };
        let heard = conversation.lock().unwrap_or_else(PoisonError::into_inner).hear(bytes, direction);
        match direction {
            Direction::ToServer => Shared::note(&self.shared.asked, &heard),
            Direction::ToClient if is_kept_back => Shared::note(&self.shared.kept_back, &heard),
            Direction::ToClient => {}
        }
    }
}

/// Passes one direction on until it ends.
async fn pump(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    direction: Direction,
    mut rules: watch::Receiver<Rules>,
    listener: &Listener<'_>,
) -> Over {
    let shared = listener.shared;
    let mut buffer = vec![0; BUFFER];
    let mut kept_back = Vec::new();
    loop {
        let behaviour = rules.borrow_and_update().behaviour;
        let is_muted = behaviour == Behaviour::Mute && direction == Direction::ToClient;
        let is_held = behaviour == Behaviour::Stall || (is_muted && kept_back.len() >= MOST_KEPT_BACK);
        if is_held {
            match rules.changed().await {
                Ok(()) => continue,
                Err(_) => return Over::Closed,
            }
        }
        if !is_muted && !kept_back.is_empty() {
            let bytes = std::mem::take(&mut kept_back);
            if let Some(over) = pass(&bytes, to, direction, shared).await {
                return over;
            }
        }
        let read = tokio::select! {
            // What was ordered goes before what has come.
            biased;
            changed = rules.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return Over::Closed,
            },
            read = from.read(buffer.get_mut(..share(behaviour)).unwrap_or_default()) => read,
        };
        let bytes = match read {
            Ok(0) => return close(to).await,
            Ok(count) => buffer.get(..count).unwrap_or_default(),
            Err(_) => return Over::Cut(Cut::Reset),
        };
        listener.hear(bytes, direction, is_muted);
        if is_muted {
            kept_back.extend_from_slice(bytes);
            continue;
        }
        if let Some(over) = pass(bytes, to, direction, shared).await {
            return over;
        }
        if let Behaviour::Slow { .. } = behaviour {
            // Time is what a slow network is made of.
            tokio::time::sleep(Duration::from_secs(1) / SHARES).await;
        }
    }
}

/// How much is read at a time.
fn share(behaviour: Behaviour) -> usize {
    match behaviour {
        Behaviour::Slow { bytes_per_second } => ((bytes_per_second / SHARES).max(1) as usize).min(BUFFER),
        _ => BUFFER,
    }
}

/// Writes the bytes, or those of them that come before the cut that they spring. Answers the end, where that is one.
async fn pass(bytes: &[u8], to: &mut (impl AsyncWrite + Unpin), direction: Direction, shared: &Shared) -> Option<Over> {
    let (passed, cut) = spring(bytes, direction, shared);
    let count = u64::try_from(passed.len()).unwrap_or(u64::MAX);
    // First, so that whoever has read a byte finds it counted.
    shared.bytes(direction).fetch_add(count, Ordering::Relaxed);
    let is_lost = to.write_all(passed).await.is_err();
    if is_lost { Some(Over::Cut(Cut::Reset)) } else { cut.map(Over::Cut) }
}

/// What may pass, and the cut behind it if there is one.
fn spring<'a>(bytes: &'a [u8], direction: Direction, shared: &Shared) -> (&'a [u8], Option<Cut>) {
    let mut trap = shared.trap();
    let Some(set) = trap.as_mut().filter(|trap: &&mut Trap| trap.direction == direction) else { return (bytes, None) };
    let left = usize::try_from(set.bytes_left).unwrap_or(usize::MAX);
    match bytes.get(..left) {
        Some(passed) => {
            let cut = set.cut;
            *trap = None;
            (passed, Some(cut))
        }
        None => {
            set.bytes_left -= u64::try_from(bytes.len()).unwrap_or(set.bytes_left);
            (bytes, None)
        }
    }
}

/// Says that nothing more comes; the other direction may go on.
async fn close(to: &mut (impl AsyncWrite + Unpin)) -> Over {
    match to.shutdown().await {
        Ok(()) => Over::Closed,
        Err(_) => Over::Cut(Cut::Reset),
    }
}

/// Makes the stream end by a reset when it is dropped.
fn reset(stream: &TcpStream) {
    // It may be broken already.
    let _ = stream.set_zero_linger();
}

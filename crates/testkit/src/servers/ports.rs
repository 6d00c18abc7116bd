//! Free ports of the loopback address.
//!
//! They come from below the range from which the kernel takes the ports of outgoing connections: a port inside it can
//! be taken by anybody's connection while its server is down, and a client that keeps trying to reach it may even
//! connect to itself. A port that another process took meanwhile shows as a failed start, which is tried again with
//! another one.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Error, Result};

const LOWEST: u16 = 15_000;
const HIGHEST_BY_DEFAULT: u16 = 32_767;

static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port that nobody listened on a moment ago, and that this process has not given out before.
pub(super) fn free() -> Result<u16> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let highest = highest();
    let span = u32::from(highest - LOWEST) + 1;
    let start = seed() % span;
    let candidates = (0..span).filter_map(|step| u16::try_from(u32::from(LOWEST) + (start + step) % span).ok());
    let is_free = |port: &u16| !given.contains(port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let port = candidates.into_iter().find(is_free).ok_or(Error::Malformed {
        what: "every port of the loopback address is taken; the range",
        text: format!("{LOWEST}-{highest}"),
    })?;
    given.insert(port);
    Ok(port)
}

/// The last port below those of outgoing connections; their whole range where it leaves no room.
fn highest() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let first = range.split_whitespace().next().and_then(|text| text.parse::<u16>().ok());
    first.map_or(HIGHEST_BY_DEFAULT, |first| first.saturating_sub(1)).max(LOWEST + 1_000)
}

/// Different for processes that start together, so that they do not all try the same ports.
fn seed() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_micros());
    now.wrapping_add(std::process::id().wrapping_mul(2_654_435_761))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_out_twice() {
        let ports: Vec<u16> = (0..50).map(|_| free().unwrap()).collect();
        let distinct: BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), ports.len());
    }

    #[test]
    fn a_port_lies_below_those_of_outgoing_connections() {
        let outgoing = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        assert!(free().unwrap() < outgoing.max(LOWEST + 1_000));
    }
}

//! What can be done to a run, by name.

use std::fmt;
use std::str::FromStr;

/// Defines the faults, their names and their descriptions from one list.
macro_rules! faults {
    ($( $name:ident = $text:literal, $what:literal; )+) => {
        /// One fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $( #[doc = $what] $name, )+
        }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// Its name on the command line.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $( Self::$name => $text, )+
                }
            }

            /// What is done.
            #[must_use]
            pub const fn what(self) -> &'static str {
                match self {
                    $( Self::$name => $what, )+
                }
            }
        }
    };
}

faults! {
    RelayKill = "relay-kill", "kill -9 of the relay while it owes rows";
    RelayFreeze = "relay-freeze", "SIGSTOP and SIGCONT of the relay";
    RelayStop = "relay-stop", "SIGTERM of the relay, which has to end with 0 and repeats nothing";
    BrokerKill = "broker-kill", "kill -9 of the broker, and a start on the same log";
    BrokerFreeze = "broker-freeze", "SIGSTOP and SIGCONT of the broker";
    BrokerRestart = "broker-restart", "an orderly stop of the broker, and a start on the same log";
    WalsenderKill = "walsender-kill", "kill -9 of the walsender, upon which PostgreSQL ends all sessions and recovers";
    WalsenderFreeze = "walsender-freeze", "SIGSTOP and SIGCONT of the walsender, which holds the slot all the time";
    WalsenderTerminate = "walsender-terminate", "pg_terminate_backend of the walsender";
    SessionsTerminate = "sessions-terminate", "pg_terminate_backend of every session of the database";
    PostmasterKill = "postmaster-kill", "kill -9 of the postmaster alone, and a start once its orphans are gone";
    PostmasterFreeze = "postmaster-freeze", "SIGSTOP of the postmaster and the end of the walsender: nobody can connect; SIGCONT";
    PostgresKill = "postgres-kill", "kill -9 of all of PostgreSQL, and a start";
    PostgresFreeze = "postgres-freeze", "SIGSTOP and SIGCONT of all of PostgreSQL";
    PostgresImmediate = "postgres-immediate", "an immediate stop of PostgreSQL, and a start";
    PostgresFast = "postgres-fast", "a fast stop of PostgreSQL, and a start";
    SourceCut = "source-cut", "the connection that carries the nth byte from or to PostgreSQL ends behind it";
    SourceStall = "source-stall", "connections to PostgreSQL stay open and carry nothing";
    SourceSlow = "source-slow", "connections to PostgreSQL carry little";
    SourceHalfOpen = "source-half-open", "PostgreSQL's side of each connection is gone, and the relay is not told";
    SourceRefuse = "source-refuse", "connections to PostgreSQL are cut and new ones refused";
    BrokerCut = "broker-cut", "the connection that carries the nth byte from or to the broker ends behind it";
    BrokerStall = "broker-stall", "connections to the broker stay open and carry nothing";
    BrokerSlow = "broker-slow", "connections to the broker carry little";
    BrokerHalfOpen = "broker-half-open", "the broker's side of each connection is gone, and the relay is not told";
    BrokerRefuse = "broker-refuse", "connections to the broker are cut and new ones refused";
    AcksLost = "acks-lost", "the broker takes records and its acknowledgements are lost";
    AcksLostRelayKill = "acks-lost+relay-kill", "kill -9 of the relay that has not heard of what the broker took";
    BrokerFreezeRelayKill = "broker-freeze+relay-kill", "kill -9 of the relay while the broker is frozen";
    PostgresKillRelayKill = "postgres-kill+relay-kill", "kill -9 of both; the relay starts before PostgreSQL";
    CheckpointFull = "checkpoint-full", "the disk of the checkpoint file is full";
    CheckpointFullRelayKill = "checkpoint-full+relay-kill", "kill -9 of the relay while the disk of its checkpoint file is full, and a start before there is room";
    CheckpointReadOnly = "checkpoint-read-only", "the disk of the checkpoint file is read-only";
    CheckpointCorrupt = "checkpoint-corrupt", "kill -9 of the relay; a byte of the checkpoint file is changed, which the start has to refuse";
    CheckpointTruncated = "checkpoint-truncated", "kill -9 of the relay; the checkpoint file is cut short, which the start has to refuse";
    CheckpointForeign = "checkpoint-foreign", "kill -9 of the relay; the checkpoint file is another system's, which the start has to refuse";
}

impl Fault {
    /// Whether it is about the checkpoint's file.
    #[must_use]
    pub fn needs_file(self) -> bool {
        self.name().starts_with("checkpoint-")
    }

    /// Whether it needs a file system of its own, which only a superuser can mount.
    #[must_use]
    pub fn needs_disk(self) -> bool {
        matches!(self, Self::CheckpointFull | Self::CheckpointFullRelayKill | Self::CheckpointReadOnly)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|fault| fault.name() == text);
        found.ok_or_else(|| format!("there is no fault {text:?}: --list names them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_found_by_its_name_and_no_other() {
        for fault in Fault::ALL {
            assert_eq!(fault.name().parse(), Ok(*fault));
        }
        assert!("relay".parse::<Fault>().is_err());
    }
}

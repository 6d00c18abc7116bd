//! Everything that may befall PostgreSQL under a running relay, and what its operator sees of it: the log, `/readyz`, `walpost status`, a figure that
//! moves; afterwards it is ready again, and nothing that was committed is lost.
//!
//! Here are the faults that pass by themselves, once the server is back. Those that end the relay with a sentence are in the modules below.

mod beside;
mod publications;
mod roles;
mod slots;
mod undecodable;
mod watched;

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use walpost_testkit::checker::Repeats;
use walpost_testkit::proxy::{Cut, Direction, Proxy};
use walpost_testkit::servers::{Identity, Postgres, Signal, Stop, shared_kafka};
use walpost_testkit::workload::Running;

use crate::rig::{LIMIT, Rig, eventually};
use watched::{Sight, Watched};

/// A fault that passes.
struct Fault {
    name: &'static str,
    strike: fn(&mut Stage),
    /// What is seen while it lasts.
    sight: Sight,
    /// What the log says of it.
    log: &'static str,
    /// Under which cause `walpost_reconnects_total` counts it.
    cause: &'static str,
    heal: fn(&mut Stage),
}

/// A server of its own, a relay that streams from it, and writers.
struct Stage {
    watched: Watched,
    running: Running,
    /// Sessions that take what the relay needs.
    others: Vec<Child>,
    /// The network by which the relay reaches the server.
    network: Proxy,
    postgres: Postgres,
}

impl Stage {
    fn sql(&self, script: &str) {
        self.postgres.psql("postgres", script).unwrap();
    }

    /// Lets nobody in whom the server can refuse.
    fn close(&self) {
        self.sql(&format!("ALTER DATABASE {} CONNECTION LIMIT 0", self.watched.rig.database.name()));
    }

    fn open(&mut self) {
        self.sql(&format!("ALTER DATABASE {} CONNECTION LIMIT -1", self.watched.rig.database.name()));
    }

    fn allow_connections(&self, are_allowed: bool) {
        let database = self.watched.rig.database.name();
        self.sql(&format!("ALTER DATABASE {database} ALLOW_CONNECTIONS {are_allowed}"));
    }

    fn signal_walsender(&self, signal: Signal) {
        eventually("the relay to stream", || self.watched.rig.walsender().is_some());
        let walsender = self.watched.rig.walsender().and_then(Identity::of).unwrap();
        walsender.signal(signal).unwrap();
    }

    /// Ends the sessions of the relay of this kind.
    fn terminate(&self, kind: &str) {
        self.sql(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = '{kind}' AND usename = 'relay'"
        ));
    }

    fn terminate_all(&self) {
        self.terminate("walsender");
        self.terminate("client backend");
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'relay'";
        eventually("the relay to have no session", || {
            self.postgres.endpoint().value("postgres", count).unwrap() == "0"
        });
    }

    /// What hangs in it is never heard of again.
    fn mend_network(&mut self) {
        self.network.cut(Cut::Reset);
        self.network.pass();
    }

    fn stop_postgres(&mut self, mode: Stop) {
        self.postgres.stop(mode, LIMIT).unwrap();
    }

    fn start_postgres(&mut self) {
        self.postgres.start_again().unwrap();
    }

    /// Kills the server and starts it again, but not to the end: it reads this file before it replays its log, and of a pipe the opening
    /// alone waits for somebody who writes.
    fn start_postgres_in_vain(&mut self) {
        self.postgres.kill9().unwrap();
        let file = self.origins();
        std::fs::rename(&file, self.origins_aside()).unwrap();
        assert!(Command::new("mkfifo").arg("--mode=666").arg(&file).status().unwrap().success());
        self.postgres.begin_to_start().unwrap();
    }

    fn let_postgres_start(&mut self) {
        std::fs::write(self.origins(), std::fs::read(self.origins_aside()).unwrap()).unwrap();
        self.postgres.wait_until_ready().unwrap();
    }

    fn origins(&self) -> PathBuf {
        self.postgres.data().join("pg_logical/replorigin_checkpoint")
    }

    fn origins_aside(&self) -> PathBuf {
        self.postgres.data().with_file_name("replorigin_checkpoint")
    }

    /// Takes all walsenders that there may be.
    fn take_walsenders(&mut self) {
        self.close();
        self.terminate_all();
        let database = self.watched.rig.database.name();
        let port = self.postgres.endpoint().port();
        let most: usize = self.postgres.endpoint().value("postgres", "SHOW max_wal_senders").unwrap().parse().unwrap();
        for _ in 0..most {
            let mut psql = Command::new("psql");
            psql.arg(format!("host=127.0.0.1 port={port} user=postgres dbname={database} replication=database"));
            psql.args(["--no-psqlrc", "--command=SELECT pg_sleep(600)"]);
            self.others.push(psql.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        }
        let taken = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'walsender'";
        eventually("all walsenders to be taken", || {
            self.postgres.endpoint().value("postgres", taken).unwrap() == most.to_string()
        });
        self.open();
    }

    fn give_walsenders_back(&mut self) {
        self.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'walsender' AND usename = 'postgres'");
        for mut other in self.others.drain(..) {
            let _ = other.kill();
            let _ = other.wait();
        }
    }
}

const DOWN: Sight = Sight { state: "reconnecting", reason: "the stream has been down for" };
const REFUSED: Sight = Sight { state: "reconnecting", reason: "Connection refused" };
const HANGS: Sight = Sight { state: "reconnecting", reason: "did not answer within" };
const SILENT: &str = "the server said nothing for the whole of wal_sender_timeout";

/// Those that end a server's process and not the server are struck while the door is closed, so that the relay cannot be back before anybody
/// has looked.
const FAULTS: &[Fault] = &[
    Fault {
        name: "the walsender is terminated",
        strike: |stage| {
            stage.close();
            stage.terminate("walsender");
        },
        sight: DOWN,
        log: "trying again",
        cause: "source_lost",
        heal: Stage::open,
    },
    Fault {
        name: "the other sessions are terminated, and there is no room for new ones",
        strike: |stage| {
            stage.close();
            stage.terminate("client backend");
        },
        sight: Sight { state: "reconnecting", reason: "too many connections" },
        log: "our session beside the stream is over",
        cause: "postgres",
        heal: Stage::open,
    },
    Fault {
        name: "the database takes no connections",
        strike: |stage| {
            stage.allow_connections(false);
            stage.terminate("walsender");
        },
        sight: Sight { state: "reconnecting", reason: "is not currently accepting connections" },
        log: "is not currently accepting connections",
        cause: "postgres",
        heal: |stage| stage.allow_connections(true),
    },
    Fault {
        name: "all walsenders are taken",
        strike: Stage::take_walsenders,
        sight: Sight { state: "reconnecting", reason: "max_wal_senders" },
        log: "max_wal_senders",
        cause: "postgres",
        heal: Stage::give_walsenders_back,
    },
    Fault {
        name: "the walsender is killed, upon which the server ends all sessions and recovers",
        strike: |stage| {
            stage.close();
            stage.signal_walsender(Signal::Kill);
        },
        sight: DOWN,
        log: "trying again",
        cause: "source_lost",
        heal: |stage| {
            eventually("the server to have recovered", || stage.postgres.psql("postgres", "SELECT 1").is_ok());
            stage.open();
        },
    },
    Fault {
        name: "the walsender hangs, and keeps the slot",
        strike: |stage| stage.signal_walsender(Signal::Stop),
        sight: Sight { state: "reconnecting", reason: "which is our own last connection" },
        log: SILENT,
        cause: "source_silent",
        heal: |stage| stage.signal_walsender(Signal::Continue),
    },
    Fault {
        name: "the postmaster hangs",
        strike: |stage| {
            stage.close();
            stage.terminate("walsender");
            stage.postgres.identity().unwrap().signal(Signal::Stop).unwrap();
        },
        sight: HANGS,
        log: "did not answer within",
        cause: "postgres",
        heal: |stage| {
            stage.postgres.identity().unwrap().signal(Signal::Continue).unwrap();
            stage.open();
        },
    },
    Fault {
        name: "all of the server hangs",
        strike: |stage| stage.postgres.sigstop().unwrap(),
        sight: HANGS,
        log: SILENT,
        cause: "source_silent",
        heal: |stage| stage.postgres.sigcont().unwrap(),
    },
    Fault {
        name: "the postmaster is killed",
        strike: |stage| stage.postgres.kill9_postmaster().unwrap(),
        sight: REFUSED,
        log: "trying again",
        cause: "postgres",
        heal: Stage::start_postgres,
    },
    Fault {
        name: "the server is stopped fast",
        strike: |stage| stage.stop_postgres(Stop::Fast),
        sight: REFUSED,
        log: "our session beside the stream is over",
        cause: "postgres",
        heal: Stage::start_postgres,
    },
    Fault {
        name: "the server is stopped at once",
        strike: |stage| stage.stop_postgres(Stop::Immediate),
        sight: REFUSED,
        log: "trying again",
        cause: "postgres",
        heal: Stage::start_postgres,
    },
    Fault {
        name: "all of the server is killed",
        strike: |stage| stage.postgres.kill9().unwrap(),
        sight: REFUSED,
        log: "trying again",
        cause: "postgres",
        heal: Stage::start_postgres,
    },
    Fault {
        name: "the server starts up, and does not come to the end of it",
        strike: Stage::start_postgres_in_vain,
        sight: Sight { state: "reconnecting", reason: "the database system is starting up" },
        log: "the database system is starting up [SQLSTATE 57P03]",
        cause: "postgres",
        heal: Stage::let_postgres_start,
    },
    Fault {
        name: "only a standby answers, until it is promoted",
        strike: |stage| {
            stage.stop_postgres(Stop::Fast);
            std::fs::write(stage.postgres.data().join("standby.signal"), "").unwrap();
            stage.postgres.start_again().unwrap();
        },
        sight: Sight { state: "reconnecting", reason: "the server is a standby" },
        log: "the server is a standby",
        cause: "no_primary",
        heal: |stage| stage.sql("SELECT pg_promote()"),
    },
];

/// For a relay that reaches the server by the network that fails.
const NETWORK_FAULTS: &[Fault] = &[
    Fault {
        name: "the network is cut within a row, and refuses",
        strike: |stage| {
            stage.network.refuse();
            stage.network.cut_after(Direction::ToClient, 301, Cut::Reset);
            eventually("the cut", || !stage.network.is_cut_pending());
            stage.network.cut(Cut::Reset);
        },
        sight: DOWN,
        log: "trying again",
        cause: "source_lost",
        heal: Stage::mend_network,
    },
    Fault {
        name: "the network falls silent",
        strike: |stage| stage.network.stall(),
        sight: HANGS,
        log: SILENT,
        cause: "source_silent",
        heal: Stage::mend_network,
    },
    Fault {
        name: "the network is half-open, and the server believes that the relay is gone",
        strike: |stage| stage.network.half_open(),
        sight: HANGS,
        log: SILENT,
        cause: "source_silent",
        heal: Stage::mend_network,
    },
];

#[test]
fn every_outage_of_postgresql_is_seen_while_it_lasts_and_costs_no_row_and_no_repeat() {
    assert_seen_and_harmless("outages", FAULTS, false);
}

#[test]
fn every_outage_of_the_network_to_postgresql_is_seen_while_it_lasts_and_costs_no_row_and_no_repeat() {
    assert_seen_and_harmless("partings", NETWORK_FAULTS, true);
}

#[track_caller]
fn assert_seen_and_harmless(label: &str, faults: &[Fault], is_by_network: bool) {
    let postgres = Postgres::builder().setting("max_wal_senders", "3").start().unwrap();
    let mut rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
    let network = Proxy::to_port(postgres.endpoint().port()).unwrap();
    roles::act_as(&mut rig, "relay", None);
    if is_by_network {
        let url = format!("postgres://relay@{}/{}", network.address(), rig.database.name());
        rig.configure(|config| config.set("source", "url", &format!("{url:?}")));
    }
    rig.configure(|config| {
        config.set("source", "wal_sender_timeout_ms", "2000").set("source", "connect_timeout_ms", "2000")
    });
    let watched = Watched::start(rig);
    let running = watched.rig.workload().writers(2).pause(Duration::from_millis(10)).start();
    let mut stage = Stage { watched, running, others: Vec::new(), network, postgres };
    for fault in faults {
        eprintln!("{}", fault.name);
        stage.running.wait_for_more_rows(20, LIMIT).unwrap();
        let (lines, counted) = (stage.watched.relay.log_lines(), stage.watched.reconnects(fault.cause));
        (fault.strike)(&mut stage);
        stage.watched.assert_unready(&fault.sight);
        (fault.heal)(&mut stage);
        stage.watched.wait_until_well();
        stage.watched.relay.wait_for_log_since(lines, fault.log, LIMIT).unwrap();
        let counts = stage.watched.reconnects(fault.cause);
        assert!(counts > counted, "{}: {counts} of {}", fault.name, fault.cause);
        stage.running.wait_for_more_rows(20, LIMIT).unwrap();
    }
    let Stage { watched, running, .. } = stage;
    let _ = running.stop();
    watched.rig.assert_delivered(Repeats::Forbidden);
    watched.relay.stop(LIMIT).unwrap().assert_success();
}

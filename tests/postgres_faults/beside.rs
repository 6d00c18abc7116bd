//! The session beside the stream hangs, alone: the stream goes on, but whether the outboxes are still published nobody looks any more, and a shutdown
//! of the server would wait for the relay.

use std::time::Duration;

use walpost_testkit::checker::Repeats;
use walpost_testkit::servers::{Identity, Postgres, Signal, shared_kafka};

use super::watched::Watched;
use crate::rig::{LIMIT, Rig, eventually};

/// The server's process of the newest session that looks at the publications.
fn session_beside(rig: &Rig) -> Option<Identity> {
    let query = format!(
        "SELECT pid FROM pg_stat_activity WHERE application_name = '{}' AND query LIKE '%FROM pg_publication%' \
         ORDER BY backend_start DESC",
        rig.database.name()
    );
    rig.database.value(&query).ok()?.parse().ok().and_then(Identity::of)
}

#[test]
fn a_session_beside_the_stream_that_hangs_alone_is_given_up_together_with_the_stream_while_rows_go_out() {
    let postgres = Postgres::start().unwrap();
    let mut rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), "beside", &["public.outbox"]);
    rig.configure(|config| config.set("source", "connect_timeout_ms", "2000"));
    let watched = Watched::start(rig);
    let running = watched.rig.workload().writers(1).pause(Duration::from_millis(10)).start();
    let (mut hung, walsender) = (None, watched.rig.walsender());
    assert!(walsender.is_some());
    // The check at the start has a session of its own, for a moment.
    watched.relay.wait_for_log("answers, of the cluster", LIMIT).unwrap();
    eventually("a look at the publications", || {
        hung = session_beside(&watched.rig);
        hung.is_some()
    });
    let hung = hung.unwrap();
    let (lines, counted) = (watched.relay.log_lines(), watched.reconnects("source_lost"));
    hung.signal(Signal::Stop).unwrap();
    let line = watched.relay.wait_for_log_since(lines, "our session beside the stream is over", LIMIT).unwrap();
    // In two seconds if it is asked whether it lives, and later if it hangs within a statement, which may take its time.
    assert!(line.contains("PostgreSQL did not answer within"), "{line}");
    eventually("another stream", || watched.rig.walsender().is_some_and(|pid| Some(pid) != walsender));
    // While that process hangs on.
    watched.wait_until_well();
    assert!(watched.reconnects("source_lost") > counted);
    eventually("another session beside it", || session_beside(&watched.rig).is_some_and(|other| other != hung));
    running.wait_for_more_rows(20, LIMIT).unwrap();
    hung.signal(Signal::Continue).unwrap();
    let _ = running.stop();
    watched.rig.assert_delivered(Repeats::Forbidden);
    watched.relay.stop(LIMIT).unwrap().assert_success();
}

//! Publications and tables change under a running relay. The server sends nothing of what is not published, so what the relay cannot see in the stream it looks for
//! in the catalogue.

use walpost_testkit::checker::Repeats;

use super::slots::{behind_its_back, dated, fill_and_go_on};
use super::watched::{Watched, findings};
use crate::observe::{readiness, value, wait_for_value};
use crate::rig::{LIMIT, Rig, eventually};

/// Whether the server ends the stream at a publication that was not there when a row was committed. 18 passes over the row.
fn minds_a_missing_publication(watched: &Watched) -> bool {
    watched.rig.value("SELECT current_setting('server_version_num')::int < 180000") == "t"
}

#[test]
fn an_outbox_that_is_taken_out_renamed_or_dropped_ends_the_relay_and_its_rows_are_filled_in_once_it_is_back() {
    let cases = [
        ("out", "ALTER PUBLICATION $ DROP TABLE outbox", "SELECT 1"),
        ("renamed", "ALTER TABLE outbox RENAME TO former", "ALTER TABLE former RENAME TO outbox"),
        (
            "dropped",
            "CREATE TABLE former (LIKE outbox INCLUDING ALL); INSERT INTO former SELECT * FROM outbox; DROP TABLE outbox",
            "ALTER TABLE former RENAME TO outbox",
        ),
        (
            "recreated",
            "CREATE TABLE fresh (LIKE outbox INCLUDING ALL); INSERT INTO fresh SELECT * FROM outbox; DROP TABLE outbox; ALTER TABLE fresh RENAME TO outbox",
            "SELECT 1",
        ),
    ];
    std::thread::scope(|scope| {
        for (label, strike, heal) in cases {
            scope.spawn(move || {
                let Watched { rig, relay } = Watched::start(dated(label));
                rig.insert("key", 0, 10);
                rig.sql(&strike.replace('$', rig.database.name()));
                let words = ["outbox public.outbox", "passed over", "walpost init"];
                relay.wait(LIMIT).unwrap().assert_said(4, &words);
                let findings = findings(&rig);
                assert!(words.iter().all(|word| findings.contains(word)), "{findings}");
                rig.sql(heal);
                rig.insert("lost", 0, 10);
                rig.init();
                fill_and_go_on(&rig);
            });
        }
    });
}

#[test]
fn an_outbox_that_was_out_of_its_publication_for_a_moment_is_told_and_its_rows_are_filled_in() {
    let cases = [
        ("put_back", "ALTER PUBLICATION $ DROP TABLE outbox", "ALTER PUBLICATION $ ADD TABLE outbox"),
        (
            "replaced",
            "CREATE TABLE fresh (LIKE outbox INCLUDING ALL); INSERT INTO fresh SELECT * FROM outbox; DROP TABLE outbox; ALTER TABLE fresh RENAME TO outbox",
            "ALTER PUBLICATION $ ADD TABLE outbox",
        ),
    ];
    std::thread::scope(|scope| {
        for (label, strike, heal) in cases {
            scope.spawn(move || {
                let Watched { rig, relay } = Watched::start(dated(label));
                rig.insert("key", 0, 10);
                rig.assert_delivered(Repeats::Forbidden);
                assert_eq!(value(&relay, "walpost_publication_breaks_total", &[]), 0.0);
                // So that no look of the relay falls in between.
                relay.sigstop().unwrap();
                rig.sql(&strike.replace('$', rig.database.name()));
                rig.insert("lost", 0, 10);
                rig.sql(&heal.replace('$', rig.database.name()));
                relay.sigcont().unwrap();
                let told = relay.wait_for_log("taken out of its publication and put back", LIMIT).unwrap();
                let words = ["ERROR", "table=public.outbox", "walpost repair --fill --since TIME"];
                assert!(words.iter().all(|word| told.contains(word)), "{told}");
                wait_for_value(&relay, "walpost_publication_breaks_total", &[], 1.0);
                assert!(readiness(&relay).0, "it goes on");
                relay.stop(LIMIT).unwrap().assert_success();
                fill_and_go_on(&rig);
            });
        }
    });
}

#[test]
fn an_outbox_that_was_out_of_its_publication_while_no_relay_ran_is_told_at_the_start() {
    let Watched { rig, relay } = Watched::start(dated("unseen"));
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    let name = rig.database.name();
    rig.sql(&format!("ALTER PUBLICATION {name} DROP TABLE outbox"));
    rig.insert("lost", 0, 10);
    rig.sql(&format!("ALTER PUBLICATION {name} ADD TABLE outbox"));
    let relay = rig.start();
    let told = relay.wait_for_log("added to its publication after the slot's log begins", LIMIT).unwrap();
    assert!(told.contains("WARN") && told.contains("table=public.outbox"), "{told}");
    relay.stop(LIMIT).unwrap().assert_success();
    fill_and_go_on(&rig);
    // Once the log from before is let go of there is nothing to tell. The server needs a note of which transactions run for that.
    let relay = rig.start_streaming();
    let is_younger = format!(
        "SELECT age(r.xmin) > age(s.catalog_xmin) FROM pg_publication p JOIN pg_publication_rel r ON prpubid = p.oid, pg_replication_slots s \
         WHERE pubname = '{name}' AND slot_name = '{name}'"
    );
    let mut seq = 0;
    eventually("the slot to let go of the log from before", || {
        rig.insert("later", seq, 1);
        seq += 1;
        rig.sql("CHECKPOINT");
        rig.value(&is_younger) == "t"
    });
    relay.stop(LIMIT).unwrap().assert_success();
    let relay = rig.start_streaming();
    assert!(!relay.log().contains("added to its publication"), "{}", relay.log());
    rig.assert_delivered(Repeats::Forbidden);
}

#[test]
fn a_publication_that_is_dropped_ends_the_relay_and_is_made_again_together_with_the_slot() {
    let Watched { rig, relay } = Watched::start(dated("dropped"));
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    let name = rig.database.name();
    rig.sql(&format!("DROP PUBLICATION {name}"));
    rig.insert("lost", 0, 10);
    relay.wait(LIMIT).unwrap().assert_said(4, &["publication", name, "walpost repair --fill --since TIME"]);
    let create = format!(
        "CREATE PUBLICATION \"{name}\" FOR TABLE \"public\".\"outbox\" WITH (publish = 'insert', publish_via_partition_root = true)"
    );
    let words = [create.as_str(), "walpost repair --fill --since TIME"];
    rig.call(&["run"]).assert_said(4, &words);
    rig.call(&["init"]).assert_said(4, &words);
    rig.call(&["check"]).assert_said(5, &words);
    rig.call(&["repair"]).assert_said(4, &words);
    let findings = findings(&rig);
    assert!(words.iter().all(|word| findings.contains(word)), "{findings}");
    rig.sql(&create);
    fill_and_go_on(&rig);
}

#[test]
fn a_publication_that_is_dropped_and_made_anew_is_told_and_its_rows_are_filled_in() {
    let watched = Watched::start(dated("anew"));
    let minds = minds_a_missing_publication(&watched);
    let Watched { rig, relay } = watched;
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    let name = rig.database.name();
    behind_its_back(&rig, &relay, || {
        rig.sql(&format!("DROP PUBLICATION {name}"));
        rig.insert("lost", 0, 10);
        rig.sql(&format!("CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'insert')"));
    });
    relay.wait_for_log("table or publication were made anew", LIMIT).unwrap();
    if minds {
        relay.wait(LIMIT).unwrap().assert_said(4, &["42704", "walpost repair --fill --since TIME"]);
    } else {
        wait_for_value(&relay, "walpost_publication_breaks_total", &[], 1.0);
        relay.stop(LIMIT).unwrap().assert_success();
    }
    fill_and_go_on(&rig);
}

#[test]
fn partitions_that_come_and_go_are_no_news() {
    let mut rig = Rig::empty("parts");
    rig.sql(
        "CREATE TABLE outbox (id uuid, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb, \
         seq bigint, PRIMARY KEY (id, seq)) PARTITION BY RANGE (seq);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (10)",
    );
    rig.add_outbox("public.outbox", &[]);
    rig.init();
    let watched = Watched::start(rig);
    let Watched { rig, relay } = &watched;
    rig.insert("key", 0, 10);
    rig.sql(
        "CREATE TABLE outbox_2 (LIKE outbox INCLUDING ALL);
         ALTER TABLE outbox ATTACH PARTITION outbox_2 FOR VALUES FROM (10) TO (20)",
    );
    rig.insert("key", 10, 10);
    rig.assert_delivered(Repeats::Forbidden);
    rig.sql("ALTER TABLE outbox DETACH PARTITION outbox_1; CREATE TABLE outbox_3 PARTITION OF outbox FOR VALUES FROM (20) TO (30)");
    rig.insert("key", 20, 10);
    // Whoever connects looks whether all is published as it was.
    let walsender = rig.walsender();
    rig.sql(&format!("SELECT pg_terminate_backend({})", walsender.unwrap()));
    eventually("another walsender", || rig.walsender().is_some_and(|pid| Some(pid) != walsender));
    watched.wait_until_well();
    assert_eq!(value(relay, "walpost_publication_breaks_total", &[]), 0.0, "{}", relay.log());
    rig.sql("ALTER TABLE outbox ATTACH PARTITION outbox_1 FOR VALUES FROM (0) TO (10)");
    rig.assert_delivered(Repeats::Forbidden);
    watched.relay.stop(LIMIT).unwrap().assert_success();
}

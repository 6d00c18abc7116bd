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
    let put_back = "walpost init, which adds it";
    let gone = "there is no table of this name any more";
    let cases = [
        ("out", "ALTER PUBLICATION $ DROP TABLE outbox", "SELECT 1", put_back),
        (
            "mute",
            "ALTER PUBLICATION $ SET (publish = 'update')",
            "ALTER PUBLICATION $ SET (publish = 'insert')",
            "SET (publish = 'insert, update')",
        ),
        ("renamed", "ALTER TABLE outbox RENAME TO former", "ALTER TABLE former RENAME TO outbox", gone),
        (
            "dropped",
            "CREATE TABLE former (LIKE outbox INCLUDING ALL); INSERT INTO former SELECT * FROM outbox; DROP TABLE outbox",
            "ALTER TABLE former RENAME TO outbox",
            gone,
        ),
        (
            "recreated",
            "CREATE TABLE fresh (LIKE outbox INCLUDING ALL); INSERT INTO fresh SELECT * FROM outbox; DROP TABLE outbox; ALTER TABLE fresh RENAME TO outbox",
            "SELECT 1",
            put_back,
        ),
    ];
    std::thread::scope(|scope| {
        for (label, strike, heal, remedy) in cases {
            scope.spawn(move || {
                let Watched { rig, relay } = Watched::start(dated(label));
                rig.insert("key", 0, 10);
                rig.sql(&strike.replace('$', rig.database.name()));
                let words = ["outbox public.outbox", "passed over", remedy];
                relay.wait(LIMIT).unwrap().assert_said(4, &words);
                let findings = findings(&rig);
                assert!(words.iter().all(|word| findings.contains(word)), "{findings}");
                rig.sql(&heal.replace('$', rig.database.name()));
                rig.insert("lost", 0, 10);
                rig.init();
                fill_and_go_on(&rig);
            });
        }
    });
}

/// Whether the server has row filters and publications of whole schemas.
pub(super) fn has_filters_and_schemas(rig: &Rig) -> bool {
    rig.value("SELECT current_setting('server_version_num')::int >= 150000") == "t"
}

/// An outbox that is published with its schema.
fn in_schema(label: &str) -> Rig {
    let rig = dated(label);
    if has_filters_and_schemas(&rig) {
        let name = rig.database.name();
        rig.sql(&format!(
            "ALTER PUBLICATION {name} DROP TABLE outbox; ALTER PUBLICATION {name} ADD TABLES IN SCHEMA public"
        ));
    }
    rig
}

/// An outbox whose rows lie in a partition.
fn partitioned(label: &str) -> Rig {
    let mut rig = Rig::empty(label);
    rig.sql(
        "CREATE TABLE outbox (id uuid, aggregatetype text NOT NULL, aggregateid text NOT NULL, type text NOT NULL, payload jsonb, \
         seq bigint, made timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (id, seq)) PARTITION BY RANGE (seq);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (1000)",
    );
    rig.add_outbox("public.outbox", &[]);
    rig.init();
    rig
}

/// How an outbox is taken out of its publication, and put back.
struct Moment {
    label: &'static str,
    rig: fn(&str) -> Rig,
    strike: &'static str,
    heal: &'static str,
    needs_15: bool,
}

const MOMENTS: [Moment; 6] = [
    Moment {
        label: "put_back",
        rig: dated,
        strike: "ALTER PUBLICATION $ DROP TABLE outbox",
        heal: "ALTER PUBLICATION $ ADD TABLE outbox",
        needs_15: false,
    },
    Moment {
        label: "replaced",
        rig: dated,
        strike: "CREATE TABLE fresh (LIKE outbox INCLUDING ALL); INSERT INTO fresh SELECT * FROM outbox; DROP TABLE outbox; ALTER TABLE fresh RENAME TO outbox",
        heal: "ALTER PUBLICATION $ ADD TABLE outbox",
        needs_15: false,
    },
    Moment {
        label: "muted",
        rig: dated,
        strike: "ALTER PUBLICATION $ SET (publish = 'update')",
        heal: "ALTER PUBLICATION $ SET (publish = 'insert')",
        needs_15: false,
    },
    Moment {
        label: "by_leaf",
        rig: partitioned,
        strike: "ALTER PUBLICATION $ SET (publish_via_partition_root = false)",
        heal: "ALTER PUBLICATION $ SET (publish_via_partition_root = true)",
        needs_15: false,
    },
    Moment {
        label: "in_schema",
        rig: in_schema,
        strike: "ALTER PUBLICATION $ DROP TABLES IN SCHEMA public",
        heal: "ALTER PUBLICATION $ ADD TABLES IN SCHEMA public",
        needs_15: true,
    },
    Moment {
        label: "filtered",
        rig: dated,
        strike: "ALTER PUBLICATION $ SET TABLE outbox WHERE (seq < 0)",
        heal: "ALTER PUBLICATION $ SET TABLE outbox",
        needs_15: true,
    },
];

#[test]
fn an_outbox_that_was_out_of_its_publication_for_a_moment_is_told_and_its_rows_are_filled_in() {
    std::thread::scope(|scope| {
        for Moment { label, rig, strike, heal, needs_15 } in MOMENTS {
            scope.spawn(move || {
                let rig = rig(label);
                if needs_15 && !has_filters_and_schemas(&rig) {
                    return;
                }
                let Watched { rig, relay } = Watched::start(rig);
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
fn what_is_done_to_a_publication_and_passes_over_nothing_is_no_alarm() {
    let watched = Watched::start(dated("harmless"));
    let Watched { rig, relay } = &watched;
    let name = rig.database.name();
    // What writes the catalogue anew, or something else into it, is no news.
    rig.sql(&format!("CREATE TABLE other (id int); ALTER PUBLICATION {name} ADD TABLE other"));
    rig.sql("VACUUM FREEZE pg_publication");
    rig.sql("VACUUM FULL pg_publication");
    rig.sql("VACUUM FULL pg_depend");
    let walsender = rig.walsender();
    rig.sql(&format!("SELECT pg_terminate_backend({})", walsender.unwrap()));
    eventually("another walsender", || rig.walsender().is_some_and(|pid| Some(pid) != walsender));
    watched.wait_until_well();
    assert!(!relay.log().contains("publication of an outbox was altered"), "{}", relay.log());
    // What is seen to be other than it was is told.
    rig.sql(&format!("ALTER PUBLICATION {name} SET (publish = 'insert, update')"));
    let told = relay.wait_for_log("the publication of an outbox was altered", LIMIT).unwrap();
    assert!(told.contains("WARN") && told.contains("table=public.outbox"), "{told}");
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(value(relay, "walpost_publication_breaks_total", &[]), 0.0, "{}", relay.log());
    if has_filters_and_schemas(rig) {
        rig.sql(&format!("ALTER PUBLICATION {name} SET TABLE outbox WHERE (seq >= 0)"));
        let altered = || relay.log().matches("the publication of an outbox was altered").count();
        eventually("the filter to be told", || altered() == 2);
        rig.insert("key", 10, 10);
        rig.assert_delivered(Repeats::Forbidden);
        watched.wait_until_well();
        rig.call(&["status"]).assert_said(0, &["note:", "row filter on it: (seq >= 0)", "all is well"]);
        rig.call(&["check"]).assert_said(0, &["note: outbox public.outbox", "row filter on it: (seq >= 0)"]);
        assert_eq!(value(relay, "walpost_publication_breaks_total", &[]), 0.0, "{}", relay.log());
    }
    watched.relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn an_outbox_that_was_out_of_its_publication_while_no_relay_ran_is_told_at_the_start() {
    let cases = [
        (
            "unseen",
            "ALTER PUBLICATION $ DROP TABLE outbox",
            "ALTER PUBLICATION $ ADD TABLE outbox",
            "an outbox was added to its publication after the slot's log begins",
        ),
        (
            "unheard",
            "ALTER PUBLICATION $ SET (publish = 'update')",
            "ALTER PUBLICATION $ SET (publish = 'insert')",
            "the publication of an outbox was altered after the slot's log begins",
        ),
    ];
    std::thread::scope(|scope| {
        for (label, strike, heal, sentence) in cases {
            scope.spawn(move || is_told_at_the_start(label, strike, heal, sentence));
        }
    });
}

fn is_told_at_the_start(label: &str, strike: &str, heal: &str, sentence: &str) {
    let Watched { rig, relay } = Watched::start(dated(label));
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    let name = rig.database.name();
    rig.sql(&strike.replace('$', name));
    rig.insert("lost", 0, 10);
    rig.sql(&heal.replace('$', name));
    let relay = rig.start();
    let told = relay.wait_for_log(sentence, LIMIT).unwrap();
    assert!(told.contains("WARN") && told.contains("table=public.outbox"), "{told}");
    relay.stop(LIMIT).unwrap().assert_success();
    fill_and_go_on(&rig);
    // Once the log from before is let go of there is nothing to tell. The server needs a note of which transactions run for that.
    let relay = rig.start_streaming();
    let is_younger = format!(
        "SELECT least(age(p.xmin), age(r.xmin)) > age(s.catalog_xmin) FROM pg_publication p JOIN pg_publication_rel r ON prpubid = p.oid, \
         pg_replication_slots s WHERE pubname = '{name}' AND slot_name = '{name}'"
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
    assert!(!relay.log().contains("after the slot's log begins"), "{}", relay.log());
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

//! The relay seen from outside: what `/metrics`, `/livez` and `/readyz` say while servers and networks fail, and `walpost status`.

use serde_json::Value;
use walpost::observe::manual;
use walpost::observe::metrics::METRICS;
use walpost_testkit::exposition::Page;
use walpost_testkit::proxy::{Cut, Proxy};
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{shared_postgres, wait_until};

use crate::rig::{LIMIT, Rig, breakable_kafka, eventually, while_locked};

/// The page of figures, which has to be one that a collector takes.
#[track_caller]
pub(crate) fn metrics(relay: &Relay) -> Page {
    let answer = relay.get("/metrics", LIMIT).unwrap();
    assert!(answer.status == 200 && answer.head.contains("text/plain; version=0.0.4"), "{answer:?}");
    Page::parse(&answer.body).unwrap_or_else(|reason| panic!("{reason}\n{}", answer.body))
}

#[track_caller]
pub(crate) fn value(relay: &Relay, name: &str, labels: &[(&str, &str)]) -> f64 {
    metrics(relay).value(name, labels).unwrap_or(f64::NAN)
}

/// What a relay has done shows in the database and at the broker before it shows in its metrics.
#[track_caller]
pub(crate) fn wait_for_value(relay: &Relay, name: &str, labels: &[(&str, &str)], expected: f64) {
    let mut last = f64::NAN;
    let outcome = wait_until(&format!("{name} {labels:?} to be {expected}"), LIMIT, || {
        last = value(relay, name, labels);
        last == expected
    });
    outcome.unwrap_or_else(|error| panic!("{error}; it is {last}"));
}

/// Whether it is ready, its state, and its reasons in one line.
#[track_caller]
pub(crate) fn readiness(relay: &Relay) -> (bool, String, String) {
    let answer = relay.get("/readyz", LIMIT).unwrap();
    let said: Value = serde_json::from_str(&answer.body).unwrap();
    let is_ready = said["ready"] == true;
    assert_eq!(answer.status, if is_ready { 200 } else { 503 }, "{answer:?}");
    let reasons: Vec<_> = said["reasons"].as_array().unwrap().iter().map(|reason| reason.as_str().unwrap()).collect();
    assert_eq!(is_ready, reasons.is_empty(), "{answer:?}");
    (is_ready, said["state"].as_str().unwrap().to_owned(), reasons.join("; "))
}

/// Waits until it is not ready for this reason, which `walpost status` has to say too.
#[track_caller]
pub(crate) fn assert_told(rig: &Rig, relay: &Relay, state: &str, reason: &str) {
    wait_until_unready(relay, state, reason);
    let said = status(rig, relay);
    let findings = said["findings"].to_string();
    assert!(said["healthy"] == false && findings.contains(reason), "{reason:?} is not in {said}");
}

/// What `walpost status --json` says of this relay. It has to end with 10 if it finds anything, and with 0 if not.
#[track_caller]
pub(crate) fn status(rig: &Rig, relay: &Relay) -> Value {
    let ended = rig.status_of(relay, &["--json"]);
    let said: Value = serde_json::from_str(&ended.output).unwrap();
    ended.assert_said(if said["healthy"] == true { 0 } else { 10 }, &[]);
    said
}

#[track_caller]
pub(crate) fn wait_until_ready(relay: &Relay) {
    eventually("the relay to be ready", || readiness(relay).0);
}

/// Waits until it is not ready in this state and for a reason that contains these words; it has to live all the while.
#[track_caller]
pub(crate) fn wait_until_unready(relay: &Relay, state: &str, words: &str) {
    eventually(&format!("{state}: {words}"), || {
        assert_eq!(relay.get("/livez", LIMIT).unwrap().status, 200);
        let (is_ready, found, reasons) = readiness(relay);
        !is_ready && found == state && reasons.contains(words)
    });
}

#[test]
fn a_relay_that_streams_is_ready_and_its_figures_are_those_of_the_server() {
    let rig = Rig::ready("figures", &["public.outbox"]);
    let relay = rig.start_streaming();
    wait_until_ready(&relay);
    rig.insert("key", 0, 50);
    eventually("fifty acknowledged records", || value(&relay, "walpost_delivered_records_total", &[]) >= 50.0);
    let topics = rig.outboxes[0].topics();
    eventually("fifty events of one topic", || {
        let page = metrics(&relay);
        let events = |topic| page.value("walpost_events_total", &[("outbox", "public.outbox"), ("topic", topic)]);
        topics.iter().any(|topic| events(topic) == Some(50.0))
    });
    // Nothing is owed and nothing comes, so it is level with the server, and stays so.
    eventually("the relay to be level with the server", || value(&relay, "walpost_behind_seconds", &[]) == 0.0);
    eventually("the slot's reader", || {
        value(&relay, "walpost_slot_active_pid", &[]) == f64::from(rig.walsender().unwrap_or_default())
    });
    eventually("a checkpoint", || value(&relay, "walpost_checkpoints_total", &[("outcome", "written")]) >= 1.0);
    let page = metrics(&relay);
    let position = |name: &str| page.value(&format!("walpost_{name}_position_bytes"), &[]).unwrap();
    assert!(
        position("received") >= position("watermark")
            && position("watermark") >= position("checkpointed")
            && position("checkpointed") >= position("confirmed"),
        "{page:?}"
    );
    while_locked(&rig.database, "CREATE TABLE held ()", || {
        eventually("an open transaction", || value(&relay, "walpost_server_oldest_writer_seconds", &[]) >= 1.0);
    });
    assert_eq!(page.value("walpost_slot_wal_status", &[("status", "reserved")]), Some(1.0));
    assert!(page.value("process_resident_memory_bytes", &[]).unwrap() > 1e6);
    rig.call(&["status"]).assert_said(0, &["all is well", "process"]);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_broker_that_freezes_makes_the_relay_unready_within_seconds_and_one_that_answers_again_ready() {
    let kafka = breakable_kafka();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "frozen", &["public.outbox"]);
    rig.configure(|config| config.set("http", "stalled_after_ms", "3000"));
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    eventually("ten acknowledged records", || value(&relay, "walpost_delivered_records_total", &[]) >= 10.0);
    wait_until_ready(&relay);
    kafka.sigstop().unwrap();
    rig.insert("key", 10, 20);
    wait_until_unready(&relay, "streaming", "not acknowledged anything");
    assert_eq!(metrics(&relay).value("walpost_owed_records", &[]), Some(20.0));
    // Each counts from a moment of its own.
    for figure in ["walpost_unacknowledged_seconds", "walpost_behind_seconds"] {
        eventually(figure, || value(&relay, figure, &[]) >= 3.0);
    }
    kafka.sigcont().unwrap();
    wait_until_ready(&relay);
    eventually("everything to be settled", || value(&relay, "walpost_behind_seconds", &[]) == 0.0);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_topic_that_is_missing_is_a_hold_with_its_name() {
    let mut rig = Rig::empty("closed");
    rig.sql("CREATE TABLE outbox (id bigint, aggregatetype text, aggregateid text, payload text)");
    let route = rig.topic("${routedByValue}");
    rig.configure(|config| config.outbox("outbox", &[("route.topic.replacement", &route)]));
    rig.init();
    let relay = rig.start_streaming();
    wait_until_ready(&relay);
    rig.sql("INSERT INTO outbox VALUES (1, 'missing', 'key', 'text')");
    wait_until_unready(&relay, "holding", &rig.topic("missing"));
    let page = metrics(&relay);
    assert!(page.value("walpost_undelivered_records_total", &[("class", "route")]) >= Some(1.0), "{page:?}");
    assert!(page.value("walpost_held_seconds", &[("class", "route")]).is_some(), "{page:?}");
    relay.kill9().unwrap();
}

#[test]
fn a_relay_that_stands_by_lives_and_names_who_has_the_slot_until_it_takes_over() {
    let rig = Rig::ready("standby", &["public.outbox"]);
    let first = rig.start_streaming();
    let holder = rig.walsender().unwrap();
    let second = rig.start();
    wait_until_unready(&second, "standing_by", &format!("process {holder}"));
    assert_eq!(metrics(&second).value("walpost_behind_seconds", &[]), None);
    eventually("the figures of the slot", || value(&second, "walpost_slot_active_pid", &[]) == f64::from(holder));
    first.kill9().unwrap();
    wait_until_ready(&second);
    second.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_connection_that_is_cut_is_counted_and_while_there_is_none_the_relay_says_so() {
    let proxy = Proxy::to_port(shared_postgres().port()).unwrap();
    let mut rig = Rig::ready("parting", &["public.outbox"]);
    rig.reach_by_port(proxy.port());
    let relay = rig.start_streaming();
    wait_until_ready(&relay);
    proxy.refuse();
    proxy.cut(Cut::Reset);
    wait_until_unready(&relay, "reconnecting", "the stream has been down for");
    eventually("the figures of the slot to be missed", || {
        value(&relay, "walpost_slot_query_failures_total", &[]) >= 1.0
    });
    eventually("the relay to fall behind", || value(&relay, "walpost_behind_seconds", &[]) >= 1.0);
    proxy.pass();
    wait_until_ready(&relay);
    assert!(value(&relay, "walpost_reconnects_total", &[("cause", "source_lost")]) >= 1.0, "{:?}", metrics(&relay));
    eventually("the relay to be level again", || value(&relay, "walpost_behind_seconds", &[]) == 0.0);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_checkpoint_that_cannot_be_written_makes_the_relay_unready() {
    let mut rig = Rig::ready("unsaved", &["public.outbox"]);
    rig.configure(|config| config.set("http", "stalled_after_ms", "2000"));
    let relay = rig.start_streaming();
    wait_until_ready(&relay);
    while_locked(&rig.database, "LOCK TABLE walpost.checkpoint", || {
        rig.insert("key", 0, 10);
        wait_until_unready(&relay, "streaming", "the checkpoint store");
        assert!(value(&relay, "walpost_checkpoint_due_seconds", &[]) >= 2.0);
    });
    wait_until_ready(&relay);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_relay_that_was_frozen_answers_again_and_is_ready_again() {
    let rig = Rig::ready("iced", &["public.outbox"]);
    let relay = rig.start_streaming();
    wait_until_ready(&relay);
    relay.sigstop().unwrap();
    // The kernel stops one thread after another.
    eventually("no answer of a process that is stopped", || relay.get("/livez", LIMIT).is_err());
    relay.sigcont().unwrap();
    eventually("the relay to live", || relay.get("/livez", LIMIT).is_ok_and(|answer| answer.status == 200));
    wait_until_ready(&relay);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_second_relay_at_the_same_address_is_told_which_key_to_change() {
    let mut rig = Rig::ready("address", &["public.outbox"]);
    let relay = rig.start_streaming();
    let address = relay.http_address(LIMIT).unwrap();
    wait_until_ready(&relay);
    rig.configure(|config| config.set("http", "listen", &format!("\"{address}\"")));
    rig.start().wait(LIMIT).unwrap().assert_said(3, &["http.listen", &address.to_string(), "is in use", "\"off\""]);
    rig.call(&["status"]).assert_said(0, &["ready, streaming"]);
    rig.configure(|config| config.set("http", "listen", "\"off\""));
    let second = rig.start();
    second.wait_for_log("standing by", LIMIT).unwrap();
    assert!(!second.log().contains("serving /metrics"), "{}", second.log());
    assert!(relay.is_running());
}

#[test]
fn status_says_from_outside_what_is_not_well_and_ends_with_10() {
    let rig = Rig::ready("status", &["public.outbox"]);
    let name = rig.database.name();
    let words = ["no relay reads the slot", "walpost run", "read by nobody", "letters:    none"];
    rig.call(&["status"]).assert_said(10, &words);
    rig.sql("DROP TABLE walpost.dead_letter");
    rig.call(&["status"]).assert_said(10, &["letters:    the table walpost.dead_letter does not exist"]);
    rig.init();
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    eventually("a relay that is well", || rig.call(&["status"]).code() == Some(0));
    let told: Value = serde_json::from_str(&rig.call(&["status", "--json"]).output).unwrap();
    assert_eq!((&told["healthy"], &told["slot"]["name"], &told["relay"]), (&true.into(), &name.into(), &name.into()));
    assert!(told["slot"]["retained_bytes"].is_u64() && told["checkpoint"]["position"].is_string(), "{told}");
    let lie = |letters: i64| serde_json::json!({"exists": true, "letters": letters, "roots": letters, "keys": letters, "parked_bytes": 0, "marked": 0, "oldest_seconds": null});
    assert_eq!(told["dead_letters"], lie(0), "{told}");
    relay.stop(LIMIT).unwrap().assert_success();
    rig.sql(&format!("ALTER PUBLICATION {name} DROP TABLE outbox"));
    rig.call(&["status"]).assert_said(10, &["passed over", "walpost init"]);
    rig.sql(&format!("SELECT pg_drop_replication_slot('{name}')"));
    let ended = rig.call(&["status", "--json"]);
    ended.assert_said(10, &["\"exists\":false", "\"healthy\":false"]);
    rig.call(&["status"]).assert_said(10, &["slot:       ", "does not exist", "not well:"]);
}

#[test]
fn status_says_when_the_database_cannot_be_asked() {
    let proxy = Proxy::to_port(shared_postgres().port()).unwrap();
    let mut rig = Rig::ready("unasked", &["public.outbox"]);
    rig.reach_by_port(proxy.port());
    rig.configure(|config| config.set("source", "connect_timeout_ms", "2000"));
    proxy.refuse();
    rig.call(&["status"]).assert_said(10, &["the database cannot be asked"]);
    rig.call(&["status", "--json"]).assert_said(10, &["\"healthy\":false", "\"slot\":null"]);
}

#[test]
fn the_page_about_monitoring_has_every_figure_and_names_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/monitoring.md");
    let page = std::fs::read_to_string(path).unwrap();
    let [opening, closing] = manual::MARKS;
    let generated = format!("{opening}{}{closing}", manual::render());
    assert!(page.contains(&generated), "docs/monitoring.md is stale; between its marks has to stand:\n{generated}");
    let is_part_of_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let named = page.split(|c| !is_part_of_name(c)).filter(|word| word.starts_with("walpost_"));
    let unknown: Vec<_> = named.filter(|word| METRICS.iter().all(|metric| metric.name != *word)).collect();
    assert_eq!(unknown, Vec::<&str>::new(), "docs/monitoring.md names figures that there are none of");
}

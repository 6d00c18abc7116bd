//! What is told of secrets and of what rows hold: by the relay at the level that says most, and by every command. A secret by none; a payload where one asks
//! for it, by `walpost dlq show`; a key there and where letters are listed by it.

use walpost_testkit::relay::{Config, Ended, Relay, Walpost, toml_string};

use super::{EVERYTHING, PASSWORD, TELLTALE, create_role, grants, guarded_kafka, guarded_postgres, log_in, reach};
use crate::rig::{LIMIT, Rig, WALPOST, eventually};

/// Words of the rows' payloads and of their key, which nothing else says.
const PAYLOAD: &str = "opal";
const KEY: &str = "ruby";

/// Fails where one of these words was said.
#[track_caller]
fn assert_untold(what: &str, said: &str, words: &[&str]) {
    let told = words.iter().find_map(|word| said.lines().find(|line| line.contains(word)));
    assert!(told.is_none(), "{what} told: {}", told.unwrap_or_default());
}

/// The same of all that a command said.
#[track_caller]
fn assert_silent(what: &str, ended: &Ended, words: &[&str]) {
    assert_untold(what, &format!("{}\n{}", ended.output, ended.log), words);
}

/// A relay that comes to both servers with a password, and the URL of its database.
fn with_passwords(label: &str) -> (Rig, String) {
    let mut rig = Rig::ready_on(guarded_postgres().endpoint(), guarded_kafka().endpoint(), label, &["public.outbox"]);
    let role = format!("{}_role", rig.database.name());
    rig.sql(&format!(
        "{}; {}; GRANT SELECT ON outbox TO {role}; ALTER TABLE outbox ADD made timestamptz DEFAULT now()",
        create_role(&role),
        grants(&role)
    ));
    let url = rig.database.endpoint().url_for(&role, Some(PASSWORD), rig.database.name());
    reach(&mut rig, &url);
    log_in(&mut rig, "walpost", "SCRAM-SHA-512", "pearl-of-kafka");
    rig.configure(|config| config.set("sink.kafka", "debug", r#""all""#).set("log", "level", EVERYTHING));
    (rig, url)
}

/// Inserts a row with so much filling.
fn insert(rig: &Rig, seq: u32, filling: u32) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', '{KEY}', 'Changed', \
         jsonb_build_object('stone', '{PAYLOAD}', 'filling', (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, {filling}))), {seq}"
    ));
}

/// One row is published, one is too large for its topic, and one waits behind it; the connection is lost, and the letter is not taken at first.
fn live_through(rig: &Rig, relay: &Relay, is_in_topic: bool) {
    let letters = || rig.call(&["dlq", "list", "--json"]).output.lines().count();
    rig.limit_records(100_000);
    insert(rig, 0, 1);
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    if !is_in_topic {
        rig.sql("ALTER TABLE walpost.dead_letter ADD CONSTRAINT never CHECK (reason = '') NOT VALID");
    }
    insert(rig, 1, 10_000);
    insert(rig, 2, 1);
    if !is_in_topic {
        relay.wait_for_log("violates check constraint", LIMIT).unwrap();
        rig.sql("ALTER TABLE walpost.dead_letter DROP CONSTRAINT never");
    }
    eventually("the letters", || letters() == 2);
    rig.sql(&format!("SELECT pg_terminate_backend({})", rig.walsender().unwrap()));
    relay.wait_for_log("trying again", LIMIT).unwrap();
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    // Tried again, and too large still.
    eventually("the letter to have come back", || {
        rig.call(&["dlq", "list", "--json", "--cause", "row"]).output.contains("\"attempts\":2")
    });
}

/// Every command that does not show letters.
const COMMANDS: &[&[&str]] = &[
    &["config", "check"],
    &["check"],
    &["init", "--dry-run"],
    &["init"],
    &["status"],
    &["status", "--json"],
    &["checkpoint", "show"],
    &["repair"],
    &["repair", "--json"],
];

/// Those that say more where nobody reads the slot.
const OF_AN_IDLE_SLOT: &[&[&str]] = &[
    &["status"],
    &["repair", "--json"],
    &["repair", "--adopt-slot"],
    &["repair", "--fill", "--by", "made", "--since", "2026-01-01T00:00:00Z"],
];

/// Those that list letters, by keys.
const LISTS: &[&[&str]] =
    &[&["dlq", "list"], &["dlq", "list", "--json"], &["dlq", "replay", "--all"], &["dlq", "drop", "--key", KEY]];

#[track_caller]
fn assert_discreet_all_along(label: &str, is_in_topic: bool) {
    let (mut rig, url) = with_passwords(label);
    if is_in_topic {
        rig.keep_all_in_kafka();
        let by_owner = rig.database.url();
        reach(&mut rig, &by_owner);
        rig.call(&["checkpoint", "adopt-slot"]).assert_success();
        rig.init();
        reach(&mut rig, &url);
    }
    let relay = rig.start_streaming();
    live_through(&rig, &relay, is_in_topic);
    for path in ["/metrics", "/readyz", "/livez"] {
        let answer = relay.get(path, LIMIT).unwrap();
        assert_untold(path, &answer.body, &[TELLTALE, PAYLOAD, KEY]);
    }
    for command in COMMANDS {
        assert_silent(&command.join(" "), &rig.call(command), &[TELLTALE, PAYLOAD, KEY]);
    }
    for command in LISTS {
        let ended = rig.call(command);
        ended.assert_said(0, &[KEY]);
        assert_silent(&command.join(" "), &ended, &[TELLTALE, PAYLOAD]);
    }
    let ended = relay.stop(LIMIT).unwrap();
    ended.assert_success();
    assert!(ended.log.contains("DEBUG walpost"), "{}", ended.log);
    assert_silent("run", &ended, &[TELLTALE, PAYLOAD, KEY]);
    for command in OF_AN_IDLE_SLOT {
        assert_silent(&command.join(" "), &rig.call(command), &[TELLTALE, PAYLOAD, KEY]);
    }
    let listed = rig.call(&["dlq", "list", "--json", "--cause", "row"]).output;
    let id = listed.split("\"id\":").nth(1).and_then(|rest| rest.split(',').next()).unwrap().to_owned();
    let ended = rig.call(&["dlq", "show", &id]);
    ended.assert_said(0, &[KEY, PAYLOAD]);
    assert_silent("dlq show", &ended, &[TELLTALE]);
}

#[test]
fn with_letters_in_the_table_no_secret_is_told_no_payload_but_by_dlq_show_and_no_key_but_with_its_letters() {
    assert_discreet_all_along("told", false);
}

#[test]
fn with_letters_in_a_topic_no_secret_is_told_no_payload_but_by_dlq_show_and_no_key_but_with_its_letters() {
    assert_discreet_all_along("told_by_topic", true);
}

#[test]
fn a_password_that_is_wrong_is_told_by_no_command() {
    let (mut rig, url) = with_passwords("mistaken");
    log_in(&mut rig, "walpost", "SCRAM-SHA-512", "pearls before swine");
    for command in COMMANDS.iter().chain(&[&["run"][..], &["dlq", "list"]]) {
        assert_silent(&command.join(" "), &rig.call(command), &[TELLTALE, "swine"]);
    }
    let wrong = url.replace("pearl", "pearlless");
    assert_ne!(wrong, url);
    reach(&mut rig, &wrong);
    for command in COMMANDS.iter().chain(&[&["run"][..], &["dlq", "list"]]) {
        assert_silent(&command.join(" "), &rig.call(command), &[TELLTALE, "swine"]);
    }
}

#[test]
fn a_configuration_that_cannot_be_read_is_refused_without_the_secrets_in_it() {
    let walpost = Walpost::new(&*WALPOST, &Config::default()).unwrap();
    let url = "postgres://u:pearl@127.0.0.1:1/app";
    let good = format!("url = {}", toml_string(url));
    let cases: &[(&str, &str)] = &[
        (&format!("url = \"{url}"), ""),
        (&format!("url = {url}"), ""),
        (&format!("url = [{}]", toml_string(url)), ""),
        (&format!("{good}\n{good}"), ""),
        (&format!("urll = {}", toml_string(url)), ""),
        (&format!("url = {}", toml_string(&url.replace("127.0.0.1:1", "127.0.0.1:port"))), ""),
        (&format!("url = {}", toml_string(&url.replace("postgres:", "postgre:"))), ""),
        (&good, "\"sasl.password\" = \"pearl"),
        (&good, "\"sasl.password\" = pearl"),
        (&good, "\"sasl.password\" = [\"pearl\"]"),
        (&good, "\"sasl.passwrd\" = \"pearl\""),
        (&good, "\"sasl.password\" = \"pearl\"\n\"sasl.password\" = \"pearl\""),
    ];
    for (source, kafka) in cases {
        let text = format!(
            "[source]\n{source}\n[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"127.0.0.1:1\"\n{kafka}\n[[outbox]]\ntable = \"public.outbox\"\n"
        );
        walpost.configure_as(&text).unwrap();
        for command in [&["config", "check"][..], &["run"], &["status"]] {
            let ended = walpost.call(command).unwrap();
            assert_eq!(ended.code(), Some(3), "{text}\n{}", ended.log);
            assert_silent(&text, &ended, &[TELLTALE]);
        }
    }
}

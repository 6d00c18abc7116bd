//! The operator's side.

use serde_json::Value;
use walpost_testkit::relay::toml_string;

use super::*;

/// What `--json` printed, an object a line.
#[track_caller]
fn objects(ended: &Ended) -> Vec<Value> {
    ended.assert_success();
    ended.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The numbers of the letters that fit.
#[track_caller]
fn fitting(desk: &Desk, options: &[&str]) -> Vec<i64> {
    let listed = desk.dlq(&[&["list", "--json"], options].concat());
    objects(&listed).iter().map(|letter| letter["id"].as_i64().unwrap()).collect()
}

#[test]
fn without_its_table_every_command_says_how_it_is_made() {
    let desk = Desk::on(shared_postgres().fresh_database("without").unwrap());
    for arguments in
        [&["list"][..], &["show", "1"], &["replay", "--all"], &["drop", "--all", "--yes"], &["unmark", "--id", "1"]]
    {
        desk.dlq(arguments).assert_said(4, &["walpost.dead_letter does not exist", "run: walpost init"]);
    }
}

#[test]
fn letters_are_listed_in_lines_that_fit_a_terminal() {
    let mut desk = Desk::new("listed");
    desk.dlq(&["list"]).assert_said(0, &["no letter fits"]);
    two_queues(&mut desk);
    desk.set_aside(&[letter(7, &"東京 größe\u{1b}[2J'\"".repeat(9), bad(&"a long reason, ".repeat(30)))]);
    let listed = desk.dlq(&["list"]);
    listed.assert_said(
        0,
        &[
            "ID  STATE    CAUSE",
            "waits for a letter of its key",
            "the topic is missing",
            "東京 größe\\u{1b}",
            "7 letters",
        ],
    );
    assert!(listed.output.lines().all(|line| line.chars().count() <= 120), "{}", listed.output);
    desk.dlq(&["list", "--limit", "2"]).assert_said(0, &["the first 2 of 7 letters", "raise --limit"]);
}

#[test]
fn a_long_list_comes_in_pages_and_is_whole() {
    let mut desk = Desk::new("pages");
    let letters: Vec<_> = (0..2500).map(|ordinal| letter(ordinal, "a", bad("odd"))).collect();
    desk.set_aside(&letters);
    assert_eq!(fitting(&desk, &["--limit", "100000"]), (1..=2500).collect::<Vec<_>>());
    assert_eq!(fitting(&desk, &["--limit", "2000"]), (1..=2000).collect::<Vec<_>>());
    assert_eq!(fitting(&desk, &[]).len(), 100);
    desk.dlq(&["list", "--help"]).assert_said(0, &["The first so many of them [default: 100]"]);
    let all = desk.dlq(&["list", "--limit", "2500"]);
    all.assert_said(0, &["\n2500 letters"]);
    assert_eq!(all.output.lines().filter(|line| line.starts_with("ID ")).count(), 1);
    desk.dlq(&["list", "--limit", "2499"]).assert_said(0, &["the first 2499 of 2500 letters"]);
}

#[test]
fn each_filter_picks_its_letters_and_all_of_them_together() {
    let mut desk = Desk::new("filters");
    two_queues(&mut desk);
    let elsewhere = TableName { schema: "Order Desk".to_owned(), table: "Out\"Box".to_owned() };
    let mut quoted = letter(6, "it's \"a\" \\ key", bad("Conversion of GRÖSSE failed"));
    quoted.table = elsewhere;
    quoted.record = None;
    desk.set_aside(&[quoted]);
    desk.database
        .psql("UPDATE walpost.dead_letter SET first_at = now() - interval '3 hours' WHERE id <= 2; \
               UPDATE walpost.dead_letter SET state = 'sent', ended_at = now() WHERE id = 3; UPDATE walpost.dead_letter SET state = 'drop' WHERE id = 6")
        .unwrap();
    let now =
        desk.value("SELECT to_char(now() AT TIME ZONE 'UTC' - interval '1 hour', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')");
    let cases: &[(&[&str], &[i64])] = &[
        (&[], &[1, 2, 4, 5, 6, 7]),
        (&["--id", "5,1", "--id", "7"], &[1, 5, 7]),
        (&["--key", "a"], &[1, 2]),
        (&["--key", "it's \"a\" \\ key"], &[7]),
        (&["--key", "a%"], &[]),
        (&["--outbox", r#""Order Desk"."Out""Box""#], &[7]),
        (&["--outbox", "outbox"], &[1, 2, 4, 5, 6]),
        (&["--topic", "orders"], &[1, 2, 4, 5, 6]),
        (&["--reason", "TOO large"], &[1]),
        (&["--reason", "failed"], &[7]),
        (&["--cause", "route,parked"], &[2, 4, 5]),
        (&["--state", "sent", "--state", "drop"], &[3, 6]),
        (&["--since", "1h"], &[4, 5, 6, 7]),
        (&["--until", &now], &[1, 2]),
        (&["--since", &now, "--until", "0s", "--key", "b"], &[4, 5]),
        (&["--limit", "2", "--since", "1h"], &[4, 5]),
    ];
    for (options, expected) in cases {
        assert_eq!(fitting(&desk, options), *expected, "{options:?}");
    }
}

#[test]
fn the_json_of_a_letter_has_stable_names() {
    let mut desk = Desk::new("json");
    two_queues(&mut desk);
    let listed = objects(&desk.dlq(&["list", "--json", "--id", "1"])).remove(0);
    let names: Vec<&str> = listed.as_object().unwrap().keys().map(String::as_str).collect();
    let mut expected = [
        "id",
        "state",
        "cause",
        "reason",
        "attempts",
        "outbox",
        "event_id",
        "route",
        "key",
        "topic",
        "timeline",
        "commit_lsn",
        "ordinal",
        "commit_time",
        "first_at",
        "last_at",
        "marked_by",
        "marked_at",
        "ended_at",
        "bytes",
    ];
    expected.sort_unstable();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
    assert_eq!((&listed["key"], &listed["commit_lsn"]), (&"a".into(), &"16/B3748000".into()));
    assert_eq!(listed["commit_time"], "2025-05-08T06:13:20.123456Z");
    let shown = objects(&desk.dlq(&["show", "1", "--json"])).remove(0);
    assert_eq!(shown["record"]["headers"], serde_json::json!([["id", "event-0"]]));
    assert_eq!(shown["record"]["payload"], "{\"n\": 0}");
    assert_eq!(shown["row"], serde_json::json!([["id", "event-0"], ["aggregateid", "a"], ["payload", "{\"n\": 0}"]]));
}

#[test]
fn a_letter_is_shown_with_its_record_and_its_row() {
    let mut desk = Desk::new("shown_letter");
    let mut odd = letter(0, "größe", bad("the record\nis too large"));
    if let Some(record) = &mut odd.record {
        record.value = Some(Bytes::from_static(b"\xff\x00"));
        record.headers.push(Header { name: "null".into(), value: None });
    }
    let bare = DeadLetter {
        record: None,
        parking_key: None,
        row: row("event-1", None, Some(b"p")),
        ..letter(1, "", bad("no key"))
    };
    desk.set_aside(&[odd, bare]);
    let words = [
        "letter:     1",
        "state:      waiting",
        r"row: the record\nis too large",
        "tried once",
        "public.outbox",
        "event-0",
        "größe",
        "insert 0 of the transaction that commits at 16/B3748000 on timeline 1",
        "topic:      orders",
        "header:     id = event-0",
        "header:     null = NULL",
        "payload:    2 bytes",
        r"\xff00",
        "aggregateid: größe",
    ];
    desk.dlq(&["show", "1"]).assert_said(0, &words);
    let second = desk.dlq(&["show", "2"]);
    second.assert_said(0, &["key:        none", "aggregateid: NULL", "payload: p"]);
    assert!(!second.output.contains("record:"), "{}", second.output);
    desk.dlq(&["show", "2", "--payload"]).assert_said(2, &["has no record"]);
    desk.dlq(&["show", "3"]).assert_said(2, &["there is no letter 3", "walpost dlq list"]);
}

#[test]
fn what_can_fit_no_letter_or_fits_all_by_mistake_is_refused_and_a_key_is_whatever_it_is() {
    let mut desk = Desk::new("nonsense");
    let keys = ["", "-rf", "--all", "new\nline", "esc\u{1b}[2J", "it's $HOME", "a,b", "größe"];
    let keyed = |(ordinal, key): (u64, &str)| letter(ordinal, key, bad("odd"));
    desk.set_aside(&(0..).zip(keys).map(keyed).collect::<Vec<_>>());
    for (id, key) in (1..).zip(keys) {
        assert_eq!(fitting(&desk, &["--key", key]), [id], "{key:?}");
    }
    let before = desk.states();
    for command in ["list", "replay", "drop"] {
        desk.dlq(&[command, "--since", "1h", "--until", "2h"]).assert_said(2, &["--until is not later than --since"]);
        let times = ["--since", "2026-01-02T00:00:00Z", "--until", "2026-01-01T00:00:00Z"];
        desk.dlq(&[&[command], &times[..]].concat()).assert_said(2, &["--until is not later than --since"]);
        desk.dlq(&[command, "--reason", ""]).assert_said(2, &["write a part of the reason", "--all"]);
        desk.dlq(&[command, "--since", "99999999d"]).assert_said(2, &["write a time such as"]);
    }
    assert_eq!(desk.states(), before);
    desk.dlq(&["unmark", "--id", "1", "--state", "waiting", "--yes"]).assert_said(0, &["nothing was changed"]);
    desk.set_aside(&[letter(20, "new\nline", Cause::Parked)]);
    let dropped = desk.dlq(&["drop", "--id", "4"]);
    dropped.assert_said(0, &[r"walpost dlq drop --state waiting,replay --outbox public.outbox --key $'new\nline'"]);
}

#[test]
fn nothing_is_marked_without_yes_nor_without_saying_which() {
    let mut desk = Desk::new("preview");
    two_queues(&mut desk);
    let before = desk.states();
    for command in ["replay", "drop", "unmark"] {
        desk.dlq(&[command]).assert_said(2, &["say which letters", "--all"]);
        desk.dlq(&[command, "--yes", "--limit", "1"]).assert_said(2, &["say which letters", "--all"]);
        desk.dlq(&[command, "--state", "sent"]).assert_said(2, &["has ended"]);
    }
    desk.dlq(&["replay", "--all"])
        .assert_said(0, &["this would mark 6 letters to be sent again, of 3 keys", "add --yes"]);
    desk.dlq(&["replay", "--key", "nobody", "--yes"]).assert_said(0, &["no letter fits that could be marked"]);
    assert_eq!(desk.states(), before);
}

#[test]
fn a_replay_takes_along_what_waits_behind_and_tells_what_stands_in_front() {
    let mut desk = Desk::new("replay");
    two_queues(&mut desk);
    let preview = desk.dlq(&["replay", "--id", "2"]);
    preview.assert_said(
        0,
        &[
            "mark 2 letters",
            "of 1 key:",
            "in front of them stand letters that are not marked",
            "--outbox public.outbox --key a",
        ],
    );
    desk.dlq(&["replay", "--reason", "large", "--yes"]).assert_said(
        0,
        &["3 letters are marked", "a relay that runs sends them within seconds", "walpost dlq list --state replay"],
    );
    assert_eq!(desk.states(), "1 replay, 2 replay, 3 replay, 4 waiting, 5 waiting, 6 waiting");
    desk.dlq(&["replay", "--id", "4", "--yes"]).assert_said(0, &["2 letters are marked"]);
    assert_eq!(desk.next(), [1, 2, 3, 4, 5]);
    let by = desk
        .value("SELECT DISTINCT marked_by FROM walpost.dead_letter WHERE state = 'replay' AND marked_at > first_at");
    assert!(by.starts_with("postgres (alice@"), "{by}");
}

#[test]
fn a_drop_says_what_goes_by_itself_behind_it_and_how_that_is_given_up_too() {
    let mut desk = Desk::new("drop");
    two_queues(&mut desk);
    let all_of_a = "walpost dlq drop --state waiting,replay --outbox public.outbox --key a";
    let words = ["this would mark 1 letter to be given up", "behind them 2 letters go by themselves then", all_of_a];
    desk.dlq(&["drop", "--id", "1"]).assert_said(0, &words);
    desk.dlq(&["drop", "--id", "4"]).assert_said(0, &["behind them 1 letter goes by itself then"]);
    desk.dlq(&["drop", "--id", "1,4"]).assert_said(0, &["behind them 3 letters go by themselves then", all_of_a]);
    let whole = desk.dlq(&["drop", "--key", "a"]);
    whole.assert_said(0, &["this would mark 3 letters"]);
    assert!(!whole.output.contains("behind them"), "{}", whole.output);
    // One with a reason of its own, between others of its key.
    desk.set_aside(&[letter(7, "a", bad("odd")), letter(8, "a", Cause::Parked)]);
    let words = [
        "behind them 2 letters go by themselves then",
        "behind them 2 letters are left to wait",
        "walpost dlq list --state waiting --outbox public.outbox --key a",
    ];
    desk.dlq(&["drop", "--id", "1"]).assert_said(0, &words);
    let both = desk.dlq(&["drop", "--id", "1,7"]);
    both.assert_said(0, &["behind them 1 letter goes by itself then"]);
    assert!(!both.output.contains("in front of them") && !both.output.contains("left to wait"), "{}", both.output);
    desk.dlq(&["drop", "--id", "7"]).assert_said(0, &["in front of them stand letters", "1 letter is left to wait"]);

    desk.dlq(&["drop", "--id", "1", "--yes"])
        .assert_said(0, &["1 letter is marked", "2 letters go by themselves then"]);
    assert_eq!(desk.states(), "1 drop, 2 waiting, 3 waiting, 4 waiting, 5 waiting, 6 waiting, 7 waiting, 8 waiting");
    // What is marked to be given up is not sent by a wider replay.
    desk.dlq(&["replay", "--outbox", "public.outbox", "--key", "a", "--yes"]).assert_said(0, &["4 letters are marked"]);
    assert_eq!(desk.states(), "1 drop, 2 replay, 3 replay, 4 waiting, 5 waiting, 6 waiting, 7 replay, 8 replay");
    desk.dlq(&["unmark", "--key", "a", "--state", "replay", "--yes"])
        .assert_said(0, &["4 letters are not marked any more", "wait until they are marked again"]);
    desk.dlq(&["drop", "--id", "1", "--state", "drop"]).assert_said(0, &["behind them 4 letters are left to wait"]);
    desk.dlq(&["replay", "--id", "1", "--state", "drop", "--yes"]).assert_said(0, &["5 letters are marked"]);
    desk.conclude(1, Conclusion::Sent);
    desk.dlq(&["unmark", "--all", "--yes"]).assert_said(0, &["4 letters are not marked any more"]);
    assert_eq!(fitting(&desk, &["--state", "sent"]), [1]);
}

#[test]
fn what_an_operator_unmarks_lies_there_until_it_is_marked_again_and_what_the_relay_marked_can_be_unmarked_too() {
    let mut desk = Desk::new("unmarked");
    two_queues(&mut desk);
    // Not marked, and told to wait all the same.
    desk.dlq(&["unmark", "--key", "b", "--state", "waiting", "--yes"])
        .assert_said(0, &["1 letter is not marked any more"]);
    desk.dlq(&["unmark", "--key", "b", "--state", "waiting", "--yes"]).assert_said(0, &["nothing was changed"]);
    desk.dlq(&["drop", "--id", "1,4", "--yes"])
        .assert_said(0, &["2 letters go by themselves", "1 letter is left to wait"]);
    desk.conclude(1, Conclusion::Dropped);
    desk.conclude(4, Conclusion::Dropped);
    assert_eq!(desk.states(), "1 dropped, 2 replay, 3 replay, 4 dropped, 5 waiting, 6 waiting");
    desk.dlq(&["show", "2"]).assert_said(0, &["marked:     by walpost (it follows what stood in front of it)"]);
    desk.dlq(&["unmark", "--id", "2", "--yes"]).assert_said(0, &["1 letter is not marked any more"]);
    assert_eq!(desk.next(), [0; 0], "and the one behind it waits for it");
    let mut again = store_of(&desk.database, desk.database.name());
    desk.wait(again.inventory()).unwrap();
    desk.set_aside(&[letter(8, "b", Cause::Parked)]);
    assert_eq!(desk.states(), "1 dropped, 2 waiting, 3 replay, 4 dropped, 5 waiting, 6 waiting, 7 waiting");
    desk.dlq(&["replay", "--all", "--yes"]).assert_success();
    assert_eq!(desk.next(), [2, 3, 5, 6, 7]);
}

#[test]
fn where_letters_are_overtaken_a_replay_takes_none_along() {
    let mut desk = Desk::new("overtaken");
    let config = Config::new(&desk.database.url(), desk.database.name()).stdout().outbox("public.outbox", &[]).set(
        "dead_letter",
        "on_bad_row",
        &toml_string("dead_letter"),
    );
    desk.walpost.configure(&config).unwrap();
    two_queues(&mut desk);
    desk.dlq(&["replay", "--id", "2", "--yes"]).assert_said(0, &["1 letter is marked"]);
    assert_eq!(desk.states(), "1 waiting, 2 replay, 3 waiting, 4 waiting, 5 waiting, 6 waiting");
}

#[test]
fn init_makes_the_table_where_rows_may_be_set_aside_and_completes_what_is_missing() {
    let mut rig = crate::rig::Rig::with_tables("lettertable", &["public.outbox"]);
    rig.configure(|config| config.set("dead_letter", "on_bad_row", &toml_string("stop")));
    let dry = rig.call(&["init", "--dry-run"]);
    dry.assert_success();
    assert!(!dry.output.contains("dead_letter"), "{}", dry.output);
    rig.init();
    rig.call(&["check"]).assert_said(0, &["nothing keeps relay"]);
    rig.configure(|config| config.unset("dead_letter", "on_bad_row"));
    rig.call(&["check"]).assert_said(5, &["walpost.dead_letter", "does not exist", "run: walpost init", "on_bad_row"]);
    rig.call(&["init"])
        .assert_said(0, &["CREATE TABLE IF NOT EXISTS walpost.dead_letter", "the checkpoint stays as it is"]);
    rig.call(&["check"]).assert_said(0, &["nothing keeps relay"]);
    rig.sql("DROP INDEX walpost.dead_letter_open");
    rig.call(&["init"]).assert_said(0, &["CREATE INDEX IF NOT EXISTS dead_letter_open"]);
    rig.call(&["init"]).assert_said(0, &["-- everything is there already"]);
}

#[test]
fn a_number_that_no_letter_has_is_named_and_nothing_is_marked() {
    let mut desk = Desk::new("missing");
    two_queues(&mut desk);
    let before = desk.states();
    for (arguments, words) in [
        (&["replay", "--id", "1", "--id", "99", "--yes"][..], "there is no letter 99, and nothing was marked"),
        (&["drop", "--id", "98,1,99"], "there are no letters 98, 99"),
        (&["unmark", "--id", "99", "--yes"], "there is no letter 99"),
    ] {
        desk.dlq(arguments).assert_said(2, &[words, "walpost dlq list"]);
        assert_eq!(desk.states(), before);
    }
    desk.dlq(&["replay", "--id", "1,1", "--yes"]).assert_success();
}

//! The relay's side.

use std::time::{Duration, Instant};

use walpost_core::poison::{Inventory, Parked, Request};
use walpost_core::position::Place;
use walpost_core::record::Headers;
use walpost_postgres::dead_letter::Error;
use walpost_postgres::error::Class;
use walpost_testkit::servers::{Database, PostgresEndpoint};

use super::*;

/// The letter as it comes back once it is marked for replay.
#[track_caller]
fn round_trip(desk: &mut Desk, letter: &DeadLetter) -> DeadLetter {
    desk.set_aside(std::slice::from_ref(letter));
    desk.database.psql("UPDATE walpost.dead_letter SET state = 'replay' WHERE state = 'waiting'").unwrap();
    let [marked] = desk.marked(false).try_into().unwrap();
    assert_eq!(marked.request, Request::Replay);
    desk.conclude(marked.id.0, Conclusion::Sent);
    marked.letter
}

/// Letters that are hard to keep.
fn odd_letters() -> Vec<DeadLetter> {
    let header =
        |name: &str, value: Option<&[u8]>| Header { name: name.into(), value: value.map(Bytes::copy_from_slice) };
    let headers: Headers = vec![
        header("größe", Some("✓ 'quoted' \"twice\"\n".as_bytes())),
        header("same", Some(b"1")),
        header("same", Some(b"2")),
        header("null", None),
        header("empty", Some(b"")),
        header("bytes", Some(b"\xff\x00\\")),
    ]
    .into();
    let recorded = |ordinal, change: &dyn Fn(&mut Record)| {
        let mut letter = letter(ordinal, "k", bad("odd"));
        if let Some(record) = &mut letter.record {
            change(record);
        }
        letter
    };
    let keyed = |ordinal, route: Option<&'static [u8]>, key: &'static [u8]| DeadLetter {
        parking_key: Some(ParkingKey {
            table: outbox(),
            route: route.map(Bytes::from_static),
            key: Bytes::from_static(key),
        }),
        ..letter(ordinal, "k", bad("odd"))
    };
    let name = "n".repeat(63);
    // By a server whose clock is wrong.
    let before_1970 = Timestamp::from_postgres_micros(-1_000_000_000_000_001);
    let early = recorded(36, &|record| record.timestamp_ms = before_1970.unix_millis());
    vec![
        DeadLetter { commit_time: before_1970, ..early },
        recorded(10, &|record| record.headers = headers.clone()),
        recorded(11, &|record| record.value = None),
        recorded(12, &|record| record.value = Some(Bytes::new())),
        recorded(13, &|record| record.value = Some(Bytes::from_static(b"made by a \xff\x00 converter"))),
        recorded(14, &|record| {
            (record.key, record.partition) = (None, Some(7));
            (record.timestamp_ms, record.is_dated_by_row) = (-1, true);
        }),
        recorded(15, &|record| record.topic = "größe\0 \\ ".into()),
        keyed(20, None, b""),
        keyed(21, Some(b""), "größe 東京 ✓".as_bytes()),
        keyed(22, Some(b"it's \"quoted\"; \\ --"), br"back\slash\x00"),
        keyed(23, Some(b"latin \xe4"), b"no text \xff"),
        DeadLetter { parking_key: None, ..letter(30, "k", bad("no key")) },
        DeadLetter { event_id: None, record: None, ..letter(31, "k", bad("größe: → ✓ \\ \0")) },
        DeadLetter {
            parking_key: None,
            table: TableName { schema: name.clone(), table: format!("{}\"'ü", "t".repeat(50)) },
            ..letter(32, "k", Cause::Route("long names".to_owned()))
        },
        DeadLetter {
            row: Row { insert: Bytes::from_static(b"\0\xff"), ..Row::default() },
            ..letter(33, "k", bad("row"))
        },
        DeadLetter { cause: Cause::Parked, ..letter(34, "k", Cause::Parked) },
        letter(u64::MAX / 2, "k", bad("a large ordinal")),
    ]
}

#[test]
fn a_letter_comes_back_as_it_was_set_aside() {
    let mut desk = Desk::new("letters");
    for letter in odd_letters() {
        assert_eq!(round_trip(&mut desk, &letter), letter);
    }
    let kept =
        "SELECT count(*) FILTER (WHERE payload IS NOT NULL) || ' ' || count(payload_column) FROM walpost.dead_letter";
    // Stored are the one that a converter made, the empty one, and that of a row that cannot be read.
    assert_eq!(desk.value(kept), "3 12");
}

/// A database in another encoding.
fn encoded(endpoint: &PostgresEndpoint, label: &str, encoding: &str) -> Database {
    let database = endpoint.fresh_database(label).unwrap();
    let name = database.name();
    endpoint.psql("postgres", &format!("DROP DATABASE {name}")).unwrap();
    let create = format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'");
    endpoint.psql("postgres", &create).unwrap();
    // As `walpost init` sends it: in UTF-8.
    database.psql(&format!("SET client_encoding = 'UTF8'; {TABLE}")).unwrap();
    database
}

#[test]
fn a_database_in_any_encoding_keeps_every_letter() {
    for (label, encoding) in [("latin", "LATIN1"), ("ascii", "SQL_ASCII")] {
        let mut desk = Desk::on(encoded(shared_postgres(), label, encoding));
        for letter in odd_letters().into_iter().filter(|letter| letter.table == outbox()) {
            assert_eq!(round_trip(&mut desk, &letter), letter, "{encoding}");
        }
        let listed = desk.dlq(&["list", "--state", "sent", "--key", "größe 東京 ✓"]);
        listed.assert_said(0, &["größe 東京 ✓", "1 letter"]);
    }
}

#[test]
fn the_same_row_again_is_the_same_letter_and_one_that_ended_stays_so() {
    let mut desk = Desk::new("again");
    let (first, second) = (letter(0, "a", bad("first")), letter(1, "a", Cause::Parked));
    assert_eq!(desk.set_aside(&[first.clone(), second.clone()]), [true, true]);
    // After a crash the row comes again, and by then its own letter parks its key. Twice in one call, too.
    let again = DeadLetter { cause: Cause::Parked, ..first };
    assert_eq!(desk.set_aside(&[again.clone(), second.clone(), again.clone()]), [false; 3]);
    let seen = "SELECT string_agg(concat_ws(' ', id, cause, reason, attempts, last_at > first_at), ', ' ORDER BY id) FROM walpost.dead_letter";
    assert_eq!(desk.value(seen), "1 row first 3 t, 2 parked 2 t");
    desk.database.psql("UPDATE walpost.dead_letter SET state = 'replay'").unwrap();
    desk.conclude(1, Conclusion::Sent);
    desk.conclude(2, Conclusion::Dropped);
    assert_eq!(desk.set_aside(&[again, second]), [false, false], "what ended is not new");
    let seen = "SELECT string_agg(concat_ws(' ', id, state, attempts), ', ' ORDER BY id) FROM walpost.dead_letter";
    assert_eq!(desk.value(seen), "1 sent 4, 2 dropped 2");
    desk.database.psql("UPDATE walpost.dead_letter SET system_identifier = 18446744073709551615 WHERE id = 1").unwrap();
    desk.set_aside(&[letter(0, "a", bad("of this cluster"))]);
    assert_eq!(desk.states().matches(',').count(), 2, "the letter of another cluster was taken for ours");
    desk.dlq(&["drop", "--reason", "of this cluster", "--yes"]).assert_success();
    let theirs = desk.next()[0];
    desk.conclude(theirs, Conclusion::Dropped);
    let other_relay = store_of(&desk.database, "other");
    let mut ours = std::mem::replace(&mut desk.store, other_relay);
    desk.set_aside(&[letter(0, "a", bad("of another relay"))]);
    assert_eq!(desk.states().matches(',').count(), 3);
    assert_eq!(desk.wait(ours.inventory()).unwrap(), Inventory::default());
}

#[test]
fn the_inventory_tells_parked_keys_causes_and_bytes_of_what_has_not_ended() {
    let mut desk = Desk::new("inventory");
    assert_eq!(desk.runtime.block_on(desk.store.inventory()).unwrap(), Inventory::default());
    two_queues(&mut desk);
    let size = |ordinal, key| letter(ordinal, key, Cause::Parked).parked_bytes();
    let key = |key| letter(0, key, Cause::Parked).parking_key.unwrap();
    let inventory = desk.runtime.block_on(desk.store.inventory()).unwrap();
    let place =
        |ordinal| Place::of(letter(ordinal, "a", Cause::Parked).identity, letter(0, "a", Cause::Parked).commit_time);
    let parked = |text, letters, first| Parked { key: key(text), letters, first: place(first) };
    assert_eq!(inventory.parked, [parked("a", 3, 0), parked("b", 2, 3)]);
    assert_eq!((inventory.roots, inventory.parked_bytes), (3, size(1, "a") + size(2, "a") + size(4, "b")));
    desk.dlq(&["drop", "--all", "--yes"]).assert_success();
    desk.conclude(4, Conclusion::Dropped);
    desk.conclude(5, Conclusion::Dropped);
    let inventory = desk.runtime.block_on(desk.store.inventory()).unwrap();
    assert_eq!((inventory.letters, inventory.parked, inventory.roots), (4, vec![parked("a", 3, 0)], 2));
    // In the log of another cluster, which was moved here, and later.
    let other =
        "UPDATE walpost.dead_letter SET commit_lsn = '0/1', commit_time = commit_time + interval '1 day' WHERE id = 3";
    desk.database.psql(other).unwrap();
    let first = desk.runtime.block_on(desk.store.inventory()).unwrap().parked[0].first;
    let expected = Place { commit_lsn: Lsn::new(1), ordinal: 2, ..place(0) };
    assert_eq!(first, expected, "in each respect the first");
}

#[test]
fn of_each_key_the_next_letters_are_answered_and_an_unmarked_one_stands_in_the_way() {
    let mut desk = Desk::new("marked");
    two_queues(&mut desk);
    assert_eq!(desk.next(), [0; 0]);
    let mark = |desk: &Desk, ids: &str| {
        desk.database.psql(&format!("UPDATE walpost.dead_letter SET state = 'replay' WHERE id IN ({ids})")).unwrap();
    };
    mark(&desk, "2, 4, 6");
    assert_eq!(desk.next(), [4, 6], "1 stands in front of 2");
    let overtaking: Vec<i64> = desk.marked(true).iter().map(|marked| marked.id.0).collect();
    assert_eq!(overtaking, [2, 4, 6]);
    assert_eq!(desk.runtime.block_on(desk.store.marked(1, false)).unwrap()[0].id, LetterId(4));
    mark(&desk, "1, 3, 5");
    assert_eq!(desk.next(), [1, 2, 3, 4, 5, 6]);
    let shared: Vec<i64> =
        desk.runtime.block_on(desk.store.marked(3, false)).unwrap().iter().map(|marked| marked.id.0).collect();
    assert_eq!(shared, [1, 4, 6], "each has its share");
    desk.conclude(1, Conclusion::Sent);
    desk.conclude(4, Conclusion::Returned("still too large".to_owned()));
    assert_eq!(desk.next(), [2, 3, 6], "4 came back and stands in front of 5");
    assert_eq!(desk.states(), "1 sent, 2 replay, 3 replay, 4 waiting, 5 replay, 6 replay");
}

#[test]
fn a_letter_that_fails_again_lies_there_with_its_new_reason_and_has_become_a_cause() {
    let mut desk = Desk::new("returned");
    two_queues(&mut desk);
    desk.dlq(&["replay", "--key", "a", "--yes"]).assert_success();
    desk.conclude(1, Conclusion::Sent);
    desk.conclude(2, Conclusion::Returned("größer als erlaubt".to_owned()));
    // The answer was lost, and the relay says it again.
    desk.conclude(2, Conclusion::Returned("größer als erlaubt".to_owned()));
    let second =
        "SELECT concat_ws(' ', state, cause, reason, attempts, ended_at) FROM walpost.dead_letter WHERE id = 2";
    assert_eq!(desk.value(second), "waiting row größer als erlaubt 2");
    assert_eq!(desk.runtime.block_on(desk.store.inventory()).unwrap().roots, 3);
    desk.dlq(&["replay", "--id", "2", "--yes"]).assert_success();
    desk.conclude(2, Conclusion::Sent);
    let second = "SELECT concat_ws(' ', state, attempts, ended_at IS NOT NULL) FROM walpost.dead_letter WHERE id = 2";
    assert_eq!(desk.value(second), "sent 3 t");
}

#[test]
fn one_letter_of_a_batch_that_cannot_be_kept_keeps_the_others_away_too() {
    let mut desk = Desk::new("none");
    let refused = letter(u64::MAX, "a", bad("no such ordinal"));
    let error = desk.runtime.block_on(desk.store.set_aside(&[letter(0, "a", bad("fine")), refused])).unwrap_err();
    assert!(error.to_string().contains("18446744073709551615"), "{error}");
    desk.database.psql("ALTER TABLE walpost.dead_letter ADD CHECK (ordinal < 600)").unwrap();
    let many: Vec<DeadLetter> = (0..=600).map(|ordinal| letter(ordinal, "a", Cause::Parked)).collect();
    assert!(
        desk.runtime.block_on(desk.store.set_aside(&many)).is_err(),
        "the second statement of the transaction fails"
    );
    assert_eq!(desk.value("SELECT count(*) FROM walpost.dead_letter"), "0");
    desk.set_aside(&many[..600]);
    let in_order = "SELECT count(*) || ' ' || bool_and(ordinal = place - 1) FROM (SELECT ordinal, row_number() OVER (ORDER BY id) AS place \
                    FROM walpost.dead_letter) AS kept";
    assert_eq!(desk.value(in_order), "600 true");
}

#[test]
fn a_session_that_was_ended_or_refused_is_opened_anew_and_commits_synchronously() {
    let mut desk = Desk::new("anew");
    let name = desk.database.name().to_owned();
    desk.database.psql(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).unwrap();
    desk.database
        .psql(
            "CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN NEW.reason = current_setting('synchronous_commit'); RETURN NEW; END $$; \
             CREATE TRIGGER told BEFORE INSERT ON walpost.dead_letter FOR EACH ROW EXECUTE FUNCTION told()",
        )
        .unwrap();
    desk.set_aside(&[letter(0, "a", bad("first"))]);
    desk.database
        .psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
        .unwrap();
    desk.set_aside(&[letter(1, "a", bad("second"))]);
    desk.database.psql("ALTER TABLE walpost.dead_letter RENAME TO away").unwrap();
    let error = desk.runtime.block_on(desk.store.set_aside(&[letter(2, "a", bad("third"))])).unwrap_err();
    assert!(matches!(error, Error::NoTable) && error.class() == Class::NeedsOperator("run: walpost init"), "{error}");
    desk.database.psql("ALTER TABLE walpost.away RENAME TO dead_letter").unwrap();
    desk.set_aside(&[letter(2, "a", bad("third"))]);
    assert_eq!(desk.value("SELECT string_agg(reason, ' ') FROM walpost.dead_letter"), "on on on");
}

#[test]
fn a_call_that_is_given_up_in_the_middle_leaves_nothing_behind() {
    let mut desk = Desk::new("given_up");
    let letters = [letter(0, "a", bad("first"))];
    crate::rig::while_locked(&desk.database, "LOCK walpost.dead_letter IN SHARE MODE", || {
        let write = desk.store.set_aside(&letters);
        let given_up = desk.runtime.block_on(async { tokio::time::timeout(Duration::from_millis(100), write).await });
        assert!(given_up.is_err(), "the lock did not hold it up");
    });
    desk.set_aside(&[letter(1, "a", bad("second"))]);
    assert_eq!(desk.value("SELECT bool_or(ordinal = 1) FROM walpost.dead_letter"), "t");
}

#[test]
fn letters_that_ended_long_ago_are_deleted_and_no_others() {
    let mut desk = Desk::new("kept");
    two_queues(&mut desk);
    desk.dlq(&["replay", "--all", "--yes"]).assert_success();
    for id in [1, 2, 6] {
        desk.conclude(id, Conclusion::Sent);
    }
    desk.database
        .psql(
            "UPDATE walpost.dead_letter SET first_at = now() - interval '30 days'; \
               UPDATE walpost.dead_letter SET ended_at = now() - interval '8 days' WHERE id IN (1, 6)",
        )
        .unwrap();
    // One process looks once a minute; the next looks at once.
    desk.store = store_of(&desk.database, desk.database.name());
    assert_eq!(desk.runtime.block_on(desk.store.inventory()).unwrap().letters, 3);
    assert_eq!(desk.states(), "2 sent, 3 replay, 4 replay, 5 replay");
    desk.database.psql("UPDATE walpost.dead_letter SET ended_at = now() - interval '8 days' WHERE id = 2").unwrap();
    assert_eq!(desk.next(), [3, 4, 5]);
    assert_eq!(desk.states(), "2 sent, 3 replay, 4 replay, 5 replay", "one look a minute is enough");
    desk.store = store_of(&desk.database, desk.database.name());
    assert_eq!(desk.next(), [3, 4, 5]);
    assert_eq!(desk.states(), "3 replay, 4 replay, 5 replay");
}

#[test]
fn a_row_of_many_megabytes_is_stored_once_and_comes_back() {
    const SIZE: usize = 200 << 20;
    let mut desk = Desk::new("large");
    let mut large = letter(0, "a", bad("the record is too large"));
    // Nothing that could be compressed away.
    let mut state: u64 = 1;
    let payload: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b'a' + u8::try_from(state >> 60).unwrap()
    })
    .take(SIZE)
    .collect();
    large.row = row("event-0", Some(b"a"), Some(&payload));
    if let Some(record) = &mut large.record {
        record.value = Some(Bytes::from(payload));
    }
    let since = Instant::now();
    assert!(round_trip(&mut desk, &large) == large, "it came back altered");
    assert!(since.elapsed() < 2 * crate::rig::LIMIT, "{:?}", since.elapsed());
    let stored = desk.value("SELECT pg_total_relation_size('walpost.dead_letter')").parse::<usize>().unwrap();
    assert!(stored < SIZE + SIZE / 2, "{stored} bytes");
    desk.dlq(&["show", "1"]).assert_said(0, &["209715200 bytes, of which 65536 are shown"]);
}

/// `id state` with who marked it, of all letters that have not ended.
fn open(desk: &Desk) -> String {
    desk.value(
        "SELECT coalesce(string_agg(concat_ws(' ', id, state, marked_by), ', ' ORDER BY id), '') FROM walpost.dead_letter WHERE state IN ('waiting', 'replay', 'drop')",
    )
    .replace(" walpost (it follows what stood in front of it)", "*")
}

#[test]
fn what_lies_there_only_because_of_its_key_is_marked_once_nothing_stands_in_front_of_it() {
    let mut desk = Desk::new("followed");
    two_queues(&mut desk);
    desk.set_aside(&[letter(6, "a", bad("odd")), letter(7, "a", Cause::Parked)]);
    desk.database.psql("UPDATE walpost.dead_letter SET state = 'drop', marked_at = now() WHERE id = 1").unwrap();
    assert_eq!(desk.next(), [1]);
    desk.conclude(1, Conclusion::Dropped);
    assert_eq!(open(&desk), "2 replay*, 3 replay*, 4 waiting, 5 waiting, 6 waiting, 7 waiting, 8 waiting");
    assert_eq!(desk.next(), [2, 3]);
    // It has a cause of its own by now, and nobody marked it.
    desk.conclude(2, Conclusion::Returned("odd".to_owned()));
    assert_eq!(desk.next(), [0; 0]);
    assert_eq!(open(&desk), "2 waiting, 3 replay*, 4 waiting, 5 waiting, 6 waiting, 7 waiting, 8 waiting");
    // The answer is lost, and it is said again.
    for _ in 0..2 {
        let ends =
            [(LetterId(2), Conclusion::Sent), (LetterId(3), Conclusion::Sent), (LetterId(7), Conclusion::Dropped)];
        desk.runtime.block_on(desk.store.conclude(&ends)).unwrap();
        assert_eq!(open(&desk), "4 waiting, 5 waiting, 6 waiting, 8 replay*");
    }
    // What is set aside behind it goes too, up to one that is bad itself; and where none lies there, what only waited for that.
    let behind = [letter(20, "a", Cause::Parked), letter(21, "a", bad("odd")), letter(22, "a", Cause::Parked)];
    desk.set_aside(
        &[
            &behind[..],
            &[letter(23, "b", Cause::Parked), letter(24, "c", Cause::Parked), letter(25, "c", Cause::Parked)],
        ]
        .concat(),
    );
    let expected = "4 waiting, 5 waiting, 6 waiting, 8 replay*, 9 replay*, 10 waiting, 11 waiting, 12 waiting, 13 replay*, 14 replay*";
    assert_eq!(open(&desk), expected);
    // All that comes again keeps its state and its place; what ended does not stand in front of what comes behind it.
    desk.set_aside(&[&behind[..], &[letter(0, "a", bad("odd"))]].concat());
    assert_eq!(open(&desk), expected);
    desk.database.psql("UPDATE walpost.dead_letter SET state = 'dropped', ended_at = now() WHERE key = 'b'").unwrap();
    desk.set_aside(&[letter(3, "b", bad("odd")), letter(30, "b", Cause::Parked)]);
    assert_eq!(
        desk.value("SELECT max(id) || ' ' || (array_agg(state ORDER BY id DESC))[1] FROM walpost.dead_letter"),
        "20 replay"
    );
}

#[test]
fn an_inventory_finds_what_nothing_stands_in_front_of_though_nobody_ended_that() {
    let mut desk = Desk::new("healed");
    two_queues(&mut desk);
    desk.database.psql("DELETE FROM walpost.dead_letter WHERE id IN (1, 4); UPDATE walpost.dead_letter SET marked_at = now() WHERE id = 3").unwrap();
    assert_eq!(desk.next(), [0; 0]);
    assert_eq!(desk.runtime.block_on(desk.store.inventory()).unwrap().letters, 4);
    assert_eq!(open(&desk), "2 replay*, 3 waiting, 5 replay*, 6 waiting", "the third was told to wait");
    assert_eq!(desk.next(), [2, 5]);
}

#[test]
fn a_long_queue_costs_the_next_letter_no_more_than_a_short_one() {
    let mut desk = Desk::new("long");
    desk.set_aside(&[letter(0, "a", bad("first")), letter(1, "b", bad("second"))]);
    // The fastest of many, which others on the machine have held up least.
    let fastest = |desk: &mut Desk, next: &[i64]| {
        let looks = (0..30).map(|_| {
            let since = Instant::now();
            let marked = desk.runtime.block_on(desk.store.marked(2, false)).unwrap();
            let elapsed = since.elapsed();
            assert_eq!(marked.iter().map(|marked| marked.id.0).collect::<Vec<_>>(), next);
            elapsed
        });
        looks.min().unwrap()
    };
    let short = fastest(&mut desk, &[]);
    desk.database
        .psql(
            "INSERT INTO walpost.dead_letter (relay, system_identifier, timeline, commit_lsn, ordinal, commit_time, outbox_schema, outbox_table, route, \
             key, queue, state, cause, relation_message, insert_message) SELECT relay, system_identifier, timeline, commit_lsn, n, commit_time, \
             outbox_schema, outbox_table, route, key, queue, 'replay', 'parked', relation_message, insert_message FROM walpost.dead_letter, \
             generate_series(10, 50000) AS n WHERE id = 1; UPDATE walpost.dead_letter SET state = 'replay'; ANALYZE walpost.dead_letter",
        )
        .unwrap();
    let long = fastest(&mut desk, &[1, 2]);
    assert!(long < 5 * short + Duration::from_millis(20), "{long:?} beside {short:?}");

    // To end the first, and to set one aside behind the last.
    let since = Instant::now();
    desk.set_aside(&[letter(60_000, "b", Cause::Parked)]);
    desk.set_aside(&[letter(60_001, "a", Cause::Parked)]);
    let set_aside = since.elapsed();
    desk.database.psql("UPDATE walpost.dead_letter SET state = 'waiting', marked_by = NULL WHERE id > 2").unwrap();
    desk.database.psql("VACUUM ANALYZE walpost.dead_letter").unwrap();
    let since = Instant::now();
    desk.conclude(1, Conclusion::Sent);
    let concluded = since.elapsed();
    eprintln!("set aside in {set_aside:?}, ended in {concluded:?}");
    assert!(set_aside.max(concluded) < Duration::from_secs(1), "{set_aside:?} and {concluded:?}");
    let marked = desk.value("SELECT count(*) FROM walpost.dead_letter WHERE state = 'replay' AND id > 2");
    assert!((1..2000).contains(&marked.parse::<i64>().unwrap()), "{marked}: so many at once, and the others later");
    let next = desk.marked(false);
    assert!(next.len() > 1, "{next:?}");
}

#[test]
fn a_mark_that_is_set_while_the_letter_is_under_way_outlives_its_return() {
    let mut desk = Desk::new("remarked");
    two_queues(&mut desk);
    desk.dlq(&["replay", "--all", "--yes"]).assert_success();
    assert_eq!(desk.next(), [1, 2, 3, 4, 5, 6]);
    // Meanwhile the operators have thought better of it: of one by a drop, of the next by a drop and a replay.
    desk.dlq(&["drop", "--id", "1,4", "--state", "replay", "--yes"]).assert_success();
    desk.dlq(&["replay", "--id", "4", "--state", "drop", "--yes"]).assert_success();
    let returned = || Conclusion::Returned("still too large".to_owned());
    for id in [1, 4, 6] {
        desk.conclude(id, returned());
    }
    assert_eq!(desk.states(), "1 drop, 2 replay, 3 replay, 4 replay, 5 replay, 6 waiting");
    let first = "SELECT concat_ws(' ', attempts, reason, ended_at) FROM walpost.dead_letter WHERE id = 1";
    assert_eq!(desk.value(first), "2 still too large");
    assert_eq!(desk.marked(false)[0].request, Request::Drop);
    // What the broker took is sent, whatever was asked for meanwhile.
    desk.dlq(&["drop", "--id", "2", "--state", "replay", "--yes"]).assert_success();
    desk.conclude(2, Conclusion::Sent);
    assert_eq!(desk.states(), "1 drop, 2 sent, 3 replay, 4 replay, 5 replay, 6 waiting");
}

#[test]
fn a_letter_that_somebody_damaged_says_so_and_holds_nothing_but_its_key_and_can_be_given_up() {
    let cases: &[(&str, &str)] = &[
        ("headers", "headers = '{}'"),
        ("timestamp_ms", "timestamp_ms = NULL"),
        ("payload_column", "payload_column = 99"),
        ("row_sha256", "row_sha256 = '\\x00'"),
        ("event_id", "event_id = '\\q'"),
        ("key", "key = '\\q'"),
        ("ordinal", "ordinal = -1"),
    ];
    let mut desk = Desk::new("damaged");
    for (column, change) in cases {
        desk.database.psql("TRUNCATE walpost.dead_letter RESTART IDENTITY").unwrap();
        two_queues(&mut desk);
        let mark = |state: &str| {
            let change = format!("UPDATE walpost.dead_letter SET state = '{state}' WHERE id = 1");
            desk.database.psql(&change).unwrap();
        };
        desk.database.psql("UPDATE walpost.dead_letter SET state = 'replay'").unwrap();
        desk.database.psql(&format!("UPDATE walpost.dead_letter SET {change} WHERE id = 1")).unwrap();
        let told = |marked: &[Marked]| -> Vec<(i64, Option<String>)> {
            let reason = |marked: &Marked| marked.fetched.clone().map(|fetched| fetched.unwrap_err());
            marked.iter().map(|marked| (marked.id.0, reason(marked))).collect()
        };
        let damage = format!(
            "the column {column} of its letter holds what no relay wrote: put it right in walpost.dead_letter and have it sent again, \
             or give it up with: walpost dlq drop --id 1"
        );
        let rest = |ids: &[i64]| ids.iter().map(|id| (*id, None)).collect::<Vec<_>>();
        let marked = desk.wait(store_of(&desk.database, desk.database.name()).marked(100, false)).unwrap();
        assert_eq!(told(&marked), [vec![(1, Some(damage.clone()))], rest(&[4, 5, 6])].concat(), "{column}");
        let marked = desk.wait(store_of(&desk.database, desk.database.name()).marked(100, true)).unwrap();
        assert_eq!(told(&marked), [vec![(1, Some(damage))], rest(&[2, 3, 4, 5, 6])].concat(), "{column}");
        mark("drop");
        let marked = desk.marked(false);
        assert_eq!((marked.len(), marked[0].request), (6, Request::Drop), "{column}");
        desk.conclude(1, Conclusion::Dropped);
        assert_eq!(desk.next(), [2, 3, 4, 5, 6], "{column}");
        desk.dlq(&["list", "--state", "dropped"]).assert_said(0, &["1 letter"]);
    }
}

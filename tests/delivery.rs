//! What is committed arrives, as it is, where it belongs, in order and once; what is not committed does not.

use std::collections::BTreeSet;

use walpost_testkit::checker::{Repeats, Truth, partition_of};
use walpost_testkit::servers::shared_kafka;

use crate::rig::{LIMIT, PARTITIONS, Rig, eventually};

#[test]
fn what_is_committed_arrives_once_and_what_is_rolled_back_does_not() {
    let rig = Rig::ready("committed", &["public.outbox", "public.other_outbox"]);
    let relay = rig.start();
    let report = rig.workload().transactions(600).run(LIMIT).unwrap();
    assert!(report.committed_rows > 0 && report.rolled_back_rows > 0, "{report:?}");
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    rig.assert_delivered(Repeats::Forbidden);
}

#[test]
fn each_key_keeps_its_order_on_its_partition_among_many_writers() {
    let rig = Rig::ready("ordered", &["public.outbox"]);
    let _relay = rig.start();
    rig.workload().writers(8).keys(5, 15).payload_bytes(3_000).transactions(1_000).run(LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap();
    let partitions: BTreeSet<i32> = records.iter().map(|record| record.partition).collect();
    assert!(partitions.len() > 1, "one partition proves nothing");
}

#[test]
fn a_topic_that_gets_more_partitions_is_published_to_by_them_without_a_restart_and_nothing_is_lost() {
    let mut rig = Rig::ready("widened", &["public.outbox"]);
    rig.configure(|config| config.set("sink.kafka", "topic.metadata.refresh.interval.ms", r#""200""#));
    let relay = rig.start();
    // Of thirty keys each, that no other lot has.
    let insert = |lot: &str| {
        rig.sql(&format!(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
             SELECT gen_random_uuid(), 'order', '{lot}-' || key, 'Changed', '{{}}', 0 FROM generate_series(1, 30) AS key"
        ));
    };
    insert("before");
    rig.assert_delivered(Repeats::Forbidden);
    let more = 2 * PARTITIONS;
    shared_kafka().widen_topic(&format!("{}.order", rig.topic("0")), more).unwrap();
    let mut lots = 0;
    eventually("a record in a new partition", || {
        lots += 1;
        insert(&format!("meanwhile-{lots}"));
        let mut consumer = rig.consumer();
        let records = consumer.read_ids(&rig.committed(), LIMIT).unwrap();
        records.iter().any(|record| record.partition >= PARTITIONS)
    });
    insert("after");
    rig.verdict(&rig.truth_of_lines()).assert_clean(Repeats::Forbidden);
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap();
    let keys = records.iter().filter_map(|record| Some((record.key.as_deref()?, record.partition)));
    for (key, partition) in keys {
        let text = String::from_utf8_lossy(key);
        let expected: &[i32] = if text.starts_with("before") { &[PARTITIONS] } else { &[PARTITIONS, more] };
        let expected = if text.starts_with("after") { &[more] } else { expected };
        assert!(expected.iter().any(|count| partition_of(key, *count) == partition), "{text} is in {partition}");
    }
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn events_arrive_by_every_codec() {
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let mut rig = Rig::ready(&format!("codec_{codec}"), &["public.outbox"]);
        rig.configure(|config| config.set("sink.kafka", "compression.type", &format!("{codec:?}")));
        let relay = rig.start();
        rig.insert("key", 0, 100);
        rig.assert_delivered(Repeats::Forbidden);
        relay.stop(LIMIT).unwrap().assert_success();
    }
}

#[test]
fn rows_committed_while_no_relay_ran_arrive_when_one_does() {
    let rig = Rig::ready("backlog", &["public.outbox"]);
    rig.workload().transactions(200).run(LIMIT).unwrap();
    let _relay = rig.start();
    rig.assert_delivered(Repeats::Forbidden);
}

#[test]
fn a_copy_interrupted_by_a_kill_goes_on_within_its_transaction() {
    const ROWS: usize = 20_000;
    let mut rig = Rig::ready("copied", &["public.outbox"]);
    // Few, so that the transaction takes long enough to be interrupted.
    rig.configure(|config| config.set("limits", "in_flight_records", "50"));
    // The rows of one COPY share their LSN by the page.
    let rows: String = (1..=ROWS)
        .map(|row| {
            let (id, key) = (format!("00000000-0000-4000-8000-{row:012}"), row % 7);
            format!("{id}\torder\tkey-{key}\tChanged\t{{\"row\": {row}}}\t{row}\n")
        })
        .collect();
    rig.sql(&format!("COPY outbox (id, aggregatetype, aggregateid, type, payload, seq) FROM STDIN;\n{rows}\\.\n"));
    let relay = rig.start();
    let mut consumer = rig.consumer();
    consumer.read_count(1_000, LIMIT).unwrap();
    relay.kill9().unwrap();
    let delivered = consumer.read_to_end(LIMIT).unwrap().len();
    assert!(delivered < ROWS, "the kill came too late to prove anything");
    rig.configure(|config| config.set("limits", "in_flight_records", "10000"));
    let _relay = rig.start();
    rig.assert_delivered(Repeats::Allowed);
}

#[test]
fn names_that_need_quotes_are_found() {
    let mut rig = Rig::empty("quoted");
    rig.sql(r#"CREATE SCHEMA "Order"; CREATE SCHEMA "a.b""#);
    for table in [r#""Order"."Outbox""#, r#""Order.Outbox""#, r#""a.b"."Out""box, 1""#] {
        rig.add_outbox(table, &[]);
    }
    rig.configure(|config| config.set("source", "publication", r#""My Publication, 'x'""#));
    rig.workload().create().unwrap();
    rig.init();
    let _relay = rig.start();
    rig.workload().transactions(100).run(LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
}

#[test]
fn each_outbox_goes_by_its_own_router() {
    let mut rig = Rig::empty("routers");
    let placement = ("table.fields.additional.placement", "type:header:eventType,aggregatetype:header");
    rig.add_outbox("public.outbox", &[]);
    rig.add_outbox("public.annotated", &[placement]);
    rig.sql("CREATE TABLE events (event uuid, kind text, subject bigint, body text)");
    let columns = [
        ("table.field.event.id", "event"),
        ("table.field.event.key", "subject"),
        ("table.field.event.payload", "body"),
        ("route.by.field", "kind"),
    ];
    let topic = rig.add_table("public.events", "events", &columns);
    rig.workload().create().unwrap();
    rig.init();
    let _relay = rig.start();
    rig.workload().transactions(60).run(LIMIT).unwrap();
    rig.sql(
        "INSERT INTO events SELECT gen_random_uuid(), 'any', number % 3, 'body ' || number FROM generate_series(1, 20) AS number",
    );
    let url = rig.database.url();
    let mut truth = Truth::read(&url, &rig.outboxes[0].truth()).unwrap();
    let annotated = rig.outboxes[1].truth().replace(
        ", seq FROM",
        r#", seq, type::text AS "header.eventType", aggregatetype::text AS "header.aggregatetype" FROM"#,
    );
    truth.extend(&url, &annotated).unwrap();
    let events = format!(
        "SELECT event::text AS id, '{topic}' AS topic, subject::text AS key, convert_to(body, 'UTF8') AS value, \
         substring(body FROM 6)::bigint AS seq FROM events"
    );
    truth.extend(&url, &events).unwrap();
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
}

#[test]
fn a_partitioned_outbox_is_known_by_its_root_whatever_becomes_of_its_partitions() {
    let mut rig = Rig::empty("partitioned");
    rig.sql(
        "CREATE TABLE outbox (id uuid, aggregatetype varchar(255) NOT NULL, aggregateid varchar(255) NOT NULL, \
         type varchar(255) NOT NULL, payload jsonb, seq bigint, PRIMARY KEY (id, seq)) PARTITION BY RANGE (seq);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (100);
         CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM (100) TO (200)",
    );
    rig.add_outbox("public.outbox", &[]);
    rig.init();
    let _relay = rig.start();
    rig.insert("a", 90, 20);
    // One whose columns stand in another order, and one with a partition below it.
    rig.sql(
        "CREATE TABLE outbox_3 (seq bigint NOT NULL, payload jsonb, type varchar(255) NOT NULL, \
         aggregateid varchar(255) NOT NULL, aggregatetype varchar(255) NOT NULL, id uuid NOT NULL);
         ALTER TABLE outbox ATTACH PARTITION outbox_3 FOR VALUES FROM (200) TO (300);
         CREATE TABLE outbox_4 PARTITION OF outbox FOR VALUES FROM (300) TO (400) PARTITION BY RANGE (seq);
         CREATE TABLE outbox_4_1 PARTITION OF outbox_4 FOR VALUES FROM (300) TO (400)",
    );
    rig.insert("a", 190, 200);
    let mut truth = rig.truth();
    rig.sql("ALTER TABLE outbox DETACH PARTITION outbox_1; DROP TABLE outbox_1; TRUNCATE outbox_2");
    rig.insert("b", 390, 10);
    let last = format!("{} WHERE aggregateid = 'b'", rig.outboxes[0].truth());
    truth.extend(&rig.database.url(), &last).unwrap();
    assert_eq!(truth.len(), 230);
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
}

/// Changes of the table, none of which takes anything away that the router needs.
const CHANGES: [&str; 8] = [
    "ALTER TABLE outbox ADD COLUMN note text DEFAULT 'none', ADD COLUMN number int",
    "ALTER TABLE outbox DROP COLUMN note",
    "ALTER TABLE outbox RENAME COLUMN type TO kind",
    "ALTER TABLE outbox DROP COLUMN kind",
    "ALTER TABLE outbox ALTER COLUMN aggregateid TYPE text, ALTER COLUMN number TYPE bigint",
    "ALTER TABLE outbox ALTER COLUMN payload TYPE json USING payload::text::json",
    "ALTER TABLE outbox ALTER COLUMN payload TYPE text",
    "ALTER TABLE outbox ALTER COLUMN id TYPE text",
];

/// A row of whatever form the table has by then.
fn row_of_any_form(seq: usize) -> String {
    format!(
        "INSERT INTO outbox SELECT * FROM jsonb_populate_record(NULL::outbox, jsonb_build_object('id', gen_random_uuid(), \
         'aggregatetype', 'order', 'aggregateid', 'key', 'type', 'Changed', 'kind', 'Changed', 'number', 7, \
         'payload', jsonb_build_object('seq', {seq}, 'text', 'é'), 'seq', {seq}))"
    )
}

#[test]
fn columns_added_dropped_renamed_and_retyped_lose_no_row_neither_live_nor_from_the_log() {
    for is_live in [true, false] {
        let rig = Rig::ready("altered", &["public.outbox"]);
        let live = is_live.then(|| rig.start_streaming());
        for (step, change) in CHANGES.iter().enumerate() {
            // Rows on both sides of the change, within its transaction and without.
            let row = |index| row_of_any_form(4 * step + index);
            let (before, within, still, after) = (row(0), row(1), row(2), row(3));
            rig.sql(&format!("{before}; BEGIN; {within}; {change}; {still}; COMMIT; {after}"));
        }
        let _relay = live.unwrap_or_else(|| rig.start());
        let verdict = rig.assert_delivered(Repeats::Forbidden);
        assert_eq!(verdict.committed, 4 * CHANGES.len());
    }
}

/// What may not change a byte on its way to us.
const DEFAULTS: [&str; 6] = [
    "bytea_output = 'escape'",
    "DateStyle = 'SQL, DMY'",
    "IntervalStyle = 'sql_standard'",
    "TimeZone = 'Asia/Kolkata'",
    "extra_float_digits = -10",
    "client_encoding = 'LATIN1'",
];

#[test]
fn payloads_pass_byte_for_byte_whatever_the_defaults_of_database_and_role() {
    let mut rig = Rig::empty("bytes");
    let name = rig.database.name().to_owned();
    rig.sql("CREATE DOMAIN octets AS bytea CHECK (length(value) < 100)");
    for kind in ["bytea", "text", "jsonb", "json", "octets"] {
        rig.sql(&format!(
            "CREATE TABLE of_{kind} (id bigint PRIMARY KEY, aggregatetype text, aggregateid text, payload {kind})"
        ));
        rig.add_table(&format!("of_{kind}"), kind, &[]);
    }
    rig.init();
    // A role that owns nothing and may only replicate, read, and write the checkpoint.
    let role = format!("{name}_role");
    rig.sql(&format!(
        "CREATE ROLE {role} LOGIN REPLICATION; GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}; \
         GRANT USAGE ON SCHEMA walpost TO {role}; GRANT ALL ON ALL TABLES IN SCHEMA walpost TO {role}"
    ));
    for default in DEFAULTS {
        rig.sql(&format!("ALTER DATABASE {name} SET {default}; ALTER ROLE {role} SET {default}"));
    }
    let url = rig.database.endpoint().url_for(&role, None, &name);
    rig.configure(|config| config.set("source", "url", &format!("{url:?}")));
    let relay = rig.start();
    rig.sql(
        r#"SET client_encoding = 'UTF8';
        INSERT INTO of_bytea SELECT byte, 'any', 'key', decode(lpad(to_hex(byte), 2, '0') || repeat('00ff5c27', byte), 'hex')
            FROM generate_series(0, 255) AS byte;
        INSERT INTO of_bytea VALUES (1000, 'any', 'key', ''), (1001, 'any', 'key', decode(repeat('de', 700000), 'hex'));
        INSERT INTO of_octets VALUES (6000, 'any', 'key', decode('00ff5c27', 'hex')), (6001, 'any', 'key', '');
        INSERT INTO of_text SELECT 2000 + code, 'any', 'key', repeat(chr(code), 3) FROM generate_series(1, 400) AS code;
        INSERT INTO of_text VALUES (3000, 'any', 'key', ''), (3001, 'any', 'key', E'\x41'), (3002, 'any', 'key', E'a\tb\r\n\\N'),
            (3003, 'any', 'key', ' 東京 😀 '), (3004, 'any', 'key', repeat('é', 400000)), (3005, 'any', 'key', 'null');
        INSERT INTO of_jsonb VALUES (4000, 'any', 'key', '{"b": 12345678901234567890.12345678901234567890, "a": 1.10e2}'),
            (4001, 'any', 'key', 'null'), (4002, 'any', 'key', '"text \"quoted\" \u00e9"'), (4003, 'any', 'key', '[1, 2.50, {}, []]');
        INSERT INTO of_json VALUES (5000, 'any', 'key', '{"b":  1,
            "a" : 1, "b": 2}'), (5001, 'any', 'key', ' null ')"#,
    );
    let mut truth = Truth::new();
    for (kind, bytes) in [
        ("bytea", "payload"),
        ("octets", "payload::bytea"),
        ("text", "convert_to(payload, 'UTF8')"),
        ("jsonb", "convert_to(payload::text, 'UTF8')"),
        ("json", "convert_to(payload::text, 'UTF8')"),
    ] {
        let query = format!(
            "SELECT id::text AS id, '{}' AS topic, aggregateid AS key, {bytes} AS value, id AS seq FROM of_{kind}",
            rig.topic(kind)
        );
        truth.extend(&rig.database.url(), &query).unwrap();
    }
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    rig.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
}

#[test]
fn a_null_key_stays_null_and_an_empty_payload_is_a_tombstone_where_it_is_asked_for() {
    let mut rig = Rig::empty("null");
    let columns = "(id bigint PRIMARY KEY, aggregatetype text, aggregateid text, payload text)";
    rig.sql(&format!("CREATE TABLE plain {columns}; CREATE TABLE tombstones {columns}"));
    let plain = rig.add_table("plain", "plain", &[]);
    let tombstones = rig.add_table("tombstones", "tombstones", &[("route.tombstone.on.empty.payload", "true")]);
    rig.init();
    let _relay = rig.start();
    for (table, from) in [("plain", 0), ("tombstones", 100)] {
        rig.sql(&format!(
            "INSERT INTO {table} SELECT {from} + number, 'any', CASE number % 2 WHEN 0 THEN 'key' END, \
             CASE number % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'text' END FROM generate_series(1, 30) AS number"
        ));
    }
    let query = |table, topic, value| {
        format!(
            "SELECT id::text AS id, '{topic}' AS topic, aggregateid AS key, convert_to({value}, 'UTF8') AS value, id AS seq FROM {table}"
        )
    };
    let url = rig.database.url();
    let mut truth = Truth::read(&url, &query("plain", plain, "payload")).unwrap();
    truth.extend(&url, &query("tombstones", tombstones, "nullif(payload, '')")).unwrap();
    assert_eq!(truth.rows().filter(|row| row.key.is_none()).count(), 30);
    assert_eq!(truth.rows().filter(|row| row.value.is_none()).count(), 10 + 20);
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
}

#[test]
fn updates_deletes_and_truncates_of_the_outbox_are_noted_and_publish_nothing() {
    let rig = Rig::with_tables("changed", &["public.outbox"]);
    // Made by hand, for all kinds of changes.
    rig.sql(&format!("CREATE PUBLICATION {} FOR TABLE outbox", rig.database.name()));
    rig.call(&["init"]);
    let relay = rig.start_streaming();
    rig.insert("a", 0, 10);
    let mut truth = rig.truth();
    rig.sql("UPDATE outbox SET payload = '{\"changed\": true}'; DELETE FROM outbox WHERE seq < 5; TRUNCATE outbox");
    rig.sql("BEGIN; DELETE FROM outbox; SAVEPOINT s; TRUNCATE outbox; ROLLBACK TO SAVEPOINT s; COMMIT");
    rig.insert("a", 10, 10);
    truth.extend(&rig.database.url(), &rig.outboxes[0].truth()).unwrap();
    assert_eq!(truth.len(), 20);
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
    relay.wait_for_log("were updated", LIMIT).unwrap();
    assert!(relay.is_running());
}

#[test]
fn the_row_that_is_deleted_in_its_own_transaction_is_published_all_the_same() {
    let rig = Rig::ready("deleted", &["public.outbox"]);
    let _relay = rig.start();
    rig.sql("CREATE TABLE kept (LIKE outbox)");
    rig.sql(
        "BEGIN; INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'key', 'Changed', '{}', seq FROM generate_series(1, 20) AS seq; \
         INSERT INTO kept SELECT * FROM outbox; DELETE FROM outbox; COMMIT",
    );
    let kept = rig.outboxes[0].truth().replace("public.outbox", "kept");
    let truth = Truth::read(&rig.database.url(), &kept).unwrap();
    assert_eq!(truth.len(), 20);
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
    eventually("the slot to be confirmed beyond them", || {
        rig.value(
            "SELECT confirmed_flush_lsn > restart_lsn FROM pg_replication_slots WHERE database = current_database()",
        ) == "t"
    });
}

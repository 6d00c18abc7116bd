//! What is filled is what the stream would have told: the same records, of all rows, in their order; or nothing.

use walpost_testkit::consumer::Received;
use walpost_testkit::relay::toml_string;
use walpost_testkit::servers::{Postgres, Stop, shared_kafka};

use super::{assert_whole, drop_slot, rested_on, tracking};
use crate::rig::{LIMIT, Rig};

/// What a test compares of a record: everything but where it stands in its topic.
fn content(record: &Received) -> String {
    let Received { topic, key, value, headers, timestamp_ms, .. } = record;
    format!("{topic} {key:?} {value:?} {headers:?} {timestamp_ms:?}")
}

/// Columns of every kind of type, each with a value that is easily written otherwise.
const TYPES: &[(&str, &str)] = &[
    ("bool", "true"),
    ("int2", "-32768"),
    ("int8", "9223372036854775807"),
    ("numeric(30,10)", "1.5"),
    ("numeric", "'NaN'"),
    ("float4", "0.1"),
    ("float8", "1e-7"),
    ("float8", "'-Infinity'"),
    ("text", r#"E'a\tb\nc\rd\\e\b\f\x0b \\N \\. ''" ü 🐘'"#),
    ("text", "''"),
    ("text", r"'\N'"),
    ("text", "NULL"),
    ("varchar(9)", "' x '"),
    ("char(9)", "'x'"),
    (r#""char""#, "'c'"),
    ("name", "'n'"),
    ("bytea", r"'\x00ff5c0a'"),
    ("uuid", "'00000000-0000-0000-0000-00000000000f'"),
    ("json", r#"E'{"a":  "\\u00e9\\n",\n "b": 1.0}'"#),
    ("jsonb", r#"'{"b": 1.0, "a": [null, "\\"]}'"#),
    ("xml", "'<a>&amp;</a>'"),
    ("date", "'infinity'"),
    ("date", "'2024-02-29'"),
    ("time(3)", "'23:59:59.5'"),
    ("timetz", "'12:00:00+02'"),
    ("timestamp", "'2024-02-29 12:34:56.7'"),
    ("timestamptz(3)", "'2024-02-29 12:34:56.789+05:30'"),
    ("interval", "'1 year 2 mons -3 days 04:05:06.7'"),
    ("money", "1234.5"),
    ("bit(5)", "B'10101'"),
    ("varbit", "B'101'"),
    ("inet", "'10.0.0.1/8'"),
    ("cidr", "'10.0.0.0/8'"),
    ("macaddr", "'08:00:2b:01:02:03'"),
    ("point", "'(1.5,-2)'"),
    ("box", "'(1,1),(0,0)'"),
    ("path", "'[(0,0),(1,1)]'"),
    ("int4range", "'[1,5)'"),
    ("tstzrange", "'[2024-01-01 00:00+00,)'"),
    ("int4multirange", "'{[1,3),[5,9)}'"),
    ("int4[]", "'{{1,NULL},{3,4}}'"),
    ("text[]", r#"ARRAY['a,b', E'c\td"\\', 'NULL', '']"#),
    ("bool[]", "'{t,f,NULL}'"),
    ("mood", "'so so'"),
    ("mood[]", "'{\"so so\"}'"),
    ("padded", "'x'"),
    ("pair", "ROW(true, E'a\tb')"),
    ("pair", "ROW(NULL, NULL)"),
    ("tsvector", "'a:1 b:2'::tsvector"),
    ("oid", "4294967295"),
    ("pg_lsn", "'16/B374D848'"),
    ("regclass", "'pg_class'"),
];

#[test]
fn a_row_that_is_filled_is_the_record_that_the_stream_made_of_it_whatever_its_types() {
    let postgres = tracking().start().unwrap();
    let mut rig = Rig::empty_on(postgres.endpoint(), shared_kafka(), "bytes");
    let named = TYPES.iter().enumerate().map(|(place, _)| format!("c{place}:header"));
    let placement = named.collect::<Vec<_>>().join(",");
    let router = [("table.fields.additional.placement", placement.as_str())];
    let table = r#""Odd Schema"."Out""Box""#;
    rig.add_table(table, "events", &router);
    let columns: Vec<String> = TYPES.iter().enumerate().map(|(place, (kind, _))| format!("c{place} {kind}")).collect();
    rig.sql(&format!(
        r#"CREATE SCHEMA "Odd Schema"; CREATE TYPE mood AS ENUM ('so so'); CREATE DOMAIN padded AS char(4);
           CREATE TYPE pair AS (a bool, b text);
           CREATE TABLE {table} (id uuid PRIMARY KEY, dropped int, doubled int GENERATED ALWAYS AS (2) STORED, aggregatetype text, aggregateid text,
               type text, payload jsonb, {});
           ALTER TABLE {table} DROP dropped"#,
        columns.join(", ")
    ));
    rig.init();
    let relay = rig.start_streaming();
    let values: Vec<&str> = TYPES.iter().map(|(_, value)| *value).collect();
    // Settings that a session of somebody else's has change nothing.
    let insert = |id: u32, values: &str| {
        rig.sql(&format!(
            "SET TimeZone = 'Asia/Kolkata'; INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload, {}) VALUES \
             ('00000000-0000-0000-0000-{id:012}', 'order', 'key', 'Made', '{{\"a\": {id}}}', {values})",
            (0..TYPES.len()).map(|place| format!("c{place}")).collect::<Vec<_>>().join(", ")
        ));
    };
    insert(1, &values.join(", "));
    insert(2, &vec!["NULL"; TYPES.len()].join(", "));
    let mut consumer = rig.consumer();
    consumer.read_count(2, LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    drop_slot(&rig);
    // As the database is by default for everybody.
    rig.sql(&format!(
        "ALTER DATABASE {0} SET DateStyle = 'German'; ALTER DATABASE {0} SET IntervalStyle = 'iso_8601'; \
         ALTER DATABASE {0} SET bytea_output = 'escape'; ALTER DATABASE {0} SET extra_float_digits = 0",
        rig.database.name()
    ));
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["2 rows published"]);
    let records = consumer.read_count(4, LIMIT).unwrap();
    for place in 0..2 {
        assert_eq!(content(&records[place]), content(&records[place + 2]));
    }
    assert_eq!(records[0].headers.len(), TYPES.len() + 1);
}

#[test]
fn several_outboxes_are_filled_in_one_order_and_partitions_under_their_root() {
    let postgres = tracking().start().unwrap();
    let mut rig = Rig::empty_on(postgres.endpoint(), shared_kafka(), "merged");
    let topic = rig.add_table("public.whole", "events", &[]);
    let replacement = [("route.topic.replacement", topic.as_str())];
    rig.configure(|config| config.outbox("public.parted", &replacement));
    let columns = "(id uuid DEFAULT gen_random_uuid(), aggregatetype text DEFAULT 'order', aggregateid text DEFAULT 'key', type text DEFAULT 'Made', payload text, n int)";
    // Publications have conditions from 15 on.
    let version: i32 = rig.value("SHOW server_version_num").parse().unwrap();
    let condition = if version >= 150_000 { "WHERE (n <> 13)" } else { "" };
    rig.sql(&format!(
        "CREATE TABLE whole {columns}; CREATE TABLE parted {columns} PARTITION BY RANGE (n);
         CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (5); CREATE TABLE high PARTITION OF parted DEFAULT;
         CREATE PUBLICATION {} FOR TABLE whole {condition}, parted WITH (publish = 'insert', publish_via_partition_root = true)",
        rig.database.name()
    ));
    rig.init();
    drop_slot(&rig);
    // Statements of one transaction go to and fro between the tables, with a savepoint rolled back among them.
    let mut script = String::from("BEGIN;");
    for n in 0..20 {
        let table = ["whole", "parted"][n % 2];
        script += &format!("INSERT INTO {table} (payload, n) VALUES ('{n:02}', {n});");
        if n == 9 {
            script += "SAVEPOINT s; INSERT INTO whole (payload, n) VALUES ('never', 9); ROLLBACK TO s; SAVEPOINT t;";
        }
    }
    if !condition.is_empty() {
        script += "INSERT INTO whole (payload, n) VALUES ('filtered', 13);";
    }
    rig.sql(&(script + "COMMIT; INSERT INTO parted (payload, n) VALUES ('20', 1)"));
    rig.call(&["repair", "--fill"]).assert_said(4, &["none was settled yet", "--since TIME"]);
    let filled = rig.call(&["repair", "--fill", "--since", "2026-01-01T00:00:00+00:00", "--rows-are-kept", "--yes"]);
    filled.assert_said(0, &["21 rows published"]);
    let mut consumer = rig.consumer();
    let payloads: Vec<String> = consumer.read_count(21, LIMIT).unwrap().iter().map(Received::value_text).collect();
    assert_eq!(payloads, (0..21).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    let relay = rig.start_streaming();
    rig.sql("INSERT INTO whole (payload, n) VALUES ('21', 1)");
    let records = consumer.read_count(22, LIMIT).unwrap();
    assert_eq!(records[21].value_text(), "21");
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn rows_that_the_role_may_not_see_keep_the_gap_from_being_filled() {
    let postgres = tracking().start().unwrap();
    let mut rig = rested_on(&postgres, "unseen");
    drop_slot(&rig);
    rig.sql(
        "CREATE ROLE humble LOGIN REPLICATION; GRANT USAGE ON SCHEMA walpost TO humble;
         GRANT SELECT, INSERT, UPDATE, DELETE ON walpost.checkpoint, walpost.dead_letter TO humble;
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA walpost TO humble",
    );
    let url = rig.database.endpoint().url_for("humble", None, rig.database.name());
    rig.configure(|config| config.set("source", "url", &toml_string(&url)));
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &["may not read public.outbox", "GRANT SELECT"]);
    rig.sql("GRANT SELECT ON outbox TO humble; ALTER TABLE outbox ENABLE ROW LEVEL SECURITY");
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &["row-level security hides rows"]);
    rig.sql("ALTER TABLE outbox DISABLE ROW LEVEL SECURITY");
    rig.insert("lost", 0, 10);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["20 rows published"]);
    assert_whole(&rig);
}

#[test]
fn times_of_commits_that_were_not_kept_for_the_whole_gap_are_not_relied_on() {
    let mut postgres = Postgres::start().unwrap();
    let rig = rested_on(&postgres, "late");
    drop_slot(&rig);
    rig.insert("lost", 0, 10);
    rig.sql("ALTER SYSTEM SET track_commit_timestamp = on");
    postgres.restart(Stop::Fast).unwrap();
    rig.insert("lost", 10, 10);
    rig.call(&["repair", "--fill", "--yes"])
        .assert_said(4, &["does not know when 20 rows of public.outbox", "--by COLUMN"]);
}

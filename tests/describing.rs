//! What the log does not tell of a table is asked for beside it: the table may be altered or gone by then, and PostgreSQL may
//! refuse to answer, and still every row arrives once and in order.

use std::time::Duration;

use walpost_core::description::{Description, TypeKind};
use walpost_postgres::ConnectionSettings;
use walpost_postgres::describe::describe;
use walpost_postgres::sql::Session;
use walpost_testkit::checker::{Repeats, Truth};
use walpost_testkit::servers::shared_postgres;

use crate::rig::{LIMIT, Rig, eventually, let_pass};

/// What a relay says each time that it was told about a table.
const DESCRIBED: &str = "the outbox is described";
/// What it says while it is not.
const UNDESCRIBED: &str = "PostgreSQL could not be asked about the outbox";

/// A role of the relay's own that is no superuser, so that PostgreSQL can refuse it.
fn as_a_common_role(rig: &mut Rig) -> String {
    let role = format!("{}_role", rig.database.name());
    rig.sql(&format!(
        "CREATE ROLE {role} LOGIN REPLICATION; GRANT USAGE ON SCHEMA walpost TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON walpost.checkpoint, walpost.dead_letter TO {role}"
    ));
    let url = shared_postgres().url_for(&role, None, rig.database.name());
    rig.configure(|config| config.set("source", "url", &format!("{url:?}")));
    role
}

/// The sessions that have asked and are open. The check beside the stream asks too, and goes.
fn asking_sessions(rig: &Rig, role: &str) -> Vec<String> {
    let query = format!("SELECT pid FROM pg_stat_activity WHERE usename = '{role}' AND query LIKE '%pg_enum%'");
    rig.sql(&query).into_iter().flatten().collect()
}

#[test]
fn a_table_that_is_altered_while_rows_stream_is_asked_about_again_and_loses_nothing() {
    let rig = Rig::ready("altered", &["public.outbox"]);
    let relay = rig.start_streaming();
    let running = rig.workload().pause(Duration::from_millis(5)).start();
    for alteration in [
        "ADD COLUMN note text NOT NULL DEFAULT 'it''s new'",
        "ADD COLUMN mood mood DEFAULT 'sad'",
        "ALTER COLUMN note DROP NOT NULL, ALTER COLUMN mood SET DEFAULT 'happy'",
        "DROP COLUMN note",
    ] {
        running.wait_for_more_rows(50, LIMIT).unwrap();
        let lines = relay.log_lines();
        rig.sql(&format!(
            "DO $$ BEGIN CREATE TYPE mood AS ENUM ('sad', 'happy'); EXCEPTION WHEN duplicate_object THEN NULL; END $$; \
             ALTER TABLE outbox {alteration}"
        ));
        relay.wait_for_log_since(lines, DESCRIBED, LIMIT).unwrap();
    }
    let _ = running.stop();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn rows_of_a_table_that_was_dropped_before_it_was_asked_about_are_published() {
    let rig = Rig::ready("dropped", &["public.outbox"]);
    let relay = rig.start_streaming();
    rig.sql(
        "BEGIN; INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
         SELECT gen_random_uuid(), 'order', 'key', 'Changed', '{}', seq FROM generate_series(0, 99) AS seq; \
         CREATE TABLE kept AS SELECT * FROM outbox; DROP TABLE outbox; COMMIT",
    );
    let described = relay.wait_for_log(DESCRIBED, LIMIT).unwrap();
    assert!(described.contains("columns=0"), "{described}");
    let truth = rig.outboxes[0].truth().replace("FROM public.outbox", "FROM kept");
    let truth = rig.with_partitions(Truth::read(&rig.database.url(), &truth).unwrap());
    assert_eq!(truth.len(), 100);
    rig.verdict(&truth).assert_clean(Repeats::Forbidden);
}

#[test]
fn while_nobody_answers_the_stream_waits_and_lives_and_goes_on_afterwards() {
    let mut rig = Rig::ready("unanswered", &["public.outbox"]);
    let role = as_a_common_role(&mut rig);
    rig.configure(|config| config.set("source", "wal_sender_timeout_ms", "3000"));
    let relay = rig.start_streaming();
    let walsender = rig.walsender();
    // Sessions that are open stay so.
    rig.sql(&format!("ALTER ROLE {role} CONNECTION LIMIT 0"));
    let running = rig.workload().writers(2).pause(Duration::from_millis(20)).start();
    let refused = relay.wait_for_log(UNDESCRIBED, LIMIT).unwrap();
    for part in ["public.outbox", "too many connections", "[SQLSTATE 53300]"] {
        assert!(refused.contains(part), "{refused}");
    }
    let_pass(Duration::from_secs(7));
    assert_eq!(rig.walsender(), walsender, "more than twice wal_sender_timeout: {}", relay.log());
    assert!(!relay.log().contains(DESCRIBED));
    rig.sql(&format!("ALTER ROLE {role} CONNECTION LIMIT -1"));
    relay.wait_for_log(DESCRIBED, LIMIT).unwrap();
    let _ = running.stop();
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(rig.walsender(), walsender, "{}", relay.log());
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_session_that_asks_and_is_terminated_is_replaced_by_the_next_question_and_the_stream_stays() {
    let mut rig = Rig::ready("asking", &["public.outbox"]);
    let role = as_a_common_role(&mut rig);
    let relay = rig.start_streaming();
    let walsender = rig.walsender();
    rig.insert("key", 0, 10);
    relay.wait_for_log(DESCRIBED, LIMIT).unwrap();
    for round in 1..3 {
        eventually("one session to be kept", || asking_sessions(&rig, &role).len() == 1);
        for pid in asking_sessions(&rig, &role) {
            rig.sql(&format!("SELECT pg_terminate_backend({pid})"));
        }
        eventually("it to be gone", || asking_sessions(&rig, &role).is_empty());
        let lines = relay.log_lines();
        rig.sql(&format!("ALTER TABLE outbox ADD COLUMN c{round} int DEFAULT 7"));
        rig.insert("key", 10 * round, 10);
        relay.wait_for_log_since(lines, DESCRIBED, LIMIT).unwrap();
    }
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(rig.walsender(), walsender, "{}", relay.log());
    relay.stop(LIMIT).unwrap().assert_success();
}

/// What PostgreSQL says of a relation, whose OID a query answers.
fn description(rig: &Rig, oid: &str) -> Description {
    let relation = rig.value(oid).parse().unwrap();
    let settings = ConnectionSettings::from_url(&rig.database.url(), |_| None).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let described = runtime.block_on(async {
        let session = Session::connect(&settings, LIMIT).await?;
        describe(&session, relation).await
    });
    described.unwrap()
}

const MANY_TYPES: &str = r#"
CREATE SCHEMA "We ird";
CREATE TYPE "We ird"."Mo""od" AS ENUM ('sad', 'o''k', 'ha"ppy', '', 'ü€,{}\', 'trailing ');
ALTER TYPE "We ird"."Mo""od" ADD VALUE 'between' AFTER 'sad';
CREATE DOMAIN inner_bytes AS bytea DEFAULT '\x01' NOT NULL;
CREATE DOMAIN bytes AS inner_bytes CHECK (length(VALUE) < 100);
CREATE DOMAIN short AS varchar(7);
CREATE TYPE short_range AS RANGE (subtype = short);
CREATE TYPE pair AS (a int, b text);
CREATE FUNCTION next() RETURNS text LANGUAGE sql AS 'SELECT ''n''';
CREATE TABLE "Out.box" (
    id uuid NOT NULL DEFAULT gen_random_uuid(), gone int, "ty pe""s" varchar(255) NOT NULL DEFAULT 'it''s',
    mood "We ird"."Mo""od" DEFAULT 'o''k', moods "We ird"."Mo""od"[] DEFAULT '{sad}', payload bytes, ranges short_range,
    several int4multirange, pair pair, vector int2vector, point point, name name, number int GENERATED ALWAYS AS IDENTITY,
    called text DEFAULT next(), made text GENERATED ALWAYS AS ('a' || 'b') STORED, at timestamptz(3) DEFAULT now()
);
ALTER TABLE "Out.box" DROP COLUMN gone"#;

#[test]
fn the_catalogue_tells_columns_and_types_whatever_their_names_and_the_search_path() {
    let rig = Rig::empty("described");
    rig.sql(MANY_TYPES);
    // The role's own path would leave the schemas out.
    let name = rig.database.name().to_owned();
    rig.sql(&format!(r#"ALTER DATABASE {name} SET search_path = "We ird", public"#));
    let described = description(&rig, r#"SELECT 'public."Out.box"'::regclass::oid"#);
    let columns = described
        .columns
        .iter()
        .map(|column| (column.name.as_str(), column.type_modifier, column.not_null, column.default.as_deref()));
    assert_eq!(
        columns.collect::<Vec<_>>(),
        [
            ("id", -1, true, Some("gen_random_uuid()")),
            ("ty pe\"s", 259, true, Some("'it''s'::character varying")),
            ("mood", -1, false, Some(r#"'o''k'::"We ird"."Mo""od""#)),
            ("moods", -1, false, Some(r#"'{sad}'::"We ird"."Mo""od"[]"#)),
            ("payload", -1, false, None),
            ("ranges", -1, false, None),
            ("several", -1, false, None),
            ("pair", -1, false, None),
            ("vector", -1, false, None),
            ("point", -1, false, None),
            ("name", -1, false, None),
            ("number", -1, true, None),
            ("called", -1, false, Some("public.next()")),
            ("made", -1, false, None),
            ("at", 3, false, Some("now()")),
        ]
    );
    // What each is made of, by name, down to where nothing more is known.
    let made_of = |column: &str| {
        let mut id = described.column(column).unwrap().type_id;
        let mut parts = Vec::new();
        while let Some(found) = described.type_of(id) {
            let (part, next) = match &found.kind {
                TypeKind::Domain { base, .. } => ("domain", *base),
                TypeKind::Array { element } => ("array", *element),
                TypeKind::Base => ("base", 0),
                TypeKind::Enum { .. } => ("enum", 0),
                TypeKind::Composite => ("composite", 0),
                TypeKind::Range => ("range", 0),
                TypeKind::Multirange => ("multirange", 0),
                TypeKind::Pseudo => ("pseudo", 0),
            };
            parts.push(format!("{part} {}.{}", found.schema, found.name));
            id = next;
        }
        parts.join(", ")
    };
    for (column, parts) in [
        ("id", "base pg_catalog.uuid"),
        ("mood", "enum We ird.Mo\"od"),
        ("moods", "array We ird._Mo\"od, enum We ird.Mo\"od"),
        ("payload", "domain public.bytes, domain public.inner_bytes, base pg_catalog.bytea"),
        ("ranges", "range public.short_range"),
        ("several", "multirange pg_catalog.int4multirange"),
        ("pair", "composite public.pair"),
        // They have an element each, and are written otherwise than an array.
        ("vector", "base pg_catalog.int2vector"),
        ("point", "base pg_catalog.point"),
        ("name", "base pg_catalog.name"),
    ] {
        assert_eq!(made_of(column), parts, "{column}");
    }
    let kind = |name: &str| &described.types.iter().find(|found| found.name == name).unwrap().kind;
    let labels = ["sad", "between", "o'k", "ha\"ppy", "", "ü€,{}\\", "trailing "].map(str::to_owned).to_vec();
    assert_eq!(kind("Mo\"od"), &TypeKind::Enum { labels });
    let default = Some(r"'\x01'::bytea".to_owned());
    assert_eq!(kind("inner_bytes"), &TypeKind::Domain { base: 17, type_modifier: -1, not_null: true, default });
    assert_eq!(kind("short"), &TypeKind::Domain { base: 1043, type_modifier: 11, not_null: false, default: None });
    assert_eq!(kind("int4range"), &TypeKind::Range, "of the multirange");
}

#[test]
fn no_setting_of_the_database_changes_the_text_of_a_columns_default() {
    let rig = Rig::empty("default_forms");
    rig.sql(
        r"CREATE TABLE t (d date DEFAULT '2019-03-24', i interval DEFAULT '1 mon -2 days', b bytea DEFAULT '\xdead',
            z timestamptz DEFAULT '2019-03-24 20:52:59+00')",
    );
    let name = rig.database.name().to_owned();
    for setting in
        ["DateStyle = 'SQL, DMY'", "IntervalStyle = 'iso_8601'", "bytea_output = 'escape'", "TimeZone = 'Asia/Kolkata'"]
    {
        rig.sql(&format!("ALTER DATABASE {name} SET {setting}"));
    }
    let described = description(&rig, "SELECT 'public.t'::regclass::oid");
    let defaults: Vec<&str> = described.columns.iter().filter_map(|column| column.default.as_deref()).collect();
    assert_eq!(
        defaults,
        [
            "'2019-03-24'::date",
            "'1 mon -2 days'::interval",
            r"'\xdead'::bytea",
            "'2019-03-24 20:52:59+00'::timestamp with time zone"
        ]
    );
}

#[test]
fn a_relation_that_is_no_more_has_an_empty_description() {
    let rig = Rig::empty("no_more");
    rig.sql("CREATE TABLE t (a int); CREATE TABLE oids AS SELECT 't'::regclass::oid AS oid; DROP TABLE t");
    assert_eq!(description(&rig, "SELECT oid FROM oids"), Description::default());
}

#[test]
fn tables_that_inherit_from_an_outbox_are_named_wherever_an_operator_looks_for_their_rows_are_passed_over() {
    let mut rig = Rig::ready("heirs", &["public.outbox"]);
    rig.sql(
        "CREATE TABLE urgent () INHERITS (outbox); CREATE SCHEMA later; CREATE TABLE later.deep () INHERITS (urgent)",
    );
    let warning = "later.deep, public.urgent inherit from it";
    let told = format!("outbox public.outbox: {warning}");
    rig.call(&["check"]).assert_said(0, &[&format!("warning: {told}"), "an outbox of its own", "PARTITION BY"]);
    rig.call(&["init"]).assert_said(0, &[&format!("-- note: {told}")]);
    let relay = rig.start_streaming();
    relay.wait_for_log(warning, LIMIT).unwrap();
    let into = |table: &str| {
        rig.sql(&format!(
            "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload, seq) \
             VALUES (gen_random_uuid(), 'order', '{table}', 'Changed', '{{}}', 0)"
        ));
    };
    ["urgent", "later.deep", "outbox"].into_iter().for_each(into);
    let truth = rig.outboxes[0].truth().replace("FROM public.outbox", "FROM ONLY public.outbox");
    let truth = rig.with_partitions(Truth::read(&rig.database.url(), &truth).unwrap());
    assert_eq!(truth.len(), 1);
    rig.verdict(&truth).assert_clean(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    // Partitions come under their root, and an heir that is an outbox under its own name.
    rig.sql(
        "CREATE TABLE parted (LIKE outbox) PARTITION BY HASH (id); \
         CREATE TABLE part PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0); \
         ALTER TABLE parted ADD PRIMARY KEY (id); \
         ALTER TABLE urgent ADD PRIMARY KEY (id); ALTER TABLE later.deep ADD PRIMARY KEY (id)",
    );
    for table in ["public.parted", "public.urgent", "later.deep"] {
        rig.add_table(table, table, &[]);
    }
    for command in ["init", "check"] {
        let ended = rig.call(&[command]);
        ended.assert_success();
        assert!(!ended.output.contains("inherit"), "{}", ended.output);
    }
}

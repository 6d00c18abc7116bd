use walpost_core::finding::Severity;
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::position::{SystemIdentifier, Timeline};

use super::*;
use crate::error::{Phase, ServerError};
use crate::identifier::SlotName;
use walpost_core::description::Description;

use crate::inspect::{Entry, InspectedTable, OutboxSubject, OwnTable, PublishedTable, Role, Table, TableColumn};

fn outbox() -> TableName {
    TableName { schema: "public".to_owned(), table: "outbox".to_owned() }
}

fn subject() -> Subject {
    let columns = ["id", "payload"].map(str::to_owned).to_vec();
    Subject {
        slot: SlotName::new("walpost").unwrap(),
        publications: vec!["walpost".to_owned()],
        outboxes: vec![OutboxSubject { table: outbox(), columns }],
        with_checkpoint_table: true,
        with_dead_letter_table: true,
        with_references: true,
    }
}

fn column(name: &str) -> TableColumn {
    TableColumn { name: name.to_owned(), type_name: "text".to_owned(), is_generated: false }
}

fn entry() -> Entry {
    let settings = "{\"pubowner\": 10}".to_owned();
    Entry { publication: 1, writer: 700, settings, relation: Some(2), members: vec![3], restriction: None }
}

/// A server on which nothing is to be found.
fn sound() -> Inspection {
    Inspection {
        server: Server {
            version: 150_018,
            wal_level: "logical".to_owned(),
            system: SystemIdentifier(1),
            timeline: Timeline(1),
            flushed: Lsn::new(1),
            in_recovery: false,
            database: "app".to_owned(),
            encoding: "UTF8".to_owned(),
            max_slots: 10,
            slots: vec!["other".to_owned()],
            max_senders: 10,
            senders: 1,
            max_slot_wal_keep_mb: 1024,
            wal_sender_timeout_ms: 60_000,
            synchronous_commit: "on".to_owned(),
            fsync: true,
            is_direct: true,
        },
        role: Role { name: "relay".to_owned(), is_superuser: false, may_replicate: true, may_create: false },
        slot: None,
        slot_names: Vec::new(),
        publication_names: vec!["walpost".to_owned()],
        checkpoint_table: Some(OwnTable { is_reachable: true, is_writable: true }),
        dead_letter_table: Some(OwnTable { is_reachable: true, is_writable: true }),
        publications: vec![Publication {
            name: "walpost".to_owned(),
            all_tables: false,
            inserts: true,
            updates: false,
            deletes: false,
            truncates: false,
            via_root: true,
            members: vec![outbox()],
            tables: vec![PublishedTable {
                name: outbox(),
                columns: Some(vec!["id".to_owned(), "payload".to_owned()]),
                row_filter: None,
                entry: entry(),
            }],
        }],
        tables: vec![InspectedTable {
            subject: subject().outboxes.remove(0),
            found: Some(Table {
                kind: 'r',
                is_unlogged: false,
                root: None,
                heirs: Vec::new(),
                is_owned: false,
                is_readable: true,
                identity: vec!["id".to_owned()],
                columns: vec![column("id"), column("payload")],
                description: Description::default(),
            }),
            nearest: None,
        }],
        replication_refused: None,
    }
}

fn table(inspection: &mut Inspection) -> &mut Table {
    inspection.tables[0].found.as_mut().unwrap()
}

#[test]
fn a_sound_server_has_no_findings() {
    assert_eq!(findings(&sound(), &subject()), []);
}

/// What is wrong, and the finding's severity, with words of its sentence and of its remedy.
type Case = (fn(&mut Inspection), Severity, &'static str, &'static str);

#[track_caller]
fn assert_found(cases: &[Case]) {
    for (change, severity, sentence, remedy) in cases {
        let mut inspection = sound();
        change(&mut inspection);
        let found = findings(&inspection, &subject());
        let [finding] = found.as_slice() else { panic!("{sentence}: {found:?}") };
        assert_eq!(finding.severity, *severity, "{finding}");
        assert!(finding.sentence.contains(sentence), "{finding}");
        assert!(finding.remedy.contains(remedy), "{finding}");
    }
}

#[test]
fn each_fault_of_server_and_role_is_found_and_its_remedy_named() {
    use Severity::{Error, Note, Warning};
    assert_found(&[
        (|i| i.server.version = 130_011, Error, "PostgreSQL 13.11", "14 or later"),
        (|i| i.server.version = 90_624, Error, "PostgreSQL 9.6.24", "14 or later"),
        (|i| i.server.in_recovery = true, Error, "standby", "primary"),
        (
            |i| i.server.wal_level = "replica".into(),
            Error,
            "wal_level is replica",
            "ALTER SYSTEM SET wal_level = logical",
        ),
        (|i| i.server.is_direct = false, Error, "pooler", "PostgreSQL's own port"),
        (|i| i.server.encoding = "SQL_ASCII".into(), Warning, "is SQL_ASCII", "write UTF-8"),
        (|i| i.server.encoding = "WIN1252".into(), Note, "is WIN1252", "UTF8"),
        (|i| i.server.max_slot_wal_keep_mb = -1, Warning, "unlimited", "limit"),
        (|i| i.server.fsync = false, Warning, "fsync is off", "fsync = on"),
        (|i| i.server.synchronous_commit = "off".into(), Note, "synchronous_commit", "on"),
        (|i| i.server.wal_sender_timeout_ms = 0, Note, "wal_sender_timeout is 0", "nothing"),
        (|i| i.server.max_slots = 1, Error, "all 1 replication slots are taken: other", "raise"),
        (|i| i.server.senders = 10, Error, "all 10 walsenders", "raise"),
        (
            |i| (i.server.senders, i.server.max_senders) = (0, 0),
            Error,
            "max_wal_senders is 0: nobody can follow the log",
            "ALTER SYSTEM SET max_wal_senders = 10",
        ),
        (|i| i.role.may_replicate = false, Error, "\"relay\" may not replicate", "ALTER ROLE \"relay\" REPLICATION"),
    ]);
}

#[test]
fn each_fault_of_publications_and_tables_is_found_and_its_remedy_named() {
    use Severity::{Error, Note, Warning};
    assert_found(&[
        (|i| i.publications.clear(), Error, "publication \"walpost\" does not exist", "walpost init"),
        (|i| i.publications[0].all_tables = true, Error, "FOR ALL TABLES", "DROP PUBLICATION \"walpost\""),
        (|i| i.publications[0].inserts = false, Error, "does not publish inserts", "publish = 'insert'"),
        (|i| i.publications[0].updates = true, Warning, "publishes update besides", "publish = 'insert'"),
        (|i| i.publications[0].tables.clear(), Error, "does not contain it", "ADD TABLE \"public\".\"outbox\""),
        (
            |i| i.publications[0].tables[0].row_filter = Some("(id > 1)".into()),
            Note,
            "row filter on it: (id > 1)",
            "without WHERE",
        ),
        (
            |i| i.publications[0].tables[0].columns = Some(vec!["id".into()]),
            Error,
            "column list without payload",
            "without a column list",
        ),
        (|i| i.server.version = 150_001, Note, "15.0 and 15.1", "upgrade"),
        (|i| table(i).kind = 'v', Error, "view or foreign table", "written to"),
        (|i| table(i).is_unlogged = true, Error, "unlogged", "SET LOGGED"),
        (
            |i| table(i).root = Some(TableName { schema: "public".into(), table: "events".into() }),
            Error,
            "partition of public.events",
            "public.events",
        ),
        (
            |i| table(i).heirs = vec![TableName { schema: "public".into(), table: "urgent".into() }],
            Warning,
            "public.urgent inherits from it",
            "an outbox of its own",
        ),
        (|i| table(i).columns[1].is_generated = true, Error, "is generated", "ordinary column"),
    ]);
}

#[test]
fn a_table_that_is_gone_is_not_said_to_be_added_and_before_a_first_start_there_is_no_gap() {
    let mut publications = sound().publications;
    publications[0].tables.clear();
    let gone = gap(&publications, &[outbox()], &subject()).expect("a gap").to_string();
    assert!(gone.contains("no table of this name any more") && gone.contains("make it again"), "{gone}");
    assert!(gone.contains("repair --fill") && !gone.contains("adds it"), "{gone}");
    let told = |publications: &[Publication], missing: &[TableName]| {
        let finding = unprepared(publications, missing, &subject()).expect("nothing is prepared").to_string();
        assert!(!finding.contains("repair") && !finding.contains("any more"), "{finding}");
        finding
    };
    assert!(told(&[], &[]).contains("run: walpost init"));
    assert!(told(&[], &[outbox()]).contains("walpost init --with-outbox"));
    assert!(told(&publications, &[]).contains("walpost init, which adds it"));
    assert_eq!(unprepared(&sound().publications, &[], &subject()), None);
}

#[test]
fn a_table_that_inherits_from_an_outbox_and_is_one_itself_is_not_warned_of() {
    let mut inspection = sound();
    let named = |name: &str| TableName { schema: "public".to_owned(), table: name.to_owned() };
    table(&mut inspection).heirs = vec![named("slow"), named("urgent")];
    let heir = InspectedTable {
        subject: OutboxSubject { table: named("slow"), columns: Vec::new() },
        found: None,
        nearest: None,
    };
    inspection.tables.push(heir);
    let found = heirs(&inspection.tables);
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert!(finding.sentence.contains("public.urgent") && !finding.sentence.contains("slow"), "{finding}");
}

#[test]
fn a_partitioned_outbox_must_be_published_by_its_root() {
    let mut inspection = sound();
    table(&mut inspection).kind = 'p';
    inspection.publications[0].via_root = false;
    inspection.publications[0].tables[0].name.table = "outbox_2026".to_owned();
    let found = findings(&inspection, &subject());
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert!(finding.remedy.contains("publish_via_partition_root = true"), "{finding}");
}

#[test]
fn a_table_that_is_missing_is_named_with_the_nearest_that_is_not() {
    let mut inspection = sound();
    inspection.tables[0].found = None;
    inspection.tables[0].nearest = Some("public.outbox2".to_owned());
    let found = findings(&inspection, &subject());
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert!(finding.remedy.contains("public.outbox2") && finding.remedy.contains("--with-outbox"), "{finding}");
}

#[test]
fn a_refused_replication_session_brings_its_own_remedy() {
    let mut inspection = sound();
    let error = ServerError {
        sqlstate: Some("28000".to_owned()),
        message: "no pg_hba.conf entry".to_owned(),
        detail: None,
        hint: None,
    };
    inspection.replication_refused = Some(crate::Error::Server { phase: Phase::Connecting, error });
    let found = findings(&inspection, &subject());
    assert!(found[0].remedy.contains("pg_hba.conf"), "{}", found[0]);
}

#[test]
fn all_findings_come_at_once_and_the_worst_first() {
    let mut inspection = sound();
    inspection.server.synchronous_commit = "off".to_owned();
    inspection.server.max_slot_wal_keep_mb = -1;
    inspection.server.wal_level = "minimal".to_owned();
    inspection.publications.clear();
    let severities: Vec<_> = findings(&inspection, &subject()).iter().map(|finding| finding.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Error, Severity::Warning, Severity::Note]);
}

#[test]
fn a_full_server_is_no_fault_for_the_slot_and_walsender_that_are_ours() {
    let mut inspection = sound();
    inspection.server.max_slots = 1;
    inspection.server.senders = 10;
    inspection.slot = Some(walpost_core::start::SlotState {
        name: "walpost".to_owned(),
        kind: walpost_core::start::SlotKind::Logical,
        temporary: false,
        plugin: None,
        database: None,
        active_pid: Some(1),
        restart: None,
        confirmed: None,
        lost: None,
    });
    assert_eq!(findings(&inspection, &subject()), []);
}

#[test]
fn a_start_that_would_pass_over_rows_is_refused() {
    type Change = fn(&mut Vec<Publication>);
    let cases: [(Change, Option<&str>); 6] = [
        (|_| {}, None),
        (|found| found[0].updates = true, None),
        (|found| found.clear(), Some("\"walpost\" does not exist")),
        (|found| found[0].inserts = false, Some("passed over")),
        (|found| found[0].tables.clear(), Some("passed over")),
        (|found| found[0].tables[0].name.table = "outbox_p1".to_owned(), Some("passed over")),
    ];
    for (change, expected) in cases {
        let mut publications = sound().publications;
        change(&mut publications);
        let gap = gap(&publications, &[], &subject()).map(|finding| finding.to_string());
        match expected {
            None => assert_eq!(gap, None),
            Some(part) => assert!(gap.as_ref().is_some_and(|gap| gap.contains(part)), "{part}: {gap:?}"),
        }
    }
}

#[test]
fn how_to_put_back_an_outbox_depends_on_what_keeps_it_out() {
    type Change = fn(&mut Publication);
    let cases: [(Change, &str); 4] = [
        (|found| found.inserts = false, "ALTER PUBLICATION \"walpost\" SET (publish = 'insert');"),
        (
            |found| (found.inserts, found.updates, found.truncates) = (false, true, true),
            "ALTER PUBLICATION \"walpost\" SET (publish = 'insert, update, truncate');",
        ),
        (
            |found| {
                found.via_root = false;
                found.tables[0].name.table = "outbox_p1".to_owned();
            },
            "ALTER PUBLICATION \"walpost\" SET (publish_via_partition_root = true);",
        ),
        (
            |found| {
                found.members.clear();
                found.tables.clear();
            },
            "walpost init, which adds it;",
        ),
    ];
    for (change, remedy) in cases {
        let mut publications = sound().publications;
        change(&mut publications[0]);
        let gap = gap(&publications, &[], &subject()).expect("a gap");
        assert!(gap.remedy.contains(remedy) && gap.remedy.contains("walpost repair --fill --since TIME"), "{gap}");
    }
}

#[test]
fn a_row_filter_on_an_outbox_is_noted_and_one_on_another_table_is_not() {
    let mut publications = sound().publications;
    assert_eq!(filters(&publications, &subject()), []);
    let filtered = PublishedTable { row_filter: Some("(id > 1)".to_owned()), ..publications[0].tables[0].clone() };
    let other = TableName { schema: "public".to_owned(), table: "other".to_owned() };
    publications[0].tables = vec![PublishedTable { name: other, ..filtered.clone() }, filtered];
    let found = filters(&publications, &subject());
    let [finding] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((finding.severity, finding.subject.as_str()), (Severity::Note, "outbox public.outbox"));
}

/// What is done between two looks, and what is seen of it.
type Deed = (&'static str, fn(&mut Publication), Option<Change>);

const DEEDS: [Deed; 14] = [
    ("nothing", |_| {}, None),
    ("the table put back", |found| found.tables[0].entry.members = vec![9], Some(Change::Broken)),
    ("the table added with its schema too", |found| found.tables[0].entry.members = vec![3, 9], None),
    ("the table made anew", |found| found.tables[0].entry.relation = Some(9), Some(Change::Broken)),
    ("the publication made anew", |found| found.tables[0].entry.publication = 9, Some(Change::Broken)),
    ("the table taken out", |found| found.tables.clear(), Some(Change::Broken)),
    ("inserts no longer published", |found| found.inserts = false, Some(Change::Broken)),
    ("the publication altered and put back", |found| found.tables[0].entry.writer = 701, Some(Change::Broken)),
    (
        "another owner",
        |found| {
            found.tables[0].entry.writer = 701;
            found.tables[0].entry.settings = "{\"pubowner\": 11}".to_owned();
        },
        Some(Change::Altered),
    ),
    (
        "a row filter",
        |found| {
            found.tables[0].entry.members = vec![9];
            found.tables[0].entry.restriction = Some("(id > 1)".to_owned());
        },
        Some(Change::Altered),
    ),
    (
        "only the part that the row filter was on",
        |found| found.tables[0].entry.restriction = Some("(id > 1)".to_owned()),
        Some(Change::Altered),
    ),
    (
        "a row filter, and the publication altered and put back",
        |found| {
            found.tables[0].entry.writer = 701;
            found.tables[0].entry.members = vec![9];
            found.tables[0].entry.restriction = Some("(id > 1)".to_owned());
        },
        Some(Change::Broken),
    ),
    (
        "another owner, and the table put back",
        |found| {
            found.tables[0].entry.writer = 701;
            found.tables[0].entry.settings = "{\"pubowner\": 11}".to_owned();
            found.tables[0].entry.members = vec![9];
        },
        Some(Change::Broken),
    ),
    ("the publication FOR ALL TABLES", |found| found.tables[0].entry.members.clear(), Some(Change::Broken)),
];

#[test]
fn an_outbox_that_was_out_of_its_publication_for_a_moment_is_known_by_what_was_written_again() {
    let second = || {
        let mut second = sound().publications.remove(0);
        second.name = "second".to_owned();
        second.tables[0].entry.publication = 2;
        second
    };
    for (name, deed, expected) in DEEDS {
        let before = Coverage::of(&sound().publications, &subject());
        let mut publications = sound().publications;
        deed(&mut publications[0]);
        let now = Coverage::of(&publications, &subject());
        let changes: Vec<_> = now.changes_since(&before).into_iter().map(|(_, change)| change).collect();
        assert_eq!(changes, Vec::from_iter(expected), "{name}");
        assert_eq!(now.changes_since(&now), [], "{name}: told once");
        // While another publication carries it, no row is passed over.
        let before = Coverage::of(&[sound().publications.remove(0), second()], &subject());
        publications.push(second());
        assert_eq!(Coverage::of(&publications, &subject()).changes_since(&before), [], "{name}");
        // What was not published before is not missed.
        assert_eq!(now.changes_since(&Coverage::of(&[], &subject())), []);
    }
}

#[test]
fn a_publication_that_is_gone_under_a_slot_is_made_again_together_with_the_slot() {
    let missing = gap(&[], &[], &subject()).expect("a gap");
    for part in [
        "CREATE PUBLICATION \"walpost\" FOR TABLE \"public\".\"outbox\"",
        "walpost repair --fill --since TIME",
        "--recreate --accept-gap",
    ] {
        assert!(missing.remedy.contains(part), "{part}: {missing}");
    }
}

#[test]
fn a_checkpoint_that_the_role_may_not_write_is_found_where_it_is_kept_there() {
    for (is_reachable, is_writable) in [(false, true), (true, false), (false, false)] {
        let mut inspection = sound();
        inspection.checkpoint_table = Some(OwnTable { is_reachable, is_writable });
        let found = findings(&inspection, &subject());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].severity, found[0].subject.as_str()), (Severity::Error, "walpost.checkpoint"));
        assert!(found[0].remedy.contains("ON walpost.checkpoint TO \"relay\""), "{}", found[0]);
        assert_eq!(findings(&inspection, &Subject { with_checkpoint_table: false, ..subject() }), []);
    }
}

#[test]
fn a_table_of_dead_letters_that_is_missing_or_cannot_be_written_is_found_where_rows_may_be_set_aside() {
    let table = |is_reachable, is_writable| Some(OwnTable { is_reachable, is_writable });
    for (dead_letter_table, remedy) in [
        (None, "walpost init"),
        (table(false, true), "GRANT USAGE ON SCHEMA walpost TO \"relay\""),
        (table(true, false), "ON walpost.dead_letter TO \"relay\""),
    ] {
        let inspection = Inspection { dead_letter_table, ..sound() };
        let found = findings(&inspection, &subject());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].severity, found[0].subject.as_str()), (Severity::Error, "walpost.dead_letter"));
        assert!(found[0].remedy.contains(remedy), "{}", found[0]);
        assert_eq!(findings(&inspection, &Subject { with_dead_letter_table: false, ..subject() }), []);
    }
}

#[test]
fn a_publication_that_does_not_exist_is_told_with_the_one_that_is_near() {
    for (known, remedy) in [
        (vec![], "run: walpost init"),
        (vec!["dbz_publication"], "run: walpost init"),
        (
            vec!["dbz_publication", "walpots"],
            "did you mean \"walpots\"? Then correct source.publication; otherwise run: walpost init",
        ),
    ] {
        let known = known.into_iter().map(str::to_owned).collect();
        let inspection = Inspection { publications: Vec::new(), publication_names: known, ..sound() };
        let found = findings(&inspection, &subject());
        assert_eq!((found.len(), found[0].remedy.as_str()), (1, remedy), "{found:?}");
    }
}

#[test]
fn a_missing_column_is_told_with_the_one_that_is_near_and_is_not_also_withheld() {
    for (there, remedy) in [
        (
            "payloads",
            "did you mean \"payloads\"? Then name that one in the router's option; otherwise add the column \"payload\" to public.outbox",
        ),
        ("body", "add the column \"payload\" to public.outbox, or name another one in the router's option"),
    ] {
        let mut inspection = sound();
        table(&mut inspection).columns[1].name = there.to_owned();
        for columns in [vec!["id", "payload"], vec!["id", there]] {
            inspection.publications[0].tables[0].columns = Some(columns.into_iter().map(str::to_owned).collect());
            let found = findings(&inspection, &subject());
            let [finding] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(finding.sentence, "it has no column \"payload\", which the router needs");
            assert_eq!((finding.severity, finding.remedy.as_str()), (Severity::Error, remedy));
        }
    }
}

#[test]
fn a_table_whose_rows_nobody_could_find_again_is_refused_where_letters_keep_references() {
    let whole = Subject { with_references: false, ..subject() };
    type Case = (fn(&mut Inspection), &'static str, &'static str);
    let cases: [Case; 3] = [
        (|inspection| table(inspection).identity.clear(), "keep no reference to one", "REPLICA IDENTITY DEFAULT"),
        (
            |inspection| table(inspection).identity = vec!["no".to_owned()],
            "column list without \"no\"",
            "keep = \"row\"",
        ),
        (
            |inspection| table(inspection).is_readable = false,
            "may not read it",
            "GRANT SELECT ON \"public\".\"outbox\" TO \"relay\"",
        ),
    ];
    for (change, sentence, remedy) in cases {
        let mut inspection = sound();
        change(&mut inspection);
        assert_eq!(findings(&inspection, &whole), []);
        let found = findings(&inspection, &subject());
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert!(finding.to_string().contains(sentence) && finding.to_string().contains(remedy), "{finding}");
    }
}

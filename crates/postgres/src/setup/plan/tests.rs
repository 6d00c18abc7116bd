use walpost_core::description::Description;
use walpost_core::lsn::Lsn;
use walpost_core::position::{Epoch, SystemIdentifier, Timeline};
use walpost_core::start::SlotState;

use super::*;
use crate::identifier::SlotName;
use crate::inspect::{InspectedTable, OutboxSubject, Role, Table};

fn table(name: &str) -> TableName {
    TableName { schema: "public".to_owned(), table: name.to_owned() }
}

fn settings() -> SetupSettings {
    SetupSettings {
        slot: SlotName::new("walpost").unwrap(),
        publications: vec!["Wal.Post".to_owned()],
        outboxes: vec![table("Order.Outbox"), table("outbox")],
        with_outbox: false,
        with_checkpoint_table: true,
        with_dead_letter_table: true,
        failover: false,
    }
}

fn inspected(table: TableName, kind: Option<char>) -> InspectedTable {
    let description = Description::default();
    let found = kind.map(|kind| Table {
        kind,
        is_unlogged: false,
        root: None,
        heirs: Vec::new(),
        is_owned: true,
        is_readable: true,
        identity: Vec::new(),
        columns: Vec::new(),
        description,
    });
    InspectedTable { subject: OutboxSubject { table, columns: Vec::new() }, found, nearest: None }
}

fn nothing_but_tables() -> Facts {
    Facts {
        version: 150_018,
        role: Role { name: "relay".to_owned(), is_superuser: false, may_replicate: true, may_create: true },
        publications: Vec::new(),
        tables: settings().outboxes.into_iter().map(|table| inspected(table, Some('r'))).collect(),
        missing_schemas: Vec::new(),
        has_checkpoint_table: false,
        has_former_checkpoint_table: false,
        has_dead_letter_table: false,
        slot: None,
        is_carried: false,
        no_room: None,
    }
}

fn publication(members: Vec<TableName>) -> Publication {
    Publication {
        name: "Wal.Post".to_owned(),
        all_tables: false,
        inserts: true,
        updates: false,
        deletes: false,
        truncates: false,
        via_root: true,
        members,
        tables: Vec::new(),
    }
}

fn slot() -> SlotState {
    SlotState {
        name: "walpost".to_owned(),
        kind: SlotKind::Logical,
        temporary: false,
        plugin: Some("pgoutput".to_owned()),
        database: Some("app".to_owned()),
        active_pid: None,
        restart: Some(Lsn::new(1)),
        confirmed: Some(Lsn::new(2)),
        lost: None,
    }
}

fn everything() -> Facts {
    Facts {
        publications: vec![publication(settings().outboxes)],
        missing_schemas: Vec::new(),
        has_checkpoint_table: true,
        has_former_checkpoint_table: false,
        has_dead_letter_table: true,
        slot: Some(slot()),
        ..nothing_but_tables()
    }
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        relay: "relay".to_owned(),
        system: SystemIdentifier(1),
        timeline: Timeline(1),
        database: "app".to_owned(),
        slot: "walpost".to_owned(),
        position: Lsn::new(0xAB),
        commit_time: None,
        settled_rows: None,
        epoch: Epoch(1),
    }
}

fn statements(plan: &Plan) -> Vec<&str> {
    plan.steps.iter().map(|step| step.sql.as_str()).collect()
}

#[test]
fn a_fresh_database_gets_publication_then_tables_then_slot() {
    let plan = plan(&settings(), &nothing_but_tables(), None);
    assert_eq!(
        statements(&plan),
        [
            "CREATE PUBLICATION \"Wal.Post\" FOR TABLE \"public\".\"Order.Outbox\", \"public\".\"outbox\" \
             WITH (publish = 'insert', publish_via_partition_root = true)",
            CHECKPOINT_TABLE,
            DEAD_LETTER_TABLE,
            "SELECT pg_create_logical_replication_slot('walpost', 'pgoutput')",
        ]
    );
    assert_eq!((plan.obstacles.len(), plan.differences.len()), (0, 0));
}

#[test]
fn what_is_there_is_left_alone() {
    for checkpoint in [None, Some(&checkpoint())] {
        let plan = plan(&settings(), &everything(), checkpoint);
        assert!(plan.is_empty() && plan.differences.is_empty(), "{plan:?}");
    }
}

#[test]
fn an_outbox_that_was_added_is_added_to_the_publication() {
    let facts = Facts { publications: vec![publication(vec![table("outbox")])], ..everything() };
    assert_eq!(
        statements(&plan(&settings(), &facts, None)),
        ["ALTER PUBLICATION \"Wal.Post\" ADD TABLE \"public\".\"Order.Outbox\""]
    );
}

#[test]
fn a_missing_outbox_is_an_obstacle_unless_it_is_to_be_created_and_then_it_comes_first() {
    let tables = vec![inspected(table("Order.Outbox"), None), inspected(table("outbox"), Some('r'))];
    let facts = Facts { tables, ..nothing_but_tables() };
    let refused = plan(&settings(), &facts, None);
    assert!(refused.obstacles[0].contains("--with-outbox"), "{refused:?}");
    let created = plan(&SetupSettings { with_outbox: true, ..settings() }, &facts, None);
    assert!(created.obstacles.is_empty());
    assert!(created.steps[0].sql.contains("CREATE TABLE IF NOT EXISTS \"public\".\"Order.Outbox\" ("));
    assert!(created.steps[1].sql.starts_with("CREATE PUBLICATION"));
}

#[test]
fn a_publication_younger_than_the_slot_is_never_made_for_its_log_could_not_be_read_through_it() {
    let facts = Facts { publications: Vec::new(), ..everything() };
    let plan = plan(&settings(), &facts, Some(&checkpoint()));
    assert_eq!(statements(&plan), [""; 0]);
    let [obstacle] = plan.obstacles.as_slice() else { panic!("{:?}", plan.obstacles) };
    assert!(
        obstacle.contains("younger publication") && obstacle.contains("walpost repair --fill --since TIME"),
        "{obstacle}"
    );
}

#[test]
fn a_publication_for_all_tables_or_without_inserts_is_refused() {
    let all = Publication { all_tables: true, ..publication(Vec::new()) };
    let without = Publication { inserts: false, ..publication(settings().outboxes) };
    for (publication, part) in [(all, "FOR ALL TABLES"), (without, "does not publish inserts")] {
        let facts = Facts { publications: vec![publication], ..everything() };
        let plan = plan(&settings(), &facts, None);
        assert!(plan.obstacles[0].contains(part) && plan.steps.is_empty(), "{plan:?}");
    }
}

#[test]
fn what_a_publication_has_too_much_is_shown_and_never_taken_away() {
    let mut members = settings().outboxes;
    members.push(table("customers"));
    let wide = Publication { updates: true, via_root: false, ..publication(members) };
    let mut facts = Facts { publications: vec![wide], ..everything() };
    facts.tables[1] = inspected(table("outbox"), Some('p'));
    let plan = plan(&settings(), &facts, None);
    let shown: Vec<_> = plan.differences.iter().filter_map(|difference| difference.sql.as_deref()).collect();
    assert_eq!(
        shown,
        [
            "ALTER PUBLICATION \"Wal.Post\" SET (publish = 'insert')",
            "ALTER PUBLICATION \"Wal.Post\" SET (publish_via_partition_root = true)",
            "ALTER PUBLICATION \"Wal.Post\" DROP TABLE \"public\".\"customers\"",
        ]
    );
    assert!(plan.is_empty(), "nothing of it is applied");
}

#[test]
fn a_missing_slot_is_not_made_anew_while_there_is_a_checkpoint() {
    let facts = Facts { slot: None, ..everything() };
    let plan = plan(&settings(), &facts, Some(&checkpoint()));
    assert!(plan.steps.is_empty());
    let [told] = plan.obstacles.as_slice() else { panic!("{plan:?}") };
    for words in ["0/AB", "run: walpost repair", "walpost checkpoint forget, then walpost init"] {
        assert!(told.contains(words), "{words} in {told}");
    }
}

#[test]
fn a_checkpoint_of_another_slot_is_told_with_whose_it_is_and_not_to_be_forgotten_while_that_holds_rows() {
    let facts = Facts { slot: None, ..everything() };
    let theirs = Checkpoint { slot: "former".to_owned(), system: SystemIdentifier(u64::MAX), ..checkpoint() };
    let plan = plan(&settings(), &facts, Some(&theirs));
    assert!(plan.steps.is_empty(), "{plan:?}");
    let [told] = plan.obstacles.as_slice() else { panic!("{plan:?}") };
    let words =
        ["0/AB of the slot \"former\"", "\"app\"", "18446744073709551615", "write slot = \"former\" under [source]"];
    for words in words {
        assert!(told.contains(words), "{words} in {told}");
    }
    assert!(told.contains("once nothing of it is to be published any more, run: walpost checkpoint forget"), "{told}");
}

#[test]
fn a_slot_that_cannot_be_read_is_an_obstacle() {
    for odd in [
        SlotState { kind: SlotKind::Physical, plugin: None, ..slot() },
        SlotState { temporary: true, ..slot() },
        SlotState { plugin: Some("wal2json".to_owned()), ..slot() },
        SlotState { lost: Some("wal_removed".to_owned()), ..slot() },
    ] {
        let facts = Facts { slot: Some(odd), ..everything() };
        let plan = plan(&settings(), &facts, None);
        assert!(plan.obstacles[0].contains("pg_drop_replication_slot('walpost')"), "{plan:?}");
    }
}

#[test]
fn a_failover_slot_is_made_or_an_existing_one_becomes_one_where_the_server_knows_it() {
    let settings = SetupSettings { failover: true, ..settings() };
    let planned = |facts: Facts| plan(&settings, &facts, None);
    let old = planned(Facts { version: 160_004, ..everything() });
    assert!(old.obstacles.iter().any(|sentence| sentence.contains("16.4") && sentence.contains("walpost repair")));
    let anew = planned(Facts { version: 170_000, ..nothing_but_tables() });
    assert!(statements(&anew).last().unwrap().ends_with("('walpost', 'pgoutput', false, false, true)"));
    let changed = planned(Facts { version: 180_001, ..everything() });
    assert_eq!(statements(&changed), ["ALTER_REPLICATION_SLOT walpost (FAILOVER true)"]);
    assert!(changed.to_string().lines().all(|line| line.is_empty() || line.starts_with("--")), "it is no SQL");
    assert!(planned(Facts { version: 180_001, is_carried: true, ..everything() }).is_empty());
    let read = SlotState { active_pid: Some(7), ..slot() };
    let read = planned(Facts { version: 180_001, slot: Some(read), ..everything() });
    assert!(read.steps.is_empty() && read.obstacles[0].contains("process 7"), "{read:?}");
}

#[test]
fn several_publications_share_the_outboxes_and_the_first_takes_what_none_has() {
    let mut settings = settings();
    settings.publications = vec!["a".to_owned(), "b".to_owned()];
    let b = Publication { name: "b".to_owned(), ..publication(vec![table("outbox")]) };
    let facts = Facts { publications: vec![b], slot: None, ..everything() };
    assert_eq!(
        statements(&plan(&settings, &facts, None))[..1],
        ["CREATE PUBLICATION \"a\" FOR TABLE \"public\".\"Order.Outbox\" \
          WITH (publish = 'insert', publish_via_partition_root = true)"]
    );
}

#[test]
fn what_the_role_lacks_is_said_beforehand_and_only_where_it_is_needed() {
    let role = Role { name: "relay".to_owned(), is_superuser: false, may_replicate: false, may_create: false };
    let strangers = |mut facts: Facts| {
        facts
            .tables
            .iter_mut()
            .filter_map(|inspected| inspected.found.as_mut())
            .for_each(|table| table.is_owned = false);
        Facts { role: role.clone(), ..facts }
    };
    let lacks = plan(&settings(), &strangers(nothing_but_tables()), None).lacks;
    let parts = [
        "GRANT CREATE ON DATABASE",
        "does not own public.\"Order.Outbox\"",
        "does not own public.outbox",
        "REPLICATION",
    ];
    assert_eq!(lacks.len(), parts.len(), "{lacks:?}");
    for (sentence, part) in lacks.iter().zip(parts) {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert_eq!(plan(&settings(), &strangers(everything()), None).lacks, [""; 0]);
}

#[test]
fn a_checkpoint_table_of_an_earlier_walpost_gets_what_it_lacks() {
    let facts = Facts { has_checkpoint_table: true, has_former_checkpoint_table: true, ..nothing_but_tables() };
    for (with_checkpoint_table, count) in [(true, 1), (false, 0)] {
        let settings = SetupSettings { with_checkpoint_table, ..settings() };
        let plan = plan(&settings, &facts, None);
        let added: Vec<_> = plan.steps.iter().filter(|step| step.sql.contains("settled_through")).collect();
        assert_eq!(added.len(), count);
        assert!(added.iter().all(|step| step.sql.contains("ALTER TABLE walpost.checkpoint")), "{added:?}");
    }
}

#[test]
fn a_table_for_dead_letters_is_made_only_where_rows_may_be_set_aside() {
    for (with_dead_letter_table, has_dead_letter_table, expected) in
        [(true, false, &[DEAD_LETTER_TABLE][..]), (true, true, &[]), (false, false, &[])]
    {
        let settings = SetupSettings { with_dead_letter_table, ..settings() };
        let facts = Facts { has_dead_letter_table, ..everything() };
        assert_eq!(statements(&plan(&settings, &facts, Some(&checkpoint()))), expected);
    }
}

#[test]
fn what_is_run_in_a_database_of_any_encoding_is_ascii() {
    for sql in [CHECKPOINT_TABLE, SETTLED_ROWS, OUTBOX_TABLE, DEAD_LETTER_TABLE] {
        assert!(sql.is_ascii(), "{sql}");
    }
}

//! What is decided about each trouble, and what is said.

use std::io::ErrorKind;

use walpost_core::outbox::TableName;
use walpost_core::poison::RowFault;
use walpost_core::position::Timeline;
use walpost_postgres::error::{Phase, ServerError};

use super::*;

const NOTHING_LEFT: Rest = Rest { unsettled: 0, unsaved: 0, is_cut: false };
const IDENTITY: Identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x10), ordinal: 3 };

fn refused(sqlstate: &str) -> PostgresError {
    let message = "no".to_owned();
    let error = ServerError { sqlstate: Some(sqlstate.to_owned()), message, detail: None, hint: None };
    PostgresError::Server { phase: Phase::Streaming, error }
}

fn ended(cause: Cause) -> Trouble {
    Trouble::Session { cause, rest: NOTHING_LEFT, source_error: None }
}

fn lost(error: PostgresError) -> Trouble {
    Trouble::Session { cause: Cause::SourceLost, rest: NOTHING_LEFT, source_error: Some(error) }
}

fn undelivered(class: DeliveryClass) -> Trouble {
    ended(Cause::Undeliverable(IDENTITY, Failure::new(class, "too large")))
}

fn busy(in_creation: bool) -> StartState {
    StartState::SlotBusy { slot: "orders".to_owned(), pid: Some(7), in_creation }
}

fn bad_row() -> SessionError {
    let table = TableName { schema: "public".to_owned(), table: "outbox".to_owned() };
    SessionError::Row { table, identity: IDENTITY, event_id: Some("7".to_owned()), fault: RowFault::new("it is bad") }
}

fn file_damaged() -> checkpoint::Error {
    checkpoint::Error::Damaged { path: "c".into(), reason: "it is empty".to_owned() }
}

fn file_refused(kind: ErrorKind) -> checkpoint::Error {
    checkpoint::Error::File { path: "c".into(), action: "written", source: kind.into() }
}

fn row_refused(sqlstate: &str) -> checkpoint::Error {
    checkpoint::Error::Postgres { source: refused(sqlstate) }
}

/// The code, `again`, `stand by` or `linger`, and what is said.
fn decided(trouble: Trouble) -> (String, String) {
    decided_with(trouble, true)
}

fn decided_with(trouble: Trouble, keeps_a_checkpoint: bool) -> (String, String) {
    let relay = Relay { slot: "orders", keeps_a_checkpoint, sink_refusal: Exit::SinkRefused };
    match decide(trouble, relay) {
        Decision::Again(reason) => ("again".to_owned(), reason),
        Decision::StandBy(reason) => ("stand by".to_owned(), reason),
        Decision::Linger(reason) => ("linger".to_owned(), reason),
        Decision::End(Ok(exit)) => (exit.code().to_string(), String::new()),
        Decision::End(Err(Ended { exit, cause })) => (exit.code().to_string(), format!("{cause:#}")),
    }
}

fn aborted(class: DeliveryClass) -> Trouble {
    ended(Cause::Aborted(None, Failure::new(class, "too large")))
}

#[test]
fn what_ends_an_attempt_leads_to_a_new_one_to_waiting_or_to_a_code_of_its_own() {
    let slot = || "orders".to_owned();
    let finding = Finding::error("outbox", "unpublished", "run: walpost init");
    let renamed = Finding::error("name", "letters of another name", "write name = \"former\"");
    let misfits = ["no key", "no route"].map(|sentence| Finding::error("outbox", sentence, "mend it"));
    let cases = [
        ("told to stop before", Trouble::StoppedBefore(NOTHING_LEFT), "0", ""),
        ("told to stop", ended(Cause::Stopped), "0", ""),
        ("moved", Trouble::Moved, "again", "moved"),
        ("busy", Trouble::Start(busy(false)), "stand by", "is read by process 7"),
        ("in creation", Trouble::Start(busy(true)), "stand by", "is being created by process 7"),
        (
            "busy with ourselves",
            Trouble::Lingering(busy(false)),
            "linger",
            "process 7 of the server, which is our own last connection",
        ),
        ("fresh", Trouble::Start(StartState::Fresh { slot: slot() }), "20", "walpost init"),
        ("a standby at the start", Trouble::Start(StartState::InRecovery), "35", "standby"),
        ("a standby in a failover", Trouble::NoPrimary(StartState::InRecovery), "again", "standby"),
        ("unpublished", Trouble::Unpublished(finding), "4", "walpost init"),
        ("renamed", Trouble::Renamed(renamed), "11", "write name"),
        ("misfits", Trouble::Misfit(misfits.into()), "4", "2 faults"),
        ("starting up", Trouble::Postgres(refused("57P03")), "again", "57P03"),
        ("cut", lost(PostgresError::Ended), "again", "ended"),
        ("no such right", Trouble::Postgres(refused("42501")), "4", "walpost check"),
        ("unheard of", lost(refused("XX000")), "again", "XX000"),
        ("held", Trouble::Checkpoint(checkpoint::Error::Locked { path: "c".into() }.into()), "stand by", "in use"),
        ("too new", Trouble::Checkpoint(checkpoint::Error::NewerFormat { found: 9 }.into()), "11", "format 9"),
        ("damaged", Trouble::Checkpoint(file_damaged().into()), "11", "walpost checkpoint adopt-slot"),
        ("read-only", Trouble::Checkpoint(file_refused(ErrorKind::ReadOnlyFilesystem).into()), "11", "mount it"),
        ("a full disk", Trouble::Checkpoint(file_refused(ErrorKind::StorageFull).into()), "again", "cannot be written"),
        (
            "a disk that went",
            Trouble::StoreAway(file_refused(ErrorKind::NotFound).into()),
            "again",
            "cannot be written",
        ),
        (
            "a checkpoint that is gone",
            Trouble::CheckpointGone { place: "topic c".to_owned(), confirmed: Lsn::new(0x10) },
            "11",
            "gone from topic c, and an older one is there: the topic was made anew, and somebody wrote one since; nothing is lost",
        ),
        ("no right to the row", Trouble::Checkpoint(row_refused("42501").into()), "4", "walpost check"),
        ("given up", ended(Cause::SourceLost), "again", "given up"),
        ("silent", ended(Cause::Silent), "again", "wal_sender_timeout"),
        ("unreadable", ended(Cause::Broken(SessionError::NotReady)), "again", "had not asked"),
        (
            "a bad row",
            ended(Cause::Broken(bad_row())),
            "7",
            "(id 7, commit 0/10, insert 4 of its transaction): it is bad; if the configuration",
        ),
        ("a row for no broker", undelivered(DeliveryClass::Row), "7", "commit 0/10, insert 4"),
        ("a wrong password", undelivered(DeliveryClass::Configuration), "6", "too large"),
        ("fenced", Trouble::Fenced(Failure::new(DeliveryClass::Configuration, "taken over")), "stand by", "taken over"),
        ("a commit without an answer", aborted(DeliveryClass::Sink), "again", "too large"),
        ("a commit that is forbidden", aborted(DeliveryClass::Configuration), "6", "too large"),
        ("no broker", Trouble::Sink(Failure::new(DeliveryClass::Configuration, "no entry")), "6", "no entry"),
    ];
    for (what, trouble, decision, words) in cases {
        let (decided, said) = decided(trouble);
        assert_eq!(decided, decision, "{what}: {said}");
        assert!(said.contains(words), "{what}: {said}");
        assert!(!said.contains("error:"), "the log says itself that it is one: {said}");
    }
}

#[test]
fn a_transaction_that_the_server_cannot_send_ends_the_relay_with_where_it_is_and_every_way_on() {
    let trouble = |commit| Trouble::Undecodable { error: refused("22012"), received: Lsn::new(0x20), commit };
    let advance = "SELECT pg_replication_slot_advance('orders', ";
    for (commit, place, way) in [
        (Some(Lsn::new(0x30)), "the transaction that committed at 0/30", format!("{advance}'0/30'::pg_lsn + 1)")),
        (None, "a transaction that committed behind 0/20", format!("{advance}'LSN')")),
    ] {
        let (code, said) = decided(trouble(commit));
        assert_eq!(code, "4", "{said}");
        let words = ["no [SQLSTATE 22012]", place, "nothing is lost", "walpost repair --fill --since TIME", &way];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(said.contains("then walpost checkpoint adopt-slot"), "{said}");
        assert_eq!(said.contains("pg_copy_logical_replication_slot('orders'"), commit.is_none(), "{said}");
        assert!(!decided_with(trouble(commit), false).1.contains("adopt-slot"), "{said}");
    }
}

#[cfg(feature = "kafka")]
#[test]
fn a_topic_of_ours_that_is_gone_or_forbidden_ends_the_first_start_and_is_waited_for_under_way() {
    use walpost_kafka::{CheckpointError, LetterError, ReadError};

    for (read, remedy) in [
        (|| ReadError::Missing { topic: "c".to_owned() }, "walpost init"),
        (|| ReadError::Forbidden { topic: "c".to_owned() }, "kafka-acls.sh"),
    ] as [(fn() -> ReadError, &str); 2]
    {
        let checkpoint = || store::Error::from(CheckpointError::Read(read()));
        let letters = || letters::Error::from(LetterError::Read(read()));
        for (trouble, decision) in [
            (Trouble::Checkpoint(checkpoint()), "6"),
            (Trouble::StoreAway(checkpoint()), "again"),
            (Trouble::Letters(letters()), "6"),
            (Trouble::LettersAway(letters()), "again"),
        ] {
            let (decided, said) = decided(trouble);
            assert_eq!(decided, decision, "{said}");
            assert!(said.contains("topic c ") && said.contains(remedy), "{said}");
        }
    }
}

#[test]
fn who_goes_on_without_a_row_is_told_to_adopt_the_slot_only_where_there_is_another_position() {
    let advance = "pg_replication_slot_advance('orders', '0/10'::pg_lsn + 1)";
    for (keeps_a_checkpoint, end) in
        [(true, format!("{advance}, then walpost checkpoint adopt-slot")), (false, advance.to_owned())]
    {
        for trouble in [ended(Cause::Broken(bad_row())), undelivered(DeliveryClass::Row)] {
            let (_, said) = decided_with(trouble, keeps_a_checkpoint);
            assert!(said.ends_with(&end), "{said}");
        }
    }
}

#[test]
fn a_stop_is_clean_only_when_the_next_start_publishes_nothing_again() {
    let rests = [
        Rest { unsettled: 3, ..NOTHING_LEFT },
        Rest { unsaved: 2, ..NOTHING_LEFT },
        Rest { is_cut: true, ..NOTHING_LEFT },
    ];
    for rest in rests {
        for trouble in
            [Trouble::StoppedBefore(rest), Trouble::Session { cause: Cause::Stopped, rest, source_error: None }]
        {
            let (code, said) = decided(trouble);
            assert_eq!(code, "9", "{rest:?}");
            assert!(said.contains(&rest.to_string()) && said.contains("comes again"), "{said}");
        }
    }
}

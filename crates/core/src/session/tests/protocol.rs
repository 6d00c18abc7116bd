//! What the server sends, and what it must not.

use crate::position::Identity;
use smallvec::SmallVec;

use crate::pgoutput::{Delete, LogicalMessage, OldTuple, Origin, Truncate, Type, Update};
use crate::session::inbound::ProtocolFault;

use super::*;

#[test]
fn rows_of_a_table_that_was_an_outbox_and_was_renamed_are_told_and_not_published() {
    let mut desk = Desk::new();
    let Message::Relation(mut renamed) = relation(OUTBOX, 0) else { panic!("a relation") };
    let table = outboxes()[OUTBOX].table.clone();
    renamed.name = "outbox_of_last_year";
    desk.begin(0x2000).receive(&Message::Relation(renamed)).rows(2).commit(0x2000, 0x2100);
    assert!(desk.asked().contains(&Asked::Notice(Notice::Renamed(table))));
    assert_eq!((desk.session.counters().events, desk.session.counters().other_inserts), (0, 2));
}

#[test]
fn only_inserts_into_outboxes_become_records_and_all_else_is_counted() {
    let mut desk = Desk::new();
    let outbox = TABLES[OUTBOX].0;
    let foreign = TABLES[FOREIGN].0;
    desk.begin(0x2000).foreign_row();
    for relation in [outbox, foreign] {
        desk.receive(&Message::Update(Update { relation, old: None, new: foreign_row(0) }))
            .receive(&Message::Delete(Delete { relation, old: OldTuple::Key(foreign_row(0)) }));
    }
    desk.receive(&Message::Truncate(Truncate { options: 0, relations: SmallVec::from_slice(&[outbox, foreign]) }))
        .receive(&Message::Logical(LogicalMessage { flags: 1, lsn: Lsn::new(1), prefix: b"a", content: b"b" }))
        .receive(&Message::Origin(Origin { commit_lsn: Lsn::new(1), name: b"origin" }))
        .receive(&Message::Type(Type { id: 20_000, namespace: "public", name: "mood" }))
        .commit(0x2000, 0x2030);
    let counted = desk.session.counters();
    assert_eq!((counted.events, counted.other_inserts, counted.other_changes), (0, 1, 3));
    assert_eq!((counted.updates, counted.deletes, counted.truncates, counted.logical_messages), (1, 1, 1, 1));
    let notices = desk.asked();
    assert_eq!(notices.len(), 2, "an update and a removal are said once: {notices:?}");
    assert_eq!(desk.watermark(), 0x2030, "nothing of it is owed");
}

#[test]
fn a_message_of_an_unknown_kind_is_said_once_and_skipped() {
    let mut desk = Desk::new();
    for tag in [b'~', b'!'] {
        let data = Bytes::copy_from_slice(&[tag, 1, 2, 3]);
        let (wal_start, wal_end) = (Lsn::INVALID, Lsn::INVALID);
        let frame = crate::frame::XLogData { wal_start, wal_end, server_time: Timestamp::default(), data };
        desk.session.receive(&Frame::XLogData(frame), desk.now);
    }
    assert_eq!(desk.asked(), [Asked::Notice(Notice::UnknownMessage(b'~'))]);
    assert_eq!(desk.session.counters().unknown_messages, 2);
    assert_eq!(desk.transaction(0x2000, 1).asked(), publications([0]));
}

#[test]
fn a_transaction_from_before_the_start_is_skipped_and_one_at_the_start_is_not() {
    let mut desk = Desk::new();
    desk.transaction(START - 0x30, 2);
    assert_eq!((desk.asked(), desk.watermark()), (vec![], START));
    // A COMMIT and the next BEGIN can share an LSN.
    assert_eq!(desk.transaction(START, 1).asked(), publications([0]));
    assert_eq!(desk.transaction(START + 0x30, 1).asked(), publications([1]));
    assert_eq!(desk.session.counters().skipped_transactions, 1);
}

#[test]
fn rows_that_share_an_lsn_have_identities_of_their_own() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(3);
    let mut identities = Vec::new();
    while let Some(Action::Publish(_, record)) = desk.session.poll(desk.now) {
        identities.push(record.identity);
    }
    let of = |ordinal| Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x2000), ordinal };
    assert_eq!(identities, [of(0), of(1), of(2)]);
}

#[test]
fn a_table_that_changes_in_the_middle_of_a_transaction_is_read_by_its_new_shape() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(1).tell_shape(1);
    let payload = Bytes::from_static(b"new shape");
    let new = row(1, "00000000-0000-4000-8000-000000000002", "order", "9", &payload);
    desk.receive(&Message::Insert(Insert { relation: TABLES[OUTBOX].0, new }));
    desk.next_asked();
    let second = desk.session.poll(desk.now);
    assert!(matches!(second, Some(Action::Publish(_, record)) if record.value == Some(payload)), "{second:?}");
}

/// What a server does to a session in the middle of the transaction 0/2000.
type Breach = fn(&mut Desk) -> &mut Desk;

#[test]
fn a_server_that_breaks_the_protocol_ends_the_session_and_settles_nothing() {
    let (at, next) = (Lsn::new(0x2000), Lsn::new(0x3000));
    let backwards = |commit_lsn, commit_end, behind| ProtocolFault::Backwards { commit_lsn, commit_end, behind };
    let breaches: [(Breach, ProtocolFault); 7] = [
        (|desk| desk.begin(0x3000), ProtocolFault::NestedBegin { open: at, next }),
        (|desk| desk.commit(0x2000, 0x2030).commit(0x2000, 0x2030), ProtocolFault::CommitOutside(at)),
        (|desk| desk.commit(0x3000, 0x3030), ProtocolFault::CommitOfAnother { open: at, committed: next }),
        (|desk| desk.commit(0x2000, 0x2000), backwards(at, at, Lsn::new(0x1530))),
        (|desk| desk.commit(0x2000, 0x1FFF), backwards(at, Lsn::new(0x1FFF), Lsn::new(0x1530))),
        (|desk| desk.commit(0x2000, 0x2030).rows(1), ProtocolFault::RowOutside),
        (
            |desk| desk.receive(&Message::Insert(Insert { relation: 1, new: foreign_row(0) })),
            ProtocolFault::UnknownRelation(1),
        ),
    ];
    for (breach, fault) in breaches {
        let mut desk = Desk::new();
        breach(desk.transaction(0x1500, 0).begin(0x2000).rows(1));
        assert!(!desk.session.wants_frames());
        desk.asked();
        desk.deliver(0);
        assert_eq!(desk.asked().first(), Some(&Asked::Checkpoint(desk.watermark())));
        let is_complete = matches!(fault, ProtocolFault::CommitOutside(_) | ProtocolFault::RowOutside);
        assert_eq!(desk.watermark(), if is_complete { 0x2030 } else { 0x1530 });
        let end = desk.checkpoint_succeeds().end();
        assert_eq!(end.cause, Cause::Broken(SessionError::Protocol(fault)));
        assert_eq!(end.first_owed.map(|first| first.ordinal), if is_complete { None } else { Some(1) });
    }
}

#[test]
fn a_transaction_that_ends_before_what_is_complete_ends_the_session() {
    let mut desk = Desk::new();
    desk.transaction(0x4000, 0).transaction(0x3000, 0);
    let (commit_lsn, commit_end, behind) = (Lsn::new(0x3000), Lsn::new(0x3030), Lsn::new(0x4030));
    desk.asked();
    let fault = ProtocolFault::Backwards { commit_lsn, commit_end, behind };
    assert_eq!(desk.checkpoint_succeeds().end().cause, Cause::Broken(SessionError::Protocol(fault)));
}

#[test]
fn bytes_that_are_no_message_end_the_session() {
    let mut desk = Desk::new();
    let (wal_start, wal_end) = (Lsn::INVALID, Lsn::INVALID);
    let data = Bytes::from_static(b"I\0");
    let frame = crate::frame::XLogData { wal_start, wal_end, server_time: Timestamp::default(), data };
    desk.begin(0x2000);
    desk.session.receive(&Frame::XLogData(frame), desk.now);
    assert!(matches!(desk.end().cause, Cause::Broken(SessionError::Unreadable(_))));
}

#[test]
fn a_frame_that_was_not_wanted_ends_the_session() {
    let mut desk = Desk::with(Settings { max_records: 1, ..Settings::default() });
    desk.begin(0x2000).rows(2).asked();
    assert_eq!(desk.deliver(0).end().cause, Cause::Broken(SessionError::NotReady));
}

#[test]
fn a_row_that_cannot_become_a_record_ends_the_session_and_is_named() {
    let mut desk = Desk::new();
    let mut new = foreign_row(0);
    new.cells.truncate(2);
    desk.begin(0x2000).rows(1).receive(&Message::Insert(Insert { relation: TABLES[OUTBOX].0, new })).asked();
    let end = desk.deliver(0).end();
    let Cause::Broken(error @ SessionError::Row { identity, .. }) = &end.cause else { panic!("{end:?}") };
    assert_eq!(identity.ordinal, 1);
    let sentence = error.to_string();
    for part in ["a row of public.outbox cannot be published (id 00000000-0000-4000-8000-", "commit 0/2000, insert 2"] {
        assert!(sentence.contains(part), "{sentence}");
    }
    assert_eq!(end.first_owed.map(|first| first.ordinal), Some(1), "it comes again");
}

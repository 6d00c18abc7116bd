use bytes::BytesMut;
use walpost_core::frame::Keepalive;
use walpost_core::pgoutput::{Begin, Commit, Delete, Insert, OldTuple, Relation, Tuple};
use walpost_core::time::Timestamp;

use super::*;

const OUTBOX: u32 = 1;
const OTHER: u32 = 2;
/// The stored commit, and where the next transaction commits and ends.
const STORED: u64 = 0x100;
const COMMIT: u64 = 0x180;
const END: u64 = 0x1A0;

fn data(at: u64, message: &Message<'_>) -> Frame {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    let wal = Lsn::new(at);
    Frame::XLogData(XLogData { wal_start: wal, wal_end: wal, server_time: Timestamp::default(), data: bytes.freeze() })
}

fn relation(id: u32, name: &str) -> Frame {
    let relation = Relation { id, namespace: "public", name, replica_identity: b'd', columns: Default::default() };
    data(0, &Message::Relation(relation))
}

fn tuple() -> Tuple<'static> {
    Tuple { cells: Default::default() }
}

/// A transaction with inserted rows: table and place in the log.
fn transaction(commit: u64, end: u64, rows: &[(u32, u64)]) -> Vec<Frame> {
    let (time, lsn) = (Timestamp::default(), Lsn::new(commit));
    let mut frames = vec![data(0, &Message::Begin(Begin { final_lsn: lsn, commit_time: time, xid: 1 }))];
    frames.push(relation(OUTBOX, "outbox"));
    frames.push(relation(OTHER, "other"));
    frames.extend(
        rows.iter().map(|(relation, at)| data(*at, &Message::Insert(Insert { relation: *relation, new: tuple() }))),
    );
    let commit = Commit { flags: 0, commit_lsn: lsn, end_lsn: Lsn::new(end), commit_time: time };
    frames.push(data(end, &Message::Commit(commit)));
    frames
}

fn keepalive(wal_end: u64) -> Frame {
    let wal_end = Lsn::new(wal_end);
    Frame::Keepalive(Keepalive { wal_end, server_time: Timestamp::default(), reply_requested: false })
}

fn resumed(row: u64, events: Option<u64>, frames: &[Frame]) -> Option<Resumed> {
    let resume = Resume::Within { commit: Lsn::new(STORED), row: Lsn::new(row), events };
    let outboxes = [TableName { schema: "public".to_owned(), table: "outbox".to_owned() }];
    let mut rest = Rest::new(resume, resume.commit(), Lsn::new(0x300), outboxes.into());
    frames.iter().find_map(|frame| rest.receive(frame).unwrap())
}

#[track_caller]
fn assert_resumes(row: u64, events: Option<u64>, rows: &[(u32, u64)], position: u64, through: Option<u64>) {
    let resumed = resumed(row, events, &transaction(COMMIT, END, rows)).unwrap();
    let expected = through.map(|through| SettledRows { commit_lsn: Lsn::new(COMMIT), through: Lsn::new(through) });
    assert_eq!((resumed.position, resumed.settled_rows), (Lsn::new(position), expected), "{}", resumed.sentence);
}

#[test]
fn a_transaction_whose_last_row_was_published_is_settled_whole() {
    assert_resumes(0x110, None, &[(OUTBOX, 0x110)], END, None);
    assert_resumes(0x100, None, &[(OUTBOX, 0x100)], END, None);
    assert_resumes(0x120, None, &[(OUTBOX, 0x110), (OUTBOX, 0x120)], END, None);
    assert_resumes(0x120, None, &[(OUTBOX, 0x120), (OTHER, 0x130)], END, None);
    assert_resumes(0x130, None, &[(OUTBOX, 0x120), (OTHER, 0x130)], END, None);
}

#[test]
fn of_a_transaction_that_was_published_in_part_the_rest_is_owed() {
    let rows = [(OUTBOX, 0x110), (OTHER, 0x118), (OUTBOX, 0x120), (OUTBOX, 0x130)];
    assert_resumes(0x110, None, &rows, STORED, Some(0x110));
    assert_resumes(0x118, None, &rows, STORED, Some(0x118));
    assert_resumes(0x120, None, &rows, STORED, Some(0x120));
}

#[test]
fn rows_that_share_an_lsn_are_owed_unless_the_offset_counts_them_all() {
    let rows = [(OUTBOX, 0x110), (OUTBOX, 0x120), (OUTBOX, 0x120), (OUTBOX, 0x120)];
    assert_resumes(0x120, None, &rows, STORED, Some(0x11F));
    assert_resumes(0x120, Some(2), &rows, STORED, Some(0x11F));
    assert_resumes(0x120, Some(3), &rows, END, None);
}

#[test]
fn where_the_row_is_not_found_nothing_counts_as_published() {
    assert_resumes(0x119, None, &[(OUTBOX, 0x110), (OUTBOX, 0x120)], STORED, None);
    let found = resumed(0x110, None, &[keepalive(0x2FF), keepalive(0x300)]).unwrap();
    assert_eq!((found.position, found.settled_rows), (Lsn::new(STORED), None));
    assert_eq!(resumed(0x110, None, &[keepalive(0x2FF)]), None, "the server is still on its way");
}

#[test]
fn a_transaction_without_outbox_rows_is_passed_over_and_a_change_that_is_no_insert_counts_as_one() {
    for rows in [vec![], vec![(OTHER, 0x104)]] {
        let mut frames = transaction(0x108, 0x10C, &rows);
        frames.extend(transaction(COMMIT, END, &[(OUTBOX, 0x110)]));
        assert_eq!(resumed(0x110, None, &frames).unwrap().position, Lsn::new(END));
    }
    let mut frames = transaction(COMMIT, END, &[(OUTBOX, 0x110)]);
    let delete = Delete { relation: OUTBOX, old: OldTuple::Key(tuple()) };
    frames.insert(4, data(0x120, &Message::Delete(delete)));
    assert_eq!(resumed(0x120, None, &frames).unwrap().position, Lsn::new(END));
}

#[test]
fn an_offset_is_believed_only_where_a_transaction_of_the_log_ends_at_it() {
    const SLOT: Lsn = Lsn::new(0x80);
    let outboxes = || [TableName { schema: "public".to_owned(), table: "outbox".to_owned() }].into();
    let stored = Lsn::new(STORED);
    let row = Lsn::new(0x110);
    for resume in [Resume::At(stored), Resume::Within { commit: stored, row, events: None }] {
        let come = |frames: &[Frame]| {
            let mut rest = Rest::new(resume, SLOT, Lsn::new(0x300), outboxes());
            frames.iter().find_map(|frame| rest.receive(frame).unwrap()).unwrap()
        };
        let before = transaction(0x84, 0x88, &[(OUTBOX, 0x82)]);
        let own = [before.clone(), transaction(STORED - 4, STORED, &[(OUTBOX, STORED - 8)])].concat();
        let behind = transaction(COMMIT, END, &[(OUTBOX, 0x110)]);
        let found = come(&[own, behind.clone()].concat());
        let expected = if resume == Resume::At(stored) { stored } else { Lsn::new(END) };
        assert_eq!((found.position, found.settled_rows), (expected, None), "{}", found.sentence);
        for elsewhere in [[before.clone(), behind].concat(), [before, vec![keepalive(0x300)]].concat()] {
            let found = come(&elsewhere);
            assert_eq!((found.position, found.settled_rows), (SLOT, None), "{}", found.sentence);
            assert!(found.sentence.contains("another server"), "{}", found.sentence);
        }
    }
}

#[test]
fn a_stream_that_cannot_be_read_is_told() {
    let wal = Lsn::new(1);
    let frame = XLogData { wal_start: wal, wal_end: wal, server_time: Timestamp::default(), data: "B".into() };
    let mut rest = Rest::new(Resume::At(wal), wal, wal, BTreeSet::new());
    assert!(rest.receive(&Frame::XLogData(frame)).is_err());
}

//! Frames that real servers sent, one recording for each major version of PostgreSQL.
//!
//! `record.py` made them: `<major>.frames` holds the bytes under the SQL that caused them, `<major>.expected` says what
//! they mean in the words of a second decoder. What a synthetic test cannot know stands here: what a server really
//! sends, and when.

#![cfg(test)]

mod words;

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use walpost_core::frame::{Frame, XLogData};
use walpost_core::pgoutput::{Cell, Insert, Kind as MessageKind, Message, OldTuple, ParseError, Relation};
use walpost_core::time::Timestamp;
use walpost_core::value::{
    Kind, PointInTime, ValueError, parse_bool, parse_bytea, parse_i32, parse_i64, parse_timestamp, parse_timestamptz,
};

/// What one server sent.
struct Recording {
    major: u32,
    scenarios: Vec<Scenario>,
    expected: &'static str,
}

/// What one server sent because of some statements.
struct Scenario {
    title: &'static str,
    frames: Vec<Bytes>,
}

impl Recording {
    fn read(major: u32, frames: &'static str, expected: &'static str) -> Self {
        let mut scenarios: Vec<Scenario> = Vec::new();
        for line in frames.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("== ") {
                Some(title) => scenarios.push(Scenario { title, frames: Vec::new() }),
                None => scenarios.last_mut().unwrap().frames.push(from_hex(line)),
            }
        }
        Self { major, scenarios, expected }
    }

    fn frames(&self) -> impl Iterator<Item = &Bytes> {
        self.scenarios.iter().flat_map(|scenario| &scenario.frames)
    }

    fn scenario(&self, title: &str) -> &Scenario {
        self.scenarios.iter().find(|scenario| scenario.title == title).unwrap()
    }
}

impl Scenario {
    fn xlogdata(&self) -> impl Iterator<Item = XLogData> {
        self.frames.iter().map(xlogdata)
    }

    /// The data of every frame: what `Message::parse` takes.
    fn data(&self) -> Vec<Bytes> {
        self.xlogdata().map(|frame| frame.data).collect()
    }
}

fn recordings() -> [Recording; 5] {
    [
        Recording::read(14, include_str!("14.frames"), include_str!("14.expected")),
        Recording::read(15, include_str!("15.frames"), include_str!("15.expected")),
        Recording::read(16, include_str!("16.frames"), include_str!("16.expected")),
        Recording::read(17, include_str!("17.frames"), include_str!("17.expected")),
        Recording::read(18, include_str!("18.frames"), include_str!("18.expected")),
    ]
}

fn from_hex(line: &str) -> Bytes {
    let (pairs, rest) = line.as_bytes().as_chunks::<2>();
    assert!(rest.is_empty());
    pairs.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn xlogdata(frame: &Bytes) -> XLogData {
    let Ok(Frame::XLogData(frame)) = Frame::parse(frame.clone()) else { panic!("not an XLogData") };
    frame
}

/// The messages of all scenarios but the one of keepalives.
fn messages(recording: &Recording) -> impl Iterator<Item = Bytes> {
    let with_data = recording.scenarios.iter().filter(|scenario| scenario.title != "keepalives");
    with_data.flat_map(|scenario| scenario.data())
}

fn encoded(message: &Message<'_>) -> BytesMut {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    bytes
}

#[test]
fn every_frame_means_what_another_decoder_says() {
    for recording in recordings() {
        let mut expected = recording.expected.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for scenario in &recording.scenarios {
            assert_eq!(expected.next(), Some(format!("== {}", scenario.title).as_str()));
            for frame in &scenario.frames {
                let words = words::of_frame(frame);
                assert_eq!(expected.next(), Some(words.as_str()), "PostgreSQL {}, {}", recording.major, scenario.title);
            }
        }
        assert_eq!(expected.next(), None);
    }
}

#[test]
fn every_frame_is_encoded_as_the_server_encoded_it() {
    for recording in recordings() {
        for received in recording.frames() {
            let frame = Frame::parse(received.clone()).unwrap();
            let mut sent = BytesMut::new();
            frame.encode(&mut sent);
            assert_eq!(sent, received, "PostgreSQL {}: {}", recording.major, words::of_frame(received));
            if let Frame::XLogData(frame) = frame {
                assert_eq!(encoded(&Message::parse(&frame.data).unwrap()), frame.data);
            }
        }
    }
}

#[test]
fn every_kind_of_message_and_of_value_was_recorded_from_every_server() {
    for recording in recordings() {
        let mut seen = BTreeSet::new();
        for data in messages(&recording) {
            let cells = match Message::parse(&data).unwrap() {
                Message::Begin(_) => note(&mut seen, "begin"),
                Message::Commit(_) => note(&mut seen, "commit"),
                Message::Origin(_) => note(&mut seen, "origin"),
                Message::Relation(_) => note(&mut seen, "relation"),
                Message::Type(_) => note(&mut seen, "type"),
                Message::Insert(insert) => insert.new.cells,
                Message::Update(update) => {
                    seen.insert(update.old.as_ref().map_or("update", of_old));
                    update.new.cells
                }
                Message::Delete(delete) => note(&mut seen, of_old(&delete.old)),
                Message::Truncate(_) => note(&mut seen, "truncate"),
                Message::Logical(_) => note(&mut seen, "message"),
                Message::Unknown(tag) => panic!("PostgreSQL {} sent {tag}", recording.major),
            };
            seen.extend(cells.iter().map(|cell| match cell {
                Cell::Null => "null",
                Cell::Unchanged => "unchanged",
                Cell::Text(_) => "text",
                Cell::Binary(_) => "binary",
            }));
        }
        let all = ["begin", "binary", "commit", "message", "null", "old key", "old row", "origin", "relation", "text"];
        let all = all.into_iter().chain(["truncate", "type", "unchanged", "update"]).collect();
        assert_eq!(seen, all, "PostgreSQL {}", recording.major);
    }
}

fn note<T: Default>(seen: &mut BTreeSet<&str>, kind: &'static str) -> T {
    seen.insert(kind);
    T::default()
}

const fn of_old(old: &OldTuple<'_>) -> &'static str {
    match old {
        OldTuple::Key(_) => "old key",
        OldTuple::Row(_) => "old row",
    }
}

#[test]
fn a_recorded_frame_cut_short_anywhere_is_refused() {
    for recording in recordings() {
        for whole in recording.frames() {
            for end in 0..whole.len() {
                match Frame::parse(whole.slice(..end)) {
                    Ok(Frame::XLogData(cut)) => assert!(Message::parse(&cut.data).is_err(), "{end} of {}", whole.len()),
                    Ok(Frame::Keepalive(_)) => panic!("a keepalive of {end} bytes"),
                    Err(_) => {}
                }
            }
        }
    }
}

#[test]
fn a_recorded_message_with_a_bit_changed_is_refused_or_kept_whole() {
    for recording in recordings() {
        for whole in messages(&recording) {
            for place in 0..whole.len() {
                for bit in 0..8 {
                    let mut changed = BytesMut::from(whole.as_ref());
                    changed[place] ^= 1 << bit;
                    match Message::parse(&changed) {
                        Ok(Message::Unknown(_)) => assert_eq!(place, 0),
                        Ok(message) => assert_eq!(encoded(&message), changed),
                        Err(error) => assert_ne!(error, ParseError::Empty),
                    }
                }
            }
        }
    }
}

#[test]
fn every_value_is_a_slice_of_what_was_received() {
    for recording in recordings() {
        let frames = recording.scenario("a value that is stored out of line").data();
        let large = frames.iter().find_map(|data| match Message::parse(data) {
            Ok(Message::Insert(insert)) => insert.new.cells.last().unwrap().slice_of(data),
            _ => None,
        });
        let large = large.unwrap();
        assert_eq!(large, "0123456789abcdef".repeat(150));
        assert!(frames.iter().any(|data| data.as_ptr_range().contains(&large.as_ptr())));
    }
}

#[test]
fn a_transaction_is_told_apart_by_its_commit_and_not_by_the_positions_of_its_frames() {
    for recording in recordings() {
        let mut open = None;
        for frame in recording.scenarios.iter().filter(|s| s.title != "keepalives").flat_map(Scenario::xlogdata) {
            assert_eq!(frame.wal_start, frame.wal_end);
            match Message::parse(&frame.data).unwrap() {
                Message::Begin(begin) => assert_eq!(open.replace(begin), None),
                Message::Commit(commit) => {
                    let begin = open.take().unwrap();
                    assert_eq!((commit.commit_lsn, commit.commit_time), (begin.final_lsn, begin.commit_time));
                    assert!(commit.commit_lsn < commit.end_lsn);
                    assert_eq!(frame.wal_start, commit.end_lsn);
                }
                Message::Relation(_) | Message::Type(_) => assert!(!frame.wal_start.is_valid()),
                Message::Logical(message) => assert_eq!(open.is_some(), message.flags & 1 == 1),
                _ => assert!(open.is_some()),
            }
        }
        assert_eq!(open, None);
    }
}

#[test]
fn rows_of_one_copy_share_their_position() {
    for recording in recordings() {
        let rows = recording.scenario("rows of one COPY share their LSN").xlogdata();
        let rows = rows.filter(|frame| frame.data.first() == Some(&MessageKind::Insert.tag()));
        let positions: Vec<_> = rows.map(|frame| frame.wal_start).collect();
        assert_eq!(positions.len(), 3);
        assert!(positions.iter().all(|position| Some(position) == positions.first()));
    }
}

#[test]
fn a_transaction_without_a_published_change_is_sent_by_postgresql_14_alone() {
    for recording in recordings() {
        let sent: Vec<u8> =
            recording.scenario("a transaction of other tables").data().iter().map(|data| data[0]).collect();
        let expected: &[u8] = if recording.major == 14 { b"BC" } else { b"" };
        assert_eq!(sent, expected, "PostgreSQL {}", recording.major);
    }
}

#[test]
fn a_domain_is_announced_with_the_name_of_its_base() {
    for recording in recordings() {
        let frames = recording.scenario("an enum and a domain").data();
        let named = frames.iter().filter_map(|data| match Message::parse(data).unwrap() {
            Message::Type(named) => Some((named.id >= 16384, named.namespace, named.name)),
            _ => None,
        });
        assert_eq!(named.collect::<Vec<_>>(), [(true, "public", "mood"), (true, "", "varchar")]);
    }
}

/// Calls `check` with the relation and the rows of a scenario.
fn with_rows(scenario: &Scenario, check: impl FnOnce(&Relation<'_>, &[Insert<'_>])) {
    let frames = scenario.data();
    let mut relation = None;
    let mut rows = Vec::new();
    for data in &frames {
        match Message::parse(data).unwrap() {
            Message::Relation(shape) => relation = Some(shape),
            Message::Insert(row) => rows.push(row),
            _ => {}
        }
    }
    check(&relation.unwrap(), &rows);
}

#[test]
fn values_are_read_as_they_were_inserted() {
    for recording in recordings() {
        with_rows(recording.scenario("values of many kinds"), |relation, rows| {
            let kinds: Vec<_> = relation.columns.iter().map(|column| Kind::of(column.type_id)).collect();
            let text = [Kind::Text; 5];
            let before = [Kind::Boolean, Kind::Int2, Kind::Int4, Kind::Int8];
            let after = [Kind::Uuid, Kind::Json, Kind::Jsonb, Kind::Bytea, Kind::Timestamp, Kind::Timestamptz];
            assert_eq!(kinds, [&before[..], &text, &after, &[Kind::Other(1700)]].concat());
            let value = |row: usize, column: usize| rows[row].new.cells[column].bytes().unwrap();
            assert_eq!([parse_bool(value(0, 0)), parse_bool(value(1, 0))], [Ok(true), Ok(false)]);
            assert_eq!([parse_i32(value(0, 1)), parse_i32(value(2, 1))], [Ok(-32768), Ok(32767)]);
            assert_eq!(parse_i32(value(0, 2)), Ok(i32::MIN));
            assert_eq!(parse_i64(value(0, 3)), Ok(i64::MIN));
            assert_eq!(value(0, 10), br#"{"b" : 1,  "a":2}"#);
            assert_eq!(value(0, 11), br#"{"a": 2, "b": 1}"#);
            assert_eq!(parse_bytea(value(0, 12)).as_deref(), Ok(b"\xDE\xAD\xBE\xEF\\{}\0".as_slice()));
            assert_eq!(parse_bytea(value(3, 12)).as_deref(), Ok(b"".as_slice()));
        });
    }
}

#[test]
fn timestamps_are_read_as_they_were_inserted() {
    use PointInTime::{Infinity, NegativeInfinity, UnixMicros};
    for recording in recordings() {
        with_rows(recording.scenario("values of many kinds"), |_, rows| {
            let timestamps: Vec<_> =
                rows.iter().map(|row| parse_timestamp(row.new.cells[13].bytes().unwrap())).collect();
            let out_of_range = ValueError::OutOfRange { expected: "a timestamp without time zone in the ISO style" };
            assert_eq!(
                timestamps,
                [
                    Ok(UnixMicros(1_553_460_779_123_000)),
                    Ok(UnixMicros(-63_517_780_799_500_000)),
                    Err(out_of_range),
                    Ok(Infinity),
                ]
            );
            let timestamps: Vec<_> =
                rows.iter().map(|row| parse_timestamptz(row.new.cells[14].bytes().unwrap())).collect();
            assert_eq!(
                timestamps,
                [
                    Ok(UnixMicros(1_553_460_779_100_000)),
                    Ok(UnixMicros(-63_517_780_799_500_000)),
                    Ok(UnixMicros(327_416_976_550_000_000)),
                    Ok(NegativeInfinity),
                ]
            );
        });
    }
}

#[test]
fn a_timestamp_is_the_same_moment_in_text_and_in_binary_form() {
    for recording in recordings() {
        let text = timestamps(recording.scenario("values of many kinds"), |cell| parse_timestamptz(cell).unwrap());
        let binary = timestamps(recording.scenario("values in binary form"), |cell| {
            match i64::from_be_bytes(cell.try_into().unwrap()) {
                i64::MIN => PointInTime::NegativeInfinity,
                i64::MAX => PointInTime::Infinity,
                micros => PointInTime::UnixMicros(Timestamp::from_postgres_micros(micros).unix_micros()),
            }
        });
        assert_eq!((text.len(), text), (4, binary));
    }
}

fn timestamps(scenario: &Scenario, read: impl Fn(&[u8]) -> PointInTime) -> Vec<PointInTime> {
    let mut moments = Vec::new();
    with_rows(scenario, |_, rows| {
        moments.extend(rows.iter().map(|row| read(row.new.cells[14].bytes().unwrap())));
    });
    moments
}

#[test]
fn bytea_is_read_in_the_escape_form_too() {
    for recording in recordings() {
        with_rows(recording.scenario("bytea in the escape form"), |_, rows| {
            let value = rows[0].new.cells[12].bytes().unwrap();
            assert!(!value.starts_with(br"\x"));
            assert_eq!(parse_bytea(value).as_deref(), Ok(b"\xDE\xAD\xBE\xEF\\{}\0".as_slice()));
        });
    }
}

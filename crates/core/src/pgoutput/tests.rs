use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use smallvec::SmallVec;

use super::*;

/// Values are slices of it, so that messages can be made up without owning anything.
static BYTES: [u8; 512] = {
    let mut bytes = [0; 512];
    let mut i = 0;
    while i < bytes.len() {
        bytes[i] = (i % 256).to_le_bytes()[0];
        i += 1;
    }
    bytes
};

const TAGS: [u8; 10] = *b"BCORYIUDTM";

fn values() -> impl Strategy<Value = &'static [u8]> {
    (0..BYTES.len(), 0..40_usize).prop_map(|(start, length)| &BYTES[start..(start + length).min(BYTES.len())])
}

fn names() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "public", "outbox", "Aggregate Id", "type\"x", "Straße", "\u{1F980}", "a.b"])
}

fn lsns() -> impl Strategy<Value = Lsn> {
    any::<u64>().prop_map(Lsn::new)
}

fn times() -> impl Strategy<Value = Timestamp> {
    any::<i64>().prop_map(Timestamp::from_postgres_micros)
}

fn cells() -> impl Strategy<Value = Cell<'static>> {
    let bytes = prop_oneof![values().prop_map(Cell::Text), values().prop_map(Cell::Binary)];
    prop_oneof![Just(Cell::Null), Just(Cell::Unchanged), bytes]
}

fn tuples() -> impl Strategy<Value = Tuple<'static>> {
    vec(cells(), 0..20).prop_map(|cells| Tuple { cells: cells.into() })
}

fn old_tuples() -> impl Strategy<Value = OldTuple<'static>> {
    prop_oneof![tuples().prop_map(OldTuple::Key), tuples().prop_map(OldTuple::Row)]
}

fn columns() -> impl Strategy<Value = SmallVec<[Column<'static>; 16]>> {
    let column = (any::<u8>(), names(), any::<u32>(), any::<i32>())
        .prop_map(|(flags, name, type_id, type_modifier)| Column { flags, name, type_id, type_modifier });
    vec(column, 0..20).prop_map(SmallVec::from_vec)
}

fn transaction_messages() -> impl Strategy<Value = Message<'static>> {
    prop_oneof![
        (lsns(), times(), any::<u32>()).prop_map(|(final_lsn, commit_time, xid)| Message::Begin(Begin {
            final_lsn,
            commit_time,
            xid
        })),
        (any::<u8>(), lsns(), lsns(), times()).prop_map(|(flags, commit_lsn, end_lsn, commit_time)| {
            Message::Commit(Commit { flags, commit_lsn, end_lsn, commit_time })
        }),
        (lsns(), names()).prop_map(|(commit_lsn, name)| Message::Origin(Origin { commit_lsn, name: name.as_bytes() })),
        (any::<u8>(), lsns(), names(), values()).prop_map(|(flags, lsn, prefix, content)| {
            Message::Logical(LogicalMessage { flags, lsn, prefix: prefix.as_bytes(), content })
        }),
    ]
}

fn messages() -> impl Strategy<Value = Message<'static>> {
    prop_oneof![
        transaction_messages(),
        (any::<u32>(), names(), names(), any::<u8>(), columns()).prop_map(
            |(id, namespace, name, replica_identity, columns)| {
                Message::Relation(Relation { id, namespace, name, replica_identity, columns })
            }
        ),
        (any::<u32>(), names(), names()).prop_map(|(id, namespace, name)| Message::Type(Type { id, namespace, name })),
        (any::<u32>(), tuples()).prop_map(|(relation, new)| Message::Insert(Insert { relation, new })),
        (any::<u32>(), proptest::option::of(old_tuples()), tuples())
            .prop_map(|(relation, old, new)| Message::Update(Update { relation, old, new })),
        (any::<u32>(), old_tuples()).prop_map(|(relation, old)| Message::Delete(Delete { relation, old })),
        (any::<u8>(), vec(any::<u32>(), 0..9))
            .prop_map(|(options, relations)| Message::Truncate(Truncate { options, relations: relations.into() })),
    ]
}

fn encoded(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    bytes.to_vec()
}

/// What parses from what was encoded, given the lifetime of the original, with which it is to be compared.
fn reparsed(message: &Message<'static>) -> Result<Message<'static>, ParseError> {
    Message::parse(encoded(message).leak())
}

/// Whatever is accepted has to be all of what was there, in the only way to write it.
fn parses_to_itself_or_not_at_all(bytes: &[u8]) -> Result<(), TestCaseError> {
    match Message::parse(bytes) {
        Ok(Message::Unknown(tag)) => prop_assert!(!TAGS.contains(&tag)),
        Ok(message) => prop_assert_eq!(encoded(&message), bytes),
        Err(error) => prop_assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_message_survives_encoding_and_parsing(message in messages()) {
        prop_assert_eq!(reparsed(&message), Ok(message));
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_kept_whole(bytes in vec(any::<u8>(), 0..200)) {
        parses_to_itself_or_not_at_all(&bytes)?;
    }

    #[test]
    fn arbitrary_bytes_after_a_known_tag_are_refused_or_kept_whole(
        tag in prop::sample::select(TAGS.to_vec()),
        rest in vec(prop_oneof![0..4_u8, prop::sample::select(b"NKOtnub".to_vec()), any::<u8>()], 0..60),
    ) {
        parses_to_itself_or_not_at_all(&[&[tag], rest.as_slice()].concat())?;
    }

    #[test]
    fn a_message_with_bytes_changed_is_refused_or_kept_whole(
        message in messages(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = encoded(&message);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        parses_to_itself_or_not_at_all(&bytes)?;
    }

    #[test]
    fn a_message_cut_short_anywhere_is_refused(message in messages()) {
        let bytes = encoded(&message);
        for end in 0..bytes.len() {
            prop_assert!(Message::parse(&bytes[..end]).is_err(), "{} of {} bytes", end, bytes.len());
        }
    }

    #[test]
    fn a_message_with_something_after_it_is_refused(message in messages(), behind in vec(any::<u8>(), 1..5)) {
        let whole = encoded(&message);
        let parsed = Message::parse(&[whole.as_slice(), behind.as_slice()].concat()).map(|_| ());
        let Err(ParseError::Trailing { offset, left, .. }) = parsed else {
            return Err(TestCaseError::fail(format!("{parsed:?}")));
        };
        prop_assert_eq!((offset, left), (whole.len(), behind.len()));
    }

    #[test]
    fn a_cell_is_a_slice_of_its_frame_and_a_copy_of_another(message in messages()) {
        let frame = Bytes::from(encoded(&message));
        let stranger = Bytes::from_static(b"another frame");
        let Ok(Message::Insert(insert)) = Message::parse(&frame) else { return Ok(()) };
        for cell in &insert.new.cells {
            let slice = cell.slice_of(&frame);
            prop_assert_eq!(slice.as_deref(), cell.bytes());
            let copy = cell.slice_of(&stranger);
            prop_assert_eq!(copy.as_deref(), cell.bytes());
            if let (Some(slice), Some(value)) = (slice, cell.bytes().filter(|value| !value.is_empty())) {
                prop_assert_eq!(slice.as_ptr(), value.as_ptr());
            }
        }
    }
}

#[test]
fn a_tag_that_protocol_1_does_not_know_is_told_apart_from_an_error() {
    for tag in (0..=u8::MAX).filter(|tag| !TAGS.contains(tag)) {
        assert_eq!(Message::parse(&[tag, 1, 2, 3]), Ok(Message::Unknown(tag)));
        assert_eq!(Message::parse(&encoded(&Message::Unknown(tag))), Ok(Message::Unknown(tag)));
    }
    for tag in TAGS {
        assert_eq!(Kind::of_tag(tag).map(Kind::tag), Some(tag));
        assert!(Message::parse(&[tag]).is_err());
    }
}

#[test]
fn what_is_not_a_message_is_refused_with_its_place() {
    use ParseError::{Empty, Excessive, Negative, NotUtf8, Trailing, Truncated, UnexpectedTag, Unterminated};
    let insert = Kind::Insert;
    let cases: [(&[u8], ParseError); 19] = [
        (b"", Empty),
        (b"B12345678", Truncated { message: Kind::Begin, offset: 9, expected: "commit time" }),
        (b"C\x0012345678123456781234567", Truncated { message: Kind::Commit, offset: 18, expected: "commit time" }),
        (b"B1234567812345678xids!", Trailing { message: Kind::Begin, offset: 21, left: 1 }),
        (b"O12345678name", Unterminated { message: Kind::Origin, offset: 9, expected: "origin's name" }),
        (b"R\0\0\0\x01public", Unterminated { message: Kind::Relation, offset: 5, expected: "schema's name" }),
        (b"R\0\0\0\x01\0out\xFF\0", NotUtf8 { message: Kind::Relation, offset: 6, expected: "table's name" }),
        (b"Y\0\0\0\x01\0\xC3\0", NotUtf8 { message: Kind::Type, offset: 6, expected: "type's name" }),
        (
            b"R\0\0\0\x01\0o\0d\x7F\xFF12345678901234567890",
            Excessive { message: Kind::Relation, offset: 9, expected: "number of columns", found: 32767 },
        ),
        (
            b"R\0\0\0\x01\0o\0d\x80\0",
            Negative { message: Kind::Relation, offset: 9, expected: "number of columns", found: -32768 },
        ),
        (b"I\0\0\0\x01K\0\0", UnexpectedTag { message: insert, offset: 5, expected: "new row ('N')", found: b'K' }),
        (b"I\0\0\0\x01N\0", Truncated { message: insert, offset: 6, expected: "number of columns" }),
        (b"I\0\0\0\x01N\0\x03nn", Excessive { message: insert, offset: 6, expected: "number of columns", found: 3 }),
        (b"I\0\0\0\x01N\xFF\xFF", Negative { message: insert, offset: 6, expected: "number of columns", found: -1 }),
        (
            b"I\0\0\0\x01N\0\x02nx",
            UnexpectedTag {
                message: insert,
                offset: 9,
                expected: "kind of a value ('n', 'u', 't' or 'b')",
                found: b'x',
            },
        ),
        (
            b"I\0\0\0\x01N\0\x01t\0\0\0\x05four",
            Truncated { message: insert, offset: 9, expected: "value in text form" },
        ),
        (
            b"I\0\0\0\x01N\0\x01b\xFF\xFF\xFF\xFF",
            Negative { message: insert, offset: 9, expected: "value in binary form", found: -1 },
        ),
        (
            b"T\x7F\xFF\xFF\xFF\0\0\0\0\x01",
            Excessive { message: Kind::Truncate, offset: 1, expected: "number of relations", found: 0x7FFF_FFFF },
        ),
        (b"T\0\0\0\x01\x00123", Truncated { message: Kind::Truncate, offset: 6, expected: "relation's OID" }),
    ];
    for (bytes, expected) in cases {
        assert_eq!(Message::parse(bytes), Err(expected), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_row_where_none_may_stand_is_refused() {
    let refused: [&[u8]; 6] = [
        b"D\0\0\0\x01N\0\0",
        b"D\0\0\0\x01K\0\0K\0\0",
        b"U\0\0\0\x01X\0\0",
        b"U\0\0\0\x01K\0\0",
        b"U\0\0\0\x01K\0\0O\0\0N\0\0",
        b"U\0\0\0\x01N\0\0N\0\0",
    ];
    for bytes in refused {
        assert!(Message::parse(bytes).is_err(), "{}", bytes.escape_ascii());
    }
}

#[test]
fn a_refusal_is_a_sentence() {
    let cases: [(&[u8], &str); 5] = [
        (b"B12345678", "the Begin ('B') message ends within the commit time that begins at byte 9"),
        (
            b"I\0\0\0\x01N\0\x03nn",
            "the number of columns at byte 6 of the Insert ('I') message is 3, more than the rest of it can hold",
        ),
        (b"I\0\0\0\x01K", "byte 5 of the Insert ('I') message is 'K' where the new row ('N') is expected"),
        (b"I\0\0\0\x01\0", "byte 5 of the Insert ('I') message is '\\0' where the new row ('N') is expected"),
        (b"B1234567812345678xids!", "the Begin ('B') message ends at byte 21, yet 1 more follow"),
    ];
    for (bytes, sentence) in cases {
        assert_eq!(Message::parse(bytes).unwrap_err().to_string(), sentence);
    }
}

#[test]
fn a_row_of_sixteen_columns_needs_no_allocation() {
    for (columns, allocates) in [(16, false), (17, true)] {
        let cells = SmallVec::from_elem(Cell::Null, columns);
        let bytes = encoded(&Message::Insert(Insert { relation: 1, new: Tuple { cells } }));
        let Ok(Message::Insert(insert)) = Message::parse(&bytes) else { panic!("not the insert that was encoded") };
        assert_eq!((insert.new.cells.len(), insert.new.cells.spilled()), (columns, allocates));
    }
}

#[test]
fn what_the_protocol_cannot_carry_is_cut_to_what_it_can() {
    let named = Message::Type(Type { id: 1, namespace: "pub\0lic", name: "mood" });
    let cut = Message::Type(Type { id: 1, namespace: "pub", name: "mood" });
    assert_eq!(reparsed(&named), Ok(cut));

    let cells = SmallVec::from_elem(Cell::Null, 40_000);
    let bytes = encoded(&Message::Insert(Insert { relation: 1, new: Tuple { cells } }));
    let Ok(Message::Insert(insert)) = Message::parse(&bytes) else { panic!("not an insert") };
    assert_eq!(insert.new.cells.len(), 32_767);
}

#[test]
fn a_message_is_described_without_its_values() {
    let cells = [Cell::Text(b"secret"), Cell::Binary(b"secret"), Cell::Null, Cell::Unchanged];
    let insert = Message::Insert(Insert { relation: 1, new: Tuple { cells: cells.as_slice().into() } });
    let logical = Message::Logical(LogicalMessage { flags: 1, lsn: Lsn::new(7), prefix: b"p", content: b"secret" });
    for message in [insert, logical] {
        let description = format!("{message:?}");
        assert!(description.contains("6 bytes") && !description.contains("secret"), "{description}");
        assert!(!description.contains("115"), "{description}");
    }
}

#[test]
fn a_value_has_bytes_only_where_there_are_some() {
    let frame = Bytes::from_static(b"frame");
    for cell in [Cell::Null, Cell::Unchanged] {
        assert_eq!((cell.bytes(), cell.slice_of(&frame)), (None, None));
    }
    for cell in [Cell::Text(b""), Cell::Binary(b"")] {
        assert_eq!((cell.bytes(), cell.slice_of(&frame)), (Some(b"".as_slice()), Some(Bytes::new())));
    }
    let end = Cell::Text(&frame[5..]);
    assert_eq!(end.slice_of(&frame), Some(Bytes::new()));
    let beyond = Cell::Text(&frame[2..]);
    assert_eq!(beyond.slice_of(&frame.slice(..3)).as_deref(), Some(b"ame".as_slice()));
}

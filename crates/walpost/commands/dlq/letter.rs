//! All of one letter, for people.

use walpost_core::pgoutput::{Cell, Message};
use walpost_core::poison::DeadLetter;
use walpost_core::poison::operator::Listed;
use walpost_core::record::Record;

use super::table::{age, printable};

/// How much of a payload is printed.
const PAYLOAD_BYTES: usize = 64 << 10;

/// How much of one column, key or header is printed.
const VALUE_BYTES: usize = 200;

/// The lines.
pub(super) fn lines(listed: &Listed, letter: &DeadLetter) -> Vec<String> {
    let mut lines = about(listed);
    if let Some(record) = &letter.record {
        lines.extend(of_record(record, letter.row.reference.is_some(), listed.id));
    }
    lines.extend(of_row(letter));
    if letter.row.reference.is_some() {
        lines.push(format!(
            "kept:       a reference; the rest of the row is in {}, if it is there still; to read it, run: walpost dlq show {} --fetch",
            letter.table, listed.id
        ));
    }
    lines
}

fn about(listed: &Listed) -> Vec<String> {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "none".to_owned(), printable);
    let mut lines = vec![
        format!("letter:     {}", listed.id),
        format!("state:      {}", listed.state),
        match &listed.reason {
            Some(reason) => format!("cause:      {}: {}", listed.cause, printable(reason)),
            None => format!("cause:      {}: it waits for a letter of its key", listed.cause),
        },
        format!(
            "set aside:  {} ({} ago), tried {}, last at {}",
            listed.first_at,
            age(listed.age),
            times(listed.attempts),
            listed.last_at
        ),
        format!("outbox:     {}", listed.outbox),
        format!("event id:   {}", text(&listed.event_id)),
        format!("route:      {}", text(&listed.route)),
        format!("key:        {}", text(&listed.key)),
        format!("committed:  {}", listed.commit_time),
        format!(
            "log:        insert {} of the transaction that commits at {} on timeline {}",
            listed.ordinal, listed.commit_lsn, listed.timeline
        ),
    ];
    if let Some(by) = &listed.marked_by {
        let at = listed.marked_at.as_ref().map(|at| format!("{at} ")).unwrap_or_default();
        lines.push(format!("marked:     {at}by {}", printable(by)));
    }
    if let Some(at) = &listed.ended_at {
        lines.push(format!("ended:      {at}"));
    }
    lines
}

fn times(count: i32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn of_record(record: &Record, is_reference: bool, id: i64) -> Vec<String> {
    let partition = record.partition.map_or_else(|| "by its key".to_owned(), |partition| partition.to_string());
    let mut lines = vec![
        "record:".to_owned(),
        format!("  topic:      {}", printable(&record.topic)),
        format!("  partition:  {partition}"),
        format!("  key:        {}", value(record.key.as_deref())),
        format!("  timestamp:  {} ms since 1970 (UTC)", record.timestamp_ms),
    ];
    for header in &record.headers {
        lines.push(format!("  header:     {} = {}", printable(&header.name), value(header.value.as_deref())));
    }
    match record.value.as_deref() {
        None if is_reference => lines.push("  payload:    not kept".to_owned()),
        None => lines.push("  payload:    none: a tombstone".to_owned()),
        Some(payload) => lines.extend(of_payload(payload, id)),
    }
    lines
}

/// As it is, line breaks and all.
fn of_payload(payload: &[u8], id: i64) -> Vec<String> {
    let shown = payload.get(..PAYLOAD_BYTES).unwrap_or(payload);
    let cut = if shown.len() < payload.len() {
        format!(", of which {} are shown; for all, run: walpost dlq show {id} --payload", shown.len())
    } else {
        String::new()
    };
    vec![format!("  payload:    {} bytes{cut}", payload.len()), text_or_hex(shown)]
}

fn of_row(letter: &DeadLetter) -> Vec<String> {
    let Some(cells) = cells(letter) else {
        return vec!["row:        it cannot be read".to_owned()];
    };
    let column = |(name, bytes): NamedCell<'_>| format!("  {}: {}", printable(name), value(bytes));
    std::iter::once("row:".to_owned()).chain(cells.into_iter().map(column)).collect()
}

/// A column's name and its value.
type NamedCell<'a> = (&'a str, Option<&'a [u8]>);

/// The columns of the row, in order; of one to which there is a reference, those of its key. `None` where the row is not what pgoutput tells.
pub(super) fn cells(letter: &DeadLetter) -> Option<Vec<NamedCell<'_>>> {
    let Ok(Message::Relation(relation)) = &Message::parse(&letter.row.relation) else { return None };
    let Ok(Message::Insert(insert)) = &Message::parse(&letter.row.insert) else { return None };
    let cells = relation.columns.iter().zip(&insert.new.cells);
    let is_kept = |(_, cell): &(_, &Cell<'_>)| **cell != Cell::Unchanged;
    Some(cells.filter(is_kept).map(|(column, cell)| (column.name, cell.bytes())).collect())
}

/// A value on one line, cut where it is long.
fn value(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "NULL".to_owned() };
    match bytes.get(..VALUE_BYTES) {
        Some(start) if bytes.len() > VALUE_BYTES => {
            format!("{}… ({} bytes)", printable(&text_or_hex(start)), bytes.len())
        }
        _ => printable(&text_or_hex(bytes)),
    }
}

/// Text where it is text, but for a character that was cut at the end; else `bytea`'s form.
fn text_or_hex(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(error) if error.error_len().is_none() => {
            String::from_utf8_lossy(bytes.get(..error.valid_up_to()).unwrap_or_default()).into_owned()
        }
        Err(_) => bytes.iter().fold(String::from("\\x"), |hex, byte| hex + &format!("{byte:02x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_where_they_are_and_cut_where_they_are_long() {
        let long = "ä".repeat(150);
        for (bytes, expected) in [
            (None, "NULL".to_owned()),
            (Some(&b""[..]), String::new()),
            (Some("größe\n".as_bytes()), r"größe\n".to_owned()),
            (Some(b"\xff\x00"), r"\xff00".to_owned()),
            (Some(long.as_bytes()), format!("{}… (300 bytes)", "ä".repeat(100))),
        ] {
            assert_eq!(value(bytes), expected);
        }
        // A whole text in front of half a character.
        assert_eq!(text_or_hex(b"ab\xc3"), "ab");
    }
}

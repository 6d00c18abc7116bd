//! Letters as a table that fits a terminal of 120 columns.

use std::time::Duration;

use walpost_core::poison::operator::{Affected, Listed};

/// What a line may take.
const WIDTH: usize = 120;

/// What a name or a key may take of it.
const NAME_WIDTH: usize = 24;

/// What the end of a key takes of that, where the whole is too wide.
const KEY_END_WIDTH: usize = 7;

const GAP: &str = "  ";

/// A table of letters that comes in pages: columns only grow from one to the next.
#[derive(Debug, Default)]
pub(super) struct Letters {
    widths: Vec<usize>,
}

impl Letters {
    /// The lines of the next page; the first has the titles.
    pub(super) fn lines(&mut self, letters: &[Listed]) -> Vec<String> {
        let titles = ["ID", "STATE", "CAUSE", "AGE", "TRIES", "OUTBOX", "KEY", "REASON"];
        let titles = self.widths.is_empty().then(|| titles.map(str::to_owned).to_vec());
        aligned(titles.into_iter().chain(letters.iter().map(row)), &mut self.widths)
    }
}

fn row(letter: &Listed) -> Vec<String> {
    let reason = letter.reason.as_deref().unwrap_or("waits for a letter of its key");
    vec![
        letter.id.to_string(),
        letter.state.clone(),
        letter.cause.clone(),
        age(letter.age),
        letter.attempts.to_string(),
        cut(&printable(&letter.outbox.to_string()), NAME_WIDTH),
        shortened(&printable(letter.key.as_deref().unwrap_or("-"))),
        reason.to_owned(),
    ]
}

/// A table of keys whose letters are marked.
pub(super) fn affected(affected: &[Affected]) -> Vec<String> {
    let row = |affected: &Affected| {
        vec![
            affected.letters.to_string(),
            affected.first.to_string(),
            affected.in_front.to_string(),
            affected.behind.to_string(),
            cut(&affected.outbox.to_string(), NAME_WIDTH),
            affected.key.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let titles = ["LETTERS", "FIRST", "IN FRONT", "BEHIND", "OUTBOX", "KEY"].map(str::to_owned).to_vec();
    aligned(std::iter::once(titles).chain(affected.iter().map(row)), &mut Vec::new())
}

/// Lines whose columns are aligned, each at least so wide; the last column takes what is left.
fn aligned(rows: impl Iterator<Item = Vec<String>>, widths: &mut Vec<usize>) -> Vec<String> {
    let rows: Vec<Vec<String>> = rows.map(|row| row.iter().map(|cell| printable(cell)).collect()).collect();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (widest, cell) in widths.iter_mut().zip(row) {
            *widest = (*widest).max(width(cell));
        }
    }
    rows.iter().map(|row| line(row, widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, column)) in row.iter().zip(widths).enumerate() {
        if index + 1 == row.len() {
            line.push_str(&cut(cell, WIDTH.saturating_sub(width(&line))));
        } else {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', column.saturating_sub(width(cell))));
            line.push_str(GAP);
        }
    }
    line
}

/// A text on one line, without what would move the cursor or turn the direction of what follows.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for character in text.chars() {
        if moves(character) { printable.extend(character.escape_default()) } else { printable.push(character) }
    }
    printable
}

/// Control characters, the two that break lines, and those of Unicode's bidirectional algorithm.
pub(super) fn moves(character: char) -> bool {
    let is_format =
        matches!(u32::from(character), 0x061C | 0x200E | 0x200F | 0x2028 | 0x2029 | 0x202A..=0x202E | 0x2066..=0x2069);
    character.is_control() || is_format
}

/// A text that takes no more than this, with a mark where it was cut.
fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut taken = 1;
    for character in text.chars() {
        taken += width_of(character);
        if taken > most {
            break;
        }
        short.push(character);
    }
    short.push('…');
    short
}

/// A key with its beginning and its end: those of one kind often differ in their last characters alone.
fn shortened(key: &str) -> String {
    if width(key) <= NAME_WIDTH {
        return key.to_owned();
    }
    let mut end = String::new();
    let mut taken = 0;
    for character in key.chars().rev() {
        taken += width_of(character);
        if taken > KEY_END_WIDTH {
            break;
        }
        end.insert(0, character);
    }
    format!("{}{end}", cut(key, NAME_WIDTH - KEY_END_WIDTH))
}

/// How many columns a terminal gives a text.
fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

/// The wide scripts and the marks that take no place of their own (Unicode's East Asian Width, as far as texts use it).
fn width_of(character: char) -> usize {
    match u32::from(character) {
        0x0300..=0x036F | 0x200B..=0x200F | 0xFE00..=0xFE0F => 0,
        0x1100..=0x115F
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE6F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// A duration in its largest unit.
pub(in crate::commands) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_told_in_their_largest_unit() {
        for (seconds, expected) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86_399, "23h"), (864_000, "10d")]
        {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn keys_that_differ_in_their_ends_alone_are_told_apart_within_their_width() {
        let (first, second) = ("customer-0000000000000000-eu-0001", "customer-0000000000000000-eu-0002");
        assert!(shortened(first).starts_with("customer-0000") && shortened(first).ends_with("…eu-0001"));
        assert_ne!(shortened(first), shortened(second));
        for key in ["short", first, &"東京".repeat(20), &"ü".repeat(40)] {
            assert!(width(&shortened(key)) <= NAME_WIDTH, "{}", shortened(key));
        }
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn columns_are_aligned_whatever_the_script_and_no_line_is_too_long() {
        let long = "reason ".repeat(40);
        let rows = [["1", "größe", &long], ["100", "東京", "short"], ["7", "a\nb\u{1b}[2J", "…"]];
        let cells = |row: [&str; 3]| row.map(str::to_owned).to_vec();
        let mut widths = Vec::new();
        let rows = std::iter::once(["ID", "KEY", "REASON"]).chain(rows).map(cells);
        let lines = aligned(rows, &mut widths);
        assert_eq!(lines[0], "ID   KEY            REASON");
        assert!(lines[1].starts_with("1    größe          reason") && lines[1].ends_with('…'), "{}", lines[1]);
        assert_eq!(width(&lines[1]), WIDTH);
        assert_eq!(lines[2], "100  東京           short");
        assert_eq!(lines[3], r"7    a\nb\u{1b}[2J  …");
        let next = aligned([["2", "\u{202e}c", "x"]].into_iter().map(cells), &mut widths);
        assert_eq!(next, [r"2    \u{202e}c      x"], "the next page stands below the first");
    }
}

//! The grammar of `table.fields.additional.placement`: `column:header|partition|envelope[:alias]`, separated by commas.

use std::sync::Arc;

/// Where an additional column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The column.
    pub column: String,
    /// Where its value goes.
    pub target: Target,
}

/// The place of an additional column in the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A header of this name.
    Header(Arc<str>),
    /// The number of the partition.
    Partition,
    /// A field of this name beside the payload.
    Envelope(Arc<str>),
}

impl Placement {
    /// Reads the list. Blanks around parts do not count, a comma at the end is tolerated, an empty alias is none, and the
    /// alias of a partition is ignored: as Debezium reads it.
    ///
    /// # Errors
    /// What is wrong in which entry, in a sentence. (Debezium takes an unknown place at the start and fails at every row.)
    pub fn parse_list(text: &str) -> Result<Vec<Self>, String> {
        let mut entries: Vec<&str> = text.split(',').collect();
        while entries.len() > 1 && entries.last().is_some_and(|last| last.trim().is_empty()) {
            entries.pop();
        }
        entries.into_iter().enumerate().map(|(index, entry)| Self::parse(entry, index + 1)).collect()
    }

    fn parse(entry: &str, number: usize) -> Result<Self, String> {
        let parts: Vec<&str> = entry.split(':').map(str::trim).collect();
        let (column, place, alias) = match parts.as_slice() {
            [column, place] => (*column, *place, ""),
            [column, place, alias] => (*column, *place, *alias),
            _ => return Err(format!("entry {number} (\"{}\") is not column:placement[:alias]", entry.trim())),
        };
        if column.is_empty() {
            return Err(format!("entry {number} (\"{}\") names no column", entry.trim()));
        }
        let name = || Arc::from(if alias.is_empty() { column } else { alias });
        let target = match place.to_ascii_lowercase().as_str() {
            "header" => Target::Header(name()),
            "partition" => Target::Partition,
            "envelope" => Target::Envelope(name()),
            _ => {
                return Err(format!(
                    "\"{place}\" in entry {number} (\"{}\") is no placement; write header, partition or envelope",
                    entry.trim()
                ));
            }
        };
        Ok(Self { column: column.to_owned(), target })
    }

    pub(super) fn is_envelope(&self) -> bool {
        matches!(self.target, Target::Envelope(_))
    }
}

#[cfg(test)]
mod tests {
    use super::{Placement, Target};

    fn header(column: &str, name: &str) -> Placement {
        Placement { column: column.to_owned(), target: Target::Header(name.into()) }
    }

    #[test]
    fn entries_are_read_as_debezium_reads_them() {
        let partition = Placement { column: "part".to_owned(), target: Target::Partition };
        let envelope = Placement { column: "type".to_owned(), target: Target::Envelope("kind".into()) };
        let cases = [
            ("type:header", vec![header("type", "type")]),
            ("type:header:eventType", vec![header("type", "eventType")]),
            ("type:HEADER", vec![header("type", "type")]),
            ("type:header:", vec![header("type", "type")]),
            ("type:header: my alias ", vec![header("type", "my alias")]),
            ("type:header,", vec![header("type", "type")]),
            (" type : HEADER : eventType , id:header,", vec![header("type", "eventType"), header("id", "id")]),
            ("id:header,id:header", vec![header("id", "id"), header("id", "id")]),
            ("Type:header", vec![header("Type", "Type")]),
            ("part:partition", vec![partition.clone()]),
            ("part:Partition:foo", vec![partition]),
            ("type:envelope:kind", vec![envelope]),
        ];
        for (text, expected) in cases {
            assert_eq!(Placement::parse_list(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn faults_name_the_entry_and_the_word() {
        let cases = [
            ("", "entry 1"),
            ("type", "entry 1 (\"type\")"),
            ("type:header:a:b", "entry 1 (\"type:header:a:b\")"),
            (":header", "names no column"),
            ("id:header,type:foo", "\"foo\" in entry 2"),
            ("id:header,,type:header", "entry 2"),
            ("type:headr", "header, partition or envelope"),
        ];
        for (text, expected) in cases {
            let fault = Placement::parse_list(text).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
        }
    }
}

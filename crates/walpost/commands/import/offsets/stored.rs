//! Offsets as Connect stores them: JSON, by `["connector",{"server":"prefix"}]`.

use serde_json::{Map, Value};
use walpost_core::lsn::Lsn;

use super::java::Pairs;

/// A stored offset of Debezium's PostgreSQL connector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offset {
    /// `lsn_commit`
    commit: Option<Lsn>,
    /// `lsn_proc`
    processed: Option<Lsn>,
    /// `messageType`
    message: Option<String>,
    /// `lsn_events_processed`
    events: Option<u64>,
    /// `snapshot`: the offset of a record that a snapshot made.
    is_of_snapshot: bool,
}

/// How far the connector got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resume {
    /// Every transaction before this is published, and nothing else.
    At(Lsn),
    /// And of the next one the rows up to this LSN.
    Within {
        /// The end of the last whole transaction.
        commit: Lsn,
        /// The last row.
        row: Lsn,
        /// How many changes with that LSN were read, where it is known.
        events: Option<u64>,
    },
}

impl Resume {
    /// The end of the last whole transaction.
    pub(super) fn commit(self) -> Lsn {
        match self {
            Self::At(commit) | Self::Within { commit, .. } => commit,
        }
    }
}

/// The offset of this connector.
///
/// # Errors
/// There is none, or it cannot be told which one it is, or it makes no sense.
pub(super) fn find(pairs: &Pairs, connector: &str, prefix: &str) -> Result<Offset, String> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for (key, value) in pairs {
        let Some((name, server)) = serde_json::from_slice(key).ok().and_then(|key| owner(&key)) else { continue };
        if server == prefix {
            found.push((name.clone(), value.as_deref()));
        }
        seen.push(format!("{name} ({server})"));
    }
    if found.len() > 1 {
        found.retain(|(name, _)| name == connector);
    }
    match found.as_slice() {
        [(_, Some(value))] => Offset::parse(value),
        [(name, None)] => Err(format!("the offset of connector {name:?} was reset")),
        [] if seen.is_empty() => Err("it holds no offset of a connector of Debezium".to_owned()),
        [] => Err(format!(
            "it holds no offset of connector {connector:?} with topic.prefix {prefix:?}, only of {}",
            seen.join(", ")
        )),
        _ => Err(format!("it holds several offsets of connector {connector:?}")),
    }
}

/// The connector's name and its `topic.prefix`, of a key.
fn owner(key: &Value) -> Option<(String, String)> {
    let [name, partition] = unwrapped(key).as_array()?.as_slice() else { return None };
    let server = partition.as_object()?.get("server")?;
    Some((name.as_str()?.to_owned(), server.as_str()?.to_owned()))
}

/// Workers of old wrapped offsets into schema and payload unless told not to.
fn unwrapped(value: &Value) -> &Value {
    match value.as_object() {
        Some(members) if members.len() == 2 && members.contains_key("schema") => {
            members.get("payload").unwrap_or(value)
        }
        _ => value,
    }
}

impl Offset {
    fn parse(value: &[u8]) -> Result<Self, String> {
        let value: Value = serde_json::from_slice(value).map_err(|error| format!("the offset is no JSON: {error}"))?;
        let members = unwrapped(&value).as_object().ok_or("the offset is no JSON object")?;
        let snapshot = members.get("snapshot");
        Ok(Self {
            commit: lsn(members, "lsn_commit")?,
            processed: lsn(members, "lsn_proc")?,
            message: members.get("messageType").and_then(Value::as_str).map(str::to_owned),
            events: members.get("lsn_events_processed").and_then(Value::as_u64),
            is_of_snapshot: snapshot.is_some_and(|snapshot| !matches!(snapshot, Value::Null | Value::Bool(false))),
        })
    }

    /// What it says.
    ///
    /// # Errors
    /// Why it says nothing that could be relied on.
    pub(super) fn resume(&self) -> Result<Resume, String> {
        if self.is_of_snapshot {
            return Err("the offset is that of a snapshot, after which the slot's position lies".to_owned());
        }
        let Some(commit) = self.commit else {
            return Err("the offset has no lsn_commit: Debezium 1.4 or earlier wrote it, or nothing was streamed yet"
                .to_owned());
        };
        let Some(row) = self.processed else { return Ok(Resume::At(commit)) };
        let is_between = match self.message.as_deref() {
            // A heartbeat, or a transaction's own record: the last thing that was processed is a COMMIT.
            Some("BEGIN" | "COMMIT") | None => true,
            // A message within a transaction follows on a row or on the COMMIT before; one without a transaction counts as a COMMIT.
            Some("MESSAGE") => row == commit,
            // A row's record may begin where the commit before ends, so that the two are equal and the row is published.
            Some(_) => false,
        };
        Ok(if is_between { Resume::At(commit) } else { Resume::Within { commit, row, events: self.events } })
    }
}

fn lsn(members: &Map<String, Value>, name: &str) -> Result<Option<Lsn>, String> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(number) => {
            let lsn = number.as_u64().or_else(|| number.as_i64().map(i64::cast_unsigned));
            lsn.filter(|lsn| *lsn > 0).map(Lsn::new).map(Some).ok_or_else(|| format!("the offset's {name} is {number}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &[u8] = br#"["orders",{"server":"app"}]"#;

    fn found(pairs: &[(&[u8], Option<&str>)], connector: &str, prefix: &str) -> Result<Offset, String> {
        let pairs: Pairs =
            pairs.iter().map(|(key, value)| (key.to_vec(), value.map(|value| value.as_bytes().to_vec()))).collect();
        find(&pairs, connector, prefix)
    }

    #[test]
    fn an_offset_says_where_to_go_on() {
        let within = |row, events| Ok(Resume::Within { commit: Lsn::new(100), row: Lsn::new(row), events });
        for (value, expected) in [
            (
                r#"{"lsn_proc":120,"lsn_commit":100,"lsn":120,"txId":7,"ts_usec":1,"messageType":"INSERT"}"#,
                within(120, None),
            ),
            (r#"{"lsn_proc":100,"lsn_commit":100,"lsn":100,"messageType":"INSERT"}"#, within(100, None)),
            (
                r#"{"lsn_proc":120,"lsn_commit":100,"messageType":"UPDATE","lsn_events_processed":3}"#,
                within(120, Some(3)),
            ),
            (r#"{"lsn_proc":100,"lsn_commit":100,"lsn":100,"messageType":"COMMIT"}"#, Ok(Resume::At(Lsn::new(100)))),
            (r#"{"lsn_proc":100,"lsn_commit":100,"lsn":110,"messageType":"BEGIN"}"#, Ok(Resume::At(Lsn::new(100)))),
            (r#"{"lsn_proc":100,"lsn_commit":100,"messageType":"MESSAGE"}"#, Ok(Resume::At(Lsn::new(100)))),
            (r#"{"lsn_proc":110,"lsn_commit":100,"messageType":"MESSAGE"}"#, within(110, None)),
            (r#"{"schema":null,"payload":{"lsn_commit":100,"lsn":110}}"#, Ok(Resume::At(Lsn::new(100)))),
        ] {
            let offset = found(&[(KEY, Some(value))], "orders", "app").unwrap();
            assert_eq!(offset.resume(), expected, "{value}");
        }
    }

    #[test]
    fn an_offset_that_says_too_little_is_refused() {
        for (value, word) in [
            (r#"{"lsn":100,"snapshot":"INITIAL","last_snapshot_record":true}"#, "snapshot"),
            (r#"{"lsn":100,"snapshot":true}"#, "snapshot"),
            (r#"{"lsn_proc":120}"#, "lsn_commit"),
        ] {
            let offset = found(&[(KEY, Some(value))], "orders", "app").unwrap();
            assert!(offset.resume().unwrap_err().contains(word), "{value}");
        }
        for value in ["[]", "x", r#"{"lsn_commit":"7"}"#, r#"{"lsn_commit":0}"#] {
            assert!(found(&[(KEY, Some(value))], "orders", "app").is_err(), "{value}");
        }
    }

    #[test]
    fn an_offset_is_found_by_the_prefix_and_if_need_be_by_the_name() {
        let good = Some(r#"{"lsn_commit":100}"#);
        let wrapped: &[u8] = br#"{"schema":null,"payload":["orders",{"server":"app"}]}"#;
        assert!(found(&[(KEY, good)], "renamed", "app").is_ok());
        assert!(found(&[(wrapped, good)], "orders", "app").is_ok());
        let other: &[u8] = br#"["other",{"server":"app"}]"#;
        assert!(found(&[(other, None), (KEY, good), (b"junk", good)], "orders", "app").is_ok());
        for (pairs, word) in
            [(vec![], "no offset"), (vec![(KEY, None)], "reset"), (vec![(KEY, good), (KEY, good)], "several")]
        {
            let fault = found(&pairs, "orders", "app").unwrap_err();
            assert!(fault.contains(word), "{fault}");
        }
        assert!(found(&[(KEY, good)], "orders", "other").unwrap_err().contains("orders (app)"));
    }
}

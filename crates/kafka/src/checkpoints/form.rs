//! A checkpoint as the value of a record: JSON with the names that the file store has, so that whoever reads the one can read the other.
//!
//! There is no checksum: Kafka keeps one over each batch.

use serde_json::{Map, Value, json};
use walpost_core::lsn::Lsn;
use walpost_core::position::{Checkpoint, Epoch, SettledRows, SystemIdentifier, Timeline};
use walpost_core::time::Timestamp;

/// Why a value is no checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// A newer walpost wrote it.
    #[error("format {0}")]
    Newer(u64),
    /// It is no JSON, or a field is missing or wrong.
    #[error("{0}")]
    Damaged(String),
}

/// As JSON.
pub(crate) fn encode(checkpoint: &Checkpoint) -> Vec<u8> {
    let mut document = json!({
        "format_version": Checkpoint::FORMAT_VERSION,
        "relay": checkpoint.relay,
        // As text: JSON readers lose digits of large numbers.
        "system_identifier": checkpoint.system.0.to_string(),
        "timeline": checkpoint.timeline.0,
        "database": checkpoint.database,
        "slot": checkpoint.slot,
        "position": checkpoint.position.to_string(),
        "commit_time_postgres_micros": checkpoint.commit_time.map(Timestamp::postgres_micros),
        "epoch": checkpoint.epoch.0,
    });
    if let (Some(rows), Some(fields)) = (checkpoint.settled_rows, document.as_object_mut()) {
        let rows = json!({ "commit_lsn": rows.commit_lsn.to_string(), "through": rows.through.to_string() });
        fields.insert("settled_rows".to_owned(), rows);
    }
    document.to_string().into_bytes()
}

/// From JSON. Fields that are unknown are a newer format's, and passed over where its number is ours.
pub(crate) fn decode(bytes: &[u8]) -> Result<Checkpoint, Fault> {
    let document: Value = serde_json::from_slice(bytes).map_err(|error| Fault::Damaged(error.to_string()))?;
    let fields = document.as_object().ok_or_else(|| Fault::Damaged("it is no JSON object".to_owned()))?;
    let format = number(fields, "format_version")?;
    if format > u64::from(Checkpoint::FORMAT_VERSION) {
        return Err(Fault::Newer(format));
    }
    let timeline = number(fields, "timeline")?;
    let settled_rows = fields.get("settled_rows").and_then(Value::as_object).map(|rows| {
        Ok::<_, Fault>(SettledRows { commit_lsn: parsed(rows, "commit_lsn")?, through: parsed(rows, "through")? })
    });
    Ok(Checkpoint {
        relay: text(fields, "relay")?.to_owned(),
        system: SystemIdentifier(parsed(fields, "system_identifier")?),
        timeline: Timeline(u32::try_from(timeline).map_err(|_| wrong("timeline"))?),
        database: text(fields, "database")?.to_owned(),
        slot: text(fields, "slot")?.to_owned(),
        position: parsed::<Lsn>(fields, "position")?,
        commit_time: match fields.get("commit_time_postgres_micros") {
            None | Some(Value::Null) => None,
            Some(micros) => {
                let micros = micros.as_i64().ok_or_else(|| wrong("commit_time_postgres_micros"))?;
                Some(Timestamp::from_postgres_micros(micros))
            }
        },
        settled_rows: settled_rows.transpose()?,
        epoch: Epoch(number(fields, "epoch")?),
    })
}

fn wrong(name: &str) -> Fault {
    Fault::Damaged(format!("its {name} is missing or wrong"))
}

fn text<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<&'a str, Fault> {
    fields.get(name).and_then(Value::as_str).ok_or_else(|| wrong(name))
}

fn number(fields: &Map<String, Value>, name: &str) -> Result<u64, Fault> {
    fields.get(name).and_then(Value::as_u64).ok_or_else(|| wrong(name))
}

fn parsed<T: std::str::FromStr>(fields: &Map<String, Value>, name: &str) -> Result<T, Fault> {
    text(fields, name)?.parse().map_err(|_| wrong(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            relay: "relay \"x\"\n".to_owned(),
            system: SystemIdentifier(u64::MAX),
            timeline: Timeline(3),
            database: "app".to_owned(),
            slot: "walpost".to_owned(),
            position: Lsn::new(0x16_B374_D848),
            commit_time: Some(Timestamp::from_postgres_micros(-5)),
            settled_rows: None,
            epoch: Epoch(7),
        }
    }

    #[test]
    fn what_is_written_is_read_back_whole() {
        let rows = SettledRows { commit_lsn: Lsn::new(u64::MAX), through: Lsn::new(15) };
        for written in [
            checkpoint(),
            Checkpoint { commit_time: None, ..checkpoint() },
            Checkpoint { settled_rows: Some(rows), ..checkpoint() },
        ] {
            assert_eq!(decode(&encode(&written)), Ok(written));
        }
    }

    #[test]
    fn the_form_is_that_of_version_1() {
        let expected = "{\"commit_time_postgres_micros\":-5,\"database\":\"app\",\"epoch\":7,\"format_version\":1,\
                        \"position\":\"16/B374D848\",\"relay\":\"relay \\\"x\\\"\\n\",\"slot\":\"walpost\",\
                        \"system_identifier\":\"18446744073709551615\",\"timeline\":3}";
        let encoded: Value = serde_json::from_slice(&encode(&checkpoint())).unwrap();
        assert_eq!(encoded, serde_json::from_str::<Value>(expected).unwrap());
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        assert_eq!(decode(br#"{"format_version":2,"more":true}"#), Err(Fault::Newer(2)));
        let bytes = encode(&checkpoint());
        for length in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..length]), Err(Fault::Damaged(_))), "{length} bytes");
        }
        for (field, wrong) in [("timeline", json!(1_u64 << 33)), ("position", json!("x")), ("epoch", json!(-1))] {
            let mut document: Value = serde_json::from_slice(&bytes).unwrap();
            document[field] = wrong;
            let fault = decode(document.to_string().as_bytes()).unwrap_err();
            assert_eq!(fault, Fault::Damaged(format!("its {field} is missing or wrong")));
        }
    }
}

//! The rows that were set aside: whether each lies in `walpost.dead_letter` as its case says, and no other.
//!
//! Cases play under the default policy, so a row behind a bad one of its key would lie there too, and would be a difference.

use walpost_testkit::servers::Database;

use super::Outcome;
use super::case::{Case, DeadLetter};

/// What the table says of a row.
#[derive(Debug)]
struct Letter {
    id: String,
    cause: String,
    reason: String,
    topic: String,
    /// What else is wrong with it, if anything is.
    fault: String,
}

/// Every difference between what was set aside of a case and what had to be, in words.
pub(super) fn differences(database: &Database, case: &Case) -> Outcome<Vec<String>> {
    let expected = case.ours().map_or(&[][..], |ours| &ours.dead_letters);
    let found = read(database, case)?;
    let mut differences: Vec<_> = expected.iter().zip(&found).flat_map(|(row, letter)| compare(row, letter)).collect();
    let missing = expected.get(found.len()..).unwrap_or_default();
    differences.extend(missing.iter().map(|row| format!("the row {} was not set aside", row.id)));
    let more = found.get(expected.len()..).unwrap_or_default();
    differences.extend(more.iter().map(|letter| format!("was set aside and was not expected: {letter:?}")));
    Ok(differences)
}

fn compare(expected: &DeadLetter, found: &Letter) -> Vec<String> {
    let is_named = found.reason.to_lowercase().contains(&expected.reason_names.to_lowercase());
    // Where there is a record, the broker or its client refused it, and its topic exists.
    let has_no_topic = expected.reason_names.contains("topic") || expected.reason_names == "NULL";
    let faults = [
        (found.id != expected.id, "another row"),
        (found.cause != "row", "another cause"),
        (!is_named, "another reason"),
        (has_no_topic && !found.topic.is_empty(), "a topic"),
        (!found.fault.is_empty(), found.fault.as_str()),
    ];
    let faults = faults.into_iter().filter(|(is_so, _)| *is_so);
    faults.map(|(_, fault)| format!("a letter has {fault}: expected {expected:?}\n    found {found:?}")).collect()
}

/// What was set aside of a case's tables, in order. Rows may have been deleted since; of those that are there the key is compared.
fn read(database: &Database, case: &Case) -> Outcome<Vec<Letter>> {
    let (prefix, table) = (&case.prefix, &case.table);
    let column = |option: &str, default: &str| {
        let name = case.router.get(option).map_or(default, String::as_str);
        name.replace('\'', "''")
    };
    let (id, key) = (column("table.field.event.id", "id"), column("table.field.event.key", "aggregateid"));
    let rows = database.psql(&format!(
        r"SET search_path = {prefix}, public;
        SELECT event_id, cause, translate(reason, E'\r\n', '  '), coalesce(topic, ''), concat_ws(', ',
            CASE WHEN state <> 'waiting' OR attempts <> 1 THEN 'a state' END,
            CASE WHEN system_identifier <> (SELECT system_identifier FROM pg_control_system())
                OR timeline <> 1 OR commit_lsn > pg_current_wal_lsn() OR ordinal < 0 THEN 'an identity' END,
            CASE WHEN now() - commit_time NOT BETWEEN '0' AND '1 hour' THEN 'a commit time' END,
            CASE WHEN (SELECT bool_or((to_jsonb(o) ->> '{key}') IS DISTINCT FROM letter.key) FROM {table} AS o
                WHERE to_jsonb(o) ->> '{id}' = event_id) THEN 'a key' END,
            CASE WHEN topic IS NOT NULL AND topic NOT LIKE '{prefix}%' THEN 'a foreign topic' END,
            CASE WHEN length(insert_message) < 10 OR length(relation_message) < 10 THEN 'no row' END)
        FROM walpost.dead_letter AS letter WHERE outbox_schema = '{prefix}' ORDER BY letter.id"
    ))?;
    let letter = |row: &Vec<String>| {
        let [id, cause, reason, topic, fault] = row.as_slice() else { return Err("a letter without a column") };
        let [id, cause, reason, topic, fault] = [id, cause, reason, topic, fault].map(String::clone);
        Ok(Letter { id, cause, reason, topic, fault })
    };
    Ok(rows.iter().map(letter).collect::<Result<_, _>>()?)
}

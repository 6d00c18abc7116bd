//! Under which other names a slot was read: their letters are nobody's any more, and the rows of this relay would overtake them.
//!
//! Letters and checkpoint belong to a relay by its name. A relay whose name was changed finds neither, begins where the slot stands, and knows of no key
//! that waits. The checkpoint that it wrote under its former name tells it.

use crate::error::Error;
use crate::identifier::SlotName;
use crate::sql::{Session, field};

const NAMES: &str = "
SELECT relay FROM walpost.checkpoint WHERE relay <> $1 AND slot = $2 AND database = current_database()
AND system_identifier = (SELECT system_identifier::numeric + CASE WHEN system_identifier < 0 THEN 18446744073709551616 ELSE 0 END FROM pg_control_system())
ORDER BY updated_at DESC, relay";

const LETTERS: &str = "
SELECT count(*) AS letters FROM walpost.dead_letter WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop')";

/// The other names under which checkpoints of this slot lie in the source database, the last that was written first. Where there is no such table, there
/// are none.
///
/// # Errors
/// The table cannot be read.
pub async fn names(session: &Session, relay: &str, slot: &SlotName) -> Result<Vec<String>, Error> {
    let rows = or_nothing(session.query(NAMES, &[&relay, &slot.as_str()]).await)?;
    rows.iter().map(|row| field(row, "relay")).collect()
}

/// How many letters of this name lie open in the source database.
///
/// # Errors
/// The table cannot be read.
pub async fn open_letters(session: &Session, relay: &str) -> Result<u64, Error> {
    let rows = or_nothing(session.query(LETTERS, &[&relay]).await)?;
    let counts: Vec<i64> = rows.iter().map(|row| field(row, "letters")).collect::<Result<_, _>>()?;
    Ok(counts.first().and_then(|count| u64::try_from(*count).ok()).unwrap_or_default())
}

/// `undefined_table`; a schema that does not exist is told so as well.
fn or_nothing<T: Default>(answer: Result<T, Error>) -> Result<T, Error> {
    match answer {
        Err(error) if error.sqlstate() == Some("42P01") => Ok(T::default()),
        answer => answer,
    }
}

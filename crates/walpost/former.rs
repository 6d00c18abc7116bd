//! Whether this relay had another name, under which rows are set aside still: it would send what comes behind them.

use walpost_core::finding::Finding;
use walpost_postgres::{Error as PostgresError, former, sql};

use crate::config::settings::{LetterStore, Settings, Store};
use crate::letters;

/// Why it cannot be said.
#[derive(Debug)]
pub enum Unknown {
    /// The database did not answer.
    Postgres(PostgresError),
    /// Nor did the store of letters.
    Letters(letters::Error),
}

/// What stands in the way, if letters of a former name are open.
///
/// # Errors
/// The checkpoints or the letters cannot be read.
pub async fn letters(sql: &sql::Session, settings: &Settings) -> Result<Option<Finding>, Unknown> {
    let dead_letter = settings.dead_letter();
    // Elsewhere nothing tells whose slot it was: a file has the checkpoint of one relay, and where nothing may be published twice, a start without one
    // is refused anyway.
    if !dead_letter.is_used() || settings.checkpoint().store() != &Store::Postgres {
        return Ok(None);
    }
    let names = former::names(sql, settings.name(), settings.source().slot()).await.map_err(Unknown::Postgres)?;
    for name in names {
        let open = match dead_letter.store() {
            LetterStore::Postgres => former::open_letters(sql, &name).await.map_err(Unknown::Postgres)?,
            LetterStore::Kafka(_) => letters::open_of(settings, &name).await.map_err(Unknown::Letters)?,
        };
        if open > 0 {
            return Ok(Some(finding(settings, &name, open)));
        }
    }
    Ok(None)
}

fn finding(settings: &Settings, former: &str, open: u64) -> Finding {
    let (name, slot) = (settings.name(), settings.source().slot());
    let letters = if open == 1 { "1 dead letter" } else { "dead letters" };
    let count = if open == 1 { String::new() } else { format!("{open} ") };
    let sentence = format!(
        "the slot \"{slot}\" was read by a relay of the name \"{former}\", and {count}{letters} of that name would be overtaken by the rows behind: this relay knows nothing of them"
    );
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let back = format!("write name = \"{former}\", at least until they are sent or dropped");
    let remedy = match settings.dead_letter().store() {
        LetterStore::Postgres => format!(
            "{back}; or take them over by UPDATE walpost.dead_letter SET relay = {} WHERE relay = {}",
            quoted(name),
            quoted(former)
        ),
        LetterStore::Kafka(_) => back,
    };
    Finding::error("name", sentence, remedy)
}

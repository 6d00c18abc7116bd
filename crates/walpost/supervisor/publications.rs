//! Whether the outboxes are published while the stream goes on: the server sends nothing of what is not, with no word in the stream, so it is looked
//! for in the catalogue. It is looked for on the session that also tells of the server's shutdown: one that hangs can do neither, and is given up.
//!
//! An outbox that is out ends the relay. One that was out, and is back, does not: whether a row was committed in between, or all was one transaction,
//! is in no catalogue, and nothing that is stopped would bring it back. It is said, and counted. A publication that is seen to be another than before
//! was most likely altered in one step, which passes over nothing: it is said and not counted.

use std::time::Duration;

use tokio::time::sleep;
use walpost_core::failure::chain;
use walpost_core::finding::Finding;
use walpost_core::outbox::TableName;
use walpost_postgres::error::{Error, Phase};
use walpost_postgres::inspect::{self, Publication, Subject};
use walpost_postgres::preflight::{self, Change, Coverage};
use walpost_postgres::sql;

use crate::config::Settings;
use crate::observe::board::Board;
use crate::{journal, relay};

/// How often it is looked whether the outboxes are still published.
const LOOK_AT_PUBLICATIONS: Duration = Duration::from_secs(5);

/// Waits until rows of an outbox would be passed over: it was taken out of the publication, renamed, or made anew. The server
/// sends nothing of that, and each position confirmed since lies beyond rows that nobody gets. Cancel-safe.
pub(super) async fn opening_gap(
    sql: &sql::Session,
    settings: &Settings,
    coverage: &mut Option<Coverage>,
    board: &Board,
) -> Finding {
    let subject = relay::subject(settings);
    loop {
        sleep(LOOK_AT_PUBLICATIONS).await;
        match look(sql, settings, &subject).await {
            Ok((published, missing)) => {
                if let Some(finding) = preflight::gap(&published, &missing, &subject) {
                    return finding;
                }
                look_for_changes(coverage, &published, settings, board);
            }
            // Nobody answered, not even that a lock was waited for in vain.
            Err(error @ Error::Deadline { phase: Phase::Query, .. }) => sql.give_up(error),
            // Somebody may hold a lock on the table. Of the session's end the watcher tells.
            Err(error) => tracing::debug!(reason = chain(&error), "the publications could not be looked at"),
        }
    }
}

/// Looks at the publications, and at which outboxes are gone, after a question that no lock holds up: whoever could connect within a time can answer it within that.
async fn look(
    sql: &sql::Session,
    settings: &Settings,
    subject: &Subject,
) -> Result<(Vec<Publication>, Vec<TableName>), Error> {
    sql.ping(settings.source().connection().connect_timeout()).await?;
    let published = inspect::publications(sql, &subject.publications).await?;
    Ok((published, inspect::missing_tables(sql, &subject.outboxes).await?))
}

/// Looks whether an outbox may have been out of its publications since the last look, and says so: it goes on, for whether a row was passed over
/// nobody knows but whoever did it.
pub(super) fn look_for_changes(
    coverage: &mut Option<Coverage>,
    published: &[Publication],
    settings: &Settings,
    board: &Board,
) {
    let now = Coverage::of(published, &relay::subject(settings));
    if let Some(before) = &*coverage {
        let changes = now.changes_since(before);
        board.publication_broke(changes.iter().filter(|(_, change)| *change == Change::Broken).count());
        changes.iter().for_each(|(table, change)| journal::publication_changed(table, *change));
    }
    *coverage = Some(now);
}

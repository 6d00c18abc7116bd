//! What start and preflight have to know of a server, read without judging it.
//!
//! Columns that only newer versions have are read through `to_jsonb`, so one statement serves PostgreSQL 13 to 18. Needs no
//! privilege beyond connecting: every catalogue read here is open to all.

mod publication;
mod server;
mod slot;
mod table;

use tokio_postgres::Row;
use tokio_postgres::types::PgLsn;
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::position::Timeline;
use walpost_core::start::SlotState;

use crate::connection::ConnectionSettings;
use crate::error::Error;
use crate::identifier::SlotName;
use crate::replication;
use crate::sql::{Session, field};
pub use publication::{Entry, LateMember, Publication, PublishedTable, late_members, publications};
pub(crate) use server::read_server;
pub use server::{Role, Server, encoding, role, server_state};
pub use slot::slot_state;
pub use table::{InspectedTable, OwnTable, Table, TableColumn, count_rows, inspect_table, missing_tables};

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The slot.
    pub slot: SlotName,
    /// The publications, unquoted.
    pub publications: Vec<String>,
    /// The outboxes.
    pub outboxes: Vec<OutboxSubject>,
    /// Whether the checkpoint is kept in the source database.
    pub with_checkpoint_table: bool,
    /// Whether rows may be set aside.
    pub with_dead_letter_table: bool,
    /// Whether dead letters keep references to their rows.
    pub with_references: bool,
}

/// An outbox and what its router needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxSubject {
    /// The table; of a partitioned one, its root.
    pub table: TableName,
    /// The columns that must be there.
    pub columns: Vec<String>,
}

/// Everything that preflight judges.
#[derive(Debug)]
pub struct Inspection {
    /// The server.
    pub server: Server,
    /// The role that connects.
    pub role: Role,
    /// The slot, if there is one of the name.
    pub slot: Option<SlotState>,
    /// The slots of this database that could have been meant: those that decode with `pgoutput`.
    pub slot_names: Vec<String>,
    /// Every publication of this database.
    pub publication_names: Vec<String>,
    /// The table of checkpoints, if there is one.
    pub checkpoint_table: Option<OwnTable>,
    /// The table of dead letters, if there is one.
    pub dead_letter_table: Option<OwnTable>,
    /// Those of the publications that exist.
    pub publications: Vec<Publication>,
    /// The outboxes, in the order of the subject.
    pub tables: Vec<InspectedTable>,
    /// Why no replication session can be had, if none can.
    pub replication_refused: Option<Error>,
}

/// Reads everything about the subject.
///
/// # Errors
/// The session has ended or a catalogue cannot be read. That no replication session can be had is a finding, no error.
pub async fn inspect(session: &Session, settings: &ConnectionSettings, subject: &Subject) -> Result<Inspection, Error> {
    let (mut server, pid) = read_server(session).await?;
    let role = role(session).await?;
    let slot = slot_state(session, &subject.slot).await?;
    let slot_names = slot::slot_names(session).await?;
    let publication_names = publication::publication_names(session).await?;
    let checkpoint_table = table::checkpoint_table(session).await?;
    let dead_letter_table = table::dead_letter_table(session).await?;
    let publications = publications(session, &subject.publications).await?;
    let mut tables = Vec::new();
    for outbox in &subject.outboxes {
        tables.push(inspect_table(session, outbox).await?);
    }
    let (_, pid_afterwards) = read_server(session).await?;
    server.is_direct &= pid == pid_afterwards;
    let replication = replication::timeline_history(settings, session.endpoint(), Timeline(1)).await;
    let replication_refused = replication.err();
    Ok(Inspection {
        server,
        role,
        slot,
        slot_names,
        publication_names,
        checkpoint_table,
        dead_letter_table,
        publications,
        tables,
        replication_refused,
    })
}

/// The names that a question is answered with.
async fn names(session: &Session, question: &str) -> Result<Vec<String>, Error> {
    let rows = session.query(question, &[]).await?;
    rows.iter().map(|row| field(row, "name")).collect()
}

fn lsn(row: &Row, column: &str) -> Result<Option<Lsn>, Error> {
    let lsn: Option<PgLsn> = field(row, column)?;
    Ok(lsn.map(|lsn| Lsn::new(lsn.into())))
}

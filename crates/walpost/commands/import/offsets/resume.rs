//! What is left of a transaction that a connector published in part: the slot's stream is read up to its COMMIT, and nothing is confirmed.

use std::collections::BTreeSet;
use std::time::Duration;

use walpost_core::frame::{Frame, XLogData};
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::pgoutput::Message;
use walpost_core::port::Source;
use walpost_core::position::SettledRows;
use walpost_core::start::ServerState;
use walpost_postgres::sql;
use walpost_postgres::stream::{Stream, StreamSettings};

use super::super::super::postgres_refused;
use super::STATEMENT_TIMEOUT;
use super::stored::Resume;
use crate::config::Settings;
use crate::exit::{Ended, Exit};

/// How long the server may be silent. It decodes a large transaction before it sends the first of it.
const SILENCE: Duration = Duration::from_secs(300);

/// Where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resumed {
    pub(super) position: Lsn,
    pub(super) settled_rows: Option<SettledRows>,
    /// What that means.
    pub(super) sentence: String,
}

impl Resumed {
    /// Nothing after the position is published.
    pub(super) fn at(position: Lsn) -> Self {
        let sentence =
            "nothing is lost, and nothing that Connect had stored as published is published again".to_owned();
        Self { position, settled_rows: None, sentence }
    }
}

/// Reads the log from the slot's position up to the offset, and the transaction after it. `confirmed` is the slot's position.
pub(super) async fn look(
    settings: &Settings,
    server: &ServerState,
    confirmed: Lsn,
    resume: Resume,
) -> Result<Resumed, Ended> {
    let source = settings.source();
    let connection = source.connection();
    let session =
        sql::Session::connect(connection, STATEMENT_TIMEOUT).await.map_err(|error| postgres_refused(&error))?;
    let stream_settings =
        StreamSettings::new(source.slot().clone(), source.publications().to_vec(), confirmed, confirmed);
    let mut stream = Stream::connect(connection, session.endpoint(), &stream_settings)
        .await
        .map_err(|error| postgres_refused(&error))?;
    let outboxes = settings.outboxes().iter().map(|outbox| outbox.table.clone()).collect();
    let mut rest = Rest::new(resume, confirmed, server.flushed, outboxes);
    let mut frames = Vec::new();
    loop {
        match tokio::time::timeout(SILENCE, stream.next_frames(&mut frames)).await {
            Ok(received) => received.map_err(|error| postgres_refused(&error))?,
            Err(_) => {
                let sentence = format!("the server sent nothing for {} s; try again", SILENCE.as_secs());
                return Err(Ended::with_sentence(Exit::SourceRefused, sentence));
            }
        }
        for frame in frames.drain(..) {
            match rest.receive(&frame) {
                Ok(Some(resumed)) => return Ok(resumed),
                Ok(None) => {}
                Err(reason) => return Err(Ended::with_sentence(Exit::SourceRefused, reason)),
            }
        }
    }
}

/// The log up to the offset and the first transaction after it, as they come.
struct Rest {
    resume: Resume,
    /// Where the slot stands, and where to go on if the offset is not of this log.
    confirmed: Lsn,
    /// The slot stands at the offset, or the COMMIT that ends there was read.
    is_reached: bool,
    /// How far the log went when the look began: after it nothing is waited for.
    flushed: Lsn,
    outboxes: BTreeSet<TableName>,
    /// The outboxes' relations, as the stream tells them.
    relations: BTreeSet<u32>,
    open: Option<Open>,
}

/// What was counted of it.
#[derive(Debug, Default)]
struct Open {
    commit_lsn: Lsn,
    /// Changes of any table at the last row's LSN, and outbox rows among them.
    changes_at: u64,
    rows_at: u64,
    /// Outbox rows before and after it.
    rows_before: u64,
    rows_behind: u64,
}

impl Rest {
    fn new(resume: Resume, confirmed: Lsn, flushed: Lsn, outboxes: BTreeSet<TableName>) -> Self {
        let is_reached = confirmed == resume.commit();
        Self { resume, confirmed, is_reached, flushed, outboxes, relations: BTreeSet::new(), open: None }
    }

    /// Takes a frame; answers once it is known where to go on.
    fn receive(&mut self, frame: &Frame) -> Result<Option<Resumed>, String> {
        match frame {
            Frame::Keepalive(keepalive) if self.open.is_none() && keepalive.wal_end >= self.flushed => {
                Ok(Some(self.not_found()))
            }
            Frame::Keepalive(_) => Ok(None),
            Frame::XLogData(data) => self.on_data(data),
        }
    }

    fn on_data(&mut self, data: &XLogData) -> Result<Option<Resumed>, String> {
        let message = Message::parse(&data.data).map_err(|error| format!("the stream cannot be read: {error}"))?;
        match message {
            Message::Begin(begin) => {
                self.open = Some(Open { commit_lsn: begin.final_lsn, ..Open::default() });
            }
            Message::Relation(relation) => {
                let name = TableName { schema: relation.namespace.to_owned(), table: relation.name.to_owned() };
                if self.outboxes.contains(&name) {
                    self.relations.insert(relation.id);
                } else {
                    self.relations.remove(&relation.id);
                }
            }
            Message::Insert(insert) => self.count(data.wal_start, self.relations.contains(&insert.relation)),
            Message::Update(_) | Message::Delete(_) | Message::Truncate(_) => self.count(data.wal_start, false),
            Message::Commit(commit) => return Ok(self.on_commit(commit.end_lsn)),
            _ => {}
        }
        Ok(None)
    }

    fn count(&mut self, at: Lsn, is_outbox: bool) {
        let (Resume::Within { row, .. }, Some(open)) = (self.resume, &mut self.open) else { return };
        let count = u64::from(is_outbox);
        if at < row {
            open.rows_before += count;
        } else if at == row {
            open.changes_at += 1;
            open.rows_at += count;
        } else {
            open.rows_behind += count;
        }
    }

    /// A transaction without outbox rows owes nothing and is passed over; an LSN is that of one record of the log, so that the row
    /// that is looked for is found in no wrong one.
    fn on_commit(&mut self, end: Lsn) -> Option<Resumed> {
        let open = self.open.take()?;
        if !self.is_reached {
            self.is_reached = end == self.resume.commit();
            return match self.resume {
                Resume::At(commit) if self.is_reached => Some(Resumed::at(commit)),
                _ => (end > self.resume.commit()).then(|| self.not_found()),
            };
        }
        let Resume::Within { commit, row, events } = self.resume else {
            return Some(Resumed::at(self.resume.commit()));
        };
        if open.changes_at == 0 {
            let owes_nothing = open.rows_before + open.rows_behind == 0;
            return if owes_nothing { None } else { Some(self.not_found()) };
        }
        // Rows of one COPY share an LSN, and then only their number tells whether all of them went out.
        let is_whole = open.rows_at <= 1 || events.is_some_and(|events| events >= open.changes_at);
        let owed = open.rows_behind + if is_whole { 0 } else { open.rows_at };
        if owed == 0 {
            return Some(Resumed::at(end));
        }
        let through = if is_whole { row } else { Lsn::new(row.get().saturating_sub(1)) };
        let published = open.rows_before + if is_whole { open.rows_at } else { 0 };
        let mut sentence = format!(
            "of the transaction that commits at {} the first {published} rows are published and the last {owed} are not; the relay begins with those",
            open.commit_lsn
        );
        if !is_whole {
            sentence.push_str(&format!(
                ". {} rows share the LSN {row}, as rows of one COPY do, and the offset does not tell how many of them went out: all are \
                 published again",
                open.rows_at
            ));
        }
        let settled_rows = Some(SettledRows { commit_lsn: open.commit_lsn, through });
        Some(Resumed { position: commit, settled_rows, sentence })
    }

    /// The offset, or its row, did not come: whatever is not known to be published is published again.
    fn not_found(&self) -> Resumed {
        if !self.is_reached {
            let sentence = format!(
                "no transaction in the slot's log ends at the stored offset {}: the publication was changed since, or the offset is that of another \
                 server. The relay begins where the slot stands, and what was published after that is published again",
                self.resume.commit()
            );
            return Resumed { position: self.confirmed, settled_rows: None, sentence };
        }
        let position = self.resume.commit();
        let sentence = "the row of the offset is not in the first transaction after it, so that this one is published whole, and perhaps for \
                        the second time"
            .to_owned();
        Resumed { position, settled_rows: None, sentence }
    }
}

#[cfg(test)]
mod tests;

//! What the outboxes still hold of a gap, and whether it can be filled from them.
//!
//! What speaks against it is of two kinds. An obstacle cannot be argued away: the rows cannot be read, or nothing tells when they came. A doubt is
//! about rows that may have been deleted: the table cannot show what it no longer has, so an operator who knows better may say so
//! (`--rows-are-kept`).

use std::time::Duration;

use tokio::time::sleep;
use walpost_core::description::ColumnDescription;
use walpost_core::finding::Finding;
use walpost_core::outbox::{Outbox, TableName};
use walpost_core::time::Timestamp;
use walpost_core::value::Kind;
use walpost_postgres::Error as PostgresError;
use walpost_postgres::identifier::quote_identifier;
use walpost_postgres::inspect::{self, OutboxSubject, Publication};
use walpost_postgres::repair::{self, Tally, TracksCommits};
use walpost_postgres::snapshot::{Table, TableColumn, Time};

use super::{Fill, Found, StartState};
use crate::config::Settings;
use crate::misfit;

/// How long statistics are waited for.
const STATISTICS_TRIES: u32 = 20;
const STATISTICS_STEP: Duration = Duration::from_millis(100);

/// What was found out.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// When the gap begins, less the margin.
    pub(super) since: Option<Timestamp>,
    /// The outboxes that can be read, with their rows where a time is known to count from.
    pub(super) outboxes: Vec<Surveyed>,
    pub(super) obstacles: Vec<String>,
    pub(super) doubts: Vec<String>,
    /// What the operator should know although nothing is refused.
    pub(super) notes: Vec<String>,
}

/// An outbox and its rows.
#[derive(Debug)]
pub(super) struct Surveyed {
    pub(super) table: Table,
    pub(super) tally: Option<Tally>,
}

impl Survey {
    /// Looks at every outbox.
    pub(super) async fn make(settings: &Settings, found: &Found, fill: &Fill) -> Result<Self, PostgresError> {
        let mut survey = Self { since: since(found, fill), ..Self::default() };
        if let Some(finding) = found.gap(settings) {
            survey.obstacles.push(finding.without_severity());
        }
        if survey.since.is_none() {
            survey.obstacles.push(format!("{}; say it with --since TIME", no_beginning(found)));
        }
        let tracked = repair::tracks_commits(&found.sql).await?;
        for outbox in settings.outboxes().iter() {
            if let Some(surveyed) = survey.outbox(found, outbox, fill, tracked).await? {
                survey.outboxes.push(surveyed);
            }
        }
        Ok(survey)
    }

    /// Everything that keeps the gap from being filled.
    pub(super) fn reasons(&self, fill: &Fill) -> Vec<String> {
        let doubts = self.doubts.iter().filter(|_| !fill.rows_are_kept);
        let doubts = doubts.map(|doubt| format!("{doubt}; if you know that none is missing, add --rows-are-kept"));
        self.obstacles.iter().cloned().chain(doubts).collect()
    }

    /// How many rows lie in the gap, where that is known of every outbox.
    pub(super) fn rows(&self) -> Option<i64> {
        self.outboxes.iter().map(|surveyed| surveyed.tally.as_ref().map(|tally| tally.rows)).sum()
    }

    async fn outbox(
        &mut self,
        found: &Found,
        outbox: &Outbox,
        fill: &Fill,
        tracked: TracksCommits,
    ) -> Result<Option<Surveyed>, PostgresError> {
        let Some((there, shape)) = self.readable(found, outbox).await? else { return Ok(None) };
        let publications = &found.facts.publications;
        self.obstacles.extend(misfit::of_outbox(outbox, &shape, publications).iter().map(Finding::without_severity));
        let fallback =
            outbox.router.options().table_field_event_timestamp.as_deref().and_then(|name| telling(name, &shape));
        let name = &outbox.table;
        let by = fill.by.as_deref().map(|by| telling(by, &shape).ok_or(by));
        let time = match time_of(name, by, tracked, fallback.as_ref()) {
            Ok(time) => time,
            Err(obstacle) => {
                self.obstacles.push(obstacle);
                return Ok(None);
            }
        };
        let mut surveyed = Surveyed { table: table(outbox, &there, &shape, publications, time), tally: None };
        let Some(since) = self.since else { return Ok(Some(surveyed)) };
        let id = &outbox.router.options().table_field_event_id;
        let mut tally = repair::tally(&found.sql, &surveyed.table, id, since).await?;
        if surveyed.table.time == Time::Commit && tally.unknown > 0 && tally.older == 0 && !tracked.reaches(since) {
            let unknown = format!(
                "the server does not know when {} of {name} were committed: track_commit_timestamp was not on for the whole of the gap",
                rows(tally.unknown)
            );
            let Some(time) = fallback else {
                self.obstacles
                    .push(format!("{unknown}; name the column that tells when a row was made with --by COLUMN"));
                return Ok(Some(surveyed));
            };
            self.notes.push(unknown);
            surveyed.table.time = time;
            tally = repair::tally(&found.sql, &surveyed.table, id, since).await?;
        }
        let changes = told(found, outbox, &tally).await?.unwrap_or(there.changes);
        self.judge(&surveyed.table, &tally, changes);
        surveyed.tally = Some(tally);
        Ok(Some(surveyed))
    }

    /// The outbox, if all of its rows can be read.
    async fn readable(
        &mut self,
        found: &Found,
        outbox: &Outbox,
    ) -> Result<Option<(repair::Outbox, inspect::Table)>, PostgresError> {
        let (name, role) = (&outbox.table, &found.facts.role.name);
        let subject = OutboxSubject { table: name.clone(), columns: Vec::new() };
        let there = repair::outbox(&found.sql, name).await?;
        let shape = inspect::inspect_table(&found.sql, &subject).await?.found;
        let obstacle = match &there {
            None => format!("the outbox table {name} does not exist"),
            Some(there) if !there.may_be_read => {
                format!(
                    "the role \"{role}\" may not read {name}; run GRANT SELECT ON {name} TO {}",
                    quote_identifier(role)
                )
            }
            Some(there) if there.hides_rows => format!(
                "row-level security hides rows of {name} from the role \"{role}\"; let the table's owner run this, or a role with BYPASSRLS"
            ),
            Some(_) => return Ok(there.zip(shape)),
        };
        self.obstacles.push(obstacle);
        Ok(None)
    }

    /// Whether the rows of the gap are likely to be there still.
    fn judge(&mut self, table: &Table, tally: &Tally, changes: repair::Changes) {
        let name = &table.name;
        match &table.time {
            Time::Column(column) => {
                self.notes.push(format!(
                    "the rows of {name} are taken by their column \"{column}\": a transaction that took longer than the margin between that time and its commit is missed, the column's order is theirs, and its time is the records'"
                ));
                if tally.unknown > 0 {
                    self.obstacles.push(format!(
                        "{} of {name} have no time in \"{column}\"; name another with --by COLUMN",
                        rows(tally.unknown)
                    ));
                }
            }
            Time::Commit if tally.unknown > 0 => self.notes.push(format!(
                "{} of {name} were committed before the server kept the times of commits, and so before the gap",
                rows(tally.unknown)
            )),
            Time::Commit => {}
        }
        if changes.updates > 0 {
            self.notes.push(format!(
                "{} updates of {name} were counted: a row that was updated counts as of its update, and is published as it is now",
                changes.updates
            ));
        }
        let (older, all) = (tally.older + tally.unknown, tally.older + tally.unknown + tally.rows);
        if changes.deletes > 0 {
            self.doubts
                .push(format!("rows of {name} are deleted ({} since the statistics were reset)", changes.deletes));
        } else if older == 0 && changes.inserts != all {
            self.doubts.push(format!(
                "{name} holds no row from before the gap, and the statistics do not show that all {} were kept",
                if changes.inserts > all {
                    format!("of the {} that were inserted", changes.inserts)
                } else {
                    "rows".to_owned()
                }
            ));
        }
    }
}

/// How often an outbox was changed, as soon as the statistics know of all that is there. Sessions tell of their changes with a delay: of a
/// second mostly.
async fn told(found: &Found, outbox: &Outbox, tally: &Tally) -> Result<Option<repair::Changes>, PostgresError> {
    let all = tally.older + tally.unknown + tally.rows;
    let mut changes = None;
    for _ in 0..STATISTICS_TRIES {
        changes = repair::outbox(&found.sql, &outbox.table).await?.map(|there| there.changes);
        if changes.is_none_or(|changes| changes.inserts >= all) {
            break;
        }
        sleep(STATISTICS_STEP).await;
    }
    Ok(changes)
}

/// What tells when the rows of this table came: the column that was asked for, the commit, or the column of the records' time.
fn time_of(
    name: &TableName,
    by: Option<Result<Time, &str>>,
    tracked: TracksCommits,
    fallback: Option<&Time>,
) -> Result<Time, String> {
    match (by, tracked, fallback) {
        (Some(Ok(time)), _, _) => Ok(time),
        (Some(Err(by)), _, _) => Err(format!(
            "{name} has no column \"{by}\" of type timestamp or timestamptz; name another with --by COLUMN"
        )),
        (None, TracksCommits::Since(_), _) => Ok(Time::Commit),
        (None, TracksCommits::No, Some(time)) => Ok(time.clone()),
        (None, TracksCommits::No, None) => Err(format!(
            "nothing tells when the rows of {name} were committed: track_commit_timestamp is off; name the column that tells when a row was made with --by COLUMN"
        )),
    }
}

/// The column, if it tells when a row was made.
fn telling(name: &str, shape: &inspect::Table) -> Option<Time> {
    let column = shape.description.column(name)?;
    let kind = Kind::of(shape.description.base_of(column.type_id));
    matches!(kind, Kind::Timestamp | Kind::Timestamptz).then(|| Time::Column(name.to_owned()))
}

/// The outbox as the stream would tell of it.
fn table(
    outbox: &Outbox,
    there: &repair::Outbox,
    shape: &inspect::Table,
    publications: &[Publication],
    time: Time,
) -> Table {
    let columns = shape.description.columns.iter();
    let published = columns.filter(|column| misfit::is_published(&column.name, outbox, shape, publications));
    let column = |column: &ColumnDescription| TableColumn {
        name: column.name.clone(),
        type_id: column.type_id,
        type_modifier: column.type_modifier,
    };
    Table {
        name: outbox.table.clone(),
        id: there.id,
        is_partitioned: there.is_partitioned,
        columns: published.map(column).collect(),
        filter: filter(outbox, publications),
        time,
    }
}

/// When the gap begins, less the margin.
fn since(found: &Found, fill: &Fill) -> Option<Timestamp> {
    if fill.since.is_some() {
        return fill.since;
    }
    let begins = match &found.state {
        StartState::SlotMissing { .. }
        | StartState::SlotLost { .. }
        | StartState::SlotAhead { .. }
        | StartState::SlotUnfinished { .. } => found.stored.as_ref()?.commit_time?,
        _ => return None,
    };
    let margin = i64::try_from(fill.margin.as_micros()).unwrap_or(i64::MAX);
    Some(Timestamp::from_postgres_micros(begins.postgres_micros().saturating_sub(margin)))
}

/// Why it is not known when the gap begins.
fn no_beginning(found: &Found) -> &'static str {
    match &found.state {
        StartState::Resume { .. } | StartState::ResumePromoted { .. } => {
            "nothing is missing as far as slot and checkpoint tell, so it has to be said since when rows are to be published again"
        }
        StartState::Promoted { .. } => {
            "the checkpoint's time is that of the former primary; since the promotion this server has had rows of its own, so it has to be said when that was"
        }
        StartState::Future { .. }
        | StartState::TimelineBehind { .. }
        | StartState::OtherSystem { .. }
        | StartState::OtherCheckpoint { .. } => {
            "the checkpoint's time is that of another history, so it has to be said when this server's began"
        }
        _ if found.stored.is_none() => "there is no checkpoint, so it is not known when the gap begins",
        _ => "the checkpoint does not say when its last row was committed, for none was settled yet",
    }
}

/// What the publications publish of an outbox: a row comes if one of them has it.
fn filter(outbox: &Outbox, publications: &[Publication]) -> Option<String> {
    let tables =
        publications.iter().filter(|publication| publication.inserts).flat_map(|publication| &publication.tables);
    let filters: Option<Vec<String>> = tables
        .filter(|table| table.name == outbox.table)
        .map(|table| table.row_filter.as_ref().map(|filter| format!("({filter})")))
        .collect();
    filters.filter(|filters| !filters.is_empty()).map(|filters| filters.join(" OR "))
}

/// So many rows.
pub(super) fn rows(count: i64) -> String {
    if count == 1 { "1 row".to_owned() } else { format!("{count} rows") }
}

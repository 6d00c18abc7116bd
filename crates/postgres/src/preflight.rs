//! What an inspection means for a relay: every finding at once, each with its remedy.
//!
//! Pure: [`findings`] reads nothing but what [`crate::inspect`] brought. Whether slot and checkpoint allow a start is not judged
//! here but by `walpost_core::start`.

mod coverage;
mod tables;

pub use coverage::{Change, Coverage};
pub use tables::{filters, heirs, unreferable};

use walpost_core::finding::Finding;
use walpost_core::nearest::nearest;
use walpost_core::outbox::TableName;

use crate::identifier::{quote_identifier, quote_table};
use crate::inspect::{Inspection, OutboxSubject, Publication, PublishedTable, Role, Server, Subject};
use crate::setup::{made_anew, younger};

/// Judges an inspection. The worst come first.
#[must_use]
pub fn findings(inspection: &Inspection, subject: &Subject) -> Vec<Finding> {
    let mut found = Vec::new();
    server(&inspection.server, &mut found);
    capacity(inspection, &mut found);
    role(inspection, &mut found);
    checkpoint_table(inspection, subject, &mut found);
    dead_letter_table(inspection, subject, &mut found);
    publications(inspection, subject, &mut found);
    tables::tables(inspection, subject.with_references, &mut found);
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}

fn server(server: &Server, found: &mut Vec<Finding>) {
    if server.version < 140_000 {
        let version = format!("the server is PostgreSQL {}", dotted(server.version));
        found.push(Finding::error("server version", version, "walpost needs 14 or later: upgrade"));
    }
    if server.in_recovery {
        let sentence = "the server is a standby (pg_is_in_recovery() is true)";
        found.push(Finding::error("source.url", sentence, "connect to the primary"));
    }
    if server.wal_level != "logical" {
        let sentence = format!("wal_level is {}, so nothing can be decoded", server.wal_level);
        let remedy = "run ALTER SYSTEM SET wal_level = logical and restart PostgreSQL";
        found.push(Finding::error("wal_level", sentence, remedy));
    }
    if !server.is_direct {
        let sentence = "a pooler stands in between: start-up options are lost or server processes change";
        found.push(Finding::error("source.url", sentence, "connect to PostgreSQL's own port"));
    }
    found.extend(encoding(&server.encoding));
    if server.max_slot_wal_keep_mb < 0 {
        let sentence =
            "max_slot_wal_keep_size is unlimited: while walpost is away, the WAL grows until the disk is full";
        let remedy = "set a limit that leaves room for the longest outage, and an alarm on the slot's retained log; beyond it the slot is lost";
        found.push(Finding::warning("max_slot_wal_keep_size", sentence, remedy));
    }
    if !server.fsync {
        let sentence = "fsync is off: a crash of the machine may take committed rows with it";
        found.push(Finding::warning("fsync", sentence, "run ALTER SYSTEM SET fsync = on"));
    }
    if server.synchronous_commit == "off" {
        let sentence =
            "synchronous_commit is off by default: a crash takes the last commits, which were then never published";
        found.push(Finding::note(
            "synchronous_commit",
            sentence,
            "set it to on for transactions that write the outbox",
        ));
    }
    if server.wal_sender_timeout_ms == 0 {
        let sentence = "wal_sender_timeout is 0: a dead relay keeps its slot busy until TCP notices";
        found.push(Finding::note(
            "wal_sender_timeout",
            sentence,
            "nothing has to be done: walpost sets its own for its session",
        ));
    }
}

/// What the database's encoding means for a stream, which is always of UTF8. The server sends nothing behind a row that it cannot convert.
#[must_use]
pub fn encoding(name: &str) -> Option<Finding> {
    const SUBJECT: &str = "server_encoding";
    match name {
        // Every byte of the second has its character.
        "UTF8" | "LATIN1" => None,
        "SQL_ASCII" => Some(Finding::warning(
            SUBJECT,
            "the database's encoding is SQL_ASCII: the server takes any bytes for text and converts none, and the stream ends for good at a row whose text is not UTF-8",
            "have everybody who writes outboxes write UTF-8, or move to a database of the encoding UTF8",
        )),
        name => Some(Finding::note(
            SUBJECT,
            format!(
                "the database's encoding is {name}: texts are converted to UTF8, and the stream ends for good at a row with bytes that have no equivalent there"
            ),
            "nothing has to be done where such bytes are not written; a database of the encoding UTF8 has none",
        )),
    }
}

fn capacity(inspection: &Inspection, found: &mut Vec<Finding>) {
    let server = &inspection.server;
    if let Some((sentence, remedy)) = server.no_room_for_a_slot().filter(|_| inspection.slot.is_none()) {
        found.push(Finding::error("max_replication_slots", sentence, remedy));
    }
    // Our own walsender may be among them when this runs beside the stream.
    let is_streaming = inspection.slot.as_ref().is_some_and(|slot| slot.active_pid.is_some());
    if server.max_senders == 0 {
        let sentence = "max_wal_senders is 0: nobody can follow the log, this relay neither";
        let remedy = "run ALTER SYSTEM SET max_wal_senders = 10 and restart PostgreSQL";
        found.push(Finding::error("max_wal_senders", sentence, remedy));
    } else if !is_streaming && server.senders >= server.max_senders {
        let sentence = format!("all {} walsenders are taken", server.max_senders);
        found.push(Finding::error("max_wal_senders", sentence, "raise it and restart PostgreSQL"));
    }
}

/// Why nobody can stream as this role, if nobody can.
#[must_use]
pub fn no_replication(role: &Role) -> Option<Finding> {
    let remedy = || {
        format!(
            "run ALTER ROLE {} REPLICATION, or on a managed service grant its replication role",
            quote_identifier(&role.name)
        )
    };
    let sentence = || format!("the role \"{}\" may not replicate", role.name);
    (!role.may_replicate).then(|| Finding::error("source.url", sentence(), remedy()))
}

fn role(inspection: &Inspection, found: &mut Vec<Finding>) {
    if let Some(finding) = no_replication(&inspection.role) {
        found.push(finding);
    } else if let Some(error) = &inspection.replication_refused {
        let remedy = error
            .remedy()
            .unwrap_or("connect to PostgreSQL itself, and let the server and the network allow a second connection");
        found.push(Finding::error("source.url", format!("no replication session can be had: {error}"), remedy));
    }
}

/// That the table is missing is for the comparison at start to say.
fn checkpoint_table(inspection: &Inspection, subject: &Subject, found: &mut Vec<Finding>) {
    let Some(table) = inspection.checkpoint_table.as_ref().filter(|_| subject.with_checkpoint_table) else { return };
    if !table.is_reachable || !table.is_writable {
        let role = &inspection.role.name;
        let sentence = format!("the role \"{role}\" may not read and write the checkpoint");
        let role = quote_identifier(role);
        let remedy = format!(
            "run GRANT USAGE ON SCHEMA walpost TO {role} and GRANT SELECT, INSERT, UPDATE, DELETE ON walpost.checkpoint TO {role}"
        );
        found.push(Finding::error("walpost.checkpoint", sentence, remedy));
    }
}

fn dead_letter_table(inspection: &Inspection, subject: &Subject, found: &mut Vec<Finding>) {
    const NAME: &str = "walpost.dead_letter";
    if !subject.with_dead_letter_table {
        return;
    }
    let Some(table) = &inspection.dead_letter_table else {
        let sentence = "the table does not exist, so no row can be set aside";
        let remedy = "run: walpost init; to have the relay stop at a bad row instead, write on_bad_row = \"stop\" under [dead_letter]";
        found.push(Finding::error(NAME, sentence, remedy));
        return;
    };
    if !table.is_reachable || !table.is_writable {
        let role = &inspection.role.name;
        let sentence = format!("the role \"{role}\" may not read and write the dead letters");
        let role = quote_identifier(role);
        let remedy = format!(
            "run GRANT USAGE ON SCHEMA walpost TO {role} and GRANT SELECT, INSERT, UPDATE, DELETE ON {NAME} TO {role}"
        );
        found.push(Finding::error(NAME, sentence, remedy));
    }
}

/// Why the stream would pass over rows of an outbox without a word, if it would: a start has to be refused then, or the
/// position moves over them.
///
/// PostgreSQL 18 only warns in its own log when a publication is missing, and sends nothing; earlier ones end the stream at
/// the first row. `missing` are the outboxes of which there is no table.
#[must_use]
pub fn gap(publications: &[Publication], missing: &[TableName], subject: &Subject) -> Option<Finding> {
    let (table, put_back) = match lacking(publications, subject)? {
        Lacking::Publication(name) => return Some(no_publication(name, &[], Some(subject))),
        Lacking::Outbox(table) if missing.contains(table) => {
            let put_back = "if it was renamed, rename it back or correct outbox.table, else make it again; then run: walpost init, which publishes it";
            (table, put_back.to_owned())
        }
        Lacking::Outbox(table) => (table, put_back(table, publications)),
    };
    let sentence = match missing.contains(table) {
        true => "there is no table of this name any more, so its rows would be passed over",
        false => {
            "no publication of source.publication publishes its inserts under its name, so its rows would be passed over"
        }
    };
    let fill = "what was committed meanwhile is published from the table by: walpost repair --fill --since TIME";
    Some(Finding::error(format!("outbox {table}"), sentence, format!("{put_back}; {fill}")))
}

/// The same where there is neither slot nor checkpoint: nothing was passed over yet, and nothing is to be put back.
#[must_use]
pub fn unprepared(publications: &[Publication], missing: &[TableName], subject: &Subject) -> Option<Finding> {
    let lacking = lacking(publications, subject)?;
    if let Some(table) = missing.first() {
        let remedy = "correct outbox.table, or, to create the reference table, run: walpost init --with-outbox";
        return Some(Finding::error(format!("outbox {table}"), "the table does not exist", remedy));
    }
    Some(match lacking {
        Lacking::Publication(name) => no_publication(name, &[], None),
        Lacking::Outbox(table) => {
            let sentence = "no publication of source.publication publishes its inserts under its name";
            Finding::error(format!("outbox {table}"), sentence, put_back(table, publications))
        }
    })
}

/// What is not there of what publishes the outboxes.
enum Lacking<'a> {
    Publication(&'a str),
    Outbox(&'a TableName),
}

fn lacking<'a>(publications: &[Publication], subject: &'a Subject) -> Option<Lacking<'a>> {
    let missing = subject.publications.iter().find(|name| !publications.iter().any(|found| found.name == **name));
    if let Some(name) = missing {
        return Some(Lacking::Publication(name));
    }
    let is_published = |outbox: &&OutboxSubject| {
        let carries = |published: &PublishedTable| published.name == outbox.table;
        publications.iter().any(|publication| publication.inserts && publication.tables.iter().any(carries))
    };
    subject.outboxes.iter().find(|outbox| !is_published(outbox)).map(|outbox| Lacking::Outbox(&outbox.table))
}

/// How an outbox that none of these publications publishes is published.
fn put_back(outbox: &TableName, publications: &[Publication]) -> String {
    if let Some(mute) = publications.iter().find(|publication| !publication.inserts && publication.has(outbox)) {
        return format!("run {}", mute.inserting());
    }
    match publications.iter().find(|publication| !publication.via_root && publication.members.contains(outbox)) {
        Some(by_leaf) => format!("run {}", by_leaf.naming_roots()),
        None => "run: walpost init, which adds it; of a partitioned table name the root, and set publish_via_partition_root = true".to_owned(),
    }
}

/// `known` are the publications that there are; `read_by` is given where a slot is there to be read through it.
fn no_publication(name: &str, known: &[String], read_by: Option<&Subject>) -> Finding {
    let sentence = format!("the publication \"{name}\" does not exist");
    let tables = |subject: &'_ Subject| subject.outboxes.iter().map(|outbox| outbox.table.clone()).collect::<Vec<_>>();
    let remedy = read_by.map_or("run: walpost init".to_owned(), |subject| younger(name, &tables(subject)));
    let remedy = meant_or(name, known, "source.publication", &remedy);
    Finding::error("source.publication", sentence, remedy)
}

/// What to do about a name that does not exist: correct it, where another is near, or else the remedy.
#[must_use]
pub fn meant_or(name: &str, known: &[String], key: &str, remedy: &str) -> String {
    match nearest(name, known.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean \"{meant}\"? Then correct {key}; otherwise {remedy}"),
        None => remedy.to_owned(),
    }
}

fn publications(inspection: &Inspection, subject: &Subject, found: &mut Vec<Finding>) {
    for name in &subject.publications {
        match inspection.publications.iter().find(|publication| publication.name == *name) {
            Some(publication) => self::publication(publication, subject, found),
            None => {
                let read_by = inspection.slot.as_ref().map(|_| subject);
                found.push(no_publication(name, &inspection.publication_names, read_by));
            }
        }
    }
}

fn publication(publication: &Publication, wanted: &Subject, found: &mut Vec<Finding>) {
    let subject = format!("publication \"{}\"", publication.name);
    let name = quote_identifier(&publication.name);
    if publication.all_tables {
        let sentence = "it is FOR ALL TABLES: the server sends every table's rows, and updates of tables without a replica identity fail";
        let tables: Vec<_> = wanted.outboxes.iter().map(|outbox| &outbox.table).collect();
        let anew = made_anew(&publication.name, &tables);
        found.push(Finding::error(
            &subject,
            sentence,
            format!("make it anew under the same name, in one transaction: {anew}"),
        ));
    }
    if !publication.inserts {
        let remedy = format!("run {}", publication.inserting());
        found.push(Finding::error(&subject, "it does not publish inserts, so no row would come", remedy));
    }
    let more: Vec<&str> =
        [(publication.updates, "update"), (publication.deletes, "delete"), (publication.truncates, "truncate")]
            .into_iter()
            .filter_map(|(is_published, name)| is_published.then_some(name))
            .collect();
    if publication.inserts && !more.is_empty() {
        let sentence =
            format!("it publishes {} besides insert, which cost the server and are ignored", more.join(", "));
        let remedy = format!("if nobody else reads it, run ALTER PUBLICATION {name} SET (publish = 'insert')");
        found.push(Finding::warning(&subject, sentence, remedy));
    }
}

/// A version number as people write it.
fn dotted(version: i32) -> String {
    if version >= 100_000 {
        format!("{}.{}", version / 10_000, version % 10_000)
    } else {
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }
}

#[cfg(test)]
mod tests;

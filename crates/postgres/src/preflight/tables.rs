//! Whether each outbox exists, has what its router needs, and is published whole.

use walpost_core::nearest::nearest;
use walpost_core::outbox::TableName;

use super::{Finding, quote_identifier, quote_table};
use crate::inspect::{InspectedTable, Inspection, OutboxSubject, Publication, PublishedTable, Subject, Table};

/// The tables whose rows are passed over because they only inherit from an outbox: pgoutput names a row's own table, and the parent for partitions alone.
#[must_use]
pub fn heirs(tables: &[InspectedTable]) -> Vec<Finding> {
    let is_outbox = |name: &&TableName| tables.iter().any(|outbox| outbox.subject.table == **name);
    let finding = |inspected: &InspectedTable| {
        let heirs = &inspected.found.as_ref()?.heirs;
        let names: Vec<String> = heirs.iter().filter(|heir| !is_outbox(heir)).map(TableName::to_string).collect();
        let those = match names.as_slice() {
            [] => return None,
            [name] => format!("{name} inherits from it, and what is inserted there comes under that name"),
            names => {
                format!("{} inherit from it, and what is inserted there comes under these names", names.join(", "))
            }
        };
        Some(Finding::warning(
            subject_of(&inspected.subject.table),
            format!("{those}: such rows are passed over"),
            "insert into the outbox itself, name each of these tables as an outbox of its own, or have partitions (PARTITION BY) instead of INHERITS",
        ))
    };
    tables.iter().filter_map(finding).collect()
}

pub(super) fn tables(inspection: &Inspection, with_references: bool, found: &mut Vec<Finding>) {
    found.extend(heirs(&inspection.tables));
    for inspected in &inspection.tables {
        match &inspected.found {
            None => found.push(missing(inspected)),
            Some(table) => {
                shape(&inspected.subject, table, found);
                columns(&inspected.subject, table, found);
                published(inspection, &inspected.subject, table, found);
                if with_references {
                    found.extend(unreferable(inspected, &inspection.publications));
                    unreadable(&inspected.subject, table, &inspection.role.name, found);
                }
            }
        }
    }
}

/// Why a dead letter could keep no reference to a row of a table, if so.
#[must_use]
pub fn unreferable(inspected: &InspectedTable, publications: &[Publication]) -> Option<Finding> {
    const KEEP: &str = "or write keep = \"row\" under [dead_letter]";
    let (name, table) = (&inspected.subject.table, inspected.found.as_ref()?);
    let quoted = quote_table(name);
    if table.identity.is_empty() {
        let remedy = format!(
            "give it a primary key and run ALTER TABLE {quoted} REPLICA IDENTITY DEFAULT, or ALTER TABLE {quoted} REPLICA IDENTITY USING INDEX with a unique one, {KEEP}"
        );
        let sentence = "the WAL does not tell its rows apart by a key, so a dead letter can keep no reference to one";
        return Some(Finding::error(subject_of(name), sentence, remedy));
    }
    let published = publications.iter().flat_map(|publication| &publication.tables).filter(|table| table.name == *name);
    let withheld = published
        .filter_map(|published| published.columns.as_ref())
        .find_map(|columns| table.identity.iter().find(|column| !columns.contains(column)))?;
    Some(Finding::error(
        subject_of(name),
        format!(
            "its publication has a column list without \"{withheld}\" of its key, so a dead letter can keep no reference to a row"
        ),
        format!("add the table anew without a column list, or with this column in it, {KEEP}"),
    ))
}

fn unreadable(subject: &OutboxSubject, table: &Table, role: &str, found: &mut Vec<Finding>) {
    if !table.is_readable {
        let sentence = format!("the role \"{role}\" may not read it, and dead letters keep references to its rows");
        let grant = format!("run GRANT SELECT ON {} TO {}", quote_table(&subject.table), quote_identifier(role));
        found.push(Finding::error(subject_of(&subject.table), sentence, grant));
    }
}

fn subject_of(table: &TableName) -> String {
    format!("outbox {table}")
}

fn missing(inspected: &InspectedTable) -> Finding {
    let table = &inspected.subject.table;
    let hint = inspected
        .nearest
        .as_ref()
        .map(|name| format!("did you mean {name}? Then correct outbox.table; otherwise, "))
        .unwrap_or_default();
    let remedy = format!("{hint}to create the reference table, run: walpost init --with-outbox");
    Finding::error(subject_of(table), "the table does not exist", remedy)
}

fn shape(subject: &OutboxSubject, table: &Table, found: &mut Vec<Finding>) {
    let name = subject_of(&subject.table);
    if !matches!(table.kind, 'r' | 'p') {
        let sentence = "it is a view or foreign table, whose rows never reach the WAL";
        found.push(Finding::error(&name, sentence, "name the table that is written to"));
    }
    if table.is_unlogged {
        let remedy = format!("run ALTER TABLE {} SET LOGGED", quote_table(&subject.table));
        found.push(Finding::error(&name, "it is unlogged or temporary, so its rows never reach the WAL", remedy));
    }
    if let Some(root) = &table.root {
        let sentence = format!("it is a partition of {root}, under whose name its rows come");
        found.push(Finding::error(&name, sentence, format!("set outbox.table to \"{root}\"")));
    }
}

fn columns(subject: &OutboxSubject, table: &Table, found: &mut Vec<Finding>) {
    for wanted in &subject.columns {
        let column = table.columns.iter().find(|column| column.name == *wanted);
        match column {
            None => {
                let known = table.columns.iter().map(|column| column.name.as_str());
                let remedy = match nearest(wanted, known) {
                    Some(name) => format!(
                        "did you mean \"{name}\"? Then name that one in the router's option; otherwise add the column \"{wanted}\" to {}",
                        subject.table
                    ),
                    None => format!(
                        "add the column \"{wanted}\" to {}, or name another one in the router's option",
                        subject.table
                    ),
                };
                found.push(Finding::error(
                    subject_of(&subject.table),
                    format!("it has no column \"{wanted}\", which the router needs"),
                    remedy,
                ));
            }
            Some(column) if column.is_generated => found.push(Finding::error(
                subject_of(&subject.table),
                format!("the column \"{wanted}\" is generated, and generated columns are not published"),
                "write the value into an ordinary column",
            )),
            Some(_) => {}
        }
    }
}

fn published(inspection: &Inspection, subject: &OutboxSubject, table: &Table, found: &mut Vec<Finding>) {
    let published: Vec<(&Publication, &PublishedTable)> = inspection
        .publications
        .iter()
        .flat_map(|publication| publication.tables.iter().map(move |table| (publication, table)))
        .filter(|(_, published)| published.name == subject.table)
        .collect();
    if published.is_empty() {
        found.extend(unpublished(inspection, subject, table));
    }
    for (publication, published) in published {
        narrowed(publication, published, table, inspection, subject, found);
    }
}

/// Nothing to say where no publication exists: that has been said.
fn unpublished(inspection: &Inspection, subject: &OutboxSubject, table: &Table) -> Option<Finding> {
    let publication = inspection.publications.first()?;
    let is_by_leaf = |publication: &&Publication| {
        !publication.via_root && (publication.all_tables || publication.members.contains(&subject.table))
    };
    let by_leaf = inspection.publications.iter().find(is_by_leaf).filter(|_| table.kind == 'p');
    Some(match by_leaf {
        Some(by_leaf) => Finding::error(
            subject_of(&subject.table),
            "it is partitioned and its publication names the rows by partition, so none would be recognised",
            format!("run {}", by_leaf.naming_roots()),
        ),
        None => Finding::error(
            subject_of(&subject.table),
            format!("the publication \"{}\" does not contain it, so no row would come", publication.name),
            format!(
                "run: walpost init, or ALTER PUBLICATION {} ADD TABLE {}",
                quote_identifier(&publication.name),
                quote_table(&subject.table)
            ),
        ),
    })
}

/// The row filters on outboxes. One that is meant is no fault: several relays can share an outbox by them.
#[must_use]
pub fn filters(publications: &[Publication], subject: &Subject) -> Vec<Finding> {
    let published =
        publications.iter().flat_map(|publication| publication.tables.iter().map(move |table| (publication, table)));
    let is_outbox = |table: &PublishedTable| subject.outboxes.iter().any(|outbox| outbox.table == table.name);
    published
        .filter(|(_, table)| is_outbox(table))
        .filter_map(|(publication, table)| filter(publication, table))
        .collect()
}

fn filter(publication: &Publication, published: &PublishedTable) -> Option<Finding> {
    let filter = published.row_filter.as_ref()?;
    Some(Finding::note(
        subject_of(&published.name),
        format!("the publication \"{}\" has a row filter on it: {filter}", publication.name),
        "rows that do not pass it are not published by this relay; if that is not meant, add the table anew without WHERE",
    ))
}

fn narrowed(
    publication: &Publication,
    published: &PublishedTable,
    table: &Table,
    inspection: &Inspection,
    subject: &OutboxSubject,
    found: &mut Vec<Finding>,
) {
    let name = subject_of(&subject.table);
    found.extend(filter(publication, published));
    let Some(columns) = &published.columns else { return };
    let withheld: Vec<&str> = subject
        .columns
        .iter()
        .map(String::as_str)
        // What the table itself does not have has been said.
        .filter(|wanted| table.columns.iter().any(|column| column.name == **wanted))
        .filter(|wanted| !columns.iter().any(|name| name == wanted))
        .collect();
    if !withheld.is_empty() {
        found.push(Finding::error(
            &name,
            format!("the publication \"{}\" has a column list without {}", publication.name, withheld.join(", ")),
            "add the table anew without a column list, or with these columns in it",
        ));
    }
    if (150_000..150_002).contains(&inspection.server.version) && !columns.is_empty() {
        found.push(Finding::note(
            &name,
            "PostgreSQL 15.0 and 15.1 decode column lists wrongly in some cases",
            "upgrade to the latest 15, and use no column list until then",
        ));
    }
}

//! Renders `docs/debezium.md`, from the tables that also import and that also read the configuration.

use std::fmt::Write;

use walpost_core::connect;
use walpost_core::options::KnownOption;
use walpost_core::router;

use super::options::{CONNECTOR, Fate, Group, PRODUCER, SERVER, TRANSFORMS, WORKER};

const OPENING: &str = "\
# Debezium and walpost

<!-- Generated: `walpost config debezium > docs/debezium.md`. A test fails when it is stale. -->

walpost publishes what Debezium's PostgreSQL connector with its Outbox Event Router publishes: the same topics, keys, values and headers, byte for byte, for
every valid row. This page says what becomes of each option, and where walpost differs on purpose. `walpost import debezium` makes a walpost.toml of
a connector's configuration and goes by the same tables; [handover.md](handover.md) has the way from one to the other, and back.

An option's fate is one of:

| fate | |
|---|---|
| same | it means the same, under the key that is named |
| better | what it is for is done otherwise, for the reason that is given |
| needless | what it is for does not arise |
| cannot | it cannot be had, and what consumers get of the outbox is the same without it |
| decide | it cannot be had, and consumers would get other records; `walpost import debezium` leaves it as a line that walpost refuses until somebody decides |

Versions are those of Debezium that know the option, from 0.9 on; Kafka's options have none.

## Where walpost differs on purpose

| | Debezium | walpost | because |
|---|---|---|---|
| restart | resumes by searching the log for the LSN of the last row, and loses rows that share it (COPY) | resumes at a commit; a row is known by its transaction and its place in it | no row is lost, whatever wrote it |
| a slot that was moved or made anew | goes on, and the gap is silent | refuses to start, and says what to do | a gap that nobody sees is the worst loss |
| snapshot | `initial` publishes every row that is still in the table | none: published is what is committed from the slot's position on | they were published before, or the slot would not be there |
| idle outbox | the slot stays, and the log fills the disk, unless a heartbeat writes into a published table | the slot moves with the server's log while nothing is owed | no table, no query, no record is needed for it |
| crash | repeats up to a minute of traffic (`offset.flush.interval.ms`), with new timestamps | repeats up to a second, with the same bytes, ids and timestamps | a repeat can be told by its consumer |
| the record's timestamp | the time of processing, unless a column is named | the time of the commit, unless a column is named | a repeat carries the same one |
| `table.field.event.timestamp` | `timestamp` only; another type kills the task | `timestamp`, `timestamptz`, and integers in milliseconds | they are what tables have |
| context headers | four with every record, unless turned off | none, unless `extended.headers.enabled = true` | few want them; the importer keeps them where they were |
| without converters | the worker decides | text, JSON and `bytea` pass byte for byte | the payload is the application's own |
| a row that fails | kills the task, or is dropped without a word (`errors.tolerance=all`) | is told with its reason and never passed over in silence | a lost event is no tolerance |
| two columns that fill one field, an unknown placement, a missing group in the replacement of a pattern that matches whatever comes | fail at every row | are refused at the start, all at once | a fault of the configuration is no row's fault |
| an update that changes the primary key, where the publication publishes updates | is published like an insert, with a header `__debezium.oldkey` | is an update, and falls to `table.op.invalid.behavior` | an outbox row is published once, when it is inserted |
| a column of a type that Debezium does not know (composite types, multiranges, `box`, `pg_lsn`, arrays of domains, …) | is left out, and whoever asks for it kills the task | is the text that PostgreSQL writes | nothing is guessed in it |
| a domain over an enum anywhere in the table | kills the task | is as the enum | |
| an envelope's schemas after ALTER TABLE | stay those of the first row; a changed type kills the task | are those of the row | a schema that does not fit its value is none |
| a partition that the topic does not have | hangs for ever while all is reported as running | is the row's fault, and told | |
| a payload that `table.expand.json.payload` cannot expand (numbers beyond 64 bits, arrays of unlike members) | the task dies, or the text goes out under the wrong schema | it passes as it is where that needs no guess | one odd document is no reason to stop |
| the schema's name of an envelope | the first route's name stays for all routes with the same schema | each route has its own | a name that depends on which row came first means nothing |
| names that options had | are ignored without a word once they are gone | still work, with a warning | a configuration that grows old keeps its meaning |
| producer | not idempotent, one request at a time | idempotent, five requests at a time, in order | faster, and a retry repeats nothing |
| database restart, failover | the task fails and waits for a human, or hangs | reconnects for ever, and says what it waits for | |
| publication | FOR ALL TABLES by default, for which a superuser is needed | the outbox tables and their inserts | nothing else is decoded and sent |
| latency | about 500 ms by default (`poll.interval.ms`) | a row goes out when the server sends it | |

Not reproduced, because Debezium itself does not repeat them: Java's object texts of binary values (`[B@1b2c`), the order of fields of merged unlike objects in
an array, and `runId`, which is new with every process. Floating point is written in the shortest form that reads back as the same number, as Java 19 and later
do; Java 17 writes a few numbers longer.
";

/// The whole page.
#[must_use]
pub fn render() -> String {
    let mut page = String::from(OPENING);
    page.push_str(
        "\n## The router\n\nUnder `[outbox.router]`, by their own names. All of them mean the same; what is said of each is in [configuration.md](configuration.md).\n\n\
         | option | default | fate |\n|---|---|---|\n",
    );
    for option in router::Options::known() {
        row(&mut page, &[&code(option.name), &default_of(option), Fate::Same.word()]);
    }
    page.push_str("\nFormer names, which are understood with a warning. Debezium itself ignores them.\n\n| former name | ignored since | now |\n|---|---|---|\n");
    for former in router::Options::former() {
        row(&mut page, &[&code(former.name), former.gone, &code(former.now)]);
    }
    page.push_str(
        "\n## What decides bytes\n\nUnder `[outbox.connect]`, by their own names, with the converters' own options.\n\n| option | default here |\n|---|---|\n",
    );
    for option in connect::Options::known() {
        row(&mut page, &[&code(option.name), &default_of(option)]);
    }
    for group in [CONNECTOR, WORKER, PRODUCER, SERVER, TRANSFORMS].into_iter().flatten() {
        render_group(&mut page, group);
    }
    page
}

fn render_group(page: &mut String, group: &Group) {
    let _ = write!(page, "\n## {}\n\n", group.title);
    if !group.about.is_empty() {
        let _ = write!(page, "{}\n\n", group.about);
    }
    page.push_str("| option | default | versions | fate | |\n|---|---|---|---|---|\n");
    for entry in group.entries {
        let default = if entry.default.is_empty() { String::new() } else { code(entry.default) };
        row(page, &[&code(entry.name), &default, &entry.versions(), entry.fate.word(), entry.note]);
    }
}

fn default_of<O>(option: &KnownOption<O>) -> String {
    option.default.map(code).unwrap_or_default()
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

/// A row of a table. Writing to a `String` cannot fail.
fn row(page: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debezium::options;

    #[test]
    fn every_option_is_on_the_page() {
        let page = render();
        let names = options::groups().flat_map(|group| group.entries).map(|entry| entry.name);
        let names = names.chain(router::Options::known().iter().map(|option| option.name));
        let names = names.chain(router::Options::former().iter().map(|former| former.name));
        let names = names.chain(connect::Options::known().iter().map(|option| option.name));
        for name in names {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }

    #[test]
    fn every_option_of_the_connector_that_decides_bytes_is_in_its_table_too() {
        for option in connect::Options::known() {
            let entry = options::find(CONNECTOR, option.name);
            assert_eq!(entry.map(|entry| entry.fate), Some(Fate::Same), "{}", option.name);
        }
    }
}

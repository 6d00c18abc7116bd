//! Which tables and columns are captured, what their values become, and what else the connector publishes.

use super::{Group, entries};

pub(super) const TABLES: Group = Group {
    title: "Tables and columns",
    prefix: "",
    about: "Each outbox table is named, in an `[[outbox]]` section of its own.",
    entries: entries! {
        "table.include.list", "", "1.3" .. "", Same: "each name becomes an `[[outbox]]`; a pattern that is no plain name has to be replaced by the names that it matches.";
        "table.whitelist", "", "0.9" .. "1.9", Same: "the former name of table.include.list.";
        "table.exclude.list", "", "1.3" .. "", Needless: "only tables that have an `[[outbox]]` are published.";
        "table.blacklist", "", "0.9" .. "1.9", Needless: "only tables that have an `[[outbox]]` are published.";
        "schema.include.list", "", "1.3" .. "", Needless: "only tables that have an `[[outbox]]` are published.";
        "schema.exclude.list", "", "1.3" .. "", Needless: "only tables that have an `[[outbox]]` are published.";
        "schema.whitelist", "", "0.9" .. "1.9", Needless: "only tables that have an `[[outbox]]` are published.";
        "schema.blacklist", "", "0.9" .. "1.9", Needless: "only tables that have an `[[outbox]]` are published.";
        "table.ignore.builtin", "true", "0.9" .. "", Needless: "only tables that have an `[[outbox]]` are published.";
        "column.include.list", "", "1.3" .. "", Needless: "a column is published only where the router's options name it.";
        "column.exclude.list", "", "1.3" .. "", Needless: "a column is published only where the router's options name it.";
        "column.whitelist", "", "1.2" .. "1.9", Needless: "a column is published only where the router's options name it.";
        "column.blacklist", "", "0.9" .. "1.9", Needless: "a column is published only where the router's options name it.";
        "column.mask.hash.*", "", "1.2" .. "", Decide: "values are published as they are; mask them where the row is written.";
        "column.mask.with.*.chars", "", "0.9" .. "", Decide: "values are published as they are; mask them where the row is written.";
        "column.truncate.to.*.chars", "", "0.9" .. "", Decide: "values are published as they are; cut them where the row is written.";
        "column.propagate.source.type", "", "0.9" .. "", Decide: "schemas do not carry the column's type as parameters; it shows only with converters that write schemas.";
        "datatype.propagate.source.type", "", "1.0" .. "", Decide: "schemas do not carry the column's type as parameters; it shows only with converters that write schemas.";
        "message.key.columns", "", "1.0" .. "", Needless: "the router makes the key, of the column that table.field.event.key names.";
        "skipped.operations", "t", "1.1" .. "", Better: "nothing but inserts is published; in a publication that walpost makes the server sends nothing else.";
        "skip.messages.without.change", "false", "2.2" .. "", Needless: "it concerns updates, and none is published.";
        "tombstones.on.delete", "true", "0.9" .. "", Needless: "deletes of outbox rows are not published, and so no tombstones of theirs.";
        "schema.refresh.mode", "columns_diff", "0.9" .. "", Better: "the catalogue is asked once for each table and again when the table changes.";
        "truncate.handling.mode", "skip", "1.5" .. "1.9", Needless: "truncations are not published.";
        "toasted.value.placeholder", "", "1.0" .. "1.9", Needless: "an insert carries every value whole.";
        "unavailable.value.placeholder", "__debezium_unavailable_value", "1.8" .. "", Needless: "an insert carries every value whole.";
        "rows.fetch.size", "", "0.9" .. "0.9", Needless: "no table is read.";
    },
};

pub(super) const VALUES: Group = Group {
    title: "Values, topics and headers",
    prefix: "",
    about: "What decides the bytes of a record keeps its name, in `[outbox.connect]`.",
    entries: entries! {
        "topic.prefix", "", "2.0" .. "", Same: "`[outbox.connect]`: names of schemas begin with it and a context header holds it.";
        "extended.headers.enabled", "true", "3.2" .. "", Same: "`[outbox.connect]`, where they are off unless asked for; the importer asks for them where the connector sent them.";
        "decimal.handling.mode", "precise", "0.9" .. "", Same: "`[outbox.connect]`.";
        "time.precision.mode", "adaptive", "0.9" .. "", Same: "`[outbox.connect]`.";
        "binary.handling.mode", "bytes", "1.2" .. "", Same: "`[outbox.connect]`.";
        "hstore.handling.mode", "json", "0.9" .. "", Same: "`[outbox.connect]`.";
        "interval.handling.mode", "numeric", "1.0" .. "", Same: "`[outbox.connect]`.";
        "money.fraction.digits", "2", "1.8" .. "", Same: "`[outbox.connect]`.";
        "include.unknown.datatypes", "false", "0.9" .. "", Same: "`[outbox.connect]`.";
        "schema.name.adjustment.mode", "none", "1.9" .. "", Same: "`[outbox.connect]`; the default was `avro` up to 1.9.";
        "field.name.adjustment.mode", "none", "2.2" .. "", Needless: "the connector's option concerns the names of columns, and the router's own one has the same name.";
        "sanitize.field.names", "false", "1.0" .. "2.1", Needless: "names of columns are part of no record, but for those that `table.fields.additional.placement` gives.";
        "converters", "", "1.1" .. "", Decide: "custom converters are Java classes; every type of PostgreSQL is published by the rules of Debezium's own converters.";
        "post.processors", "", "2.5" .. "", Decide: "post processors are Java classes.";
        "source.struct.version", "v2", "1.0" .. "1.9", Needless: "the router drops the source block.";
        "sourceinfo.struct.maker", "", "2.3" .. "", Needless: "the router drops the source block.";
        "include.schema.changes", "true", "0.9" .. "", Needless: "the PostgreSQL connector never published schema changes.";
        "include.schema.comments", "false", "1.8" .. "", Needless: "comments are part of no record.";
        "provide.transaction.metadata", "false", "1.1" .. "", Cannot: "BEGIN and END records are not published: nothing but outbox rows is.";
        "transaction.metadata.factory", "", "2.7" .. "", Needless: "BEGIN and END records are not published.";
        "transaction.topic", "", "1.8" .. "1.9", Needless: "BEGIN and END records are not published.";
        "topic.transaction", "transaction", "2.0" .. "", Needless: "BEGIN and END records are not published.";
        "topic.delimiter", ".", "2.0" .. "", Same: "`[outbox.connect]`: it stands in names of schemas.";
        "topic.cache.size", "10000", "2.0" .. "", Needless: "the router names the topics.";
        "topic.naming.strategy", "", "2.0" .. "", Needless: "the router names the topics.";
        "topic.selection.strategy", "", "0.9" .. "0.9", Needless: "the router names the topics.";
        "memory.management.schemas.*", "", "3.6" .. "", Needless: "schemas of tables are kept in memory, as many as there are outboxes.";
        "memory.management.tables.*", "", "3.6" .. "", Needless: "schemas of tables are kept in memory, as many as there are outboxes.";
        "schema.history.internal", "", "2.0" .. "", Needless: "the PostgreSQL connector never had a schema history.";
        "schema.history.internal.*", "", "2.0" .. "", Needless: "the PostgreSQL connector never had a schema history.";
    },
};

pub(super) const SNAPSHOTS: Group = Group {
    title: "Snapshots",
    prefix: "",
    about: "walpost publishes what is committed from the slot's position on. It takes no snapshot: for an outbox that would be every row that is still \
            in the table, most of them for the second time.",
    entries: entries! {
        "snapshot.mode", "initial", "0.9" .. "", Better: "no snapshot is taken: rows are published from the slot's position on, and a lost slot is told, never filled by publishing everything again.";
        "snapshot.mode.*", "", "2.6" .. "", Needless: "no snapshot is taken.";
        "snapshot.locking.mode", "none", "2.6" .. "", Needless: "no snapshot is taken.";
        "snapshot.locking.mode.custom.name", "", "2.6" .. "", Needless: "no snapshot is taken.";
        "snapshot.query.mode", "select_all", "2.6" .. "", Needless: "no snapshot is taken.";
        "snapshot.query.mode.custom.name", "", "2.6" .. "", Needless: "no snapshot is taken.";
        "snapshot.isolation.mode", "serializable", "3.0" .. "", Needless: "no snapshot is taken.";
        "snapshot.include.collection.list", "", "1.4" .. "", Needless: "no snapshot is taken.";
        "snapshot.select.statement.overrides", "", "0.9" .. "", Needless: "no snapshot is taken.";
        "snapshot.select.statement.overrides.*", "", "0.9" .. "", Needless: "no snapshot is taken.";
        "snapshot.lock.timeout.ms", "10000", "0.9" .. "", Needless: "no snapshot is taken.";
        "snapshot.delay.ms", "0", "0.9" .. "", Needless: "no snapshot is taken.";
        "snapshot.fetch.size", "10240", "0.9" .. "", Needless: "no snapshot is taken.";
        "snapshot.max.threads", "1", "1.4" .. "", Needless: "no snapshot is taken.";
        "snapshot.max.threads.multiplier", "1", "3.5" .. "", Needless: "no snapshot is taken.";
        "legacy.snapshot.max.threads", "false", "3.6" .. "", Needless: "no snapshot is taken.";
        "internal.legacy.snapshot.max.threads", "false", "3.5" .. "3.6", Needless: "no snapshot is taken.";
        "internal.snapshot.scan.all.columns.force", "false", "1.5" .. "", Needless: "no snapshot is taken.";
        "snapshot.tables.order.by.row.count", "disabled", "2.2" .. "", Needless: "no snapshot is taken.";
        "snapshot.custom.class", "", "0.9" .. "2.5", Needless: "no snapshot is taken.";
        "query.fetch.size", "0", "1.3" .. "", Needless: "no snapshot is taken.";
        "incremental.snapshot.*", "", "1.6" .. "", Cannot: "there are no incremental snapshots; a row is sent again by inserting it again.";
    },
};

pub(super) const SIGNALS: Group = Group {
    title: "Signals and notifications",
    prefix: "",
    about: "",
    entries: entries! {
        "signal.data.collection", "", "1.5" .. "", Needless: "there are no signals, so that the table can leave the publication; what they could ask for is a snapshot.";
        "signal.enabled.channels", "source", "2.3" .. "", Needless: "there are no signals.";
        "signal.*", "", "2.3" .. "", Needless: "there are no signals.";
        "notification.enabled.channels", "", "2.3" .. "", Needless: "notifications tell of snapshots, and none is taken.";
        "notification.*", "", "2.3" .. "", Needless: "notifications tell of snapshots, and none is taken.";
    },
};

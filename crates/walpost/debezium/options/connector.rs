//! How the connector reaches the database, what it keeps there, and what it does when something fails.

use super::{Group, entries};

pub(super) const DATABASE: Group = Group {
    title: "The database",
    prefix: "",
    about: "The connection is one URL here; libpq's variables give what it leaves out.",
    entries: entries! {
        "database.hostname", "", "0.9" .. "", Same: "the host of `source.url`; several, separated by commas, are tried in order.";
        "database.port", "5432", "0.9" .. "", Same: "the port of `source.url`.";
        "database.user", "", "0.9" .. "", Same: "the user of `source.url`; it needs REPLICATION, as before.";
        "database.password", "", "0.9" .. "", Same: "`source.password_file`, or a reference to a variable; the importer never prints a password.";
        "database.dbname", "", "0.9" .. "", Same: "the database of `source.url`.";
        "database.sslmode", "prefer", "0.9" .. "", Same: "`source.sslmode`; `allow` becomes `prefer`.";
        "database.sslcert", "", "0.9" .. "", Same: "`source.sslcert`, a PEM file.";
        "database.sslkey", "", "0.9" .. "", Same: "`source.sslkey`; it has to be PEM, and pgjdbc's is usually PKCS#8 in DER (`.pk8`): openssl pkcs8 -inform DER -in client.pk8 -nocrypt -out client.key.";
        "database.sslpassword", "", "0.9" .. "", Cannot: "the key file must not be encrypted; let file permissions keep it.";
        "database.sslrootcert", "", "0.9" .. "", Same: "`source.sslrootcert`, a PEM file.";
        "database.sslfactory", "", "0.9" .. "", Cannot: "there are no Java classes here; certificates are named by the keys of `[source]`.";
        "database.tcpKeepAlive", "true", "0.9" .. "", Better: "always on, with intervals that notice a dead peer within a minute; libpq's keepalives parameters of the URL change them.";
        "database.initial.statements", "", "0.9" .. "", Cannot: "sessions need no preparation; settings can be given as `options` in the URL, or on the role with ALTER ROLE … SET.";
        "database.query.timeout.ms", "600000", "2.7" .. "", Better: "every statement has a timeout of its own.";
        "database.server.name", "", "0.9" .. "1.9", Same: "the former name of topic.prefix.";
        "database.history", "", "0.9" .. "1.9", Needless: "the PostgreSQL connector never had a schema history.";
        "database.history.*", "", "0.9" .. "1.9", Needless: "the PostgreSQL connector never had a schema history.";
        "database.include.list", "", "1.5" .. "", Needless: "a slot decodes one database, which is the one of the URL.";
        "database.exclude.list", "", "1.5" .. "", Needless: "a slot decodes one database, which is the one of the URL.";
        "database.whitelist", "", "1.5" .. "1.9", Needless: "a slot decodes one database, which is the one of the URL.";
        "database.blacklist", "", "1.5" .. "1.9", Needless: "a slot decodes one database, which is the one of the URL.";
        "database.*", "", "0.9" .. "", Cannot: "it was handed to pgjdbc as it is, and there is no pgjdbc here; what libpq knows can stand in `source.url`.";
        "driver.*", "", "2.0" .. "", Cannot: "it was handed to pgjdbc as it is, and there is no pgjdbc here; what libpq knows can stand in `source.url`.";
        "connection.validation.timeout.ms", "60000", "3.2" .. "", Better: "`source.connect_timeout_ms`.";
        "connection.factory.class", "", "1.3" .. "", Cannot: "there are no Java classes here.";
    },
};

pub(super) const SLOT: Group = Group {
    title: "Slot, publication and stream",
    prefix: "",
    about: "walpost goes on with the connector's slot and publication, if the slot decodes with `pgoutput`.",
    entries: entries! {
        "slot.name", "debezium", "0.9" .. "", Same: "`source.slot`.";
        "plugin.name", "decoderbufs", "0.9" .. "", Same: "walpost reads `pgoutput` and nothing else; a slot of another plugin cannot be read, and a new one has to take its place.";
        "publication.name", "dbz_publication", "1.0" .. "", Same: "`source.publication`.";
        "publication.autocreate.mode", "all_tables", "1.2" .. "", Better: "`walpost init` makes a publication of the outbox tables and their inserts alone, where there is none; one FOR ALL TABLES, Debezium's default, has to be made anew first: handover.md shows how.";
        "publish.via.partition.root", "false", "3.2" .. "", Better: "`[[outbox]]` names the root of a partitioned table, and a publication that walpost makes publishes through it.";
        "replica.identity.autoset.values", "", "2.3" .. "", Needless: "inserts need no replica identity.";
        "slot.drop.on.stop", "false", "1.0" .. "", Better: "never: a slot that is dropped loses every row up to the next start.";
        "slot.drop_on_stop", "false", "0.9" .. "0.10", Better: "never: a slot that is dropped loses every row up to the next start.";
        "slot.failover", "false", "3.1" .. "", Same: "`source.failover`, for PostgreSQL 17 and later; `walpost init` makes a slot that exists one too.";
        "slot.max.retries", "6", "1.0" .. "", Better: "there is no last try; a slot that somebody else reads is waited for.";
        "slot.retry.delay.ms", "10000", "1.0" .. "", Better: "`[retry]` has the waits.";
        "slot.stream.params", "", "0.9" .. "", Cannot: "the options of the stream are walpost's own.";
        "status.update.interval.ms", "10000", "0.9" .. "", Better: "the server hears from the relay at least every second.";
        "flush.lsn.source", "true", "2.1" .. "", Better: "the slot is confirmed up to what a checkpoint holds, never beyond.";
        "lsn.flush.mode", "connector", "3.4" .. "", Better: "the slot also moves while the outbox is idle, and never past a row that is not delivered.";
        "lsn.flush.timeout.ms", "30000", "3.2" .. "", Needless: "confirming the slot blocks nothing here.";
        "lsn.flush.timeout.action", "fail", "3.2" .. "", Needless: "confirming the slot blocks nothing here.";
        "offset.mismatch.strategy", "no_validation", "3.4" .. "", Better: "slot and checkpoint are compared at every start, and what could hide a gap is refused.";
        "internal.slot.seek.to.known.offset.on.start", "false", "2.5" .. "", Better: "slot and checkpoint are compared at every start, and what could hide a gap is refused.";
        "internal.create.slot.command.timeout", "90", "3.0" .. "", Needless: "the slot exists.";
        "xmin.fetch.interval.ms", "0", "0.9" .. "", Needless: "the slot's xmin is part of no record.";
        "message.prefix.include.list", "", "1.8" .. "", Cannot: "logical decoding messages are not published: nothing but outbox rows is.";
        "message.prefix.exclude.list", "", "1.8" .. "", Needless: "logical decoding messages are not published: nothing but outbox rows is.";
        "read.only", "false", "2.7" .. "", Needless: "it concerns incremental snapshots, of which there are none; `checkpoint.store = \"file\"` writes nothing into the database.";
        "heartbeat.interval.ms", "0", "0.9" .. "", Better: "the slot moves on while the outbox is idle, without heartbeat, table or topic; no heartbeat records are published.";
        "heartbeat.topics.prefix", "__debezium-heartbeat", "0.9" .. "", Needless: "no heartbeat records are published.";
        "heartbeat.action.query", "", "1.1" .. "", Better: "the slot moves on while the outbox is idle; nothing has to be written for that, and the heartbeat's table can go once nobody else uses it.";
        "topic.heartbeat.prefix", "__debezium-heartbeat", "2.0" .. "", Needless: "no heartbeat records are published.";
        "topic.heartbeat.name", "", "3.6" .. "", Needless: "no heartbeat records are published.";
        "internal.log.position.check.enable", "true", "2.7" .. "", Better: "slot and checkpoint are compared at every start, and what could hide a gap is refused.";
    },
};

pub(super) const FAILURES: Group = Group {
    title: "Pace and failures",
    prefix: "",
    about: "",
    entries: entries! {
        "max.batch.size", "2048", "0.9" .. "", Better: "there are no batches between database and producer; `[limits]` bounds what is on its way.";
        "max.queue.size", "8192", "0.9" .. "", Better: "`limits.in_flight_records` bounds what is on its way.";
        "max.queue.size.in.bytes", "0", "1.4" .. "", Better: "`limits.in_flight_bytes` is 16 MiB unless it is set; memory is always bounded.";
        "queue.provider.type", "memory", "3.6" .. "", Needless: "there is no queue between database and producer.";
        "poll.interval.ms", "500", "0.9" .. "", Better: "nothing polls: a row goes out as soon as the server sends it.";
        "poll.dispatch.interval.ms", "", "3.7" .. "", Better: "nothing polls: a row goes out as soon as the server sends it.";
        "errors.max.retries", "-1", "2.4" .. "", Better: "there is no last try, and what no retry can mend ends the relay with a sentence.";
        "retriable.restart.connector.wait.ms", "10000", "1.3" .. "", Better: "`[retry]`: 100 ms at first, doubling up to 30 s.";
        "event.processing.failure.handling.mode", "fail", "1.1" .. "", Better: "a bad row is told with its reason and never passed over in silence.";
        "event.converting.failure.handling.mode", "warn", "2.6" .. "", Better: "a bad row is told with its reason and never passed over in silence.";
        "internal.custom.retriable.exception", "", "1.9" .. "", Needless: "there are no Java classes here.";
        "executor.shutdown.timeout.ms", "4000", "3.2" .. "", Better: "`stop.timeout_ms`: what is on its way is delivered and checkpointed.";
        "streaming.delay.ms", "0", "2.7" .. "", Needless: "there is nothing to wait for.";
        "custom.metric.tags", "", "2.4" .. "", Needless: "there is no JMX here.";
        "custom.sanitize.pattern", "", "3.4" .. "", Better: "no log line shows a secret.";
        "internal.advanced.metrics.enable", "false", "3.0" .. "", Needless: "there is no JMX here.";
        "statistics.metrics.enabled", "true", "3.6" .. "", Needless: "there is no JMX here.";
        "guardrail.collections.max", "0", "3.3" .. "", Needless: "the tables are listed one by one.";
        "guardrail.collections.limit.action", "warn", "3.3" .. "", Needless: "the tables are listed one by one.";
        "openlineage.integration.*", "", "3.2" .. "", Cannot: "OpenLineage is not reported to.";
        "internal.offset.activity.monitor.interval.ms", "", "3.7" .. "", Better: "`walpost checkpoint show` tells how far the relay is.";
    },
};

//! What Kafka Connect itself reads: the framework's options of a connector, converters, a worker's own options, and transformations that
//! may stand beside the router.

use super::{Group, entries};

pub(super) const FRAMEWORK: Group = Group {
    title: "Kafka Connect's options of a connector",
    prefix: "",
    about: "",
    entries: entries! {
        "name", "", "" .. "", Same: "the file is named after it; the relay's `name` is the slot's unless it is set.";
        "connector.class", "", "" .. "", Same: "only the connector for PostgreSQL can be imported.";
        "tasks.max", "1", "" .. "", Needless: "one relay, one slot, as there is one task to a PostgreSQL connector.";
        "tasks.max.enforce", "true", "" .. "", Needless: "one relay, one slot, as there is one task to a PostgreSQL connector.";
        "transforms", "", "" .. "", Same: "the router's options become `[outbox.router]`; other transformations cannot be carried over.";
        "predicates", "", "" .. "", Same: "a router's predicate on the topic's name says which tables are outboxes.";
        "errors.tolerance", "none", "" .. "", Better: "with `all` Connect passes over a row that fails, and it is lost; here a bad row is told with its reason and never passed over in silence.";
        "errors.log.enable", "false", "" .. "", Better: "a bad row is always told.";
        "errors.log.include.messages", "false", "" .. "", Better: "logs never hold payloads.";
        "errors.retry.timeout", "0", "" .. "", Better: "there is no last try.";
        "errors.retry.delay.max.ms", "60000", "" .. "", Better: "`retry.max_ms`.";
        "errors.deadletterqueue.*", "", "" .. "", Needless: "Connect has them for sinks only.";
        "config.action.reload", "restart", "" .. "", Needless: "the configuration is read when the relay starts.";
        "exactly.once.support", "requested", "" .. "", Better: "`checkpoint.store = \"kafka\"` gives exactly once; the default is at least once.";
        "transaction.boundary", "poll", "" .. "", Cannot: "a transaction of Kafka, which there is with `checkpoint.store = \"kafka\"`, ends where one of the source does.";
        "transaction.boundary.interval.ms", "", "" .. "", Cannot: "with `checkpoint.store = \"kafka\"` it is `checkpoint.group_interval_ms`.";
        "offsets.storage.topic", "", "" .. "", Better: "`[checkpoint]`; `--offsets` takes over what it holds.";
        "topic.creation.*", "", "" .. "", Cannot: "topics are not created with settings of their own; create them beforehand, or let the broker do it with its defaults.";
        "producer.override.*", "", "" .. "", Same: "`[sink.kafka]`, under librdkafka's names.";
        "consumer.override.*", "", "" .. "", Needless: "nothing is consumed.";
        "admin.override.*", "", "" .. "", Needless: "topics are not created with settings of their own.";
        "key.converter.plugin.version", "", "" .. "", Needless: "converters are built in.";
        "value.converter.plugin.version", "", "" .. "", Needless: "converters are built in.";
        "header.converter.plugin.version", "", "" .. "", Needless: "converters are built in.";
        "connector.plugin.version", "", "" .. "", Needless: "there are no plugins.";
    },
};

pub(super) const CONVERTERS: Group = Group {
    title: "Converters",
    prefix: "",
    about: "Without a converter of its own a connector has its worker's. Those of Kafka and Debezium that need no registry are built in.",
    entries: entries! {
        "key.converter", "", "" .. "", Same: "`[outbox.connect]`: String, Json, ByteArray, BinaryData and Kafka's for a single number.";
        "value.converter", "", "" .. "", Same: "`[outbox.connect]`: String, Json, ByteArray, BinaryData and Kafka's for a single number.";
        "header.converter", "SimpleHeaderConverter", "" .. "", Same: "`[outbox.connect]`.";
        "key.converter.*", "", "" .. "", Same: "`[outbox.connect]`.";
        "value.converter.*", "", "" .. "", Same: "`[outbox.connect]`.";
        "header.converter.*", "", "" .. "", Same: "`[outbox.connect]`.";
        "internal.key.converter", "", "" .. "", Needless: "offsets are no records here.";
        "internal.value.converter", "", "" .. "", Needless: "offsets are no records here.";
        "internal.key.converter.*", "", "" .. "", Needless: "offsets are no records here.";
        "internal.value.converter.*", "", "" .. "", Needless: "offsets are no records here.";
    },
};

pub(super) const WORKER: Group = Group {
    title: "A worker's options",
    prefix: "",
    about: "A worker's file gives what its connectors do not say: converters, brokers, and how they are spoken to.",
    entries: entries! {
        "bootstrap.servers", "", "" .. "", Same: "`[sink.kafka]`.";
        "producer.*", "", "" .. "", Same: "`[sink.kafka]`, under librdkafka's names.";
        "consumer.*", "", "" .. "", Needless: "nothing is consumed.";
        "admin.*", "", "" .. "", Needless: "topics are not created with settings of their own.";
        "offset.storage.file.filename", "", "" .. "", Better: "`[checkpoint]`; `--offsets FILE` takes over what it holds.";
        "offset.storage.topic", "", "" .. "", Better: "`[checkpoint]`; `--offsets kafka:TOPIC` takes over what it holds.";
        "offset.storage.*", "", "" .. "", Better: "`[checkpoint]`.";
        "offset.flush.interval.ms", "60000", "" .. "", Better: "`checkpoint.interval_ms` is a second, so that a crash repeats a second of traffic and not a minute of it.";
        "offset.flush.timeout.ms", "5000", "" .. "", Better: "a checkpoint that cannot be written holds nothing up.";
        "config.storage.*", "", "" .. "", Needless: "the configuration is a file.";
        "status.storage.*", "", "" .. "", Needless: "there is no cluster of workers.";
        "config.providers", "", "" .. "", Better: "`${NAME}` and `${file:/path}` are built in.";
        "config.providers.*", "", "" .. "", Better: "`${NAME}` and `${file:/path}` are built in.";
        "connector.client.config.override.policy", "All", "" .. "", Needless: "the configuration is a file of its own.";
        "exactly.once.source.support", "disabled", "" .. "", Better: "`checkpoint.store = \"kafka\"` gives exactly once; the default is at least once.";
        "topic.creation.enable", "true", "" .. "", Better: "`allow.auto.create.topics` lets the broker make a topic.";
        "topic.tracking.*", "", "" .. "", Needless: "there is no cluster of workers.";
        "group.id", "", "" .. "", Needless: "there is no cluster of workers; the slot is the lock, and a second relay waits for it.";
        "group.*", "", "" .. "", Needless: "there is no cluster of workers.";
        "plugin.path", "", "" .. "", Needless: "there are no plugins.";
        "plugin.discovery", "hybrid_warn", "" .. "", Needless: "there are no plugins.";
        "listeners", "", "" .. "", Needless: "there is no REST interface.";
        "listeners.*", "", "" .. "", Needless: "there is no REST interface.";
        "rest.*", "", "" .. "", Needless: "there is no REST interface.";
        "admin.listeners", "", "" .. "", Needless: "there is no REST interface.";
        "access.control.*", "", "" .. "", Needless: "there is no REST interface.";
        "response.http.headers.config", "", "" .. "", Needless: "there is no REST interface.";
        "inter.worker.*", "", "" .. "", Needless: "there is no cluster of workers.";
        "connect.protocol", "sessioned", "" .. "", Needless: "there is no cluster of workers.";
        "scheduled.rebalance.max.delay.ms", "300000", "" .. "", Needless: "there is no cluster of workers.";
        "session.timeout.ms", "10000", "" .. "", Needless: "there is no cluster of workers.";
        "heartbeat.interval.ms", "3000", "" .. "", Needless: "there is no cluster of workers.";
        "rebalance.timeout.ms", "60000", "" .. "", Needless: "there is no cluster of workers.";
        "worker.*", "", "" .. "", Needless: "there is no cluster of workers.";
        "task.shutdown.graceful.timeout.ms", "5000", "" .. "", Better: "`stop.timeout_ms`.";
        "auto.include.jmx.reporter", "true", "" .. "", Needless: "there is no JMX here.";
    },
};

pub(super) const TRANSFORMS: Group = Group {
    title: "Other transformations",
    prefix: "",
    about: "A connector's chain may hold more than the router. What stands in front of it mostly changes what the router makes void; what stands after it \
            changes records, and walpost changes none.",
    entries: entries! {
        "io.debezium.transforms.outbox.EventRouter", "", "0.9" .. "", Same: "`[outbox.router]`.";
        "io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter", "", "1.8" .. "", Cannot: "it is MongoDB's.";
        "org.apache.kafka.connect.transforms.RegexRouter", "", "" .. "", Decide: "topics are not renamed after the router; say it in route.topic.regex and route.topic.replacement, which are the same two expressions.";
        "io.debezium.transforms.ByLogicalTableRouter", "", "0.9" .. "", Cannot: "the router names the topics; of a partitioned outbox the root is the table, which is what this is mostly for.";
        "org.apache.kafka.connect.transforms.TimestampRouter", "", "" .. "", Decide: "a topic's name cannot hold the time; write it into the column of route.by.field.";
        "org.apache.kafka.connect.transforms.Filter", "", "" .. "", Decide: "every row of an outbox is published; with PostgreSQL 15 the publication can have a WHERE for the table.";
        "io.debezium.transforms.Filter", "", "1.2" .. "", Decide: "every row of an outbox is published; with PostgreSQL 15 the publication can have a WHERE for the table.";
        "io.debezium.transforms.ContentBasedRouter", "", "1.2" .. "", Decide: "there are no scripts; write the topic into the column of route.by.field.";
        "org.apache.kafka.connect.transforms.InsertHeader", "", "" .. "", Decide: "a header with a fixed value needs a column: ALTER TABLE … ADD COLUMN … DEFAULT '…', and table.fields.additional.placement.";
        "org.apache.kafka.connect.transforms.DropHeaders", "", "" .. "", Decide: "headers are those that the router places; the context headers go with extended.headers.enabled = false.";
        "org.apache.kafka.connect.transforms.HeaderFrom$Value", "", "" .. "", Decide: "use table.fields.additional.placement with `header`.";
        "org.apache.kafka.connect.transforms.HeaderFrom$Key", "", "" .. "", Decide: "use table.fields.additional.placement with `header`.";
        "org.apache.kafka.connect.transforms.InsertField$*", "", "" .. "", Decide: "use table.fields.additional.placement with `envelope`, of a column that has the value.";
        "org.apache.kafka.connect.transforms.ReplaceField$*", "", "" .. "", Decide: "payloads pass byte for byte; leave the field out where the row is written, or name an envelope's field with an alias.";
        "org.apache.kafka.connect.transforms.MaskField$*", "", "" .. "", Decide: "payloads pass byte for byte; mask the field where the row is written.";
        "org.apache.kafka.connect.transforms.Cast$*", "", "" .. "", Decide: "payloads pass byte for byte; give the column the type.";
        "org.apache.kafka.connect.transforms.ExtractField$*", "", "" .. "", Decide: "payloads pass byte for byte; the router takes the value from the column of table.field.event.payload.";
        "org.apache.kafka.connect.transforms.ValueToKey", "", "" .. "", Decide: "use table.field.event.key.";
        "org.apache.kafka.connect.transforms.HoistField$*", "", "" .. "", Decide: "payloads pass byte for byte; an envelope of table.fields.additional.placement holds the payload in a field.";
        "org.apache.kafka.connect.transforms.Flatten$*", "", "" .. "", Decide: "payloads pass byte for byte.";
        "org.apache.kafka.connect.transforms.SetSchemaMetadata$*", "", "" .. "", Decide: "schemas are named as the router names them; for a version use table.field.event.schema.version.";
        "org.apache.kafka.connect.transforms.TimestampConverter$*", "", "" .. "", Decide: "payloads pass byte for byte; table.field.event.timestamp takes `timestamptz` too.";
        "io.debezium.transforms.ExtractNewRecordState", "", "1.0" .. "", Cannot: "beside the router it does nothing for outbox rows; other tables are not published.";
        "io.debezium.transforms.UnwrapFromEnvelope", "", "0.9" .. "1.1", Cannot: "beside the router it does nothing for outbox rows; other tables are not published.";
        "io.debezium.transforms.ExtractChangedRecordState", "", "2.2" .. "", Cannot: "other tables are not published.";
        "io.debezium.transforms.HeaderToValue", "", "2.2" .. "", Decide: "use table.fields.additional.placement with `envelope`.";
        "io.debezium.transforms.partitions.PartitionRouting", "", "2.2" .. "", Decide: "the producer chooses by the key; use table.fields.additional.placement with `partition`, of an integer column.";
        "io.debezium.transforms.partitions.ComputePartition", "", "2.1" .. "2.4", Decide: "the producer chooses by the key; use table.fields.additional.placement with `partition`, of an integer column.";
        "io.debezium.transforms.TimezoneConverter", "", "2.4" .. "", Decide: "times are published in UTC, as Debezium has them.";
        "io.debezium.transforms.SchemaChangeEventFilter", "", "2.4" .. "", Needless: "there are no schema changes.";
        "io.debezium.transforms.VectorToJsonConverter", "", "3.1" .. "", Decide: "payloads pass byte for byte.";
        "io.debezium.transforms.GeometryFormatTransformer", "", "3.4" .. "", Decide: "payloads pass byte for byte.";
        "io.debezium.transforms.tracing.ActivateTracingSpan", "", "1.4" .. "", Cannot: "beside the router it does what the router's own tracing options do.";
        "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent", "", "3.0" .. "", Cannot: "logical decoding messages are not published; write a row into an outbox table.";
        "io.debezium.connector.postgresql.transforms.timescaledb.TimescaleDb", "", "2.4" .. "", Cannot: "hypertables are not published.";
        "com.redhat.insights.expandjsonsmt.ExpandJSON$*", "", "" .. "", Decide: "use table.expand.json.payload.";
        "*", "", "" .. "", Decide: "transformations are Java classes, of which only the outbox event router is built in; do this before the row is written, or in the consumer.";
    },
};

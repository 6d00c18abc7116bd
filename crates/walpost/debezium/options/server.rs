//! What only Debezium Server has, or other runtimes of the engine.

use super::{Group, entries};

pub(super) const SERVER: Group = Group {
    title: "Debezium Server",
    prefix: "",
    about: "In its `application.properties` the connector's options begin with `debezium.source.`, the transformations with `debezium.transforms.`, and \
            the producer's properties with `debezium.sink.kafka.producer.`. It drops headers that are null, which Connect and walpost do not.",
    entries: entries! {
        "debezium.source.*", "", "1.2" .. "", Same: "as the connector's option of that name.";
        "debezium.transforms", "", "1.2" .. "", Same: "as the connector's option of that name.";
        "debezium.transforms.*", "", "1.2" .. "", Same: "as the connector's option of that name.";
        "debezium.predicates", "", "2.1" .. "", Same: "as the connector's option of that name.";
        "debezium.predicates.*", "", "2.1" .. "", Same: "as the connector's option of that name.";
        "debezium.sink.type", "", "1.2" .. "", Same: "`sink.type`, where it is `kafka`.";
        "debezium.sink.kafka.producer.*", "", "1.2" .. "", Same: "`[sink.kafka]`.";
        "debezium.sink.kafka.*", "", "1.2" .. "", Needless: "walpost waits for every delivery.";
        "debezium.sink.*", "", "1.2" .. "", Cannot: "records go to Kafka or to standard output.";
        "debezium.format.key", "json", "1.2" .. "", Same: "`key.converter` of `[outbox.connect]`: json, simplestring or binary.";
        "debezium.format.value", "json", "1.2" .. "", Same: "`value.converter` of `[outbox.connect]`: json, simplestring or binary.";
        "debezium.format.header", "json", "2.1" .. "", Same: "`header.converter` of `[outbox.connect]`.";
        "debezium.format.key.*", "", "1.2" .. "", Same: "the converter's own option in `[outbox.connect]`.";
        "debezium.format.value.*", "", "1.2" .. "", Same: "the converter's own option in `[outbox.connect]`.";
        "debezium.format.header.*", "", "2.1" .. "", Same: "the converter's own option in `[outbox.connect]`.";
        "debezium.format.*", "", "1.2" .. "", Same: "an option of all three converters.";
        "debezium.source.offset.storage", "", "1.2" .. "", Better: "`[checkpoint]`.";
        "debezium.source.offset.storage.*", "", "1.2" .. "", Better: "`[checkpoint]`; `--offsets FILE` takes over what a file holds.";
        "debezium.source.offset.flush.interval.ms", "60000", "1.2" .. "", Better: "`checkpoint.interval_ms` is a second.";
        "debezium.engine.*", "", "2.5" .. "", Needless: "there is no engine.";
        "debezium.api.*", "", "2.5" .. "", Needless: "there is no REST interface.";
        "debezium.*", "", "1.2" .. "", Cannot: "nothing here does that.";
        "quarkus.*", "", "" .. "", Needless: "there is no Quarkus; `[log]` has the log's level and form.";
        "%*", "", "" .. "", Needless: "a profile of Quarkus; import the file with the profile's values in place.";
    },
};

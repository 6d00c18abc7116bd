//! The names of librdkafka's properties: which a producer knows, which are other names for the same thing, which belong
//! to a consumer, and what people who come from Kafka's Java client are likely to type.
//!
//! librdkafka itself is the judge of names and values. These tables only serve to say something useful about a wrong one,
//! so a property that a later librdkafka adds works without a change here.

/// Properties of a producer, without other names for the same thing.
pub(crate) const PRODUCER: &[&str] = &[
    "acks",
    "allow.auto.create.topics",
    "api.version.fallback.ms",
    "api.version.request",
    "api.version.request.timeout.ms",
    "batch.num.messages",
    "batch.size",
    "bootstrap.servers",
    "broker.address.family",
    "broker.address.ttl",
    "broker.version.fallback",
    "client.dns.lookup",
    "client.id",
    "client.rack",
    "compression.level",
    "compression.type",
    "connections.max.idle.ms",
    "debug",
    "delivery.report.only.error",
    "delivery.timeout.ms",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "enable.metrics.push",
    "enable.random.seed",
    "enable.sasl.oauthbearer.unsecure.jwt",
    "enable.ssl.certificate.verification",
    "linger.ms",
    "log.connection.close",
    "log.thread.name",
    "max.in.flight.requests.per.connection",
    "message.copy.max.bytes",
    "message.max.bytes",
    "metadata.max.age.ms",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "partitioner",
    "plugin.library.paths",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queuing.strategy",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.kerberos.keytab",
    "sasl.kerberos.kinit.cmd",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.principal",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.max.fails",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.cipher.suites",
    "ssl.crl.location",
    "ssl.curves.list",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.id",
    "ssl.engine.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.providers",
    "ssl.sigalgs.list",
    "sticky.partitioning.linger.ms",
    "topic.blacklist",
    "topic.metadata.propagation.max.ms",
    "topic.metadata.refresh.fast.interval.ms",
    "topic.metadata.refresh.interval.ms",
    "topic.metadata.refresh.sparse",
    "transaction.timeout.ms",
    "transactional.id",
];

/// Other names that librdkafka has for a property, and the one that is used here.
const ALIASES: &[(&str, &str)] = &[
    ("compression.codec", "compression.type"),
    ("max.in.flight", "max.in.flight.requests.per.connection"),
    ("message.send.max.retries", "retries"),
    ("message.timeout.ms", "delivery.timeout.ms"),
    ("metadata.broker.list", "bootstrap.servers"),
    ("queue.buffering.max.ms", "linger.ms"),
    ("request.required.acks", "acks"),
    ("sasl.mechanisms", "sasl.mechanism"),
    ("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    ("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
];

/// Properties that mean something to a consumer only: librdkafka would take them from a producer and ignore them.
pub(crate) const CONSUMER: &[&str] = &[
    "auto.commit.enable",
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "check.crcs",
    "consume.callback.max.messages",
    "coordinator.query.interval.ms",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "fetch.min.bytes",
    "fetch.queue.backoff.ms",
    "fetch.wait.max.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "isolation.level",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "offset.store.method",
    "offset.store.path",
    "offset.store.sync.interval.ms",
    "partition.assignment.strategy",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "session.timeout.ms",
];

/// Properties that walpost sets, or whose value is an address in memory.
const RESERVED: &[&str] = &[
    "default_topic_conf",
    "enabled_events",
    "interceptors",
    "log.queue",
    "log_level",
    "msg_order_cmp",
    "opaque",
    "produce.offset.report",
    "ssl_ca",
    "ssl_certificate",
    "ssl_engine_callback_data",
    "ssl_key",
    "statistics.interval.ms",
];

/// Properties of Kafka's Java client, and what to do here instead.
const JAVA: &[(&str, &str)] = &[
    ("buffer.memory", "leave it out: the queue follows from walpost's limits on what is in flight"),
    ("interceptor.classes", "leave it out: there are no Java classes here"),
    ("key.serializer", "leave it out: walpost sends bytes as they are"),
    ("max.block.ms", "leave it out: walpost never blocks on a full queue"),
    ("max.request.size", "set message.max.bytes instead"),
    (
        "partitioner.class",
        "set partitioner instead; murmur2_random, the default, is what the Java client does with keys",
    ),
    ("partitioner.ignore.keys", "set partitioner = \"random\" instead"),
    ("sasl.jaas.config", "set sasl.username and sasl.password instead"),
    ("sasl.login.callback.handler.class", "leave it out: there are no Java classes here"),
    ("ssl.keystore.type", "leave it out: ssl.keystore.location takes PKCS#12, ssl.certificate.location takes PEM"),
    ("ssl.truststore.certificates", "set ssl.ca.pem instead"),
    ("ssl.truststore.location", "set ssl.ca.location to a PEM file instead"),
    ("ssl.truststore.password", "leave it out: ssl.ca.location takes a PEM file, which needs none"),
    ("ssl.truststore.type", "leave it out: ssl.ca.location takes a PEM file"),
    ("value.serializer", "leave it out: walpost sends bytes as they are"),
];

/// The one name that is used for a property that has several.
pub(crate) fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, canonical)| canonical)
}

/// Whether only walpost itself may set this property.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name.ends_with("_cb") || name.starts_with("test.") || name.starts_with("internal.")
}

/// What to do instead of setting this property of Kafka's Java client.
pub(crate) fn instead_of_java(name: &str) -> Option<&'static str> {
    JAVA.iter().find(|(java, _)| *java == name).map(|(_, instead)| *instead)
}

/// Whether this property says how brokers are reached, which means the same to every kind of client.
pub(crate) fn is_about_connecting(name: &str) -> bool {
    const PREFIXES: &[&str] =
        &["bootstrap.", "security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "socket.", "broker.", "client."];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether the value of this property must never be shown.
pub(crate) fn is_secret(name: &str) -> bool {
    const SECRET: &[&str] = &[
        "sasl.jaas.config",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.extensions",
    ];
    // Names nobody knows are judged too: a password under a mistyped name is still a password.
    SECRET.contains(&name)
        || name.contains("passw")
        || name.contains("passphrase")
        || name.contains("secret")
        || name.contains("key.pem")
}

/// The known name that is nearest to this one, if any is near enough to be what was meant.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    walpost_core::nearest::nearest(name, PRODUCER.iter().copied())
}

#[cfg(test)]
mod tests {
    use rdkafka::config::ClientConfig;
    use rdkafka::error::KafkaError;
    use rdkafka::types::RDKafkaConfRes;

    use super::*;

    #[test]
    fn every_name_in_the_tables_is_known_to_librdkafka() {
        let is_known = |name: &str| {
            let mut config = ClientConfig::new();
            config.set(name, "no such value");
            let refused = config.create_native_config().err();
            !matches!(refused, Some(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)))
        };
        for name in PRODUCER.iter().chain(CONSUMER).chain(ALIASES.iter().map(|(alias, _)| alias)) {
            assert!(is_known(name), "{name}");
        }
        assert!(!is_known("frobnicate"));
        for (alias, canonical) in ALIASES {
            assert!(PRODUCER.contains(canonical), "{alias} stands for {canonical}");
        }
    }

    #[test]
    fn what_is_about_connecting_is_known_by_its_name() {
        for name in ["bootstrap.servers", "sasl.password", "ssl.ca.location", "client.id", "security.protocol"] {
            assert!(is_about_connecting(name), "{name}");
        }
        for name in ["acks", "linger.ms", "compression.type", "partitioner", "message.max.bytes"] {
            assert!(!is_about_connecting(name), "{name}");
        }
    }

    #[test]
    fn a_mistyped_name_finds_the_one_that_was_meant() {
        for (typed, meant) in [
            ("bootstrap.server", Some("bootstrap.servers")),
            ("lingerms", Some("linger.ms")),
            ("sasl.user", Some("sasl.username")),
            ("compresion.type", Some("compression.type")),
            ("SASL.PASSWORD", Some("sasl.password")),
            ("frobnicate", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }

    #[test]
    fn secrets_are_known_by_their_names() {
        for secret in [
            "sasl.password",
            "ssl.key.password",
            "ssl.keystore.password",
            "ssl.key.pem",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.assertion.private.key.pem",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.jaas.config",
            "sasl.pasword.passwd",
        ] {
            assert!(is_secret(secret), "{secret}");
        }
        for open in ["bootstrap.servers", "sasl.username", "ssl.key.location", "ssl.certificate.pem"] {
            assert!(!is_secret(open), "{open}");
        }
    }
}

//! The properties of Kafka's Java producer, and what librdkafka has for them. Where the name alone differs the importer translates it.

use super::{Group, entries};

pub(super) const PRODUCER: Group = Group {
    title: "The producer",
    prefix: "producer.override.",
    about: "Properties with `producer.override.` before them in a connector, with `producer.` in a worker, with `debezium.sink.kafka.producer.` in Debezium \
            Server. walpost's producer is librdkafka; a property that librdkafka knows under the same name is carried over too, though it is not listed.",
    entries: entries! {
        "bootstrap.servers", "", "" .. "", Same: "`[sink.kafka]`.";
        "client.id", "", "" .. "", Same: "`[sink.kafka]`.";
        "security.protocol", "PLAINTEXT", "" .. "", Same: "`[sink.kafka]`.";
        "sasl.mechanism", "GSSAPI", "" .. "", Same: "`[sink.kafka]`; `AWS_MSK_IAM` cannot be had: give the relay a SCRAM user or a client certificate.";
        "sasl.jaas.config", "", "" .. "", Same: "`sasl.username` and `sasl.password`, or the properties of Kerberos and OAuth that say the same; a password becomes a reference.";
        "sasl.kerberos.service.name", "", "" .. "", Same: "`[sink.kafka]`.";
        "sasl.oauthbearer.token.endpoint.url", "", "" .. "", Same: "`[sink.kafka]`, with `sasl.oauthbearer.method = \"oidc\"`.";
        "sasl.login.callback.handler.class", "", "" .. "", Cannot: "there are no Java classes here.";
        "sasl.client.callback.handler.class", "", "" .. "", Cannot: "there are no Java classes here.";
        "sasl.login.*", "", "" .. "", Cannot: "librdkafka logs in by itself.";
        "sasl.*", "", "" .. "", Cannot: "librdkafka has nothing for it.";
        "ssl.truststore.location", "", "" .. "", Same: "`ssl.ca.location`, if it is PEM; from a JKS or PKCS#12 store: keytool -exportcert -rfc -keystore STORE -alias ALIAS.";
        "ssl.truststore.password", "", "" .. "", Needless: "`ssl.ca.location` takes a PEM file, which needs none.";
        "ssl.truststore.type", "JKS", "" .. "", Needless: "`ssl.ca.location` takes a PEM file.";
        "ssl.truststore.certificates", "", "" .. "", Same: "`ssl.ca.pem`.";
        "ssl.keystore.location", "", "" .. "", Same: "`ssl.keystore.location`, if it is PKCS#12; if it is PEM, `ssl.certificate.location` and `ssl.key.location`; a JKS store has to be converted: keytool -importkeystore -deststoretype PKCS12.";
        "ssl.keystore.password", "", "" .. "", Same: "`[sink.kafka]`, as a reference.";
        "ssl.keystore.type", "JKS", "" .. "", Needless: "the property that names the store says it.";
        "ssl.keystore.certificate.chain", "", "" .. "", Same: "`ssl.certificate.pem`.";
        "ssl.keystore.key", "", "" .. "", Same: "`ssl.key.pem`, as a reference.";
        "ssl.key.password", "", "" .. "", Same: "`[sink.kafka]`, as a reference.";
        "ssl.endpoint.identification.algorithm", "https", "" .. "", Same: "`[sink.kafka]`; empty becomes `none`.";
        "ssl.protocol", "TLSv1.3", "" .. "", Needless: "OpenSSL takes the newest version that both sides know.";
        "ssl.enabled.protocols", "", "" .. "", Needless: "OpenSSL takes the newest version that both sides know.";
        "ssl.cipher.suites", "", "" .. "", Cannot: "OpenSSL names cipher suites otherwise; set librdkafka's ssl.cipher.suites by hand.";
        "ssl.*", "", "" .. "", Cannot: "OpenSSL has nothing for it.";
        "acks", "all", "" .. "", Better: "always `all`: with less a broker's crash loses a record that counted as delivered.";
        "enable.idempotence", "false", "" .. "", Better: "always on, where Connect turns it off: a retry neither repeats nor reorders.";
        "max.in.flight.requests.per.connection", "1", "" .. "", Better: "five, in order, because the producer is idempotent.";
        "retries", "2147483647", "" .. "", Better: "there is no last try.";
        "delivery.timeout.ms", "2147483647", "" .. "", Better: "a record is never given up.";
        "transactional.id", "", "" .. "", Better: "made from the relay's `name` where `checkpoint.store = \"kafka\"`; leave it out.";
        "transaction.timeout.ms", "60000", "" .. "", Same: "`[sink.kafka]`, with `checkpoint.store = \"kafka\"`.";
        "max.block.ms", "", "" .. "", Needless: "nothing blocks on a full queue.";
        "buffer.memory", "33554432", "" .. "", Better: "`limits.in_flight_bytes`.";
        "max.request.size", "1048576", "" .. "", Same: "`message.max.bytes`.";
        "batch.size", "16384", "" .. "", Same: "`[sink.kafka]`; 1 MB unless it is set.";
        "linger.ms", "0", "" .. "", Same: "`[sink.kafka]`; 5 ms unless it is set.";
        "compression.type", "none", "" .. "", Same: "`[sink.kafka]`; lz4 unless it is set.";
        "compression.gzip.level", "", "" .. "", Same: "`compression.level`.";
        "compression.lz4.level", "", "" .. "", Same: "`compression.level`.";
        "compression.zstd.level", "", "" .. "", Same: "`compression.level`.";
        "request.timeout.ms", "30000", "" .. "", Same: "`[sink.kafka]`.";
        "reconnect.backoff.ms", "50", "" .. "", Same: "`[sink.kafka]`.";
        "reconnect.backoff.max.ms", "1000", "" .. "", Same: "`[sink.kafka]`.";
        "retry.backoff.ms", "100", "" .. "", Same: "`[sink.kafka]`.";
        "retry.backoff.max.ms", "1000", "" .. "", Same: "`[sink.kafka]`.";
        "connections.max.idle.ms", "540000", "" .. "", Same: "`[sink.kafka]`.";
        "metadata.max.age.ms", "300000", "" .. "", Same: "`[sink.kafka]`.";
        "metadata.max.idle.ms", "300000", "" .. "", Needless: "librdkafka forgets idle topics by itself.";
        "metadata.recovery.strategy", "rebootstrap", "" .. "", Same: "`[sink.kafka]`.";
        "client.dns.lookup", "use_all_dns_ips", "" .. "", Same: "`[sink.kafka]`.";
        "client.rack", "", "" .. "", Needless: "it concerns consumers.";
        "send.buffer.bytes", "131072", "" .. "", Same: "`socket.send.buffer.bytes`.";
        "receive.buffer.bytes", "32768", "" .. "", Same: "`socket.receive.buffer.bytes`.";
        "socket.connection.setup.timeout.ms", "10000", "" .. "", Same: "`[sink.kafka]`.";
        "socket.connection.setup.timeout.max.ms", "30000", "" .. "", Needless: "`socket.connection.setup.timeout.ms` bounds every try.";
        "partitioner.class", "", "" .. "", Decide: "there are no Java classes here; keys go to the partition that Kafka's own partitioner gives them (murmur2).";
        "partitioner.ignore.keys", "false", "" .. "", Decide: "with it the order per key is lost; set `partitioner = \"random\"` by hand if that is meant.";
        "partitioner.*", "", "" .. "", Needless: "librdkafka has a sticky partitioner of its own for records without a key.";
        "interceptor.classes", "", "" .. "", Decide: "there are no Java classes here; one that changes no record can be left out.";
        "key.serializer", "", "" .. "", Needless: "converters make bytes.";
        "value.serializer", "", "" .. "", Needless: "converters make bytes.";
        "metric.reporters", "", "" .. "", Needless: "there is no JMX here.";
        "metrics.*", "", "" .. "", Needless: "there is no JMX here.";
        "enable.metrics.push", "true", "" .. "", Same: "`[sink.kafka]`.";
    },
};

//! What can be typed: every key once, with its kind, its default and its entry in the manual.
//!
//! The doc comment of a field *is* its manual entry: `section!` makes of one definition the struct that holds what was typed, the code that
//! reads it, and the [`Section`] from which `docs/configuration.md` is rendered. Whether the values make sense together is
//! judged in `settings`, not here.
//!
//! Nothing that holds what was typed has a `Debug`: it may be a password.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::Place;
use super::reader::{Field, Reader};
use super::value::{Millis, Names, Properties, Size, Text, Value, choice};

/// One key of the manual.
#[derive(Debug, Clone)]
pub struct Key {
    /// The name within its section.
    pub name: &'static str,
    /// What kind of value it takes.
    pub kind: &'static str,
    /// The default as it would be typed, or `none`.
    pub default: String,
    /// The manual entry, line by line.
    pub doc: &'static [&'static str],
    /// Two values that differ in what they do, as they would be typed. The first is the manual's example.
    pub samples: [&'static str; 2],
}

/// One section of the manual.
#[derive(Debug, Clone)]
pub struct Section {
    /// The header as it is typed, such as `[source]`; empty for the keys in front of every section.
    pub header: &'static str,
    /// What it is about, line by line.
    pub doc: &'static [&'static str],
    /// Its keys.
    pub keys: Vec<Key>,
}

/// The name of a field without the mark of a Rust keyword.
fn plain(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// Defines a section: the struct, its reader and its manual.
macro_rules! section {
    (
        $(#[doc = $doc:literal])+
        $header:literal $name:ident {
            $(
                $(#[doc = $key_doc:literal])+
                $key:ident: $kind:ty = $default:expr, $sample:literal | $other:literal;
            )+
        }
    ) => {
        $(#[doc = $doc])+
        pub(super) struct $name {
            /// Where its header stands.
            #[allow(dead_code, reason = "not every section is pointed at as a whole")]
            pub(super) place: Option<Place>,
            $( $(#[doc = $key_doc])+ pub(super) $key: Field<$kind>, )+
        }

        impl $name {
            fn names() -> Vec<&'static str> {
                vec![$( plain(stringify!($key)), )+]
            }

            fn manual() -> Section {
                Section {
                    header: $header,
                    doc: &[$( $doc, )+],
                    keys: vec![$( Key {
                        name: plain(stringify!($key)),
                        kind: <$kind as Value>::KIND,
                        default: <$kind as Value>::show(&$default),
                        doc: &[$( $key_doc, )+],
                        samples: [$sample, $other],
                    }, )+],
                }
            }

            /// Reads the keys of this section; of one that was not typed, the defaults.
            fn read(table: Option<&DeTable<'_>>, at: &str, place: Option<Place>, reader: &mut Reader<'_>) -> Self {
                Self { place, $( $key: reader.field(table, at, plain(stringify!($key)), $default), )+ }
            }
        }
    };
}

section! {
    /// In TOML whatever stands after a header belongs to it, so these come first in the file.
    "" Relay {
        /// The relay's name: its checkpoint is kept under it, and PostgreSQL shows it as `application_name` unless `url` or
        /// `PGAPPNAME` says another. Letters, digits, `.`, `_` and `-`, at most 63. Default: the name of the slot.
        name: Option<Text> = None, "\"orders\"" | "\"invoices\"";
    }
}

choice! {
    /// How the connection to PostgreSQL is encrypted.
    pub(super) enum SslMode ("`\"disable\"`, `\"prefer\"`, `\"require\"`, `\"verify-ca\"` or `\"verify-full\"`") {
        Disable = "disable",
        Prefer = "prefer",
        Require = "require",
        VerifyCa = "verify-ca",
        VerifyFull = "verify-full",
    }
}

section! {
    /// The database whose outbox is published, and the replication slot that keeps its WAL for us.
    "[source]" Source {
        /// Where PostgreSQL is, as libpq writes it: `postgres://user:password@host:port/database?sslmode=verify-full`. What it leaves out is
        /// taken from libpq's variables (`PGHOST`, `PGPORT`, `PGUSER`, `PGPASSWORD`, `PGDATABASE` and so on). Required, unless `PGHOST` or `PGDATABASE` is set.
        url: Option<Text> = None, "\"postgres://walpost@127.0.0.1:5432/app\"" | "\"postgres://walpost@127.0.0.1:5433/app\"";
        /// A file that holds the password and nothing else; a line break at its end does not count. Not together with a password in `url`.
        password_file: Option<Text> = None, "\"/run/secrets/postgres\"" | "\"/run/secrets/other\"";
        /// How the connection is encrypted: `prefer` takes TLS where it is offered, `require` insists on it, `verify-ca` checks the
        /// certificate's issuer, `verify-full` its host name too. Not together with `sslmode` in `url`. Default: `PGSSLMODE`, else `prefer`.
        sslmode: Option<SslMode> = None, "\"verify-full\"" | "\"require\"";
        /// A PEM file with the certificates that the server's may be issued by. Default: `PGSSLROOTCERT`.
        sslrootcert: Option<Text> = None, "\"/etc/walpost/ca.pem\"" | "\"/etc/walpost/other-ca.pem\"";
        /// A PEM file with our own certificate, for a server that asks for one. Together with `sslkey`. Default: `PGSSLCERT`.
        sslcert: Option<Text> = None, "\"/etc/walpost/client.pem\"" | "\"/etc/walpost/other.pem\"";
        /// A PEM file with the key of `sslcert`, not encrypted. Default: `PGSSLKEY`.
        sslkey: Option<Text> = None, "\"/etc/walpost/client.key\"" | "\"/etc/walpost/other.key\"";
        /// How long connecting may take, TLS and authentication included; and how long a session that is open may leave a question unanswered
        /// that waits for nothing, before it is given up. Not together with `connect_timeout` in `url`. Default: `PGCONNECT_TIMEOUT` (which
        /// counts seconds), else 10000.
        connect_timeout_ms: Option<Millis> = None, "3000" | "10000";
        /// The replication slot: lower-case letters, digits and `_`, at most 63. One relay, one slot.
        slot: Text = Text::from("walpost"), "\"orders\"" | "\"walpost\"";
        /// The publication that the outbox tables are in, or a list of several. Upper and lower case count.
        publication: Names = Names(vec!["walpost".to_owned()]), "[\"orders\", \"invoices\"]" | "\"walpost\"";
        /// Whether `walpost run` may create what is missing (publication, tables of our own, slot) as `walpost init` does. Without it `run`
        /// creates nothing and says what is missing.
        create: bool = false, "true" | "false";
        /// Whether the slot is one that PostgreSQL 17 and later carries over to standbys, so that the relay goes on after a failover. `walpost init` makes
        /// it one, also where it exists. The standbys have to synchronise slots (`sync_replication_slots`), and the primary has to wait for them
        /// (`synchronized_standby_slots`).
        failover: bool = false, "true" | "false";
        /// PostgreSQL's `wal_sender_timeout` for our connection: after this long without a word from the relay the server gives it up, and after
        /// this long without a word from the server the relay does. From 1000 on.
        wal_sender_timeout_ms: Millis = Millis(30_000), "60000" | "30000";
    }
}

section! {
    /// A table whose inserted rows are published, with the router that makes records of them. One section for each table.
    "[[outbox]]" Outbox {
        /// The table, written as in SQL: `schema.table`, folded to lower case unless quoted (`'"Order"."Outbox"'`). Without a schema `public` is
        /// meant. Of a partitioned table, its root. Required.
        table: Option<Text> = None, "\"public.outbox\"" | "'\"Order\".\"Outbox\"'";
        /// Options of Debezium's Outbox Event Router by their own names, with values as TOML or as strings; a list may be a TOML list. References
        /// are not replaced here, since `${…}` belongs to the router.
        router: Properties<false> = Properties::default(),
            "{ \"route.topic.replacement\" = \"orders.${routedByValue}\" }" | "{ \"route.topic.replacement\" = \"${routedByValue}\" }";
        /// Options of Kafka Connect and of the Debezium connector that decide the bytes of keys, values and headers, by their own names, with values
        /// as TOML or as strings. Without them text, JSON and `bytea` pass byte for byte.
        connect: Properties<true> = Properties::default(),
            "{ \"value.converter\" = \"JsonConverter\" }" | "{ \"value.converter\" = \"StringConverter\" }";
    }
}

choice! {
    /// Where the checkpoint is kept.
    pub(super) enum StoreKind ("`\"postgres\"`, `\"file\"`, `\"slot\"` or `\"kafka\"`") {
        Postgres = "postgres",
        File = "file",
        Slot = "slot",
        Kafka = "kafka",
    }
}

section! {
    /// Where the relay remembers how far it got, and how often. What was published after the last checkpoint is published again after
    /// a crash.
    "[checkpoint]" Checkpoint {
        /// `postgres`: a row of `walpost.checkpoint` in the source database. `file`: the file `path`. `slot`: nothing but the position that the slot
        /// itself keeps, which PostgreSQL writes lazily, so that more is repeated when the database crashes. `kafka`: a record of the compacted topic `topic`, written
        /// in the transaction that carries the events, so that consumers who read with `isolation.level = read_committed` see each event exactly once.
        /// It needs the sink `kafka`, and a relay name that no other relay on the same brokers has.
        store: StoreKind = StoreKind::Postgres, "\"slot\"" | "\"postgres\"";
        /// The file of the store `file`. Its folder has to exist, outlive the container and stand the `fsync`.
        path: Option<Text> = None, "\"/var/lib/walpost/checkpoint\"" | "\"/var/lib/walpost/other\"";
        /// The topic of the store `kafka`, which `walpost init` makes with one partition, and with as many replicas as the brokers give by default.
        topic: Text = Text::from("walpost.checkpoint"), "\"orders.checkpoint\"" | "\"walpost.checkpoint\"";
        /// With the store `kafka`: a group of events is committed with its checkpoint at the first end of a source transaction after this
        /// time, and at once when nothing more is waiting. `interval_ms` and `events` mean nothing then.
        group_interval_ms: Millis = Millis(100), "20" | "100";
        /// The same after so many events. A larger source transaction is a group of its own.
        group_events: u64 = 10_000, "500" | "10000";
        /// The same after events that weigh so much together.
        group_bytes: Size = Size::mib(16), "\"4MiB\"" | "\"16MiB\"";
        /// A checkpoint is written at least this often while records are delivered.
        interval_ms: Millis = Millis(1000), "250" | "1000";
        /// It is also written as soon as this many events are settled since the last.
        events: u64 = 50_000, "1000" | "50000";
        /// While no record is delivered, a checkpoint that only lets PostgreSQL remove the WAL of other tables is written at most this often.
        idle_interval_ms: Millis = Millis(10_000), "60000" | "10000";
        /// It is written only when at least this much WAL of other tables has passed since the last.
        idle_bytes: Size = Size::mib(1), "\"16MiB\"" | "\"1MiB\"";
        /// Or when the last is this old and any WAL has passed.
        idle_max_age_ms: Millis = Millis(300_000), "60000" | "300000";
    }
}

choice! {
    /// What takes the records.
    pub(super) enum SinkKind ("`\"kafka\"`, `\"stdout\"` or `\"null\"`") {
        Kafka = "kafka",
        Stdout = "stdout",
        Null = "null",
    }
}

section! {
    /// Where the records go.
    "[sink]" Sink {
        /// `kafka`: the broker of `[sink.kafka]`. `stdout`: one JSON object a line on standard output, delivered once it is flushed. `null`: nowhere,
        /// for measuring. Required.
        r#type: Option<SinkKind> = None, "\"null\"" | "\"stdout\"";
        /// Properties of librdkafka by their own names, passed through. `bootstrap.servers` is required.
        kafka: Properties<true> = Properties::default(),
            "{ \"bootstrap.servers\" = \"127.0.0.1:9092\" }" | "{ \"bootstrap.servers\" = \"127.0.0.1:9093\" }";
    }
}

choice! {
    /// What is done about a bad row.
    pub(super) enum OnBadRow ("`\"park\"`, `\"dead_letter\"` or `\"stop\"`") {
        Park = "park",
        DeadLetter = "dead_letter",
        Stop = "stop",
    }
}

choice! {
    /// What is done about a closed route.
    pub(super) enum OnClosedRoute ("`\"hold\"` or `\"dead_letter\"`") {
        Hold = "hold",
        DeadLetter = "dead_letter",
    }
}

choice! {
    /// Where rows are set aside.
    pub(super) enum LetterStoreKind ("`\"postgres\"` or `\"kafka\"`") {
        Postgres = "postgres",
        Kafka = "kafka",
    }
}

choice! {
    /// What a dead letter keeps of its row.
    pub(super) enum Keep ("`\"row\"` or `\"reference\"`") {
        Row = "row",
        Reference = "reference",
    }
}

section! {
    /// What becomes of rows that cannot be delivered: they are set aside, and `walpost dlq` shows them and marks them to be sent again or given up.
    "[dead_letter]" DeadLetter {
        /// Where they are set aside. `postgres`: in the table `walpost.dead_letter` of the source database. `kafka`: in the compacted topic `topic`. Default:
        /// `kafka` with `checkpoint.store = "kafka"`, where letters are written in the transaction that carries the events; else `postgres`. It needs the
        /// sink `kafka`.
        store: Option<LetterStoreKind> = None, "\"kafka\"" | "\"postgres\"";
        /// The topic of the store `kafka`, which `walpost init` makes with one partition, and with as many replicas as the brokers give by default. Several
        /// relays may share it.
        topic: Text = Text::from("walpost.dead_letters"), "\"orders.dead_letters\"" | "\"walpost.dead_letters\"";
        /// A row that cannot become a record, or that the broker will never take. `park`: it is set aside, and so is every later event of its key
        /// until the letters of that key are sent or dropped, so that their order holds. `dead_letter`: later events of its key overtake it. `stop`:
        /// the relay stops in front of it.
        on_bad_row: OnBadRow = OnBadRow::Park, "\"stop\"" | "\"park\"";
        /// A topic that is missing or forbidden, or does not take the time of a commit as a timestamp. `hold`: everything waits until it is there and
        /// takes it. `dead_letter`: its rows are set aside as bad ones are.
        on_closed_route: OnClosedRoute = OnClosedRoute::Hold, "\"dead_letter\"" | "\"hold\"";
        /// What a letter keeps. `row`: all of its row. `reference`: the row's key in its table and a hash, and of the record all but the payload. The relay then
        /// reads the row from its table when it is sent again, and does not send one that is gone or was changed; so rows have to stay in the outbox
        /// until their letters have ended. Each outbox needs a primary key or another replica identity that is not the whole row, and SELECT on it.
        keep: Keep = Keep::Row, "\"reference\"" | "\"row\"";
        /// How many rows may lie there for a reason of their own, neither sent nor dropped. Beyond it the relay holds the stream instead of emptying
        /// it into the dead letters. Those that only wait for another one of their key do not count.
        flood_limit: u64 = 100, "1000" | "100";
        /// How many bytes of rows may lie there that only wait for another one of their key. Beyond it the relay holds the stream.
        parked_bytes: Size = Size::mib(256), "\"1GiB\"" | "\"256MiB\"";
        /// For how many days a letter is kept that was sent or dropped.
        keep_ended_days: u64 = 7, "30" | "7";
    }
}

section! {
    /// How much may be on its way to the sink; the relay's memory follows from it.
    "[limits]" Limits {
        /// Records that were handed to the sink and are not acknowledged.
        in_flight_records: u64 = 10_000, "500" | "10000";
        /// What they weigh together. One record that is larger still is sent alone.
        in_flight_bytes: Size = Size::mib(16), "\"64MiB\"" | "\"16MiB\"";
    }
}

section! {
    /// How long the relay waits before it tries again what failed. The wait doubles from try to try, with jitter, and there is no last try.
    "[retry]" Retry {
        /// The wait before the first new try.
        initial_ms: Millis = Millis(100), "1000" | "100";
        /// No wait is longer than this.
        max_ms: Millis = Millis(30_000), "60000" | "30000";
    }
}

section! {
    /// What happens on SIGTERM, SIGINT and SIGHUP. A second SIGTERM or SIGINT ends the relay at once.
    "[stop]" Stop {
        /// How long what is on its way may take to be delivered and checkpointed. Keep it below the grace period of whatever sends the signal
        /// (10 s with Docker).
        timeout_ms: Millis = Millis(8000), "2000" | "8000";
    }
}

section! {
    /// What can be asked of a running relay over HTTP: `/metrics` for Prometheus, `/livez` (restart it if not) and `/readyz` (look at it if not), each with a
    /// reason. There is no authentication, and topics are named.
    "[http]" Http {
        /// Where to listen: an IP address and a port, or `off`. Two relays on one machine need two ports. With port 0 the system chooses one, and the log says
        /// which.
        listen: Text = Text::from("127.0.0.1:9464"), "\"0.0.0.0:9465\"" | "\"off\"";
        /// How long something may be owed without moving before `/readyz` says so: records that the sink does not acknowledge, a checkpoint that is
        /// due, WAL that the server has and does not send. It is also how long a sink may be away that nothing is owed to.
        stalled_after_ms: Millis = Millis(10_000), "30000" | "10000";
    }
}

choice! {
    /// The form of log lines.
    pub enum LogFormat ("`\"text\"` or `\"json\"`") {
        /// For people.
        Text = "text",
        /// One JSON object a line, for collectors.
        Json = "json",
    }
}

section! {
    /// The log, on standard error. It never shows payloads or secrets.
    "[log]" Log {
        /// `text` for people, `json` for collectors: one object a line.
        format: LogFormat = LogFormat::Text, "\"json\"" | "\"text\"";
        /// `error`, `warn`, `info`, `debug` or `trace`; or directives such as `info,walpost_kafka=debug`. The variable `WALPOST_LOG` goes
        /// first. Other libraries' lines below `info` are never shown, for they may hold parameters.
        level: Text = Text::from("info"), "\"debug\"" | "\"info\"";
    }
}

/// The whole file.
pub(super) struct File {
    pub(super) relay: Relay,
    pub(super) source: Source,
    pub(super) outboxes: Vec<Outbox>,
    pub(super) checkpoint: Checkpoint,
    pub(super) sink: Sink,
    pub(super) dead_letter: DeadLetter,
    pub(super) limits: Limits,
    pub(super) retry: Retry,
    pub(super) stop: Stop,
    pub(super) http: Http,
    pub(super) log: Log,
}

impl File {
    const SECTIONS: [&'static str; 10] =
        ["source", "outbox", "checkpoint", "sink", "dead_letter", "limits", "retry", "stop", "http", "log"];

    /// Reads the syntax tree. Faults are noted in the reader; what is faulty has its default here.
    pub(super) fn read(root: &DeTable<'_>, reader: &mut Reader<'_>) -> Self {
        reader.refuse_unknown(root, "", &[Relay::names(), Self::SECTIONS.to_vec()].concat());
        macro_rules! one {
            ($section:ident, $name:literal) => {{
                let table = reader.section(root, $name);
                let place = header_place(root, $name, reader);
                if let Some(table) = table {
                    reader.refuse_unknown(table, $name, &$section::names());
                }
                $section::read(table, $name, place, reader)
            }};
        }
        Self {
            relay: Relay::read(Some(root), "", None, reader),
            source: one!(Source, "source"),
            outboxes: outboxes(root, reader),
            checkpoint: one!(Checkpoint, "checkpoint"),
            sink: one!(Sink, "sink"),
            dead_letter: one!(DeadLetter, "dead_letter"),
            limits: one!(Limits, "limits"),
            retry: one!(Retry, "retry"),
            stop: one!(Stop, "stop"),
            http: one!(Http, "http"),
            log: one!(Log, "log"),
        }
    }
}

fn outboxes(root: &DeTable<'_>, reader: &mut Reader<'_>) -> Vec<Outbox> {
    let sections = reader.sections(root, "outbox");
    let mut outboxes = Vec::new();
    for (index, (table, place)) in sections.into_iter().enumerate() {
        let at = format!("outbox[{index}]");
        reader.refuse_unknown(table, &at, &Outbox::names());
        outboxes.push(Outbox::read(Some(table), &at, place, reader));
    }
    outboxes
}

fn header_place(root: &DeTable<'_>, name: &str, reader: &Reader<'_>) -> Option<Place> {
    let (_, value): (_, &Spanned<DeValue<'_>>) = root.iter().find(|(key, _)| key.get_ref() == name)?;
    reader.place(value)
}

/// Every section with every key, in the order of the manual.
#[must_use]
pub fn manual() -> Vec<Section> {
    vec![
        Relay::manual(),
        Source::manual(),
        Outbox::manual(),
        Checkpoint::manual(),
        Sink::manual(),
        DeadLetter::manual(),
        Limits::manual(),
        Retry::manual(),
        Stop::manual(),
        Http::manual(),
        Log::manual(),
    ]
}

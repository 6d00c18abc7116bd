//! What most tests stand on: a database with outbox tables, topics, and the relay between the two.
//!
//! Databases, slots, publications and topics belong to one test each, so that all of them share one PostgreSQL and one Kafka. What
//! a test stops or freezes is its own: a PostgreSQL that it starts, or a [`breakable_kafka`], which one test has at a time.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::sync::{LazyLock, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use walpost_testkit::checker::{Repeats, Truth, Verdict, check};
use walpost_testkit::consumer::Consumer;
use walpost_testkit::proxy::Proxy;
use walpost_testkit::relay::{Config, Ended, Relay, Walpost};
use walpost_testkit::servers::{
    Database, Kafka, KafkaEndpoint, PostgresEndpoint, shared_kafka, shared_postgres, wait_until,
};
use walpost_testkit::workload::{Outbox, Workload};

/// Longer than anything may take on a busy machine that is in order.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// Partitions of each topic.
pub(crate) const PARTITIONS: i32 = 3;

/// The program under test: the one that was built beside the tests, unless `WALPOST_BINARY` names another, such as one that is to be
/// released.
pub(crate) static WALPOST: LazyLock<String> =
    LazyLock::new(|| std::env::var("WALPOST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_walpost").to_owned()));

/// Waits for a condition; a test that waits in vain fails with its name.
#[track_caller]
pub(crate) fn eventually(what: &str, condition: impl FnMut() -> bool) {
    wait_until(what, LIMIT, condition).unwrap();
}

/// Lets time pass, where time itself is what is tested.
pub(crate) fn let_pass(duration: Duration) {
    let since = Instant::now();
    eventually("time to pass", || since.elapsed() >= duration);
}

/// Does something while another session holds a lock, as `LOCK TABLE x` takes it: for as long as it takes, and no longer.
pub(crate) fn while_locked<T>(database: &Database, lock: &str, work: impl FnOnce() -> T) -> T {
    const HOLDERS: &str = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'";
    struct Release<'a>(&'a Database);
    impl Drop for Release<'_> {
        fn drop(&mut self) {
            let _ = self.0.psql(&format!("SELECT pg_terminate_backend(pid) {HOLDERS}"));
        }
    }
    std::thread::scope(|scope| {
        // It ends with an error, for its session is terminated.
        scope.spawn(|| database.psql(&format!("BEGIN; {lock}; SELECT pg_sleep(600)")));
        let _release = Release(database);
        eventually("the lock", || database.value(&format!("SELECT count(*) {HOLDERS}")).unwrap() == "1");
        work()
    })
}

/// A broker that a test may freeze and kill, and the network between it and relays, which it may cut. Whoever has it has started it.
pub(crate) struct BreakableKafka(Option<(Kafka, Proxy)>);

/// Longer than a few tests may have it, one after the other.
const BREAKS: Duration = Duration::from_secs(1800);

const HANDED_OUT: &str = "it was started when it was handed out";

impl BreakableKafka {
    /// The network, for relays that reach it by [`Rig::reach_kafka_by_network`].
    pub(crate) fn network(&self) -> &Proxy {
        &self.0.as_ref().expect(HANDED_OUT).1
    }

    /// Starts it; a test that failed may have left it frozen, dead or cut off.
    fn mend(&mut self) {
        let (broker, network) = self.0.get_or_insert_with(|| {
            let network = Proxy::to_port(0).unwrap();
            (Kafka::builder().proxied_by(network.port()).start().unwrap(), network)
        });
        broker.sigcont().unwrap();
        broker.start_again().unwrap();
        network.set_upstream((Ipv4Addr::LOCALHOST, broker.proxied_port().unwrap()).into());
        network.pass();
    }
}

impl Deref for BreakableKafka {
    type Target = Kafka;

    fn deref(&self) -> &Kafka {
        &self.0.as_ref().expect(HANDED_OUT).0
    }
}

impl DerefMut for BreakableKafka {
    fn deref_mut(&mut self) -> &mut Kafka {
        &mut self.0.as_mut().expect(HANDED_OUT).0
    }
}

/// A broker to break, for one test at a time. Whoever gets it finds it running. There are three, so that three tests beside each other that break one
/// need not wait; each is started when it is wanted.
pub(crate) fn breakable_kafka() -> MutexGuard<'static, BreakableKafka> {
    static BROKERS: [Mutex<BreakableKafka>; 3] = [const { Mutex::new(BreakableKafka(None)) }; 3];
    let mut free = None;
    let wait = wait_until("a broker to break", BREAKS, || {
        free = BROKERS.iter().find_map(|broker| match broker.try_lock() {
            Ok(broker) => Some(broker),
            Err(TryLockError::Poisoned(broker)) => Some(broker.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        });
        free.is_some()
    });
    let mut broker = free.unwrap_or_else(|| panic!("{wait:?}"));
    broker.mend();
    broker
}

/// See the module's documentation.
pub(crate) struct Rig {
    pub(crate) database: Database,
    pub(crate) outboxes: Vec<Outbox>,
    pub(crate) walpost: Walpost,
    config: Config,
    kafka: KafkaEndpoint,
}

impl Rig {
    /// On the shared servers, with tables of the reference form by these names, and prepared by `walpost init`.
    pub(crate) fn ready(label: &str, tables: &[&str]) -> Self {
        Self::ready_on(shared_postgres(), shared_kafka(), label, tables)
    }

    /// As [`Rig::ready`], on other servers.
    pub(crate) fn ready_on(postgres: &PostgresEndpoint, kafka: &KafkaEndpoint, label: &str, tables: &[&str]) -> Self {
        let rig = Self::with_tables_on(postgres, kafka, label, tables);
        rig.init();
        rig
    }

    /// As [`Rig::ready`], but not prepared.
    pub(crate) fn with_tables(label: &str, tables: &[&str]) -> Self {
        Self::with_tables_on(shared_postgres(), shared_kafka(), label, tables)
    }

    /// As [`Rig::ready_on`], but not prepared.
    pub(crate) fn with_tables_on(
        postgres: &PostgresEndpoint,
        kafka: &KafkaEndpoint,
        label: &str,
        tables: &[&str],
    ) -> Self {
        let mut rig = Self::empty_on(postgres, kafka, label);
        for table in tables {
            rig.add_outbox(table, &[]);
        }
        rig.workload().create().unwrap();
        rig
    }

    /// An empty database on the shared servers, and a relay that is told of no outbox yet.
    pub(crate) fn empty(label: &str) -> Self {
        Self::empty_on(shared_postgres(), shared_kafka(), label)
    }

    /// As [`Rig::empty`], on other servers.
    pub(crate) fn empty_on(postgres: &PostgresEndpoint, kafka: &KafkaEndpoint, label: &str) -> Self {
        Self::empty_in(postgres.fresh_database(label).unwrap(), kafka)
    }

    /// As [`Rig::empty_on`], in a database that is there.
    pub(crate) fn empty_in(database: Database, kafka: &KafkaEndpoint) -> Self {
        let config = Config::new(&database.url(), database.name())
            .kafka(kafka.bootstrap())
            .set("retry", "max_ms", "1000")
            .set("log", "level", r#""debug""#);
        let walpost = Walpost::new(&*WALPOST, &config).unwrap();
        Self { database, outboxes: Vec::new(), walpost, config, kafka: kafka.clone() }
    }

    /// The name of a topic of this test.
    pub(crate) fn topic(&self, name: &str) -> String {
        format!("{}.{name}", self.database.name())
    }

    /// Tells the relay of a table of the reference form, with options of its router, and makes its topics.
    pub(crate) fn add_outbox(&mut self, table: &str, router: &[(&str, &str)]) {
        let outbox = Outbox::new(table, &self.topic(&self.outboxes.len().to_string()));
        for topic in outbox.topics() {
            self.kafka.create_topic(&topic, PARTITIONS).unwrap();
        }
        let route = outbox.route();
        let options = [&[("route.topic.replacement", route.as_str())], router].concat();
        self.configure(|config| config.outbox(table, &options));
        self.outboxes.push(outbox);
    }

    /// Has the topics of the tables of the reference form take records of so many bytes at most.
    #[track_caller]
    pub(crate) fn limit_records(&self, bytes: u32) {
        for topic in self.outboxes.iter().flat_map(Outbox::topics) {
            self.kafka.configure_topic(&topic, &[("max.message.bytes", &bytes.to_string())]).unwrap();
        }
    }

    /// Tells the relay of any table, whose rows all go to one topic, which is made and returned.
    pub(crate) fn add_table(&mut self, table: &str, topic: &str, router: &[(&str, &str)]) -> String {
        let topic = self.topic(topic);
        self.kafka.create_topic(&topic, PARTITIONS).unwrap();
        let options = [&[("route.topic.replacement", topic.as_str())], router].concat();
        self.configure(|config| config.outbox(table, &options));
        topic
    }

    /// Changes the configuration, for what is started from now on.
    pub(crate) fn configure(&mut self, change: impl FnOnce(Config) -> Config) {
        self.config = change(self.config.clone());
        self.walpost.configure(&self.config).unwrap();
    }

    /// Has the relay stop in front of a bad row.
    pub(crate) fn stop_at_bad_rows(&mut self) {
        self.configure(|config| config.set("dead_letter", "on_bad_row", r#""stop""#));
    }

    /// Has the relay keep checkpoint and letters in topics of its own, and publish by transactions.
    pub(crate) fn keep_all_in_kafka(&mut self) {
        let [checkpoints, letters] = ["checkpoint", "letters"].map(|name| format!("{name}-{}", self.database.name()));
        self.configure(|config| {
            config.set("checkpoint", "store", r#""kafka""#).set("checkpoint", "topic", &format!("{checkpoints:?}")).set(
                "dead_letter",
                "topic",
                &format!("{letters:?}"),
            )
        });
    }

    /// Has the relay reach PostgreSQL at another address.
    pub(crate) fn reach_by_port(&mut self, port: u16) {
        let url = format!("postgres://postgres@127.0.0.1:{port}/{}", self.database.name());
        self.configure(|config| config.set("source", "url", &format!("{url:?}")));
    }

    /// Has the relay reach a broker by its network.
    pub(crate) fn reach_kafka_by_network(&mut self, kafka: &BreakableKafka) {
        self.configure(|config| config.kafka(&kafka.network().address().to_string()));
    }

    /// Runs `walpost init`, which has to succeed.
    #[track_caller]
    pub(crate) fn init(&self) {
        self.call(&["init"]).assert_success();
    }

    /// Runs a command that ends by itself.
    #[track_caller]
    pub(crate) fn call(&self, arguments: &[&str]) -> Ended {
        self.walpost.call(arguments).unwrap()
    }

    /// Runs `walpost status` with these arguments where it finds this relay.
    #[track_caller]
    pub(crate) fn status_of(&self, relay: &Relay, arguments: &[&str]) -> Ended {
        let address = relay.http_address(LIMIT).unwrap();
        let theirs = self.config.clone().set("http", "listen", &format!("\"{address}\""));
        self.walpost.configure(&theirs).unwrap();
        let ended = self.call(&[&["status"], arguments].concat());
        // Relays that are started from now on choose their own.
        self.walpost.configure(&self.config).unwrap();
        ended
    }

    /// Starts `walpost run`.
    #[track_caller]
    pub(crate) fn start(&self) -> Relay {
        self.walpost.start().unwrap()
    }

    /// Starts `walpost run` and waits until it reads the slot.
    #[track_caller]
    pub(crate) fn start_streaming(&self) -> Relay {
        let relay = self.start();
        eventually("the relay to stream", || self.walsender().is_some() || !relay.is_running());
        assert!(relay.is_running(), "the relay ended:\n{}", relay.log());
        relay
    }

    /// Writers into the tables of the reference form.
    pub(crate) fn workload(&self) -> Workload {
        Workload::new(&self.database.url(), &self.outboxes)
    }

    /// Runs SQL.
    #[track_caller]
    pub(crate) fn sql(&self, script: &str) -> Vec<Vec<String>> {
        self.database.psql(script).unwrap()
    }

    /// The first cell of a result.
    #[track_caller]
    pub(crate) fn value(&self, query: &str) -> String {
        self.database.value(query).unwrap()
    }

    /// Inserts rows of one key into the first table in one transaction. `from` is the first number of the key's sequence.
    #[track_caller]
    pub(crate) fn insert(&self, key: &str, from: i64, count: i64) {
        let table = self.outboxes[0].table();
        self.sql(&format!(
            "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload, seq) \
             SELECT gen_random_uuid(), 'order', '{key}', 'Changed', jsonb_build_object('seq', seq), seq \
             FROM generate_series({from}, {}) AS seq",
            from + count - 1
        ));
    }

    /// A column of our slot; empty where it is NULL.
    #[track_caller]
    pub(crate) fn slot(&self, column: &str) -> String {
        let name = self.database.name();
        self.value(&format!("SELECT {column} FROM pg_replication_slots WHERE slot_name = '{name}'"))
    }

    /// The process that reads our slot.
    pub(crate) fn walsender(&self) -> Option<u32> {
        let name = self.database.name();
        let query = format!("SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{name}'");
        self.database.value(&query).ok().and_then(|pid| pid.parse().ok())
    }

    /// Waits until everything that is committed by now was sent to the relay.
    #[track_caller]
    pub(crate) fn wait_until_sent(&self) {
        let lsn = self.value("SELECT pg_current_wal_flush_lsn()");
        let name = self.database.name();
        let query = format!(
            "SELECT bool_or(sent_lsn >= '{lsn}') FROM pg_stat_replication JOIN pg_replication_slots \
             ON active_pid = pid WHERE slot_name = '{name}'"
        );
        eventually("the log to be sent to the relay", || self.value(&query) == "t");
    }

    /// A reader of all topics of this test.
    pub(crate) fn consumer(&self) -> Consumer {
        Consumer::of_prefix(self.kafka.bootstrap(), &self.topic("")).unwrap()
    }

    /// The ids of all committed rows in the tables of the reference form.
    pub(crate) fn committed(&self) -> BTreeSet<String> {
        let ids = self.outboxes.iter().flat_map(|outbox| self.sql(&format!("SELECT id FROM {}", outbox.table())));
        ids.flatten().collect()
    }

    /// What has to have arrived from the tables of the reference form.
    pub(crate) fn truth(&self) -> Truth {
        self.with_partitions(self.truth_of_lines())
    }

    /// What has to stand in the lines of the `stdout` sink, which knows no partitions.
    pub(crate) fn truth_of_lines(&self) -> Truth {
        let mut truth = Truth::new();
        for outbox in &self.outboxes {
            truth.extend(&self.database.url(), &outbox.truth()).unwrap();
        }
        truth
    }

    /// Tells the truth of the topics' partitions.
    pub(crate) fn with_partitions(&self, truth: Truth) -> Truth {
        let topics: BTreeSet<String> = truth.rows().map(|row| row.topic.clone()).collect();
        topics.iter().fold(truth, |truth, topic| truth.with_partitions(topic, PARTITIONS))
    }

    /// Waits until everything has arrived that has to, reads on to the end, and compares.
    pub(crate) fn verdict(&self, truth: &Truth) -> Verdict {
        let mut consumer = self.consumer();
        let ids = truth.rows().map(|row| row.id.clone()).collect();
        // What has not come by then is reported by the checker, in better words.
        let _ = consumer.read_ids(&ids, LIMIT);
        check(truth, consumer.read_to_end(LIMIT).unwrap())
    }

    /// Fails unless a relay that starts now delivers everything but the rows of the key `lost`, which were given up.
    #[track_caller]
    pub(crate) fn assert_goes_on_after_the_gap(&self) {
        let relay = self.start_streaming();
        self.insert("found", 0, 10);
        let accepted = format!("{} WHERE aggregateid <> 'lost'", self.outboxes[0].truth());
        let truth = self.with_partitions(Truth::read(&self.database.url(), &accepted).unwrap());
        self.verdict(&truth).assert_clean(Repeats::Forbidden);
        relay.stop(LIMIT).unwrap().assert_success();
    }

    /// Fails unless everything in the tables of the reference form arrives and nothing else.
    #[track_caller]
    pub(crate) fn assert_delivered(&self, repeats: Repeats) -> Verdict {
        let truth = self.truth();
        assert!(!truth.is_empty(), "nothing was committed, so nothing was tested");
        let verdict = self.verdict(&truth);
        verdict.assert_clean(repeats);
        verdict
    }
}

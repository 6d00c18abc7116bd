//! What comes of a connector of Debezium: its configuration, and how far it got.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use bytes::Bytes;
use walpost::debezium::page;
use walpost_core::lsn::Lsn;
use walpost_core::port::{Sink as _, Ticket};
use walpost_core::position::{Identity, Timeline};
use walpost_core::record::{Headers, Record};
use walpost_kafka::{Limits, Settings};
use walpost_testkit::neighbour::OpenTransaction;
use walpost_testkit::servers::shared_kafka;

use crate::config::Folder;
use crate::rig::{LIMIT, Rig, WALPOST, eventually};

fn import(arguments: &[&str]) -> Output {
    let mut command = Command::new(&*WALPOST);
    command.args(["import", "debezium"]).args(arguments).env_remove("PGPASSWORD").stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn the_page_about_debezium_is_not_stale() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/debezium.md");
    let committed = std::fs::read_to_string(page).unwrap();
    let stale = committed.lines().zip(page::render().lines()).position(|(old, new)| old != new);
    assert!(
        committed == page::render(),
        "docs/debezium.md is stale from line {:?} on; run: cargo run -- config debezium > docs/debezium.md",
        stale.map(|line| line + 1)
    );
}

const CONNECTOR: &str = r#"{"name":"orders","config":{"connector.class":"io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname":"127.0.0.1","database.port":"1","database.user":"u","database.dbname":"app","topic.prefix":"app",
    "plugin.name":"pgoutput","table.include.list":"public.outbox","transforms":"outbox",
    "transforms.outbox.type":"io.debezium.transforms.outbox.EventRouter","key.converter":"StringConverter",
    "value.converter":"StringConverter","producer.override.bootstrap.servers":"127.0.0.1:1"}}"#;

#[test]
fn what_is_imported_is_a_good_configuration_and_no_file_is_overwritten() {
    let folder = Folder::new();
    let connector = folder.write("orders.json", CONNECTOR);
    let printed = import(&[&connector]);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let config = folder.write("walpost.toml", text(&printed.stdout));
    let checked = Command::new(&*WALPOST).args(["config", "check", "-c", &config]).output().unwrap();
    assert!(checked.status.success(), "{}\n{}", text(&checked.stderr), text(&printed.stdout));

    let into = folder.path().join("made");
    let into = into.to_str().unwrap();
    let written = import(&[&connector, "-o", into]);
    assert_eq!(text(&written.stdout).trim(), format!("{into}/orders.toml"));
    assert_eq!(std::fs::read(format!("{into}/orders.toml")).unwrap(), printed.stdout);
    let again = import(&[&connector, "-o", into]);
    assert_eq!(again.status.code(), Some(3));
    assert!(text(&again.stderr).contains("orders.toml cannot be written"), "{}", text(&again.stderr));
}

#[test]
fn several_connectors_are_files_in_a_folder_and_never_one_on_standard_output() {
    let folder = Folder::new();
    let orders = folder.write("orders.json", CONNECTOR);
    let invoices = folder.write("invoices.json", &CONNECTOR.replace("orders", "invoices"));
    let refused = import(&[&orders, &invoices]);
    assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(2), ""));
    assert!(text(&refused.stderr).contains("-o DIR"), "{}", text(&refused.stderr));
    let into = folder.path().join("made");
    let into = into.to_str().unwrap();
    let written = import(&[&orders, &invoices, "-o", into]);
    assert_eq!(text(&written.stdout), format!("{into}/orders.toml\n{into}/invoices.toml\n"));
}

#[test]
fn what_somebody_has_to_decide_is_a_line_that_keeps_the_relay_from_running() {
    let folder = Folder::new();
    let avro = CONNECTOR.replace(
        r#""value.converter":"StringConverter""#,
        r#""value.converter":"io.confluent.connect.avro.AvroConverter""#,
    );
    let connector = folder.write("orders.json", &avro);
    let printed = import(&[&connector]);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let config = folder.write("walpost.toml", text(&printed.stdout));
    for arguments in [["config", "check", "-c", &config].as_slice(), &["run", "-c", &config]] {
        let refused = Command::new(&*WALPOST).args(arguments).output().unwrap();
        assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stdout));
        assert!(text(&refused.stderr).contains("\"value.converter\": \"io.confluent"), "{}", text(&refused.stderr));
    }
    let decided =
        text(&printed.stdout).replace("\"value.converter\" = \"io.confluent.connect.avro.AvroConverter\"\n", "");
    let config = folder.write("walpost.toml", &decided);
    let checked = Command::new(&*WALPOST).args(["config", "check", "-c", &config]).output().unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

#[test]
fn a_properties_file_in_iso_8859_1_is_read() {
    let folder = Folder::new();
    let path = folder.path().join("worker.properties");
    std::fs::write(
        &path,
        b"connector.class=PostgresConnector\ntable.include.list=public.outbox\ntransforms=o\ntopic.prefix=p\n\
        transforms.o.type=io.debezium.transforms.outbox.EventRouter\ndatabase.dbname=gr\xf6\xdfe\n",
    )
    .unwrap();
    let printed = import(&[path.to_str().unwrap()]);
    assert!(text(&printed.stdout).contains("/gr%C3%B6%C3%9Fe\""), "{}{}", text(&printed.stdout), text(&printed.stderr));
}

#[test]
fn what_cannot_be_imported_is_told() {
    let folder = Folder::new();
    let mysql = folder.write("mysql.json", r#"{"connector.class":"io.debezium.connector.mysql.MySqlConnector"}"#);
    let yaml = folder.write("connector.yaml", "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\n");
    let large = folder.write("large.properties", &"#".repeat(16 << 20));
    for (arguments, words) in [
        (vec![large.as_str()], ["large.properties", "bytes or more"]),
        (vec!["/dev/zero"], ["/dev/zero", "bytes or more"]),
        (vec![mysql.as_str()], ["MySqlConnector", "nothing to import"]),
        (vec![yaml.as_str()], ["YAML", "jq .spec.config"]),
        (vec!["/none.json"], ["/none.json", "cannot be read"]),
    ] {
        let refused = import(&arguments);
        assert_eq!(refused.status.code(), Some(3), "{arguments:?}");
        for word in words {
            assert!(text(&refused.stderr).contains(word), "{word}: {}", text(&refused.stderr));
        }
    }
    assert_eq!(import(&["x.json", "--checkpoint", "--offsets", "y"]).status.code(), Some(2));
}

/// The connector whose slot the rig's relay has, and the file of its offsets.
struct Handover {
    rig: Rig,
    folder: Folder,
    connector: String,
}

/// An inserted row of the log: where it begins, and its id.
struct Logged {
    lsn: u64,
    id: String,
}

impl Handover {
    fn new(label: &str) -> Self {
        let rig = Rig::ready(label, &["public.outbox"]);
        let url = rig.database.url();
        let authority = url.split_once("://").unwrap().1.split(['/', '?']).next().unwrap().to_owned();
        let (user, address) = authority.rsplit_once('@').unwrap();
        let (host, port) = address.rsplit_once(':').unwrap();
        let user = user.split(':').next().unwrap();
        let name = rig.database.name().to_owned();
        let folder = Folder::new();
        let json = format!(
            r#"{{"name":"orders","config":{{"connector.class":"PostgresConnector","database.hostname":"{host}","database.port":"{port}",
                "database.user":"{user}","database.dbname":"{name}","topic.prefix":"app","plugin.name":"pgoutput","slot.name":"{name}",
                "publication.name":"{name}","table.include.list":"public.outbox","transforms":"outbox",
                "transforms.outbox.type":"io.debezium.transforms.outbox.EventRouter","key.converter":"StringConverter",
                "value.converter":"StringConverter","producer.override.bootstrap.servers":"{}"}}}}"#,
            shared_kafka().bootstrap()
        );
        let connector = folder.write("orders.json", &json);
        Self { rig, folder, connector }
    }

    fn number(&self, lsn: &str) -> u64 {
        self.rig.value(&format!("SELECT '{lsn}'::pg_lsn - '0/0'::pg_lsn")).parse().unwrap()
    }

    /// What lies after the slot's position, in the order in which it is sent.
    fn logged(&self) -> Vec<Logged> {
        let name = self.rig.database.name();
        let ids = self.rig.sql("SELECT id FROM public.outbox ORDER BY seq");
        let lsns = self.rig.sql(&format!(
            "SELECT lsn - '0/0'::pg_lsn FROM pg_logical_slot_peek_binary_changes('{name}', NULL, NULL, 'proto_version', '1', \
             'publication_names', '\"{name}\"') WHERE get_byte(data, 0) = ascii('I')"
        ));
        assert_eq!(ids.len(), lsns.len());
        let logged = lsns.iter().zip(&ids);
        logged.map(|(lsn, id)| Logged { lsn: lsn[0].parse().unwrap(), id: id[0].clone() }).collect()
    }

    /// Has the offset imported that a record at this row would have.
    fn take_over(&self, lsn_proc: u64) -> Output {
        self.take_over_into(&[], lsn_proc)
    }

    /// The same with more options.
    fn take_over_into(&self, options: &[&str], lsn_proc: u64) -> Output {
        let commit = self.number(&self.rig.slot("confirmed_flush_lsn"));
        let value = format!(
            r#"{{"lsn_proc":{lsn_proc},"messageType":"INSERT","lsn_commit":{commit},"lsn":{lsn_proc},"txId":7,"ts_usec":1}}"#
        );
        let path = self.folder.path().join("offsets.dat");
        std::fs::write(&path, serialised(br#"["orders",{"server":"app"}]"#, value.as_bytes())).unwrap();
        import(&[&[&self.connector, "--offsets", path.to_str().unwrap()], options].concat())
    }

    /// Publishes what is owed by now, and tells the ids that arrived.
    fn published(&self) -> Vec<String> {
        let until = self.rig.value("SELECT pg_current_wal_flush_lsn()");
        self.rig.call(&["run", "--until", &until]).assert_success();
        let mut consumer = self.rig.consumer();
        let arrived = consumer.read_to_end(LIMIT).unwrap();
        arrived.iter().filter_map(|record| record.id().map(str::to_owned)).collect()
    }
}

/// A `HashMap<byte[], byte[]>` of one pair as Java serialises it.
fn serialised(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = b"\xAC\xED\0\x05sr\0\x11java.util.HashMap\x05\x07\xDA\xC1\xC3\x16\x60\xD1\x03\0\x02F\0\nloadFactorI\0\tthreshold".to_vec();
    bytes.extend(
        b"xp\x3F\x40\0\0\0\0\0\x0Cw\x08\0\0\0\x10\0\0\0\x01ur\0\x02[B\xAC\xF3\x17\xF8\x06\x08\x54\xE0\x02\0\0xp",
    );
    bytes.extend(u32::try_from(key.len()).unwrap().to_be_bytes());
    bytes.extend(key);
    bytes.extend(b"uq\0\x7E\0\x02");
    bytes.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
    bytes.extend(value);
    bytes.push(b'x');
    bytes
}

#[test]
fn after_an_offset_at_the_end_of_a_transaction_nothing_is_published_again_and_nothing_is_lost() {
    let handover = Handover::new("handed_over");
    handover.rig.insert("key", 0, 3);
    handover.rig.insert("key", 3, 2);
    let logged = handover.logged();
    let taken = handover.take_over(logged[2].lsn);
    assert!(taken.status.success() && text(&taken.stderr).contains("nothing is lost"), "{}", text(&taken.stderr));
    let owed: Vec<_> = logged[3..].iter().map(|row| row.id.clone()).collect();
    assert_eq!(handover.published(), owed);
}

#[test]
fn a_position_is_taken_over_into_the_configuration_as_it_was_edited() {
    let handover = Handover::new("handed_edited");
    handover.rig.insert("key", 0, 2);
    let made = import(&[&handover.connector]);
    let checkpoint = handover.folder.path().join("checkpoint");
    let edited =
        format!("{}\n[checkpoint]\nstore = \"file\"\npath = \"{}\"\n", text(&made.stdout), checkpoint.display());
    let config = handover.folder.write("walpost.toml", &edited);
    let taken = handover.take_over_into(&["-c", &config], handover.logged()[1].lsn);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert_eq!(text(&taken.stdout), "", "the configuration is there already");
    assert!(text(&taken.stderr).contains(checkpoint.to_str().unwrap()), "{}", text(&taken.stderr));
    assert!(checkpoint.exists());
}

#[test]
fn after_an_offset_within_a_transaction_its_rest_is_published_and_nothing_else_again() {
    let handover = Handover::new("handed_within");
    handover.rig.insert("key", 0, 5);
    handover.rig.insert("key", 5, 1);
    let logged = handover.logged();
    let taken = handover.take_over(logged[1].lsn);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert!(
        text(&taken.stderr).contains("first 2 rows are published and the last 3 are not"),
        "{}",
        text(&taken.stderr)
    );
    let owed: Vec<_> = logged[2..].iter().map(|row| row.id.clone()).collect();
    assert_eq!(handover.published(), owed);
    let mark =
        handover.rig.value("SELECT settled_commit_lsn IS NULL AND settled_through IS NULL FROM walpost.checkpoint");
    assert_eq!(mark, "t", "the transaction is behind us");
}

#[test]
fn rows_of_a_copy_that_share_an_lsn_are_published_again_rather_than_lost() {
    let handover = Handover::new("handed_copy");
    let rows: String = (0..6)
        .map(|seq| format!("00000000-0000-4000-8000-00000000000{seq}\torder\tkey\tChanged\t{{}}\t{seq}\n"))
        .collect();
    let columns = "id, aggregatetype, aggregateid, type, payload, seq";
    handover.rig.sql(&format!("COPY public.outbox ({columns}) FROM STDIN;\n{rows}\\.\n"));
    let logged = handover.logged();
    assert_eq!(logged[0].lsn, logged[5].lsn, "they share it");
    let taken = handover.take_over(logged[0].lsn);
    assert!(taken.status.success() && text(&taken.stderr).contains("share the LSN"), "{}", text(&taken.stderr));
    assert_eq!(handover.published().len(), 6);
}

#[test]
fn a_slot_that_is_read_or_confirmed_beyond_the_offset_is_not_taken_over() {
    let handover = Handover::new("handed_busy");
    let rig = &handover.rig;
    rig.insert("key", 0, 2);
    let logged = handover.logged();
    let relay = rig.start_streaming();
    for taken in [import(&[&handover.connector, "--checkpoint"]), handover.take_over(logged[0].lsn)] {
        assert_eq!(taken.status.code(), Some(22), "{}", text(&taken.stderr));
        assert!(text(&taken.stderr).contains("still runs"), "{}", text(&taken.stderr));
    }
    relay.stop(LIMIT).unwrap().assert_success();
    let before = rig.slot("confirmed_flush_lsn");
    let path = handover.folder.path().join("old.dat");
    std::fs::write(&path, serialised(br#"["orders",{"server":"app"}]"#, br#"{"lsn_commit":1,"lsn_proc":1}"#)).unwrap();
    let taken = import(&[&handover.connector, "--offsets", path.to_str().unwrap()]);
    assert_eq!(taken.status.code(), Some(24), "{}", text(&taken.stderr));
    assert!(text(&taken.stderr).contains("--checkpoint"), "{}", text(&taken.stderr));
    let taken = import(&[&handover.connector, "--checkpoint"]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert_eq!(rig.value("SELECT position FROM walpost.checkpoint"), before);
    assert_eq!(rig.slot("confirmed_flush_lsn"), before, "nothing was confirmed");
}

#[test]
fn a_slot_that_the_connector_moved_on_since_init_is_taken_over() {
    let handover = Handover::new("handed_moved");
    let rig = &handover.rig;
    rig.insert("key", 0, 2);
    // As a connector that publishes and confirms.
    let slot = rig.value("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()");
    rig.sql(&format!("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_flush_lsn())"));
    let confirmed = rig.slot("confirmed_flush_lsn");
    assert_ne!(rig.value("SELECT position FROM walpost.checkpoint"), confirmed, "init's own lies before it");
    let taken = import(&[&handover.connector, "--checkpoint"]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert_eq!(rig.value("SELECT position FROM walpost.checkpoint"), confirmed);
}

#[test]
fn an_offset_beyond_the_servers_log_is_not_taken_over() {
    let handover = Handover::new("handed_future");
    let before = handover.rig.value("SELECT position FROM walpost.checkpoint");
    let path = handover.folder.path().join("future.dat");
    let path = path.to_str().unwrap();
    for value in [r#"{"lsn_commit":9000000000000000000}"#, r#"{"lsn_commit":-1,"lsn_proc":-1,"messageType":"INSERT"}"#]
    {
        std::fs::write(path, serialised(br#"["orders",{"server":"app"}]"#, value.as_bytes())).unwrap();
        let taken = import(&[&handover.connector, "--offsets", path]);
        assert_eq!(taken.status.code(), Some(30), "{}", text(&taken.stderr));
        assert!(text(&taken.stderr).contains("another server"), "{}", text(&taken.stderr));
    }
    assert_eq!(handover.rig.value("SELECT position FROM walpost.checkpoint"), before);
}

#[test]
fn a_checkpoint_table_of_an_earlier_walpost_is_read_and_then_completed_by_init() {
    let rig = Rig::ready("former_table", &["public.outbox"]);
    rig.sql("ALTER TABLE walpost.checkpoint DROP COLUMN settled_commit_lsn, DROP COLUMN settled_through");
    let position = rig.value("SELECT position FROM walpost.checkpoint");
    let shown = rig.call(&["checkpoint", "show"]);
    shown.assert_success();
    assert!(shown.output.contains(&position), "{}", shown.output);
    let refused = rig.call(&["run", "--until", "0/1"]);
    assert!(!refused.status.success() && refused.log.contains("walpost init"), "{}", refused.log);
    rig.init();
    assert_eq!(rig.value("SELECT position FROM walpost.checkpoint"), position, "it is the old checkpoint");
    rig.insert("key", 0, 2);
    let until = rig.value("SELECT pg_current_wal_flush_lsn()");
    rig.call(&["run", "--until", &until]).assert_success();
    assert!(rig.call(&["init", "--dry-run"]).output.contains("everything is there already"));
}

#[test]
fn a_takeover_within_a_transaction_outlives_a_kill_another_takeover_and_a_copy() {
    let mut handover = Handover::new("handed_killed");
    let rig = &handover.rig;
    rig.insert("key", 0, 5);
    let logged = handover.logged();
    let mark = |rig: &Rig| {
        rig.value("SELECT settled_through - '0/0'::pg_lsn FROM walpost.checkpoint").parse::<u64>().unwrap_or_default()
    };
    for row in [0, 2] {
        let taken = handover.take_over(logged[row].lsn);
        assert!(taken.status.success(), "{}", text(&taken.stderr));
        assert_eq!(mark(rig), logged[row].lsn);
    }
    // A relay that claims, and is killed before the first row is delivered: there is no broker.
    let broker = shared_kafka().bootstrap().to_owned();
    handover.rig.configure(|config| config.kafka("127.0.0.1:1"));
    let rig = &handover.rig;
    let epoch = rig.value("SELECT epoch FROM walpost.checkpoint");
    let relay = rig.start_streaming();
    eventually("the relay to claim", || rig.value("SELECT epoch FROM walpost.checkpoint") != epoch);
    relay.kill9().unwrap();
    handover.rig.configure(|config| config.kafka(&broker));
    let rig = &handover.rig;
    assert_eq!(mark(rig), logged[2].lsn);

    let file = format!("file:{}", handover.folder.path().join("checkpoint").display());
    rig.call(&["checkpoint", "copy", "--to", &file]).assert_success();
    let shown = rig.call(&["checkpoint", "show"]);
    shown.assert_said(0, &[]);
    assert!(shown.output.contains("are settled"), "{}", shown.output);
    let path = format!("{:?}", file.trim_start_matches("file:"));
    handover.rig.configure(|config| config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &path));
    handover.rig.call(&["checkpoint", "copy", "--to", "postgres"]).assert_success();
    handover.rig.configure(|config| config.unset("checkpoint", "path").set("checkpoint", "store", r#""postgres""#));
    assert_eq!(mark(&handover.rig), logged[2].lsn, "there and back");
    let owed: Vec<_> = logged[3..].iter().map(|row| row.id.clone()).collect();
    assert_eq!(handover.published(), owed);
}

#[test]
fn an_offset_is_not_taken_over_while_an_open_transaction_may_hide_a_newer_one() {
    let handover = Handover::new("handed_hidden");
    let rig = &handover.rig;
    let (topic, id) = (format!("offsets-{}", rig.database.name()), format!("worker-{}", rig.database.name()));
    shared_kafka().create_topic_with(&topic, 2, &[("cleanup.policy", "compact")]).unwrap();
    let confirmed = handover.number(&rig.slot("confirmed_flush_lsn"));
    let offset = format!(r#"{{"lsn_commit":{confirmed},"lsn_proc":{confirmed},"messageType":"COMMIT"}}"#);
    let record = Record {
        identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
        topic: topic.as_str().into(),
        key: Some(Bytes::from_static(br#"["orders",{"server":"app"}]"#)),
        value: Some(Bytes::from(offset)),
        headers: Headers::new(),
        timestamp_ms: 1,
        is_dated_by_row: false,
        partition: Some(1),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let given = [("bootstrap.servers", shared_kafka().bootstrap())];
        let settings = Settings::from_properties(given, Limits { records: 10, bytes: 1 << 20 }).unwrap();
        let mut producer = walpost_kafka::Producer::new(settings).unwrap();
        producer.publish(Ticket(0), &record).unwrap();
        let done = producer.close(LIMIT).await;
        assert!(done.iter().all(|delivery| delivery.outcome.is_ok()), "{done:?}");
    });
    let worker = OpenTransaction::begin(shared_kafka().bootstrap(), &id, &[&topic]).unwrap();
    let from = format!("kafka:{topic}");
    let refused = import(&[&handover.connector, "--offsets", &from]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(12), "{said}");
    assert!(said.contains("there may be a newer offset") && said.contains("cannot be read from offset 0 on"), "{said}");
    worker.commit().unwrap();
    let taken = import(&[&handover.connector, "--offsets", &from]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
}

use std::collections::BTreeMap;

use super::*;
use crate::checker::Truth;
use crate::servers::{Database, shared_postgres};

const LIMIT: Duration = Duration::from_secs(60);

fn database_with(outboxes: &[Outbox]) -> (Database, Workload) {
    let database = shared_postgres().fresh_database("workload").unwrap();
    let workload = Workload::new(&database.url(), outboxes);
    workload.create().unwrap();
    (database, workload)
}

fn two_outboxes() -> [Outbox; 2] {
    [Outbox::new("outbox", "first"), Outbox::new("other_outbox", "second")]
}

#[test]
fn a_workload_writes_as_many_transactions_as_ordered_and_what_it_says() {
    let outboxes = two_outboxes();
    let (database, workload) = database_with(&outboxes);
    let report = workload.transactions(200).run(LIMIT).unwrap();
    assert_eq!((report.transactions, report.in_doubt, report.failed), (200, 0, 0));
    let mut truth = Truth::new();
    outboxes.iter().for_each(|outbox| truth.extend(&database.url(), &outbox.truth()).unwrap());
    assert_eq!(u64::try_from(truth.len()).unwrap(), report.committed_rows);
    assert!(report.rolled_back_rows > 0);
    assert!(outboxes.iter().flat_map(Outbox::topics).all(|topic| truth.rows().any(|row| row.topic == topic)));
    let foreign = database.value("SELECT count(*) FROM workload_foreign WHERE filling = 'changed'").unwrap();
    assert_ne!(foreign, "0");
}

#[test]
fn what_was_rolled_back_is_not_in_the_tables() {
    let outboxes = [Outbox::new("outbox", "p")];
    let (database, workload) = database_with(&outboxes);
    let report = workload.transactions(100).run(LIMIT).unwrap();
    assert!(report.rolled_back_rows > 0);
    assert_eq!(database.value("SELECT count(*) FROM outbox WHERE payload->>'fate' <> 'committed'").unwrap(), "0");
}

#[test]
fn the_numbers_of_a_key_are_in_the_order_of_its_commits_and_without_gaps() {
    let outboxes = [Outbox::new("outbox", "p")];
    let (database, workload) = database_with(&outboxes);
    let slot = database.name();
    database.psql(&format!("SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')")).unwrap();
    workload.keys(2, 3).transactions(300).run(LIMIT).unwrap();
    let log = format!(
        "SELECT substring(data FROM 'aggregateid\\[character varying\\]:''([^'']+)'''), \
         substring(data FROM ' seq\\[bigint\\]:(\\d+)') \
         FROM pg_logical_slot_get_changes('{slot}', NULL, NULL) WHERE data LIKE 'table public.outbox: INSERT:%'"
    );
    let mut numbers: BTreeMap<String, u64> = BTreeMap::new();
    for row in database.psql(&log).unwrap() {
        let number = numbers.entry(row[0].clone()).or_default();
        *number += 1;
        assert_eq!(row[1], number.to_string(), "{}", row[0]);
    }
    assert_eq!(numbers.len(), 5);
}

#[test]
fn large_transactions_and_large_rows_are_written_where_they_are_ordered() {
    let outboxes = [Outbox::new("outbox", "p")];
    let (database, workload) = database_with(&outboxes);
    let report = workload.large_rows(900).largest_payload(50_000).transactions(1_200).run(LIMIT).unwrap();
    let largest = |what: &str| {
        let query = format!(
            "SELECT max(found) FROM (SELECT {what} AS found FROM outbox GROUP BY payload->'transaction') AS all_of_them"
        );
        database.value(&query).unwrap().parse::<u64>().unwrap()
    };
    assert!((u64::from(writer::MOST_ROWS) + 1..=900).contains(&largest("count(*)")));
    assert!(largest("max(length(payload->>'filling'))") > 400);
    assert_eq!(database.value("SELECT count(*) FROM outbox").unwrap(), report.committed_rows.to_string());
}

#[test]
fn the_rows_of_a_commit_that_was_not_answered_are_counted_if_they_are_there() {
    let outboxes = [Outbox::new("outbox", "p")];
    let mut server = crate::servers::Postgres::start().unwrap();
    server.psql("postgres", "CREATE DATABASE doubt").unwrap();
    let workload = Workload::new(&server.url("doubt"), &outboxes).writers(8);
    workload.create().unwrap();
    let running = workload.start();
    for _ in 0..4 {
        running.wait_for_more_rows(50, LIMIT).unwrap();
        server.restart(crate::servers::Stop::Immediate).unwrap();
    }
    running.wait_for_more_rows(50, LIMIT).unwrap();
    let report = running.stop();
    assert!(report.failed + report.in_doubt > 0);
    assert_eq!(
        server.endpoint().value("doubt", "SELECT count(*) FROM outbox").unwrap(),
        report.committed_rows.to_string()
    );
}

#[test]
fn a_workload_goes_on_until_it_is_stopped() {
    let outboxes = [Outbox::new("outbox", "p")];
    let (database, workload) = database_with(&outboxes);
    let running = workload.start();
    running.wait_for_rows(20, LIMIT).unwrap();
    running.wait_for_more_rows(20, LIMIT).unwrap();
    let report = running.stop();
    assert!(report.committed_rows >= 40);
    assert_eq!(database.value("SELECT count(*) FROM outbox").unwrap(), report.committed_rows.to_string());
}

#[test]
fn writers_survive_the_loss_of_their_connections() {
    let outboxes = [Outbox::new("outbox", "p")];
    let (database, workload) = database_with(&outboxes);
    let running = workload.start();
    for _ in 0..3 {
        running.wait_for_more_rows(20, LIMIT).unwrap();
        let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                    WHERE datname = current_database() AND pid <> pg_backend_pid()";
        assert_ne!(database.value(kill).unwrap(), "0");
    }
    running.wait_for_more_rows(20, LIMIT).unwrap();
    let report = running.stop();
    assert!(report.in_doubt + report.failed > 0);
    let written: u64 = database.value("SELECT count(*) FROM outbox").unwrap().parse().unwrap();
    assert!(written >= report.committed_rows);
    assert!(written <= report.committed_rows + report.in_doubt * u64::from(writer::MOST_ROWS));
}

#[test]
fn a_workload_that_cannot_write_says_why() {
    let outboxes = [Outbox::new("outbox", "p")];
    let (database, workload) = database_with(&outboxes);
    database.psql("DROP TABLE outbox").unwrap();
    let error = workload.start().wait_for_rows(1, Duration::from_millis(500)).unwrap_err();
    assert!(error.to_string().contains("outbox"), "{error}");
}

#[test]
fn misfits_of_every_kind_are_written_where_they_are_ordered_and_go_with_what_is_rolled_back() {
    let outboxes = two_outboxes().map(Outbox::with_misfits);
    let (database, workload) = database_with(&outboxes);
    let report = workload.misfits(10).transactions(400).run(LIMIT).unwrap();
    assert_eq!((report.in_doubt, report.failed), (0, 0));
    let queries = outboxes.each_ref().map(Outbox::misfits).join(" UNION ALL ");
    let rows = database.psql(&queries).unwrap();
    for kind in Misfit::ALL {
        assert!(rows.iter().any(|row| row[0] == kind.name()), "{kind}: {rows:?}");
    }
    let mut written = 0;
    for outbox in &outboxes {
        Truth::read(&database.url(), &outbox.history().replace("pg_xact_commit_timestamp(xmin)", "now()")).unwrap();
        written += database.value(&format!("SELECT count(*) FROM {}", outbox.table())).unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(written, report.committed_rows);
    let facts = "SELECT count(*) FILTER (WHERE misfit IS NULL AND (part IS NOT NULL OR at IS NOT NULL OR amount = 'NaN')), \
                 count(*) FILTER (WHERE misfit LIKE 'too large for its topic' AND octet_length(payload::text) > 440000) > 0 FROM outbox";
    assert_eq!(database.psql(facts).unwrap(), [["0", "t"]]);
}

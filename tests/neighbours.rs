//! A topic of checkpoints that several relays share: a transaction that another one has open there hides what we have committed behind it. The same of
//! letters is in `tests/dead_letters/topic.rs`.

use walpost_testkit::neighbour::OpenTransaction;
use walpost_testkit::servers::shared_kafka;

use crate::exactly_once::{assert_exactly_once, rig};
use crate::rig::{LIMIT, eventually};

#[test]
fn what_the_open_transaction_of_a_neighbour_hides_is_not_mistaken_for_an_older_checkpoint() {
    let rig = rig(shared_kafka(), "hidden");
    let relay = rig.start_streaming();
    let mut consumer = rig.consumer();
    rig.insert("b", 0, 1);
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    let (topic, id) = (format!("checkpoint-{}", rig.database.name()), format!("neighbour-{}", rig.database.name()));
    let neighbour = OpenTransaction::begin(shared_kafka().bootstrap(), &id, &[&topic]).unwrap();
    // The neighbour does not hide events, and the server is told of checkpoints that nobody can read now.
    rig.insert("b", 1, 3);
    let written = rig.value("SELECT pg_current_wal_flush_lsn()");
    rig.insert("b", 4, 1);
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    eventually("the slot to be confirmed", || rig.slot(&format!("confirmed_flush_lsn >= '{written}'")) == "t");
    relay.stop(LIMIT).unwrap().assert_success();

    let [shown, listed, mended] =
        [&["checkpoint", "show"] as &[&str], &["repair"], &["repair", "--adopt-slot", "--yes"]]
            .map(|arguments| rig.walpost.begin(arguments).unwrap());
    let relay = rig.start();
    rig.insert("b", 5, 1);
    let open = "a transaction of another producer has been open in front of it for";
    for command in [shown, listed] {
        let ended = command.wait(LIMIT).unwrap();
        let said = format!("{}{}", ended.output, ended.log);
        assert!(said.contains("there may be a newer checkpoint") && said.contains(open), "{said}");
    }
    // Who goes on from the slot because of it would repeat or lose.
    mended.wait(LIMIT).unwrap().assert_said(12, &[open]);
    let line = relay.wait_for_log(open, LIMIT).unwrap();
    assert!(line.contains("trying again"), "{line}");
    neighbour.commit().unwrap();
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, shared_kafka());
}

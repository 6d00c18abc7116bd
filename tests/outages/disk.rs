//! The disk of the broker is full.

use walpost_testkit::checker::Repeats;
use walpost_testkit::servers::{Kafka, SmallDisk, shared_postgres};

use super::{assert_over, assert_seen, broker::UNACKNOWLEDGED, start_ready};
use crate::observe::value;
use crate::rig::{LIMIT, Rig, eventually};

/// Enough for a broker with a few topics.
const MEGABYTES: u32 = 64;

#[test]
fn a_broker_whose_disk_is_full_ends_and_gets_everything_once_when_it_has_room_and_is_started() {
    let Some(disk) = SmallDisk::mount(MEGABYTES).unwrap() else {
        eprintln!("left out: it takes a superuser to mount a file system");
        return;
    };
    let mut kafka = Kafka::builder().start_on(&disk).unwrap();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "broker_disk", &["public.outbox"]);
    let relay = start_ready(&mut rig);
    let running = rig.workload().payload_bytes(20_000).pause(std::time::Duration::from_millis(10)).start();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    let broker = kafka.identity().unwrap();
    disk.fill().unwrap();
    eventually("the end of the broker", || !broker.is_alive());
    assert!(kafka.log().contains("No space left on device"), "{}", kafka.log());
    assert_seen(&rig, &relay, &UNACKNOWLEDGED);
    relay.wait_for_log("Kafka is away, records wait", LIMIT).unwrap();
    running.wait_for_more_rows(20, LIMIT).unwrap();
    disk.empty().unwrap();
    kafka.start_again().unwrap();
    running.wait_for_more_rows(20, LIMIT).unwrap();
    let _ = running.stop();
    assert_over(&rig, &relay);
    relay.wait_for_log("Kafka answers again", LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(value(&relay, "walpost_dead_letters_total", &[("cause", "own")]), 0.0);
    relay.stop(LIMIT).unwrap().assert_success();
}

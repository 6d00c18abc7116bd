use crate::servers::wait_until;

use super::*;
use crate::servers::Identity;

const LIMIT: Duration = Duration::from_secs(10);

/// A program that takes the relay's arguments and does as the script says.
fn pretending(script: &str) -> Walpost {
    use std::os::unix::fs::PermissionsExt as _;
    let walpost = Walpost::new("to be replaced", &Config::new("postgres://nobody@nowhere:1/none", "none")).unwrap();
    let program = walpost.folder().join("program");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    Walpost { program, ..walpost }
}

#[test]
fn a_command_is_called_with_the_configuration() {
    let ended = pretending(r#"echo "$1 $2"; grep slot "$3"; echo trouble >&2; exit 3"#).call(&["init"]).unwrap();
    ended.assert_said(3, &["init -c", r#""slot" = "none""#, "trouble"]);
    assert_eq!(ended.log, "trouble");
}

#[test]
#[should_panic(expected = "the moon")]
fn what_was_not_said_fails_the_test() {
    pretending("exit 0").call(&["init"]).unwrap().assert_said(0, &["the moon"]);
}

#[test]
fn a_log_line_is_waited_for_and_the_wait_ends_with_the_process() {
    let relay = pretending("echo one >&2; sleep 0.05; echo two >&2").start().unwrap();
    assert_eq!(relay.wait_for_log("tw", LIMIT).unwrap(), "two");
    let error = relay.wait_for_log("three", LIMIT).unwrap_err();
    assert!(matches!(&error, Error::EndedEarly { .. }) && error.to_string().contains("one\ntwo"), "{error}");
    relay.wait(LIMIT).unwrap().assert_success();
}

#[test]
fn a_log_line_that_does_not_come_is_named_with_the_log() {
    let relay = pretending("echo one >&2; exec sleep 600").start().unwrap();
    relay.wait_for_log("one", LIMIT).unwrap();
    let error = relay.wait_for_log_since(1, "one", Duration::from_millis(1)).unwrap_err();
    assert!(matches!(&error, Error::TimedOut { waiting_for, .. } if waiting_for.contains("one")), "{error}");
}

#[test]
fn records_on_the_output_are_read_as_they_come() {
    let line = r#"{"topic":"t","key":"k","value":"v","headers":[["id","7"]]}"#;
    let relay = pretending(&format!("echo '{line}'; echo '{line}'; exec sleep 600")).start().unwrap();
    let records = relay.wait_for_output(2, LIMIT).unwrap();
    assert_eq!((records.len(), records[1].id(), records[1].offset), (2, Some("7"), 1));
}

#[test]
fn a_relay_is_stopped_frozen_and_killed_as_its_operator_wants() {
    let waiting = "trap 'exit 5' TERM; echo ready >&2; while :; do sleep 0.02; done";
    let relay = pretending(waiting).start().unwrap();
    relay.wait_for_log("ready", LIMIT).unwrap();
    relay.sigstop().unwrap();
    relay.sigterm().unwrap();
    assert!(relay.is_running());
    relay.sigcont().unwrap();
    assert_eq!(relay.wait(LIMIT).unwrap().code(), Some(5));
    let relay = pretending(waiting).start().unwrap();
    relay.wait_for_log("ready", LIMIT).unwrap();
    assert_eq!(relay.kill9().unwrap().signal(), Some(9));
}

#[test]
fn a_relay_that_does_not_end_in_time_is_killed() {
    let relay = pretending("exec sleep 600").start().unwrap();
    let identity = Identity::of(relay.pid()).unwrap();
    assert!(matches!(relay.wait(Duration::from_millis(1)), Err(Error::TimedOut { .. })));
    assert!(!identity.is_alive());
}

#[test]
fn a_dropped_relay_is_gone_even_when_it_was_frozen() {
    let relay = pretending("exec sleep 600").start().unwrap();
    let identity = Identity::of(relay.pid()).unwrap();
    relay.sigstop().unwrap();
    drop(relay);
    assert!(!identity.is_alive());
}

#[test]
fn the_memory_of_a_running_relay_is_known() {
    let relay = pretending("echo ready >&2; exec sleep 600").start().unwrap();
    relay.wait_for_log("ready", LIMIT).unwrap();
    // Between one program and the next a process has next to none.
    wait_until("the process to be there", LIMIT, || relay.memory_now().unwrap() > 100_000).unwrap();
    // The present first: it may still grow between the two looks, and the peak with it.
    let now = relay.memory_now().unwrap();
    assert!(relay.peak_memory().unwrap() >= now);
}

#[test]
fn a_program_that_is_not_there_is_an_end_with_a_reason() {
    let walpost = Walpost::new("/no/such/program", &Config::new("postgres://nobody@nowhere:1/none", "none")).unwrap();
    let ended = walpost.call(&["init"]).unwrap();
    assert!(ended.code() != Some(0) && ended.log.contains("/no/such/program"), "{ended:?}");
}

#[test]
fn a_line_torn_by_a_kill_is_no_record_and_no_fault() {
    let line = r#"{"topic":"t","key":"k","value":"v","headers":[["id","7"]]}"#;
    let ended = pretending(&format!("echo '{line}'; printf '{{'")).call(&["run"]).unwrap();
    assert_eq!(ended.records().unwrap().len(), 1);
    assert!(pretending("echo '{'").call(&["run"]).unwrap().records().is_err());
}

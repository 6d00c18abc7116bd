//! The checkpoint cannot be written, or is not what it was.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::{Relay, toml_string};

use super::{Sign, assert_over, assert_seen, start_ready, status};
use crate::observe::value;
use crate::rig::{LIMIT, Rig, WALPOST, eventually};

/// What is seen of a store that takes nothing.
const UNSAVED: Sign<'_> = Sign {
    state: "streaming",
    reason: "the checkpoint store has not taken a checkpoint",
    figure: ("walpost_checkpoint_due_seconds", &[]),
    at_least: 1.0,
};

/// A relay with its checkpoint in a file, in a folder of its own.
fn with_a_file(label: &str) -> (Rig, PathBuf) {
    let mut rig = Rig::with_tables(label, &["public.outbox"]);
    let path = rig.walpost.folder().join("disk").join("checkpoint");
    fs::create_dir(path.parent().unwrap()).unwrap();
    rig.configure(|config| {
        config
            .set("checkpoint", "store", r#""file""#)
            .set("checkpoint", "path", &toml_string(&path.display().to_string()))
            .set("checkpoint", "interval_ms", "200")
    });
    rig.init();
    (rig, path)
}

/// While the store takes nothing, rows go out, the slot stays, and all of it is told; afterwards all is well.
#[track_caller]
fn assert_outlives(rig: &mut Rig, relay: &Relay, words: &str, heal: impl FnOnce()) {
    let failed = ("walpost_checkpoints_total", &[("outcome", "failed")] as &[_]);
    let lines = relay.log_lines();
    rig.insert(words, 0, 10);
    let end = rig.value("SELECT pg_current_wal_flush_lsn()");
    let line =
        relay.wait_for_log_since(lines, "the checkpoint could not be written; it is tried again", LIMIT).unwrap();
    assert!(line.contains(words), "{line}");
    assert_seen(rig, relay, &UNSAVED);
    assert!(value(relay, failed.0, failed.1) >= 1.0);
    rig.insert(words, 10, 10);
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(rig.slot(&format!("confirmed_flush_lsn >= '{end}'")), "f", "the slot may not move");
    heal();
    assert_over(rig, relay);
    eventually("the slot to move", || rig.slot(&format!("confirmed_flush_lsn >= '{end}'")) == "t");
}

#[test]
fn a_disk_of_the_checkpoint_that_is_full_or_gone_is_told_while_rows_go_out() {
    let (mut rig, path) = with_a_file("full");
    let relay = start_ready(&mut rig);
    // It is written beside itself first: to a device that is always full.
    let beside = path.with_extension("tmp");
    eventually("a moment at which nothing is written", || symlink("/dev/full", &beside).is_ok());
    assert_outlives(&mut rig, &relay, "No space left on device", || fs::remove_file(&beside).unwrap());
    let (disk, elsewhere) = (path.parent().unwrap().to_owned(), rig.walpost.folder().join("elsewhere"));
    fs::rename(&disk, &elsewhere).unwrap();
    assert_outlives(&mut rig, &relay, "No such file or directory", || fs::rename(&elsewhere, &disk).unwrap());
    relay.kill9().unwrap();
    let relay = start_ready(&mut rig);
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// Runs the program in a mount namespace of its own, in which this folder is a mount of its own. Only a superuser may.
fn in_a_namespace(rig: &mut Rig, folder: &Path) {
    let script = rig.walpost.folder().join("walpost-in-a-namespace");
    let text = format!(
        "#!/bin/sh\nexec unshare --mount sh -c 'mount --bind \"$0\" \"$0\" && exec \"$@\"' '{}' '{}' \"$@\"\n",
        folder.display(),
        WALPOST.as_str()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    // It keeps the folder of the first, where the script and the checkpoint are.
    rig.walpost.set_program(&script);
}

/// Runs `mount` or `umount` where the relay sees it.
#[track_caller]
fn where_it_is_seen(relay: &Relay, words: &[&str], folder: &Path) {
    let mut command = Command::new("nsenter");
    let output =
        command.args(["--mount", "--target", &relay.pid().to_string()]).args(words).arg(folder).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

#[test]
fn a_disk_of_the_checkpoint_that_becomes_read_only_is_told_while_rows_go_out() {
    let (mut rig, checkpoint) = with_a_file("read_only");
    let disk = checkpoint.parent().unwrap().to_owned();
    let probe = Command::new("unshare").args(["--mount", "mount", "-t", "tmpfs", "none"]).arg(&disk).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("left out: it takes a superuser to mount a file system");
        return;
    }
    in_a_namespace(&mut rig, &disk);
    let relay = start_ready(&mut rig);
    // A mount over the first: the kernel refuses it of one on which a file is open.
    let path = disk.display().to_string();
    where_it_is_seen(&relay, &["mount", "--bind", &path], &disk);
    where_it_is_seen(&relay, &["mount", "-o", "remount,bind,ro"], &disk);
    assert_outlives(&mut rig, &relay, "Read-only file system", || where_it_is_seen(&relay, &["umount"], &disk));
    relay.stop(LIMIT).unwrap().assert_success();
}

/// The start is refused with these words; the command in them mends it, and nothing is lost.
#[track_caller]
fn assert_refused_and_mended(rig: &mut Rig, damage: &str, code: i32, words: &[&str], mend: impl FnOnce(&Rig)) {
    rig.insert(damage, 0, 10);
    rig.start().wait(LIMIT).unwrap().assert_said(code, words);
    rig.call(&["status", "--json"]).assert_said(10, &[r#""healthy":false"#, words[0]]);
    mend(rig);
    let relay = start_ready(rig);
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_checkpoint_file_that_is_corrupted_truncated_or_of_another_relay_is_refused_until_a_command_has_mended_it() {
    let (mut rig, path) = with_a_file("damaged");
    let relay = start_ready(&mut rig);
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    let adopt = |rig: &Rig| rig.call(&["checkpoint", "adopt-slot"]).assert_success();
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, good.replacen("\"position\"", "\"positron\"", 1)).unwrap();
    assert_refused_and_mended(&mut rig, "corrupted", 11, &["damaged", "walpost checkpoint adopt-slot"], adopt);
    let good = fs::read(&path).unwrap();
    fs::write(&path, &good[..good.len() / 2]).unwrap();
    assert_refused_and_mended(&mut rig, "truncated", 11, &["damaged", "walpost checkpoint adopt-slot"], adopt);
    let (other, elsewhere) = with_a_file("damaged_other");
    let good = fs::read(&path).unwrap();
    fs::copy(&elsewhere, &path).unwrap();
    let theirs = other.database.name().to_owned();
    assert_refused_and_mended(&mut rig, "foreign", 34, &["the checkpoint belongs to", &theirs], |_| {
        fs::write(&path, good).unwrap();
    });
}

#[test]
fn a_checkpoint_file_that_is_damaged_under_a_running_relay_ends_it_with_the_remedy() {
    let (mut rig, path) = with_a_file("damaged_now");
    let relay = start_ready(&mut rig);
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    fs::write(&path, "{").unwrap();
    rig.insert("after", 0, 10);
    relay.wait(LIMIT).unwrap().assert_said(11, &["damaged", "walpost checkpoint adopt-slot"]);
    rig.call(&["checkpoint", "adopt-slot"]).assert_success();
    let relay = start_ready(&mut rig);
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_table_of_the_checkpoint_that_is_locked_is_told_and_one_that_is_dropped_ends_the_relay_until_init_made_it() {
    let mut rig = Rig::ready("table", &["public.outbox"]);
    rig.configure(|config| config.set("checkpoint", "interval_ms", "200"));
    let relay = start_ready(&mut rig);
    std::thread::scope(|scope| {
        let database = rig.database.url();
        let lock = "BEGIN; LOCK TABLE walpost.checkpoint; SELECT pg_sleep(60); COMMIT";
        scope.spawn(move || Command::new("psql").args(["--no-psqlrc", "-qc", lock, &database]).output());
        let holder = "SELECT pid FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'walpost.checkpoint'::regclass";
        eventually("the table to be locked", || rig.database.value(holder).is_ok());
        rig.insert("locked", 0, 10);
        // Who asks where it is kept waits for the lock too, and for no longer than a statement may take.
        assert_seen(&rig, &relay, &UNSAVED);
        rig.assert_delivered(Repeats::Forbidden);
        assert!(value(&relay, "walpost_checkpoint_due_seconds", &[]) >= 1.0);
        rig.sql(&format!("SELECT pg_terminate_backend(({holder}))"));
    });
    assert_over(&rig, &relay);
    rig.sql("DROP TABLE walpost.checkpoint");
    rig.insert("dropped", 0, 10);
    relay.wait(LIMIT).unwrap().assert_said(4, &["walpost.checkpoint", "walpost init"]);
    rig.init();
    let relay = start_ready(&mut rig);
    assert_eq!(status(&rig, &relay)["healthy"], true);
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

//! A checkpoint in a file: what becomes of a relay whose file, or whose file's folder, is not what it was.

use std::fs;
use std::path::PathBuf;

use walpost_testkit::checker::Repeats;

use crate::observe::wait_until_ready;
use crate::rig::{LIMIT, Rig, eventually};

/// The code of a checkpoint store that refuses, or that holds what cannot be used.
const REFUSED: i32 = 11;

/// A relay with its checkpoint in a file, and the path of that.
fn with_a_file(label: &str) -> (Rig, PathBuf) {
    let mut rig = Rig::with_tables(label, &["public.outbox"]);
    let folder = rig.walpost.folder().join("state");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("checkpoint");
    rig.configure(|config| {
        config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &format!("{path:?}"))
    });
    rig.init();
    (rig, path)
}

#[test]
fn a_start_on_a_checkpoint_file_that_cannot_be_used_ends_with_a_code_of_its_own_and_says_what_to_do() {
    let (rig, path) = with_a_file("unusable");
    rig.insert("key", 0, 10);
    let relay = rig.start_streaming();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    let good = fs::read(&path).unwrap();
    let newer = String::from_utf8(good.clone()).unwrap().replace("\"format_version\": 1", "\"format_version\": 2");
    let cases: [(&[u8], &[&str]); 4] = [
        (&good[..good.len() / 2], &["is damaged", "walpost checkpoint adopt-slot"]),
        (b"", &["is damaged: it is empty", "walpost checkpoint adopt-slot"]),
        (b"{\"checksum\": \"\", \"checkpoint\": {}}", &["is damaged", "walpost checkpoint adopt-slot"]),
        (newer.as_bytes(), &["has format 2", "run the walpost that wrote it"]),
    ];
    for (content, words) in cases {
        fs::write(&path, content).unwrap();
        for command in [&["run"][..], &["init"], &["checkpoint", "show"]] {
            rig.call(command).assert_said(REFUSED, words);
        }
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    rig.call(&["run"]).assert_said(REFUSED, &["Is a directory", "correct checkpoint.path"]);
    fs::remove_dir(&path).unwrap();
    fs::rename(path.parent().unwrap(), rig.walpost.folder().join("elsewhere")).unwrap();
    for command in [&["run"][..], &["init"], &["checkpoint", "forget"], &["checkpoint", "adopt-slot"]] {
        rig.call(command).assert_said(REFUSED, &["No such file or directory", "make its folder"]);
    }
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, b"damaged").unwrap();
    rig.call(&["checkpoint", "adopt-slot"]).assert_success();
    rig.insert("key", 10, 10);
    let relay = rig.start_streaming();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_relay_whose_checkpoints_folder_goes_away_publishes_on_and_connects_again_until_it_is_back() {
    let (rig, path) = with_a_file("gone");
    let relay = rig.start_streaming();
    // It has claimed the checkpoint then.
    wait_until_ready(&relay);
    let away = rig.walpost.folder().join("away");
    fs::rename(path.parent().unwrap(), &away).unwrap();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.wait_for_log("cannot be read", LIMIT).unwrap();
    let holder = rig.walsender().unwrap();
    rig.sql(&format!("SELECT pg_terminate_backend({holder})"));
    relay.wait_for_log("trying again", LIMIT).unwrap();
    rig.insert("key", 10, 10);
    fs::rename(&away, path.parent().unwrap()).unwrap();
    eventually("the relay to stream again", || rig.walsender().is_some_and(|pid| pid != holder));
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    rig.call(&["checkpoint", "show"]).assert_success();
}

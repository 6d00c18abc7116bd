use super::*;
use crate::checkpoint::Store;

fn checkpoint(position: u64) -> Checkpoint {
    Checkpoint {
        relay: "relay \"x\"\n".to_owned(),
        system: SystemIdentifier(u64::MAX),
        timeline: Timeline(3),
        database: "app".to_owned(),
        slot: "walpost".to_owned(),
        position: Lsn::new(position),
        commit_time: Some(Timestamp::from_postgres_micros(-5)),
        settled_rows: None,
        epoch: Epoch(0),
    }
}

fn at(path: &Path) -> FileStore {
    FileStore::new(path)
}

#[tokio::test]
async fn what_is_claimed_and_saved_is_read_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut store = at(&path);
    assert_eq!(store.load().await.unwrap(), None);
    assert_eq!(store.claim(&checkpoint(10)).await.unwrap(), Epoch(1));
    store.save(&checkpoint(20)).await.unwrap();
    store.save(&Checkpoint { commit_time: None, ..checkpoint(20) }).await.unwrap();
    let expected = Checkpoint { epoch: Epoch(1), ..checkpoint(20) };
    assert_eq!(store.load().await.unwrap(), Some(expected.clone()));
    assert_eq!(at(&path).load().await.unwrap(), Some(expected));
    assert!(!beside(&path, "tmp").exists());
}

#[tokio::test]
async fn rows_that_were_settled_before_us_are_read_back_until_they_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let settled_rows = Some(SettledRows { commit_lsn: Lsn::new(u64::MAX), through: Lsn::new(15) });
    let mut store = at(&path);
    store.replace(&Checkpoint { settled_rows, ..checkpoint(10) }).await.unwrap();
    assert_eq!(at(&path).load().await.unwrap().unwrap().settled_rows, settled_rows);
    store.claim(&Checkpoint { settled_rows, ..checkpoint(10) }).await.unwrap();
    store.save(&checkpoint(20)).await.unwrap();
    assert_eq!(store.load().await.unwrap().unwrap().settled_rows, None);
}

#[tokio::test]
async fn a_claim_keeps_what_was_written_since_it_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let rows = SettledRows { commit_lsn: Lsn::new(30), through: Lsn::new(25) };
    let further = Checkpoint { settled_rows: Some(rows), ..checkpoint(20) };
    at(&path).replace(&further).await.unwrap();
    let offered = Checkpoint { commit_time: None, ..checkpoint(10) };
    let mut store = at(&path);
    store.claim(&offered).await.unwrap();
    assert_eq!(store.load().await.unwrap(), Some(Checkpoint { epoch: Epoch(2), ..further }));
}

#[tokio::test]
async fn it_never_goes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = at(&folder.path().join("checkpoint"));
    assert!(matches!(store.save(&checkpoint(1)).await, Err(Error::NotClaimed)));
    store.claim(&checkpoint(10)).await.unwrap();
    let refused = store.save(&checkpoint(9)).await;
    assert!(matches!(refused, Err(Error::Backwards { .. })), "{refused:?}");
    assert_eq!(store.load().await.unwrap().unwrap().position, Lsn::new(10));
}

#[tokio::test]
async fn a_claim_is_not_before_what_a_predecessor_saved_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut first = at(&path);
    first.claim(&checkpoint(10)).await.unwrap();
    first.save(&checkpoint(30)).await.unwrap();
    drop(first);
    let mut second = at(&path);
    assert_eq!(second.claim(&checkpoint(20)).await.unwrap(), Epoch(2));
    assert_eq!(second.load().await.unwrap().unwrap().position, Lsn::new(30));
    let other = Checkpoint { slot: "other".to_owned(), ..checkpoint(5) };
    assert_eq!(second.claim(&other).await.unwrap(), Epoch(3));
    assert_eq!(second.load().await.unwrap().unwrap().position, Lsn::new(5));
}

#[tokio::test]
async fn two_processes_cannot_hold_one_file_and_either_may_once_the_other_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut first = at(&path);
    first.claim(&checkpoint(10)).await.unwrap();
    let mut second = Store::File(at(&path));
    assert!(matches!(second.claim(&checkpoint(10)).await, Err(Error::Locked { .. })));
    assert!(matches!(second.replace(&checkpoint(10)).await, Err(Error::Locked { .. })));
    assert!(matches!(second.forget().await, Err(Error::Locked { .. })));
    drop(first);
    second.claim(&checkpoint(10)).await.unwrap();
}

#[tokio::test]
async fn a_writer_whose_lock_file_was_removed_is_fenced_by_the_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut first = at(&path);
    first.claim(&checkpoint(10)).await.unwrap();
    fs::remove_file(beside(&path, "lock")).unwrap();
    at(&path).claim(&checkpoint(10)).await.unwrap();
    assert!(matches!(first.save(&checkpoint(20)).await, Err(Error::Fenced { ours: 1, theirs: 2 })));
}

#[tokio::test]
async fn a_file_that_vanished_under_its_writer_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let mut store = at(&path);
    store.claim(&checkpoint(10)).await.unwrap();
    fs::remove_file(&path).unwrap();
    assert!(matches!(store.save(&checkpoint(20)).await, Err(Error::Gone { .. })));
}

#[test]
fn every_truncation_and_every_flipped_byte_is_found() {
    let path = Path::new("checkpoint");
    let bytes = encode(path, &checkpoint(0x16_B374_D848)).unwrap();
    assert_eq!(decode(path, &bytes).unwrap(), checkpoint(0x16_B374_D848));
    for length in 0..bytes.len() - 2 {
        assert!(decode(path, &bytes[..length]).is_err(), "{length} bytes");
    }
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        // A flip in the white space between, or of a letter's case in a number, may leave the content as it was.
        if let Ok(read) = decode(path, &flipped) {
            assert_eq!(read, checkpoint(0x16_B374_D848), "byte {at}");
        }
    }
}

#[test]
fn a_newer_format_is_told_from_damage() {
    let bytes = br#"{"checksum":"?","checkpoint":{"format_version":2,"more":true}}"#;
    assert!(matches!(decode(Path::new("c"), bytes), Err(Error::NewerFormat { found: 2 })));
    for bytes in [&b""[..], b"{}", b"nonsense", b"{\"checksum\":\"\",\"checkpoint\":{}}"] {
        let error = decode(Path::new("c"), bytes).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }) && error.remedy().is_some(), "{error}");
    }
}

#[tokio::test]
async fn a_missing_folder_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = at(&folder.path().join("absent/checkpoint"));
    let load = store.load().await.unwrap_err();
    let claim = store.claim(&checkpoint(1)).await.unwrap_err();
    for error in [load, claim] {
        assert!(error.to_string().contains("absent/checkpoint"), "{error}");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("make its folder")), "{error}");
    }
}

#[test]
fn of_a_file_only_what_may_pass_by_itself_is_tried_again() {
    use std::io::ErrorKind;
    for (kind, remedy) in [
        (ErrorKind::NotFound, Some("make its folder")),
        (ErrorKind::NotADirectory, Some("make its folder")),
        (ErrorKind::IsADirectory, Some("checkpoint.path")),
        (ErrorKind::PermissionDenied, Some("let the user that walpost runs as")),
        (ErrorKind::ReadOnlyFilesystem, Some("read-only")),
        (ErrorKind::StorageFull, None),
        (ErrorKind::StaleNetworkFileHandle, None),
        (ErrorKind::Other, None),
    ] {
        let error = Error::File { path: "c".into(), action: "read", source: kind.into() };
        assert_eq!(error.remedy().is_some(), remedy.is_some(), "{kind}: {error}");
        assert!(error.remedy().unwrap_or_default().contains(remedy.unwrap_or_default()), "{kind}: {error}");
    }
}

#[tokio::test]
async fn a_file_whose_folder_is_missing_is_not_taken_for_one_that_was_never_written() {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    let mut store = at(&disk.join("checkpoint"));
    let refused = store.load().await.unwrap_err();
    assert!(matches!(refused, Error::File { action: "read", .. }), "{refused:?}");
    fs::create_dir(&disk).unwrap();
    assert_eq!(store.load().await.unwrap(), None);
}

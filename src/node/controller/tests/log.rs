use std::fs;
use std::path::{Path, PathBuf};

use crate::node::controller::{MetadataLog, MetadataLogError, Recovery};
use crate::protocol::metadata::Record;
use crate::record::batches;
use crate::types::{LeaderEpoch, Offset};

fn feature(level: i16) -> Record {
    Record::FeatureLevel { name: "feature".to_owned(), level }
}

type Opened = (MetadataLog, Recovery, Vec<(Offset, Record)>);

fn open(dir: &Path) -> Result<Opened, MetadataLogError> {
    let mut found = Vec::new();
    let (log, recovery) = MetadataLog::open(dir, |offset, record| {
        found.push((offset, record.clone()));
        Ok(())
    })?;
    Ok((log, recovery, found))
}

fn file(dir: &Path) -> PathBuf {
    dir.join("__cluster_metadata-0/00000000000000000000.log")
}

/// A log of three batches with 1, 2 and 1 records; gives the file's bytes.
fn three_batches(dir: &Path) -> Vec<u8> {
    let (mut log, ..) = open(dir).unwrap();
    log.append(&[feature(1)]).unwrap();
    log.append(&[feature(2), feature(3)]).unwrap();
    log.append(&[feature(4)]).unwrap();
    fs::read(file(dir)).unwrap()
}

fn ends(bytes: &[u8]) -> Vec<usize> {
    batches(bytes).map(|found| found.unwrap().1.end).collect()
}

#[test]
fn what_was_appended_is_found_again_under_a_higher_epoch() {
    let dir = tempfile::tempdir().unwrap();
    three_batches(dir.path());
    let (mut log, recovery, found) = open(dir.path()).unwrap();
    assert_eq!(recovery, Recovery { truncated_bytes: 0, end_offset: Offset(4) });
    let expected: Vec<_> = (0..4).map(|at| (Offset(at), feature(at as i16 + 1))).collect();
    assert_eq!(found, expected);
    assert_eq!(log.epoch(), LeaderEpoch(2));
    log.append(&[feature(5)]).unwrap();
    let bytes = log.read(Offset(4), 1 << 20).unwrap();
    let (header, _) = batches(&bytes).next().unwrap().unwrap();
    assert_eq!((header.base_offset, header.leader_epoch), (Offset(4), LeaderEpoch(2)));
}

#[test]
fn a_read_gives_whole_batches_and_at_least_one() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_batches(dir.path());
    let ends = ends(&bytes);
    let (log, ..) = open(dir.path()).unwrap();
    assert_eq!(log.read(Offset(0), 1).unwrap(), bytes[..ends[0]]);
    assert_eq!(log.read(Offset(0), ends[1]).unwrap(), bytes[..ends[1]]);
    assert_eq!(log.read(Offset(0), ends[2] - 1).unwrap(), bytes[..ends[1]]);
    assert_eq!(log.read(Offset(2), 1 << 20).unwrap(), bytes[ends[0]..]);
    assert_eq!(log.read(Offset(4), 1 << 20).unwrap(), bytes[..0]);
}

#[test]
fn an_interrupted_write_is_cut_off_wherever_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_batches(dir.path());
    let start = ends(&bytes)[1];
    for cut in start + 1..bytes.len() {
        fs::write(file(dir.path()), &bytes[..cut]).unwrap();
        let (mut log, recovery, found) = open(dir.path()).unwrap();
        let truncated_bytes = (cut - start) as u64;
        assert_eq!(recovery, Recovery { truncated_bytes, end_offset: Offset(3) });
        assert_eq!(found.len(), 3);
        log.append(&[feature(9)]).unwrap();
        drop(log);
        let (_, recovery, found) = open(dir.path()).unwrap();
        assert_eq!((recovery.truncated_bytes, found.len()), (0, 4));
    }
}

#[test]
fn a_last_batch_with_a_wrong_byte_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_batches(dir.path());
    let start = ends(&bytes)[1];
    // From the batch length on: base offset and leader epoch are outside the checksum.
    for at in (start + 8..start + 12).chain(start + 16..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        fs::write(file(dir.path()), damaged).unwrap();
        let (_, recovery, found) = open(dir.path()).unwrap();
        assert_eq!((recovery.end_offset, found.len()), (Offset(3), 3), "byte {at}");
    }
}

#[test]
fn damage_before_the_end_is_not_taken_for_an_interrupted_write() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_batches(dir.path());
    let ends = ends(&bytes);
    for at in (8..12).chain(16..ends[1]).filter(|at| !(ends[0]..ends[0] + 8).contains(at)) {
        if (ends[0] + 12..ends[0] + 16).contains(&at) {
            continue;
        }
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        fs::write(file(dir.path()), &damaged).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(error, MetadataLogError::Damaged { .. }), "byte {at}: {error}");
        assert_eq!(fs::read(file(dir.path())).unwrap(), damaged);
    }
}

#[test]
fn a_missing_batch_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_batches(dir.path());
    let ends = ends(&bytes);
    fs::write(file(dir.path()), [&bytes[..ends[0]], &bytes[ends[1]..]].concat()).unwrap();
    let error = open(dir.path()).unwrap_err().to_string();
    assert!(error.ends_with("begins at offset 3, 1 belongs there"), "{error}");
}

#[test]
fn one_directory_serves_one_controller() {
    let dir = tempfile::tempdir().unwrap();
    let _held = open(dir.path()).unwrap();
    let error = open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("in use by another controller"), "{error}");
}

#[test]
fn a_data_directory_that_is_a_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    fs::write(&path, b"").unwrap();
    let error = open(&path).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert!(error.contains("create directory"), "{error}");
}

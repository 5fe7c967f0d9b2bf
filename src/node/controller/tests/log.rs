use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::node::controller::metadata_log::{EntryId, MetadataLog, SnapshotPoint};
use crate::node::controller::{MetadataLogError, Recovery};
use crate::protocol::metadata::Record;
use crate::record::{BatchBuilder, batches, stamp};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::encode_metadata_record;

const EPOCH: LeaderEpoch = LeaderEpoch(3);

fn batch(at: i64, count: usize) -> Bytes {
    let mut builder = BatchBuilder::default();
    builder.start(0);
    for level in 0..count {
        let name = "feature".to_owned();
        let record = Record::FeatureLevel { name, level: level as i16 };
        builder.push(0, None, &encode_metadata_record(&record));
    }
    let mut batch = builder.finish().to_vec();
    stamp(&mut batch, Offset(at), EPOCH);
    Bytes::from(batch)
}

fn open(dir: &Path) -> Result<(MetadataLog, Recovery), MetadataLogError> {
    MetadataLog::open(dir, None)
}

fn file(dir: &Path, first_index: u64) -> PathBuf {
    dir.join(format!("{first_index:020}.log"))
}

/// A log of three entries with 1, 2 and 1 records; gives the file's bytes.
fn three_entries(dir: &Path) -> Vec<u8> {
    let (mut log, _) = open(dir).unwrap();
    for (index, (at, count)) in [(0, 1), (1, 2), (3, 1)].into_iter().enumerate() {
        log.push(index as u64, batch(at, count)).unwrap();
    }
    log.flush().unwrap();
    fs::read(file(dir, 0)).unwrap()
}

fn ends(bytes: &[u8]) -> Vec<usize> {
    batches(bytes).map(|found| found.unwrap().1.end).collect()
}

fn point(index: u64, end: i64) -> SnapshotPoint {
    SnapshotPoint { last: EntryId { epoch: EPOCH, index }, end_offset: Offset(end) }
}

#[test]
fn what_was_flushed_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    three_entries(dir.path());
    let (mut log, recovery) = open(dir.path()).unwrap();
    assert_eq!(recovery, Recovery { truncated_bytes: 0, end_offset: Offset(4) });
    assert_eq!(log.last(), Some(EntryId { epoch: EPOCH, index: 2 }));
    let offsets: Vec<_> =
        log.kept(1..9).map(|entry| (entry.base_offset.0, entry.end_offset.0)).collect();
    assert_eq!(offsets, [(1, 3), (3, 4)]);
    log.push(3, batch(4, 1)).unwrap();
    assert_eq!((log.next_index(), log.durable_end()), (4, 3));
    drop(log);
    assert_eq!(open(dir.path()).unwrap().0.next_index(), 3, "never flushed");
}

#[test]
fn an_entry_that_does_not_follow_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    three_entries(dir.path());
    let (mut log, _) = open(dir.path()).unwrap();
    for (index, at) in [(4, 4), (2, 4), (3, 3), (3, 5)] {
        let error = log.push(index, batch(at, 1)).unwrap_err();
        assert!(matches!(error, MetadataLogError::Entry { .. }), "{error}");
    }
}

#[test]
fn a_read_gives_whole_committed_batches_and_at_least_one() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_entries(dir.path());
    let ends = ends(&bytes);
    let (log, _) = open(dir.path()).unwrap();
    let read = |from, end, bytes_max| log.read(Offset(from), Offset(end), bytes_max);
    assert_eq!(read(0, 4, 1), bytes[..ends[0]]);
    assert_eq!(read(0, 4, ends[1]), bytes[..ends[1]]);
    assert_eq!(read(0, 4, ends[2] - 1), bytes[..ends[1]]);
    assert_eq!(read(2, 4, 1 << 20), bytes[ends[0]..]);
    assert_eq!(read(4, 4, 1 << 20), bytes[..0]);
    assert_eq!(read(0, 3, 1 << 20), bytes[..ends[1]], "the last one is not committed");
}

#[test]
fn an_interrupted_write_is_cut_off_wherever_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_entries(dir.path());
    let start = ends(&bytes)[1];
    for cut in start + 1..bytes.len() {
        fs::write(file(dir.path(), 0), &bytes[..cut]).unwrap();
        let (mut log, recovery) = open(dir.path()).unwrap();
        let truncated_bytes = (cut - start) as u64;
        assert_eq!(recovery, Recovery { truncated_bytes, end_offset: Offset(3) });
        log.push(2, batch(3, 2)).unwrap();
        log.flush().unwrap();
        drop(log);
        let (_, recovery) = open(dir.path()).unwrap();
        assert_eq!(recovery, Recovery { truncated_bytes: 0, end_offset: Offset(5) });
    }
}

#[test]
fn a_last_batch_with_a_wrong_byte_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_entries(dir.path());
    let start = ends(&bytes)[1];
    // From the batch length on: base offset and leader epoch are outside the checksum.
    for at in (start + 8..start + 12).chain(start + 16..bytes.len()) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        fs::write(file(dir.path(), 0), damaged).unwrap();
        let (_, recovery) = open(dir.path()).unwrap();
        assert_eq!(recovery.end_offset, Offset(3), "byte {at}");
    }
}

#[test]
fn damage_before_the_end_is_not_taken_for_an_interrupted_write() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_entries(dir.path());
    let ends = ends(&bytes);
    // All that the checksums cover of the first two batches.
    let covered = (8..12).chain(16..ends[0]);
    let covered = covered.chain(ends[0] + 8..ends[0] + 12).chain(ends[0] + 16..ends[1]);
    for at in covered {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x40;
        fs::write(file(dir.path(), 0), &damaged).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(error, MetadataLogError::Damaged { .. }), "byte {at}: {error}");
        assert_eq!(fs::read(file(dir.path(), 0)).unwrap(), damaged);
    }
}

#[test]
fn a_missing_batch_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_entries(dir.path());
    let ends = ends(&bytes);
    fs::write(file(dir.path(), 0), [&bytes[..ends[0]], &bytes[ends[1]..]].concat()).unwrap();
    let error = open(dir.path()).unwrap_err().to_string();
    assert!(error.ends_with("begins at offset 3, 1 belongs there"), "{error}");
}

#[test]
fn truncation_takes_back_entries_flushed_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = three_entries(dir.path());
    let (mut log, _) = open(dir.path()).unwrap();
    log.push(3, batch(4, 1)).unwrap();
    log.truncate(1).unwrap();
    assert_eq!((log.next_index(), log.end_offset()), (1, Offset(1)));
    assert_eq!(fs::read(file(dir.path(), 0)).unwrap(), bytes[..ends(&bytes)[0]]);
    log.push(1, batch(1, 4)).unwrap();
    log.flush().unwrap();
    drop(log);
    assert_eq!(open(dir.path()).unwrap().1.end_offset, Offset(5));
}

#[test]
fn purged_entries_go_with_their_files_once_a_later_purge_finds_them_whole() {
    let dir = tempfile::tempdir().unwrap();
    three_entries(dir.path());
    let (mut log, _) = open(dir.path()).unwrap();
    log.purge(1).unwrap();
    assert_eq!((log.start_offset(), log.purged()), (Offset(3), Some(point(1, 3).last)));
    assert_eq!(log.kept(0..9).count(), 1);
    log.push(3, batch(4, 1)).unwrap();
    log.purge(2).unwrap();
    assert!(!file(dir.path(), 0).exists());
    assert!(file(dir.path(), 3).exists());
    drop(log);

    let (log, recovery) = MetadataLog::open(dir.path(), Some(point(2, 4))).unwrap();
    assert_eq!(recovery.end_offset, Offset(5));
    assert_eq!((log.purged(), log.next_index()), (Some(point(2, 4).last), 4));
}

#[test]
fn truncation_reaches_back_over_a_file() {
    let dir = tempfile::tempdir().unwrap();
    three_entries(dir.path());
    let (mut log, _) = open(dir.path()).unwrap();
    log.purge(0).unwrap();
    log.push(3, batch(4, 1)).unwrap();
    log.flush().unwrap();
    log.truncate(2).unwrap();
    assert!(!file(dir.path(), 3).exists());
    log.push(2, batch(3, 5)).unwrap();
    log.flush().unwrap();
    drop(log);
    assert_eq!(MetadataLog::open(dir.path(), Some(point(0, 1))).unwrap().1.end_offset, Offset(8));
}

#[test]
fn a_snapshot_beyond_the_log_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    three_entries(dir.path());
    let (mut log, recovery) = MetadataLog::open(dir.path(), Some(point(7, 20))).unwrap();
    assert_eq!(recovery.end_offset, Offset(20));
    log.push(8, batch(20, 1)).unwrap();
    log.flush().unwrap();
    drop(log);
    let (log, _) = MetadataLog::open(dir.path(), Some(point(7, 20))).unwrap();
    assert_eq!((log.next_index(), log.end_offset()), (9, Offset(21)));
    drop(log);
    let error = open(dir.path()).unwrap_err();
    assert!(
        error.to_string().ends_with("begins with entry 8, 0 belongs there: a file is missing"),
        "{error}"
    );
}

/// A crash between the file that follows a snapshot and the removal of those before it.
#[test]
fn files_that_a_snapshot_covers_are_removed_at_the_next_start() {
    for (last, end) in [(7, 20), (1, 3)] {
        let dir = tempfile::tempdir().unwrap();
        three_entries(dir.path());
        fs::write(file(dir.path(), last + 1), vec![]).unwrap();
        let (log, recovery) = MetadataLog::open(dir.path(), Some(point(last, end))).unwrap();
        assert_eq!((recovery.end_offset, log.next_index()), (Offset(end), last + 1));
        assert!(!file(dir.path(), 0).exists());
    }
}

#[test]
fn entries_that_contradict_the_snapshot_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    three_entries(dir.path());
    let mut other = point(1, 3);
    other.last.epoch = LeaderEpoch(EPOCH.0 + 1);
    let (log, _) = MetadataLog::open(dir.path(), Some(other)).unwrap();
    assert_eq!((log.next_index(), log.end_offset()), (2, Offset(3)));
    assert_eq!(log.kept(0..9).count(), 0);
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
    let error = crate::node::controller::metadata_log::directory(&path).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()), "{error}");
    assert!(error.contains("create directory"), "{error}");
}

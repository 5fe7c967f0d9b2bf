//! What recovery makes of damaged logs.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use crate::types::{DurabilityMode, Offset};

use super::super::Recovery;
use super::bench::{Bench, MODES, config};

/// A committed log of ten batches, one group each, and its bytes on disk.
fn ten_batches(mode: DurabilityMode) -> Option<Bench> {
    let mut bench = Bench::of(mode)?;
    for _ in 0..10 {
        bench.append_some(1);
        bench.commit();
    }
    Some(bench)
}

/// Where batch `at` begins in the first segment.
fn position(bench: &Bench, at: usize) -> u64 {
    let block = bench.log.block_bytes() as u64;
    let before = bench.batches[..at].iter().map(|batch| batch.bytes.len() as u64);
    before.fold(0, |position, length| (position + length).next_multiple_of(block))
}

fn damage(bench: &Bench, position: u64, bytes: &[u8]) {
    let path = &bench.segment_paths()[0];
    let file = OpenOptions::new().write(true).open(path).expect("segment");
    file.write_all_at(bytes, position).expect("damaged");
}

/// Reopens and asserts that `kept` batches are left, that nothing of the rest comes back, and that
/// the log goes on.
fn recover_to(bench: &mut Bench, kept: usize) -> Recovery {
    let end = bench.batches[kept].base_offset;
    let config = bench.config;
    let recovery = bench.reopen(config);
    assert_eq!(recovery.log_end_offset, end, "{recovery:?}");
    bench.cut_model(end);
    bench.check_content();
    bench.append_some(2);
    bench.commit();
    let again = bench.reopen(config);
    assert_eq!((again.truncated_bytes, again.hole), (0, false), "{again:?}");
    bench.check_content();
    recovery
}

#[test]
fn a_whole_log_is_recovered_whole() {
    for mode in MODES {
        let Some(mut bench) = ten_batches(mode) else { continue };
        let recovery = bench.reopen(config(mode));
        assert_eq!((recovery.batches, recovery.truncated_bytes, recovery.hole), (10, 0, false));
        assert!(recovery.scanned_bytes > 0);
        bench.check_content();
    }
}

#[test]
fn a_torn_last_batch_is_cut() {
    for mode in MODES {
        let Some(mut bench) = ten_batches(mode) else { continue };
        let last = bench.batches[9].bytes.len();
        let half = position(&bench, 9) + last as u64 / 2;
        damage(&bench, half, &vec![0; last - last / 2]);
        let recovery = recover_to(&mut bench, 9);
        let block = bench.log.block_bytes() as u64;
        assert!((1..=last as u64 / 2 + block).contains(&recovery.truncated_bytes), "{recovery:?}");
        assert!(!recovery.hole, "{mode}: {recovery:?}");
    }
}

#[test]
fn a_batch_with_a_wrong_crc_is_cut_and_what_follows_is_a_hole() {
    for mode in MODES {
        let Some(mut bench) = ten_batches(mode) else { continue };
        damage(&bench, position(&bench, 6) + 70, &[0xff, 0x00, 0xff, 0x00]);
        let recovery = recover_to(&mut bench, 6);
        assert!(recovery.hole, "{mode}: three valid batches follow");
    }
}

#[test]
fn a_lost_block_in_the_middle_is_a_hole() {
    let Some(mut bench) = ten_batches(DurabilityMode::Direct) else { return };
    let length = (position(&bench, 5) - position(&bench, 4)) as usize;
    damage(&bench, position(&bench, 4), &vec![0; length]);
    let recovery = recover_to(&mut bench, 4);
    assert!(recovery.hole, "{recovery:?}");
}

#[test]
fn damage_at_the_start_leaves_an_empty_log() {
    for mode in MODES {
        let Some(mut bench) = ten_batches(mode) else { continue };
        damage(&bench, 0, &[0xee; 20]);
        assert!(recover_to(&mut bench, 0).hole);
    }
}

#[test]
fn a_batch_of_an_older_epoch_is_not_taken() {
    let mut bench = ten_batches(DurabilityMode::PageCache).expect("any directory");
    // Not covered by the CRC: all batches are of epoch 0.
    damage(&bench, position(&bench, 5) + 12, &[0xff; 4]);
    recover_to(&mut bench, 5);
}

#[test]
fn segments_behind_a_damaged_one_are_dropped() {
    for mode in MODES {
        let Some(mut bench) = Bench::of(mode) else { continue };
        while bench.log.stats().segments < 3 {
            bench.append_some(1);
            bench.commit();
        }
        bench.append_some(2);
        bench.commit();
        // Nothing vouches for the segments: as if power failed before they were sealed.
        bench.log.abandon();
        for file in ["recovery-point", "leader-epoch-checkpoint"] {
            let path = bench.directory.path().join(file);
            std::fs::remove_file(path).or_else(ignore_missing).expect("removed");
        }
        damage(&bench, position(&bench, 3), &[0xee; 20]);
        let recovery = recover_to(&mut bench, 3);
        assert!(recovery.hole, "{mode}: {recovery:?}");
        assert_eq!(bench.segment_paths().len(), 1, "{mode}");
    }
}

fn ignore_missing(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

#[test]
fn half_written_files_of_a_crash_are_removed() {
    let mut bench = ten_batches(DurabilityMode::Fsync).expect("any directory");
    for name in ["recovery-point.tmp", "next-9-9.prepared", "00000000000000000000.index.tmp"] {
        std::fs::write(bench.directory.path().join(name), [0; 100]).expect("written");
    }
    let recovery = bench.reopen(config(DurabilityMode::Fsync));
    assert_eq!((recovery.log_end_offset, recovery.hole), (bench.batches[9].end_offset, false));
    let names = std::fs::read_dir(bench.directory.path()).expect("directory");
    let left = names.filter_map(|entry| entry.expect("entry").file_name().into_string().ok());
    let left: Vec<_> = left.filter(|n| n.ends_with(".tmp") || n.ends_with(".prepared")).collect();
    assert_eq!(left, Vec::<String>::new());
    assert!(bench.log.log_end_offset() > Offset(0));
}

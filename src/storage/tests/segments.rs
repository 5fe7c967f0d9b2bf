//! Rolling, preparing ahead, sealing, and the clean shutdown.

use std::fs;
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::config::node::LogConfig;
use crate::types::{DurabilityMode, LeaderEpoch, Offset};

use super::super::roll::CLEAN_SHUTDOWN_FILE;
use super::super::{PartitionLog, StorageError, checkpoint, close_all};
use super::bench::{Bench, MODES, SEGMENT_BYTES, TOPIC, config, inline};

/// Appends until the log has `segments` segments.
fn fill(bench: &mut Bench, segments: usize) {
    while bench.log.stats().segments < segments as u64 {
        bench.append_some(5);
        bench.commit();
    }
}

fn wait_sealed(bench: &Bench) {
    let last = bench.log.segments.last().expect("one at least").base_offset;
    bench.preparer.wait_until(&bench.log.fence, |state| state.recovery_point >= last);
}

#[test]
fn segments_are_rolled_by_size_and_named_by_their_base_offset() {
    for mode in MODES {
        let Some(mut bench) = Bench::of(mode) else { continue };
        fill(&mut bench, 4);
        let paths = bench.segment_paths();
        assert_eq!(paths.len(), 4, "{mode}");
        assert!(paths[0].ends_with("00000000000000000000.log"));
        for (path, segment) in paths.iter().zip(&bench.log.segments) {
            let name = format!("{:020}.log", segment.base_offset.0);
            assert!(path.ends_with(name), "{mode}: {path:?}");
            assert!(segment.end_position <= SEGMENT_BYTES);
            assert!(fs::metadata(path).expect("file").len() <= SEGMENT_BYTES);
        }
        bench.check_content();
        bench.reopen(config(mode));
        bench.check_content();
        bench.append_some(3);
        bench.commit();
        bench.check_content();
    }
}

#[test]
fn the_next_segment_is_prepared_ahead_and_full_of_zeros() {
    let mut bench = Bench::new(inline(DurabilityMode::Fsync), 1).expect("any directory");
    let mut order = None;
    while order.is_none() {
        bench.append_some(1);
        bench.commit();
        order = bench.log.order.clone();
    }
    let used = bench.log.active().end_position;
    assert!((SEGMENT_BYTES / 2..SEGMENT_BYTES * 3 / 4).contains(&used), "ordered at half: {used}");
    order.expect("ordered").wait_ready();
    fill(&mut bench, 2);
    assert_eq!(bench.log.stats().preparation_stalls, 0);
    let paths = bench.segment_paths();
    assert_eq!(fs::metadata(&paths[1]).expect("file").len(), SEGMENT_BYTES);
    bench.check_content();
}

#[test]
fn a_segment_not_ready_in_time_is_prepared_at_the_roll_and_counted() {
    let mut bench = Bench::new(inline(DurabilityMode::Fsync), 1).expect("any directory");
    while bench.log.order.is_none() {
        bench.append_some(1);
        bench.commit();
    }
    bench.log.order.as_ref().expect("ordered").take();
    fill(&mut bench, 2);
    assert_eq!(bench.log.stats().preparation_stalls, 1);
    bench.check_content();
}

#[test]
fn a_rolled_segment_is_sealed_and_the_recovery_point_follows() {
    for mode in MODES {
        let Some(mut bench) = Bench::of(mode) else { continue };
        bench.append_some(2);
        bench.epoch = LeaderEpoch(4);
        fill(&mut bench, 3);
        wait_sealed(&bench);
        let point = checkpoint::load_recovery_point(bench.directory.path()).expect("stored");
        let last = bench.log.segments.last().expect("three").base_offset;
        assert_eq!(point, last, "{mode}");
        let epochs = checkpoint::load_epochs(bench.directory.path()).expect("stored");
        assert_eq!(epochs, bench.log.leader_epochs());

        let recovery = bench.reopen(config(mode));
        assert!(recovery.scanned_bytes <= SEGMENT_BYTES, "{mode}: only the last: {recovery:?}");
        assert_eq!(bench.log.leader_epochs(), epochs);
        bench.check_content();
    }
}

#[test]
fn a_segment_is_sealed_only_when_it_is_durable() {
    let mut bench = Bench::of(DurabilityMode::Fsync).expect("any directory");
    while bench.log.stats().segments < 2 {
        bench.append_some(5);
        bench.start();
    }
    assert_eq!(bench.log.seals.len(), 1, "writes of the first segment are in flight");
    bench.commit();
    assert!(bench.log.seals.is_empty());
}

#[test]
fn after_a_clean_close_nothing_is_scanned() {
    for mode in MODES {
        let Some(mut bench) = Bench::of(mode) else { continue };
        fill(&mut bench, 2);
        bench.epoch = LeaderEpoch(2);
        bench.append_some(3);
        let error = bench.log.close(&mut bench.disk).expect_err("not durable yet");
        assert!(matches!(error, StorageError::Busy { .. }), "{error}");
        bench.commit();
        let epochs = bench.log.leader_epochs().to_vec();
        bench.log.close(&mut bench.disk).expect("closed");
        assert!(bench.log.start_writes(&mut bench.disk, &mut 0).is_err(), "closed is closed");

        let recovery = bench.reopen(config(mode));
        assert_eq!((recovery.scanned_bytes, recovery.batches), (0, 0), "{mode}");
        assert_eq!(bench.log.leader_epochs(), epochs);
        bench.check_content();
        bench.append_some(3);
        bench.commit();
        // The mark is gone: this time nobody closed the log.
        let recovery = bench.reopen(config(mode));
        assert!(recovery.batches > 0, "{mode}");
        assert_eq!(recovery.truncated_bytes, 0);
        bench.check_content();
    }
}

#[test]
fn a_roll_whose_name_was_lost_with_the_power_is_found_by_its_content() {
    for mode in [DurabilityMode::Fsync, DurabilityMode::DirectDsync] {
        let Some(mut bench) = Bench::of(mode) else { continue };
        fill(&mut bench, 4);
        wait_sealed(&bench);
        bench.append_some(2);
        bench.commit();
        let paths = bench.segment_paths();
        // The second of four, so that a named one follows it, and the last.
        for (number, path) in [&paths[1], &paths[3]].into_iter().enumerate() {
            let first_name = bench.directory.path().join(format!("next-1-{number}.prepared"));
            fs::rename(path, first_name).expect("renamed");
        }
        let recovery = bench.reopen(config(mode));
        assert_eq!((recovery.truncated_bytes, recovery.hole), (0, false), "{mode}");
        assert_eq!(bench.segment_paths(), paths);
        bench.check_content();
    }
}

#[test]
fn a_failed_seal_takes_the_log_offline() {
    let mut bench = Bench::new(inline(DurabilityMode::PageCache), 1).expect("any directory");
    fill(&mut bench, 1);
    // A directory where the index goes makes the seal fail, on the background thread.
    let index = bench.segment_paths()[0].with_extension("index");
    fs::create_dir(&index).expect("made");
    while bench.log.stats().segments < 2 {
        bench.append_some(5);
        bench.start();
    }
    bench.preparer.wait_until(&bench.log.fence, |state| state.has_failed());
    let error = bench.log.start_writes(&mut bench.disk, &mut 0).expect_err("seal failed");
    assert!(error.to_string().contains("cannot replace the checkpoint"), "{error}");
}

#[test]
fn another_topic_does_not_get_the_directory() {
    let mut bench = Bench::of(DurabilityMode::PageCache).expect("any directory");
    let path = bench.directory.path().join("partition.metadata");
    fs::write(&path, "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n").expect("written");
    let error = bench.try_reopen(config(DurabilityMode::PageCache)).expect_err("another topic");
    assert!(matches!(error, StorageError::TopicId { .. }), "{error}");
}

#[test]
fn a_log_outlives_every_change_of_its_mode() {
    let orders = [
        [DurabilityMode::PageCache, DurabilityMode::DirectFsync, DurabilityMode::Fsync],
        [DurabilityMode::DirectDsync, DurabilityMode::PageCache, DurabilityMode::Direct],
        [DurabilityMode::Fsync, DurabilityMode::PageCache, DurabilityMode::DirectDsync],
    ];
    for order in orders {
        let Some(mut bench) = Bench::of(DurabilityMode::Direct) else { return };
        for (round, mode) in order.into_iter().cycle().take(6).enumerate() {
            let config = LogConfig { segment_bytes: SEGMENT_BYTES, ..config(mode) };
            bench.reopen(config);
            bench.check_content();
            for _ in 0..3 {
                bench.append_some(5);
                bench.commit();
            }
            bench.check_content();
            if round % 2 == 1 {
                bench.log.close(&mut bench.disk).expect("closed");
            }
        }
        assert!(bench.log.log_end_offset() > Offset(90));
    }
}

#[test]
fn a_log_that_waits_for_its_disk_holds_no_other_from_being_closed() {
    let mut stuck = Bench::of(DurabilityMode::PageCache).expect("any directory");
    let directory = tempfile::tempdir().expect("any directory");
    // Both on one disk, as the logs of a shard are.
    let opened = PartitionLog::open(
        directory.path(),
        TOPIC,
        &stuck.config,
        &stuck.preparer,
        &mut stuck.disk,
    );
    let (mut free, _) = opened.expect("a new log");
    // Opening it waits for the other end, and it cannot be synced.
    let pipe = stuck.directory.path().join("leader-epoch-checkpoint.tmp");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).expect("a pipe");
    let mark = directory.path().join(CLEAN_SHUTDOWN_FILE);
    let closed = thread::scope(|scope| {
        let other_end = scope.spawn(|| {
            for _ in (0..6000).take_while(|_| !mark.exists()) {
                thread::sleep(Duration::from_millis(10));
            }
            let is_closed = mark.exists();
            fs::File::open(&pipe).expect("the other end");
            is_closed
        });
        let logs = [&mut stuck.log, &mut free].into_iter();
        let closed = close_all(logs, &mut stuck.disk);
        assert!(other_end.join().expect("no panic"), "the free one was closed meanwhile");
        closed
    });
    // Each is told what became of it.
    let failed = closed[0].as_ref().expect_err("it was not stored").to_string();
    assert!(failed.contains("leader-epoch-checkpoint.tmp"), "{failed}");
    closed[1].as_ref().expect("closed");
}

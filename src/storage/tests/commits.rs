//! When appended records become durable, by mode.

use std::time::Duration;

use crate::config::node::LogConfig;
use crate::engine::{OperationId, Route};
use crate::types::{CommitRoute, DurabilityMode, LeaderEpoch, MonotonicTime, Offset, Sync};

use super::super::{PartitionLog, Preparer, StorageError};
use super::bench::{Bench, FLUSH, MODES, TOPIC, config, inline};
use super::disk::Disk;

#[test]
fn every_mode_and_route_commits_and_keeps_every_byte() {
    let routes = [
        CommitRoute::Async,
        CommitRoute::AsyncDsync,
        CommitRoute::LinkedFsync,
        CommitRoute::BlockingHelper,
        CommitRoute::Inline,
    ];
    for mode in MODES {
        for commit_route in routes {
            let config = LogConfig { commit_route, ..config(mode) };
            if super::super::validate(&config).is_err() {
                continue;
            }
            let Some(mut bench) = Bench::new(config, 3) else { continue };
            for _ in 0..5 {
                bench.append_some(4);
                bench.commit();
            }
            bench.check_content();
            bench.reopen(config);
            bench.check_content();
        }
    }
}

#[test]
fn page_cache_is_durable_as_soon_as_it_is_written() {
    let mut bench = Bench::of(DurabilityMode::PageCache).expect("any directory");
    bench.append(2, 100);
    bench.append(1, 100);
    assert_eq!(bench.log.durable_offset(), Offset::ZERO);
    assert_eq!(bench.start(), Some(Offset(3)));
    assert_eq!(bench.start(), None);
    let stats = bench.log.stats();
    assert_eq!((stats.groups, stats.syncs, stats.padding_bytes), (1, 0, 0));
}

#[test]
fn what_arrives_while_a_group_is_in_flight_goes_out_as_the_next() {
    let mut bench = Bench::of(DurabilityMode::Fsync).expect("any directory");
    bench.append(1, 100);
    assert_eq!(bench.start(), None);
    for _ in 0..20 {
        bench.append(1, 100);
        assert_eq!(bench.start(), None);
    }
    assert_eq!(bench.disk.pending.len(), 1, "one group in flight");
    assert_eq!(bench.complete(0), Some(Offset(1)));
    assert_eq!(bench.start(), None);
    assert_eq!(bench.disk.pending.len(), 1);
    assert_eq!(bench.complete(0), Some(Offset(21)));
    assert_eq!(bench.log.stats().groups, 2);
    bench.check_content();
}

#[test]
fn operations_are_what_the_mode_promises() {
    let expected = [
        (DurabilityMode::Fsync, Sync::Fdatasync, Route::Helper),
        (DurabilityMode::Direct, Sync::None, Route::Async),
        (DurabilityMode::DirectFsync, Sync::Fdatasync, Route::Async),
        (DurabilityMode::DirectDsync, Sync::Dsync, Route::Async),
    ];
    for (mode, sync, route) in expected {
        let Some(mut bench) = Bench::of(mode) else { continue };
        bench.append(1, 700);
        bench.start();
        let write = &bench.disk.pending[0];
        assert_eq!((write.sync, write.route), (sync, route), "{mode}");
        // Buffered bytes went to the page cache before; the sync comes alone.
        assert_eq!(write.data.is_empty(), !mode.is_direct(), "{mode}");
    }
}

#[test]
fn direct_groups_are_padded_and_never_written_twice() {
    let Some(mut bench) = Bench::of(DurabilityMode::DirectDsync) else { return };
    let block = bench.log.block_bytes() as u64;
    let mut next_position = 0;
    for _ in 0..10 {
        bench.append_some(2);
        bench.start();
        let write = &bench.disk.pending[0];
        assert_eq!(write.position, next_position, "the next block, never an old one");
        assert_eq!(write.data.len() as u64 % block, 0);
        next_position = write.position + write.data.len() as u64;
        bench.complete(0);
    }
    let stats = bench.log.stats();
    assert_eq!(stats.payload_bytes + stats.padding_bytes, next_position);
    bench.check_content();
    bench.reopen(config(DurabilityMode::DirectDsync));
    bench.check_content();
}

#[test]
fn two_groups_in_flight_move_the_durable_offset_over_the_contiguous_prefix() {
    for mode in [DurabilityMode::Fsync, DurabilityMode::DirectFsync] {
        let config = LogConfig { commit_pipeline_depth: 2, ..config(mode) };
        let Some(mut bench) = Bench::new(config, 4) else { continue };
        for _ in 0..3 {
            bench.append(1, 1000);
            bench.start();
        }
        assert_eq!(bench.disk.pending.len(), 2, "the third waits");
        assert_eq!(bench.complete(1), None, "the first is missing");
        bench.start();
        assert_eq!(bench.disk.pending.len(), 2);
        assert_eq!(bench.complete(1), None);
        assert_eq!(bench.complete(0), Some(Offset(3)));
        bench.check_content();
    }
}

#[test]
fn the_append_that_fills_flush_messages_waits_for_its_sync() {
    let mut bench = Bench::of(DurabilityMode::PageCacheFlush(FLUSH)).expect("any directory");
    bench.append(4, 100);
    assert_eq!(bench.start(), Some(Offset(4)), "durable by mode at once");
    bench.append(5, 100);
    assert_eq!(bench.start(), Some(Offset(9)));
    bench.append(1, 100);
    assert_eq!(bench.start(), None, "the tenth record");
    bench.append(1, 100);
    assert_eq!(bench.start(), None, "behind it");
    assert_eq!(bench.complete(0), Some(Offset(10)));
    assert_eq!(bench.start(), Some(Offset(11)));
    assert_eq!(bench.log.stats().syncs, 1);
}

#[test]
fn flush_ms_syncs_in_the_background_and_counts_from_the_oldest_record() {
    let mut bench = Bench::of(DurabilityMode::PageCacheFlush(FLUSH)).expect("any directory");
    assert_eq!(bench.log.deadline(), None, "nothing to sync");
    bench.disk.now = 1000;
    bench.append(1, 100);
    bench.start();
    bench.disk.now = 2000;
    bench.append(1, 100);
    bench.start();
    let due = MonotonicTime(1000).plus(FLUSH.interval);
    assert_eq!(bench.log.deadline(), Some(due));
    bench.log.on_deadline(&mut bench.disk, &mut bench.operation).expect("too early");
    assert!(bench.disk.pending.is_empty());

    bench.disk.now = due.0;
    bench.log.on_deadline(&mut bench.disk, &mut bench.operation).expect("started");
    assert_eq!(bench.disk.pending.len(), 1);
    assert_eq!(bench.log.deadline(), None);
    bench.append(7, 100);
    assert_eq!(bench.start(), Some(Offset(9)), "nobody waits for the background sync");
    assert_eq!(bench.complete(0), None);
    assert_eq!(bench.log.deadline(), Some(due.plus(FLUSH.interval)));
    bench.append(3, 100);
    assert_eq!(bench.start(), None, "ten since the sync was issued");
    assert_eq!(bench.complete(0), Some(Offset(12)));
    assert_eq!(bench.log.deadline(), None);
}

#[test]
fn unsynced_records_of_a_segment_that_was_left_are_synced_before_the_next_counts() {
    let mut bench = Bench::of(DurabilityMode::PageCacheFlush(FLUSH)).expect("any directory");
    for _ in 0..4 {
        bench.append(1, 60_000);
    }
    assert_eq!(bench.start(), Some(Offset(4)), "four unsynced records, none waited for");
    bench.append(1, 60_000);
    assert_eq!(bench.log.stats().segments, 2);
    assert_eq!(bench.start(), None);
    assert_eq!(bench.disk.pending.len(), 1);
    let (file, sync) = (bench.disk.pending[0].file, bench.disk.pending[0].sync);
    assert_eq!((file, sync), (bench.log.segments[0].registered_file(), Sync::Fdatasync));
    assert_eq!(bench.complete(0), Some(Offset(5)));
    assert_eq!(bench.log.stats().syncs, 1);
    bench.check_content();
}

#[test]
fn a_failed_write_or_sync_takes_the_log_offline_for_good() {
    for mode in MODES {
        let Some(mut bench) = Bench::of(mode) else { continue };
        bench.append(10, 100);
        bench.disk.fails_next = true;
        let error = match bench.log.start_writes(&mut bench.disk, &mut bench.operation) {
            Err(error) => error,
            Ok(_) => {
                let (operation, result) = bench.disk.complete(0);
                bench.log.written(operation, result).expect_err("EIO")
            }
        };
        assert!(matches!(error, StorageError::Io { .. }), "{mode}: {error}");
        assert_eq!(bench.log.durable_offset(), Offset::ZERO, "{mode}");
        let batch = bench.build(1, 10);
        let (from, until) = (Offset(10), Offset(11));
        let later = [
            bench.log.append(&batch, from, until, LeaderEpoch(0), true).expect_err("offline"),
            bench.log.start_writes(&mut bench.disk, &mut bench.operation).expect_err("offline"),
            bench.log.truncate(&mut bench.disk, Offset(1)).expect_err("offline"),
            bench.log.read(Offset(0), until, 1, &mut Vec::new()).map(|_| ()).expect_err("offline"),
            bench.log.close(&mut bench.disk).expect_err("offline"),
        ];
        for error in later {
            let message = error.to_string();
            assert!(message.contains("offline") && message.contains("Input/output"), "{message}");
        }
    }
}

#[test]
fn slow_buffered_writes_are_counted_as_writeback_stalls() {
    let mut bench = Bench::of(DurabilityMode::PageCache).expect("any directory");
    for (call, stalls) in [(Duration::from_micros(999), 0), (Duration::from_micros(1001), 1)] {
        bench.disk.inline_call = call;
        bench.append(1, 100);
        bench.start();
        assert_eq!(bench.log.stats().writeback_stalls, stalls);
    }
}

#[test]
fn appends_that_are_not_the_next_batch_are_refused_and_change_nothing() {
    let mut bench = Bench::new(inline(DurabilityMode::PageCache), 1).expect("any directory");
    bench.epoch = LeaderEpoch(3);
    bench.append(2, 10);
    let batch = bench.build(2, 10);
    let mut refuse = |batch: &[u8], base: i64, end: i64, epoch: i32, stamp: bool| {
        let (base, end, epoch) = (Offset(base), Offset(end), LeaderEpoch(epoch));
        bench.log.append(batch, base, end, epoch, stamp).expect_err("refused")
    };
    assert!(matches!(refuse(&batch, 1, 3, 3, true), StorageError::NotContiguous { .. }));
    assert!(matches!(refuse(&batch, 2, 4, 2, true), StorageError::OlderEpoch { .. }));
    assert!(matches!(refuse(&batch, 2, 5, 3, true), StorageError::BadSpan { .. }));
    assert!(matches!(refuse(&batch, 2, 4, 3, false), StorageError::BadSpan { .. }), "not stamped");
    assert!(matches!(refuse(&batch[..60], 2, 4, 3, true), StorageError::BadBatch(_)));
    let large = bench.build(1, SEGMENT_OVERSIZE);
    let error = bench.log.append(&large, Offset(2), Offset(3), LeaderEpoch(3), true);
    assert!(matches!(error, Err(StorageError::BatchTooLarge { .. })));
    assert!(matches!(
        bench.log.written(OperationId(99), Ok(())),
        Err(StorageError::UnknownOperation(99))
    ));
    bench.commit();
    bench.check_content();
    assert_eq!(bench.log.leader_epochs(), [(LeaderEpoch(3), Offset(0))]);
}

const SEGMENT_OVERSIZE: usize = 300 << 10;

#[test]
fn direct_modes_refuse_memory_file_systems() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("SKIPPED: no /dev/shm here");
        return;
    };
    let preparer = Preparer::start().expect("a thread");
    for mode in [DurabilityMode::Direct, DurabilityMode::DirectFsync, DurabilityMode::DirectDsync] {
        let mut disk = Disk::default();
        let opened =
            PartitionLog::open(directory.path(), TOPIC, &config(mode), &preparer, &mut disk);
        let error = opened.map(|_| ()).expect_err("no device");
        assert!(matches!(error, StorageError::DirectUnavailable { .. }), "{error}");
    }
}

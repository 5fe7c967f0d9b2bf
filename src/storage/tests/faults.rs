//! A disk that refuses takes the log offline, and nothing that was refused counts.

use std::sync::Arc;
use std::time::Duration;

use super::bench::{Bench, MODES, config, inline};
use crate::storage::{DiskFault, DiskFaults, StorageError};
use crate::types::{DurabilityMode, LeaderEpoch, Offset};

/// A bench whose disk can be made to refuse, with one record durable.
fn bench(config: crate::config::node::LogConfig) -> Option<(Bench, Arc<DiskFaults>)> {
    let mut bench = Bench::new(config, 1)?;
    let faults = Arc::new(DiskFaults::default());
    bench.preparer = bench.preparer.clone().with_faults(faults.clone());
    bench.reopen(config);
    bench.append(1, 100);
    bench.commit();
    Some((bench, faults))
}

/// Appends a record and starts its write.
fn write(bench: &mut Bench) -> Result<Option<Offset>, StorageError> {
    let batch = bench.build(1, 100);
    let end = bench.log.log_end_offset();
    bench.log.append(&batch, end, end.plus(1), LeaderEpoch(0), true)?;
    bench.log.start_writes(&mut bench.disk, &mut bench.operation)
}

#[test]
fn a_refused_write_or_sync_ends_the_log_and_acknowledges_nothing() {
    for mode in MODES {
        for fault in [DiskFault::Full, DiskFault::WriteError, DiskFault::SyncError] {
            if fault == DiskFault::SyncError && !mode.is_synced() {
                continue;
            }
            let Some((mut bench, faults)) = bench(config(mode)) else { continue };
            faults.set(fault);
            let error = write(&mut bench).expect_err("refused").to_string();
            assert!(error.contains("the log"), "{mode} {fault:?}: {error}");
            assert_eq!(bench.log.durable_offset(), Offset(1), "{mode} {fault:?}");
            // The disk is well again, and the log is still not trusted.
            faults.set(DiskFault::None);
            assert!(matches!(write(&mut bench), Err(StorageError::Failed { .. })), "{mode}");
            let config = bench.config;
            let recovery = bench.reopen(config);
            assert!(recovery.log_end_offset >= Offset(1), "{mode}: what was durable is there");
        }
    }
}

#[test]
fn a_slow_sync_keeps_an_inline_route_that_long() {
    let Some((mut bench, faults)) = bench(inline(DurabilityMode::Fsync)) else { return };
    let delay = Duration::from_millis(30);
    faults.slow_down(delay);
    let started = std::time::Instant::now();
    let moved = write(&mut bench).expect("a slow disk is a good disk");
    assert_eq!(moved, Some(Offset(2)));
    assert!(started.elapsed() >= delay);
}

//! From one segment to the next, and the checkpoints that spare a scan at the next start.
//!
//! At the roll the shard only renames a file that was prepared ahead. The new name becomes durable
//! with the old segment's seal; should power fail before, recovery finds the segment under its
//! first name. A seal is ordered once all of the old segment is durable by the log's mode.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::engine::Io;
use crate::measure::threads;
use crate::types::{Offset, StoredFile};

use super::disk_faults::DiskFaults;
use super::preparer::{FenceState, Prepared, Seal, prepare, prepared_path};
use super::segment::{Segment, segment_path};
use super::tail::Place;
use super::{PartitionLog, StorageError, checkpoint, device, stored_files};

/// Holds the offset a log was closed at. Present only while nothing was written since: removed
/// before the first write of the next run.
pub(super) const CLEAN_SHUTDOWN_FILE: &str = "clean-shutdown";
/// Logs that [`close_all`] closes at once. Each takes a file more meanwhile, which a broker near
/// its limit on open files must still have.
const CLOSING_THREADS_MAX: usize = 16;

impl PartitionLog {
    /// Makes what was appended durable for the next start, so that it needs no scan, and lets the
    /// files go. The log takes and gives nothing afterwards. Gives the files as they lie there.
    ///
    /// Errors: [`StorageError::Busy`] while something is not durable; any other leaves a log that
    /// the next start scans.
    pub fn close(&mut self, io: &mut dyn Io) -> Result<Vec<StoredFile>, StorageError> {
        self.check_closable()?;
        let closed = self.settle();
        self.let_go(io);
        closed
    }

    fn check_closable(&mut self) -> Result<(), StorageError> {
        self.check_usable()?;
        if self.undurable_bytes > 0 || self.in_flight() > 0 {
            let (directory, undurable_bytes) = (self.directory.clone(), self.undurable_bytes);
            return Err(StorageError::Busy { directory, undurable_bytes });
        }
        self.check_seals()
    }

    /// What of [`PartitionLog::close`] waits for the disk.
    fn settle(&mut self) -> Result<Vec<StoredFile>, StorageError> {
        let fence = Arc::clone(&self.fence);
        let mut state = fence.void_seals();
        let settled = self.checkpoint(&mut state, true).and_then(|()| self.mark_clean());
        self.failure = Some("closed".into());
        settled?;
        let ends = self.segments.iter().map(|segment| (segment.base_offset, segment.end_position));
        stored_files::take_down(&self.directory, &ends.collect())
    }

    fn let_go(&mut self, io: &mut dyn Io) {
        for segment in &mut self.segments {
            segment.close(io);
        }
    }

    /// Orders the next segment when half of the active one is used, at full speed from three
    /// quarters on: the throttle must not cost a stall.
    pub(super) fn order_next_segment(&mut self) {
        let active = self.active();
        let (used, capacity) = (active.end_position, active.capacity_bytes);
        if used < capacity / 2 {
            return;
        }
        let (spec, directory, preparer) = (self.spec, &self.directory, &self.preparer);
        let order =
            self.order.get_or_insert_with(|| preparer.order(spec, prepared_path(directory)));
        if used >= capacity / 4 * 3 {
            order.hurry();
        }
    }

    /// Ends the active segment and begins the next, which takes `batch_bytes` at least.
    pub(super) fn roll(&mut self, batch_bytes: usize) -> Result<(), StorageError> {
        let segment_bytes = self.spec.capacity_bytes;
        if device::align_up(batch_bytes as u64, self.spec.block_bytes) > segment_bytes {
            return Err(StorageError::BatchTooLarge { batch_bytes, segment_bytes });
        }
        let prepared = match self.order.take().and_then(|order| order.take()) {
            Some(prepared) => prepared,
            None => {
                self.stats.preparation_stalls += 1;
                prepare(self.spec, &prepared_path(&self.directory), || ())?
            }
        };
        let seal = self.seal_active()?;
        self.begin_segment(prepared)?;
        self.seals.push_back(seal);
        let place =
            Place { segment: self.log_end_offset, position: 0, offset: self.log_end_offset };
        self.tail.start_chunk(place, batch_bytes);
        Ok(())
    }

    /// Adds an empty segment at the log's end.
    pub(super) fn begin_segment(&mut self, prepared: Prepared) -> Result<(), StorageError> {
        let base_offset = self.log_end_offset;
        let path = segment_path(&self.directory, base_offset);
        let segment =
            adopt(prepared, base_offset, path, self.spec.direct, self.spec.capacity_bytes)?;
        self.segments.push(segment);
        self.stats.segments += 1;
        self.stats.prepared_bytes += self.spec.capacity_bytes;
        Ok(())
    }

    fn seal_active(&mut self) -> Result<Seal, StorageError> {
        let (directory, fence) = (self.directory.clone(), Arc::clone(&self.fence));
        let (end_offset, epochs) = (self.log_end_offset, self.epochs.clone());
        let active = self.active_mut();
        Ok(Seal {
            directory,
            segment_path: active.path.clone(),
            file: active.take_maintenance()?,
            index: Arc::clone(&active.index),
            end_offset,
            end_position: active.end_position,
            epochs,
            fence,
            generation: 0,
        })
    }

    /// Hands the rolled segments that are durable by the log's mode to the background thread.
    pub(super) fn send_seals(&mut self) {
        while let Some(seal) = self.seals.front()
            && seal.end_offset <= self.durable_offset
        {
            let generation = self.generation;
            if let Some(seal) = self.seals.pop_front() {
                self.preparer.seal(Seal { generation, ..seal });
            }
        }
    }

    /// Syncs everything written and moves the recovery point up to it, index files included.
    /// `has_ended` says that the active segment gets no more appends in this run either.
    pub(super) fn checkpoint(
        &mut self,
        state: &mut FenceState,
        has_ended: bool,
    ) -> Result<(), StorageError> {
        let from = state.recovery_point;
        let durable_offset = self.durable_offset;
        self.seals.retain(|seal| seal.end_offset > durable_offset);
        let count = self.segments.len();
        for at in 0..count {
            let next = self.segments.get(at + 1).map(|segment| segment.base_offset);
            let end_offset = next.unwrap_or(self.log_end_offset);
            if end_offset <= from && at + 1 < count {
                continue;
            }
            let segment = &mut self.segments[at];
            let path = segment.path.clone();
            let refusal = self.preparer.faults().and_then(DiskFaults::sync_refusal);
            let file = segment.maintenance()?;
            let synced = refusal.map_or_else(|| file.sync_data(), Err);
            synced.map_err(StorageError::io("sync the segment", &path))?;
            if end_offset <= durable_offset && (has_ended || at + 1 < count) {
                segment.index.store(&segment.index_path(), end_offset, segment.end_position)?;
            }
        }
        let kept = self.epochs.iter().filter(|(_, start)| *start < durable_offset);
        checkpoint::store_epochs(&self.directory, &kept.copied().collect::<Vec<_>>())?;
        device::sync_directory(&self.directory)?;
        self.store_recovery_point(state, durable_offset)
    }

    pub(super) fn store_recovery_point(
        &mut self,
        state: &mut FenceState,
        offset: Offset,
    ) -> Result<(), StorageError> {
        checkpoint::store_recovery_point(&self.directory, offset)?;
        device::sync_directory(&self.directory)?;
        state.recovery_point = offset;
        Ok(())
    }

    fn mark_clean(&self) -> Result<(), StorageError> {
        let text = format!("0\n{}\n", self.log_end_offset);
        checkpoint::replace(&self.directory.join(CLEAN_SHUTDOWN_FILE), text.as_bytes())?;
        device::sync_directory(&self.directory)
    }
}

/// [`PartitionLog::close`] for each of `logs`, several at once: each waits for some syncs, one
/// after another, and file systems serve the syncs of several threads together. Gives what became
/// of each, in their order.
pub fn close_all<'a>(
    logs: impl Iterator<Item = &'a mut PartitionLog>,
    io: &mut dyn Io,
) -> Vec<Result<Vec<StoredFile>, StorageError>> {
    let check = |log: &'a mut PartitionLog| {
        let outcome = log.check_closable().map(|()| Vec::new());
        (log, outcome)
    };
    let mut closing: Vec<_> = logs.map(check).collect();
    let thread_count = closing.len().min(CLOSING_THREADS_MAX);
    let left = Mutex::new(closing.iter_mut());
    let settle_some = || {
        loop {
            // The lock is held for this line alone.
            let next = left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((log, outcome)) = next else { return };
            if outcome.is_ok() {
                *outcome = log.settle();
            }
        }
    };
    thread::scope(|scope| {
        // This thread works too, and alone where the system gives no other.
        let start = |_| threads::start_in(scope, "log-closer", settle_some).ok();
        let _others: Vec<_> = (1..thread_count).map_while(start).collect();
        settle_some();
    });
    let let_go = |(log, outcome): (&mut PartitionLog, _)| {
        log.let_go(io);
        outcome
    };
    closing.into_iter().map(let_go).collect()
}

/// Turns a prepared file into the segment at `base_offset`.
pub(super) fn adopt(
    prepared: Prepared,
    base_offset: Offset,
    path: PathBuf,
    direct: bool,
    capacity_bytes: u64,
) -> Result<Segment, StorageError> {
    fs::rename(&prepared.path, &path).map_err(StorageError::io("name the segment", &path))?;
    let Prepared { file, maintenance, .. } = prepared;
    Ok(Segment::new(base_offset, path, file, direct, Some(maintenance), capacity_bytes))
}

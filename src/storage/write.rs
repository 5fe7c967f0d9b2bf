//! Commit groups out to the engine, completions back in.
//!
//! Buffered modes: the bytes go to the page cache by an inline pwrite (an asynchronous one always
//! costs a kernel worker, spec/io.md finding 3), then a sync goes by the configured route where the
//! mode wants one. Direct modes: bytes and sync are one operation on the configured route.
//! Whatever is appended while groups are in flight goes out as the next group.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use crate::engine::{FileId, Io, OperationId, Route, Write};
use crate::types::{DurabilityMode, Flush, MonotonicTime, Offset, Sync};

use super::commit::Progress;
use super::disk_faults::DiskFaults;
use super::tail::GroupBytes;
use super::{PartitionLog, StorageError};

/// A buffered write that takes longer has been made to wait for writeback (spec/io.md section 4).
const WRITEBACK_STALL: Duration = Duration::from_millis(1);

/// Progress of the syncs of `page-cache-flush`.
#[derive(Debug)]
pub(super) struct Flushing {
    /// Everything below was covered by a sync that was issued.
    sync_issued_offset: Offset,
    /// Segment that the data since then is in.
    segment: Offset,
    /// When the oldest data since then was written.
    unsynced_since: Option<MonotonicTime>,
    /// The `flush.ms` sync in flight; nobody waits for it.
    background: Option<OperationId>,
}

impl Flushing {
    pub(super) fn new(segment: Offset, synced_offset: Offset) -> Flushing {
        Flushing {
            sync_issued_offset: synced_offset,
            segment,
            unsynced_since: None,
            background: None,
        }
    }

    /// The log was cut or restarted: what is left is synced.
    pub(super) fn cut(&mut self, segment: Offset, synced_offset: Offset) {
        self.sync_issued_offset = synced_offset;
        self.segment = segment;
        self.unsynced_since = None;
    }

    fn issued(&mut self, offset: Offset) {
        self.sync_issued_offset = offset;
        self.unsynced_since = None;
    }
}

impl PartitionLog {
    /// Issues what may be issued now; cheap when nothing waits. Call it after every batch of events
    /// and once more after [`PartitionLog::written`]. Operation numbers are taken from
    /// `next_operation`, which is raised.
    ///
    /// Gives the new durable offset if it moved: inline routes complete at once.
    ///
    /// Errors: any takes the log offline.
    pub fn start_writes(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
    ) -> Result<Option<Offset>, StorageError> {
        self.check_usable()?;
        self.check_seals()?;
        if self.pending_cut.is_some() {
            return Ok(None);
        }
        let before = self.durable_offset;
        while self.commits.in_flight() < self.config.commit_pipeline_depth {
            let Some(group) = self.tail.next_group() else { break };
            self.issue(io, next_operation, group).map_err(|error| self.fail(error))?;
        }
        self.after_progress();
        Ok(self.moved_since(before))
    }

    /// Takes the completion of an operation issued here. Gives the new durable offset if it moved.
    ///
    /// Errors: [`StorageError::UnknownOperation`]; any other takes the log offline.
    pub fn written(
        &mut self,
        operation: OperationId,
        result: io::Result<()>,
    ) -> Result<Option<Offset>, StorageError> {
        self.check_usable()?;
        let before = self.durable_offset;
        if self.flushing.background == Some(operation) {
            self.flushing.background = None;
            self.check_result(result, "sync the log")?;
            return Ok(None);
        }
        let progress = self.commits.complete(operation);
        let progress = progress.ok_or(StorageError::UnknownOperation(operation.0))?;
        self.check_result(result, "write the log")?;
        self.advance(progress);
        if self.commits.in_flight() == 0 && self.pending_cut.is_some() {
            self.finish_cut().map_err(|error| self.fail(error))?;
        }
        self.after_progress();
        Ok(self.moved_since(before))
    }

    /// When [`PartitionLog::on_deadline`] is wanted.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        let flush = self.flush()?;
        if self.flushing.background.is_some() || self.failure.is_some() {
            return None;
        }
        self.flushing.unsynced_since.map(|since| since.plus(flush.interval))
    }

    /// Starts the background sync of `flush.ms` if it is due.
    ///
    /// Errors: any takes the log offline.
    pub fn on_deadline(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
    ) -> Result<(), StorageError> {
        self.check_usable()?;
        if self.deadline().is_none_or(|deadline| deadline > io.now()) {
            return Ok(());
        }
        let file = self.written_file(io, self.flushing.segment)?;
        self.flushing.issued(self.tail.issued_offset());
        let synced = self.submit_sync(io, next_operation, file);
        self.flushing.background = synced.map_err(|error| self.fail(error))?;
        Ok(())
    }

    fn issue(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
        group: GroupBytes,
    ) -> Result<(), StorageError> {
        let file = self.written_file(io, group.segment)?;
        let end = group.position + group.data.len() as u64;
        if let Some(at) = self.segment_at(group.segment) {
            self.segments[at].issued_end = end;
        }
        self.stats.groups += 1;
        self.stats.payload_bytes += group.payload_bytes as u64;
        self.stats.padding_bytes += (group.data.len() - group.payload_bytes) as u64;
        let (end_offset, payload_bytes) = (group.end_offset, group.payload_bytes);
        let waits_for = if self.plan.mode.is_direct() {
            self.write_direct(io, next_operation, file, group)?
        } else {
            self.sync_left_segment(io, next_operation, group.segment)?;
            self.write_buffered(io, next_operation, file, &group)?;
            self.sync_buffered(io, next_operation, file, end_offset)?
        };
        let progress = self.commits.push(waits_for, end_offset, payload_bytes);
        self.advance(progress);
        Ok(())
    }

    fn write_direct(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
        file: FileId,
        group: GroupBytes,
    ) -> Result<Option<OperationId>, StorageError> {
        let (sync, route) = (self.plan.sync, self.plan.route);
        self.stats.syncs += u64::from(sync != Sync::None);
        let GroupBytes { position, data, .. } = group;
        let operation = take(next_operation);
        let write = Write { operation, file, position, data, sync, route };
        self.submit(io, write, "write the log")
    }

    /// Copies the group to the page cache, on the shard's thread.
    fn write_buffered(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
        file: FileId,
        group: &GroupBytes,
    ) -> Result<(), StorageError> {
        let started = io.now();
        let write = Write {
            operation: take(next_operation),
            file,
            position: group.position,
            data: group.data.clone(),
            sync: Sync::None,
            route: Route::Inline,
        };
        self.submit(io, write, "write the log")?;
        let ended = io.now();
        self.stats.writeback_stalls += u64::from(ended.since(started) > WRITEBACK_STALL);
        if self.flush().is_some() {
            self.flushing.segment = group.segment;
            self.flushing.unsynced_since.get_or_insert(ended);
        }
        Ok(())
    }

    /// Syncs what was written up to `end_offset` if the mode wants it now; gives what to wait for.
    fn sync_buffered(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
        file: FileId,
        end_offset: Offset,
    ) -> Result<Option<OperationId>, StorageError> {
        let is_due = match self.plan.mode {
            DurabilityMode::PageCacheFlush(flush) => {
                let unsynced = end_offset.0 - self.flushing.sync_issued_offset.0;
                u64::try_from(unsynced).is_ok_and(|records| records >= flush.messages)
            }
            mode => mode.is_synced(),
        };
        if !is_due {
            return Ok(None);
        }
        self.flushing.issued(end_offset);
        self.submit_sync(io, next_operation, file)
    }

    /// `page-cache-flush`: unsynced records of a segment that was rolled are synced before any of
    /// the next counts, so that one sync always covers all that is unsynced.
    fn sync_left_segment(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
        segment: Offset,
    ) -> Result<(), StorageError> {
        if self.flushing.unsynced_since.is_none() || self.flushing.segment == segment {
            return Ok(());
        }
        let file = self.written_file(io, self.flushing.segment)?;
        self.flushing.issued(segment);
        let waits_for = self.submit_sync(io, next_operation, file)?;
        let progress = self.commits.push(waits_for, segment, 0);
        self.advance(progress);
        Ok(())
    }

    fn submit_sync(
        &mut self,
        io: &mut dyn Io,
        next_operation: &mut u64,
        file: FileId,
    ) -> Result<Option<OperationId>, StorageError> {
        self.stats.syncs += 1;
        let write = Write {
            operation: take(next_operation),
            file,
            position: 0,
            data: Bytes::new(),
            sync: Sync::Fdatasync,
            route: self.plan.route,
        };
        self.submit(io, write, "sync the log")
    }

    /// Gives the operation to wait for; `None` if it was done inline.
    fn submit(
        &mut self,
        io: &mut dyn Io,
        write: Write,
        action: &'static str,
    ) -> Result<Option<OperationId>, StorageError> {
        let (operation, is_synced) = (write.operation, write.sync != Sync::None);
        let faults = self.preparer.faults();
        if let Some(refusal) = faults.and_then(|faults| faults.refusal(&write)) {
            return Err(StorageError::io(action, &self.active().path)(refusal));
        }
        match io.submit_write(write) {
            None => Ok(Some(operation)),
            Some(Ok(())) => {
                // On this route a slow device keeps the shard; on the others the shard holds the
                // completion back.
                if let Some(delay) = faults.and_then(DiskFaults::sync_delay).filter(|_| is_synced) {
                    thread::sleep(delay);
                }
                Ok(None)
            }
            Some(Err(source)) => Err(StorageError::io(action, &self.active().path)(source)),
        }
    }

    fn written_file(&mut self, io: &mut dyn Io, segment: Offset) -> Result<FileId, StorageError> {
        let at = self.segment_at(segment);
        let at = at.unwrap_or_else(|| unreachable!("segment {segment} has unwritten batches"));
        Ok(self.segments[at].file(io))
    }

    fn advance(&mut self, progress: Progress) {
        self.undurable_bytes -= progress.payload_bytes;
        let durable = progress.durable_offset.unwrap_or(self.durable_offset);
        self.durable_offset = self.durable_offset.max(durable);
    }

    fn after_progress(&mut self) {
        self.tail.trim(self.durable_offset);
        self.send_seals();
    }

    /// A failed background sync means acknowledged records may be lost: the log stops.
    pub(super) fn check_seals(&mut self) -> Result<(), StorageError> {
        let Some(reason) = self.fence.failure() else { return Ok(()) };
        let error = self.offline(Arc::from(reason));
        Err(self.fail(error))
    }

    fn check_result(
        &mut self,
        result: io::Result<()>,
        action: &'static str,
    ) -> Result<(), StorageError> {
        let error = match result {
            Ok(()) => return Ok(()),
            Err(source) => StorageError::io(action, &self.active().path)(source),
        };
        Err(self.fail(error))
    }

    fn moved_since(&self, before: Offset) -> Option<Offset> {
        (self.durable_offset > before).then_some(self.durable_offset)
    }

    fn flush(&self) -> Option<Flush> {
        match self.plan.mode {
            DurabilityMode::PageCacheFlush(flush) => Some(flush),
            _ => None,
        }
    }
}

fn take(next_operation: &mut u64) -> OperationId {
    let operation = OperationId(*next_operation);
    *next_operation += 1;
    operation
}

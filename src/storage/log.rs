//! The state of one partition's log, and the append.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::node::LogConfig;
use crate::record;
use crate::types::{LeaderEpoch, Offset};

use super::StorageError;
use super::commit::Commits;
use super::mode::Plan;
use super::preparer::{Fence, Order, Preparer, Seal, SegmentSpec};
use super::segment::Segment;
use super::tail::{Place, Tail};
use super::write::Flushing;

/// What a log has done since it was opened. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Commit groups issued.
    pub groups: u64,
    /// Bytes of batches in them.
    pub payload_bytes: u64,
    /// Zero bytes that filled groups up to the block.
    pub padding_bytes: u64,
    /// Syncs and synced writes issued for commit groups and `flush.ms`.
    pub syncs: u64,
    /// Buffered writes that kept the shard longer than 1 ms: the kernel made the writer wait.
    pub writeback_stalls: u64,
    /// Segments that were not ready at the roll and were prepared by the shard itself.
    pub preparation_stalls: u64,
    /// Segments begun, the first included.
    pub segments: u64,
    /// Bytes of segments prepared (written full of zeros, or reserved).
    pub prepared_bytes: u64,
}

/// The log of one partition: memory, segments, and what of it is durable.
///
/// One thread owns it. Hot path: `append`, `start_writes`, `written` and `read` do not allocate per
/// record, and make no system call but those of the write route chosen.
///
/// Invariants: `log_start_offset <= durable_offset <= log_end_offset`; the last segment is the one
/// appended to; what is not durable is in memory.
#[derive(Debug)]
pub struct PartitionLog {
    pub(super) directory: PathBuf,
    pub(super) config: LogConfig,
    pub(super) plan: Plan,
    pub(super) spec: SegmentSpec,
    pub(super) segments: Vec<Segment>,
    pub(super) tail: Tail,
    pub(super) commits: Commits,
    pub(super) flushing: Flushing,
    pub(super) epochs: Vec<(LeaderEpoch, Offset)>,
    pub(super) log_end_offset: Offset,
    pub(super) durable_offset: Offset,
    pub(super) undurable_bytes: usize,
    /// A truncation whose disk part waits for the writes in flight.
    pub(super) pending_cut: Option<Place>,
    /// Truncations and restarts so far: a disk read from before one is stale.
    pub(super) cuts: u64,
    pub(super) preparer: Preparer,
    /// The next segment, on its way.
    pub(super) order: Option<Arc<Order>>,
    /// Shared with the background thread.
    pub(super) fence: Arc<Fence>,
    /// Voids seals ordered before the last cut: see [`Fence::void_seals`].
    pub(super) generation: u64,
    /// Rolled segments whose batches are not all durable yet.
    pub(super) seals: VecDeque<Seal>,
    /// Why the log is offline.
    pub(super) failure: Option<Arc<str>>,
    pub(super) stats: LogStats,
}

impl PartitionLog {
    /// Takes one batch, whole and valid, with `base_offset..end_offset` as its offsets. `stamp`
    /// (leader) writes base offset and leader epoch into the log's copy; without it (follower) the
    /// batch must carry them already.
    ///
    /// The batch can be read from now on; it is durable once [`PartitionLog::start_writes`] or
    /// [`PartitionLog::written`] says so.
    ///
    /// Errors: none of the first four changes the log.
    /// [`StorageError::NotContiguous`], [`StorageError::OlderEpoch`],
    /// [`StorageError::BadBatch`] or [`StorageError::BadSpan`] (a batch that is not what the caller
    /// says), [`StorageError::BatchTooLarge`]; [`StorageError::Io`] if a new segment was needed
    /// and could not be had; [`StorageError::Failed`].
    pub fn append(
        &mut self,
        batch: &[u8],
        base_offset: Offset,
        end_offset: Offset,
        leader_epoch: LeaderEpoch,
        stamp: bool,
    ) -> Result<(), StorageError> {
        self.check_usable()?;
        self.check_batch(batch, base_offset, end_offset, leader_epoch, stamp)?;
        self.make_room(batch.len())?;
        let position = self.tail.append_position();
        self.tail.append(batch, base_offset, end_offset, |copy| {
            if stamp {
                record::stamp(copy, base_offset, leader_epoch);
            }
        });
        self.active_mut().note(base_offset, position, batch.len());
        if self.latest_epoch().is_none_or(|latest| latest < leader_epoch) {
            self.epochs.push((leader_epoch, base_offset));
        }
        self.log_end_offset = end_offset;
        self.undurable_bytes += batch.len();
        self.order_next_segment();
        Ok(())
    }

    /// First offset kept.
    pub fn log_start_offset(&self) -> Offset {
        self.segments[0].base_offset
    }

    /// Offset the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// Everything below is as safe as the durability mode makes it.
    pub fn durable_offset(&self) -> Offset {
        self.durable_offset
    }

    /// First offset served from memory; what is below it is read from disk.
    pub fn memory_start_offset(&self) -> Offset {
        self.tail.start_offset()
    }

    /// Every leader epoch that has batches here, with the base offset of its first.
    pub fn leader_epochs(&self) -> &[(LeaderEpoch, Offset)] {
        &self.epochs
    }

    /// Bytes appended that are not durable yet.
    pub fn undurable_bytes(&self) -> usize {
        self.undurable_bytes
    }

    /// Commit groups in flight.
    pub fn in_flight(&self) -> usize {
        self.commits.in_flight()
    }

    /// Unit of every write, padded up to: the device's block in the direct modes, else 1.
    pub fn block_bytes(&self) -> usize {
        self.spec.block_bytes
    }

    /// What it did so far.
    pub fn stats(&self) -> LogStats {
        self.stats
    }

    /// Where the log lives.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Panics if the log's own rules are broken; for tests and debug builds.
    pub fn check_invariants(&self) {
        assert!(self.log_start_offset() <= self.durable_offset, "start past durable");
        assert!(self.durable_offset <= self.log_end_offset, "durable past the end");
        assert!(self.tail.start_offset() <= self.durable_offset, "undurable data not in memory");
        assert!(self.segments.is_sorted_by(|a, b| a.base_offset < b.base_offset), "segment order");
        assert!(self.epochs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "epoch order");
        let undurable = self.commits.payload_bytes() + self.tail.unissued_bytes();
        assert_eq!(self.undurable_bytes, undurable, "undurable bytes");
    }

    fn check_batch(
        &self,
        batch: &[u8],
        base_offset: Offset,
        end_offset: Offset,
        leader_epoch: LeaderEpoch,
        stamp: bool,
    ) -> Result<(), StorageError> {
        let log_end_offset = self.log_end_offset;
        if base_offset != log_end_offset {
            return Err(StorageError::NotContiguous { base_offset, log_end_offset });
        }
        if let Some(latest) = self.latest_epoch().filter(|latest| *latest > leader_epoch) {
            return Err(StorageError::OlderEpoch { leader_epoch, latest });
        }
        let header = record::parse_batch(batch).map_err(StorageError::BadBatch)?;
        let records = i64::from(header.last_offset_delta) + 1;
        let is_stamped = header.base_offset == base_offset && header.leader_epoch == leader_epoch;
        let is_span = records > 0 && end_offset == base_offset.plus(records);
        if header.size_bytes != batch.len() || !is_span || !(stamp || is_stamped) {
            return Err(StorageError::BadSpan { base_offset, end_offset, records });
        }
        Ok(())
    }

    /// Rolls the segment or begins a chunk so that `batch_bytes` fit.
    fn make_room(&mut self, batch_bytes: usize) -> Result<(), StorageError> {
        let block_bytes = self.spec.block_bytes;
        let fits_chunk = self.tail.has_room(batch_bytes);
        let position =
            if fits_chunk { self.tail.append_position() } else { self.tail.next_chunk_position() };
        if !self.active().has_room(position, batch_bytes, block_bytes) {
            return self.roll(batch_bytes);
        }
        if !fits_chunk {
            let segment = self.active().base_offset;
            let place = Place { segment, position, offset: self.log_end_offset };
            self.tail.start_chunk(place, batch_bytes);
        }
        Ok(())
    }

    pub(super) fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.last().map(|(epoch, _)| *epoch)
    }

    pub(super) fn active(&self) -> &Segment {
        &self.segments[self.segments.len() - 1]
    }

    pub(super) fn active_mut(&mut self) -> &mut Segment {
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Index of the segment that starts at `base_offset`.
    pub(super) fn segment_at(&self, base_offset: Offset) -> Option<usize> {
        self.segments.binary_search_by_key(&base_offset, |segment| segment.base_offset).ok()
    }

    /// Index of the segment that holds `offset`, or would.
    pub(super) fn segment_holding(&self, offset: Offset) -> usize {
        let after = self.segments.partition_point(|segment| segment.base_offset <= offset);
        after.saturating_sub(1)
    }

    pub(super) fn check_usable(&self) -> Result<(), StorageError> {
        match &self.failure {
            None => Ok(()),
            Some(reason) => Err(self.offline(Arc::clone(reason))),
        }
    }

    /// Takes the log offline for `error`, and gives it back.
    pub(super) fn fail(&mut self, error: StorageError) -> StorageError {
        if self.failure.is_none() {
            self.failure = Some(super::error::chain(&error).into());
        }
        error
    }

    pub(super) fn offline(&self, reason: Arc<str>) -> StorageError {
        StorageError::Failed { directory: self.directory.clone(), reason }
    }
}

impl PartitionLog {
    /// Calls the background thread off: nothing of this log is written from now on.
    pub(super) fn abandon(&self) {
        drop(self.fence.void_seals());
        if let Some(order) = &self.order {
            order.take();
        }
    }
}

impl Drop for PartitionLog {
    fn drop(&mut self) {
        self.abandon();
    }
}

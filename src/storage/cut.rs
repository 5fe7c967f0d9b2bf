//! Shortening a log: truncation after a leader change, and a restart at another offset.
//!
//! Rare, so the shard makes the blocking calls itself. What readers see changes at once; the disk
//! follows when the writes in flight are done, and new writes are held until then. The recovery
//! point is lowered before anything is cut and raised after, so a crash in between leaves a log
//! that is longer than asked for, never one with a hole.

use std::sync::Arc;

use crate::engine::Io;
use crate::types::Offset;

use super::preparer::{FenceState, prepare, prepared_path};
use super::segment::{Segment, remove_if_there};
use super::tail::Place;
use super::{PartitionLog, StorageError, device};

impl PartitionLog {
    /// Drops the batches with offsets at or above `to` and gives the new log end offset: `to`, or
    /// less if `to` is inside a batch, which then goes whole. Below the log start offset it is a
    /// [`PartitionLog::restart`]; at or above the log end offset it does nothing.
    ///
    /// Errors: any takes the log offline.
    pub fn truncate(&mut self, io: &mut dyn Io, to: Offset) -> Result<Offset, StorageError> {
        self.check_usable()?;
        if to >= self.log_end_offset {
            return Ok(self.log_end_offset);
        }
        if to < self.log_start_offset() {
            self.restart(io, to)?;
            return Ok(to);
        }
        let place = self.boundary(to).map_err(|error| self.fail(error))?;
        self.cut_at(io, place).map_err(|error| self.fail(error))?;
        Ok(place.offset)
    }

    /// Drops everything; the log starts and ends at `at`.
    ///
    /// Errors: any takes the log offline.
    pub fn restart(&mut self, io: &mut dyn Io, at: Offset) -> Result<(), StorageError> {
        self.check_usable()?;
        self.restart_at(io, at).map_err(|error| self.fail(error))
    }

    fn boundary(&mut self, to: Offset) -> Result<Place, StorageError> {
        match self.tail.boundary(to) {
            Some(place) => Ok(place),
            None => {
                let at = self.segment_holding(to);
                self.segments[at].boundary(to)
            }
        }
    }

    fn cut_at(&mut self, io: &mut dyn Io, place: Place) -> Result<(), StorageError> {
        let fence = Arc::clone(&self.fence);
        let mut state = self.begin_cut(&fence);
        self.lower_recovery_point(&mut state, place.offset)?;
        self.cut_memory(place);
        self.cut_segments(io, place)?;
        self.pending_cut = Some(match self.pending_cut {
            Some(earlier)
                if (earlier.segment, earlier.position) < (place.segment, place.position) =>
            {
                earlier
            }
            _ => place,
        });
        drop(state);
        if self.commits.in_flight() == 0 { self.finish_cut() } else { Ok(()) }
    }

    /// The disk part of a truncation, once nothing is in flight.
    pub(super) fn finish_cut(&mut self) -> Result<(), StorageError> {
        let Some(place) = self.pending_cut.take() else { return Ok(()) };
        let fence = Arc::clone(&self.fence);
        let mut state = self.begin_cut(&fence);
        let preparation = self.plan.preparation();
        if let Some(at) = self.segment_at(place.segment) {
            self.segments[at].cut(place.position, preparation)?;
        }
        self.checkpoint(&mut state, false)
    }

    fn begin_cut<'f>(
        &mut self,
        fence: &'f super::preparer::Fence,
    ) -> std::sync::MutexGuard<'f, FenceState> {
        let state = fence.void_seals();
        self.generation = state.generation;
        self.cuts += 1;
        state
    }

    fn lower_recovery_point(
        &mut self,
        state: &mut FenceState,
        offset: Offset,
    ) -> Result<(), StorageError> {
        let lowered = state.recovery_point.min(offset);
        self.store_recovery_point(state, lowered)
    }

    fn cut_memory(&mut self, place: Place) {
        if place.offset < self.tail.start_offset() {
            let position = device::align_up(place.position, self.spec.block_bytes);
            self.tail.reset(Place { position, ..place });
        } else {
            self.tail.truncate(place);
        }
        self.epochs.retain(|(_, start)| *start < place.offset);
        self.log_end_offset = place.offset;
        self.durable_offset = self.durable_offset.min(place.offset);
        self.commits.clamp(place.offset);
        self.undurable_bytes = self.commits.payload_bytes() + self.tail.unissued_bytes();
        self.flushing.cut(place.segment, self.durable_offset);
        self.seals.retain(|seal| seal.end_offset <= place.segment);
    }

    /// Removes the segments behind `place`, the last first; its own becomes the active one.
    fn cut_segments(&mut self, io: &mut dyn Io, place: Place) -> Result<(), StorageError> {
        let kept = self.segment_holding(place.segment);
        let mut removed: Vec<Segment> = self.segments.drain(kept + 1..).collect();
        while let Some(segment) = removed.pop() {
            segment.remove(io)?;
        }
        let active = self.active_mut();
        Arc::make_mut(&mut active.index).truncate(place.offset);
        active.end_position = place.position;
        remove_if_there(&active.index_path())?;
        device::sync_directory(&self.directory)
    }

    fn restart_at(&mut self, io: &mut dyn Io, at: Offset) -> Result<(), StorageError> {
        let prepared = prepare(self.spec, &prepared_path(&self.directory), || ())?;
        let fence = Arc::clone(&self.fence);
        let mut state = self.begin_cut(&fence);
        self.lower_recovery_point(&mut state, at)?;
        let mut removed = std::mem::take(&mut self.segments);
        self.log_end_offset = at;
        self.durable_offset = at;
        if let Err(error) = self.begin_segment(prepared) {
            self.segments = removed;
            return Err(error);
        }
        while let Some(segment) = removed.pop() {
            self.remove_replaced(io, segment)?;
        }
        device::sync_directory(&self.directory)?;
        self.tail.reset(Place { segment: at, position: 0, offset: at });
        self.epochs.clear();
        self.commits.restart(at);
        self.undurable_bytes = self.commits.payload_bytes();
        self.flushing.cut(at, at);
        self.seals.clear();
        self.pending_cut = None;
        self.checkpoint(&mut state, false)
    }

    /// Removes a segment; one with the new segment's name has been replaced by it already.
    fn remove_replaced(&self, io: &mut dyn Io, mut segment: Segment) -> Result<(), StorageError> {
        if segment.base_offset == self.log_end_offset {
            segment.close(io);
            return remove_if_there(&segment.index_path());
        }
        segment.remove(io)
    }
}

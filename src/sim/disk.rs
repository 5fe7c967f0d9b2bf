//! One replica's log as the simulation stores it: whole batches, the last of which may not survive
//! a power failure. Knows no role and no rule; what survives is drawn by whoever crashes it.

use bytes::Bytes;

use crate::protocol::partition::{BatchSpan, LeaderEpochs, LogState};
use crate::types::Offset;

/// One batch as it is stored and served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// Offsets and leader epoch.
    pub span: BatchSpan,
    /// The stamped batch, byte for byte.
    pub bytes: Bytes,
}

/// A cut does not fall between two batches: the log cannot be made to end there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cut at offset {to} falls inside a batch: the log ends at {end} instead")]
pub struct InsideBatch {
    /// Where it should have ended.
    pub to: Offset,
    /// Where it ends now.
    pub end: Offset,
}

/// A replica's log.
/// Invariants: batches are contiguous; `flushed_count <= batches.len()`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Disk {
    start: Offset,
    batches: Vec<Stored>,
    /// Batches that survive a power failure, from the first.
    flushed_count: usize,
}

/// A batch and a digest of the log up to and with it, so that two logs are compared at one offset
/// instead of byte by byte from the start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Stored {
    batch: Batch,
    digest: u64,
}

impl Default for Disk {
    fn default() -> Disk {
        Disk { start: Offset::ZERO, batches: Vec::new(), flushed_count: 0 }
    }
}

impl Disk {
    /// Offset the next batch gets.
    pub fn end(&self) -> Offset {
        self.batches.last().map_or(self.start, |stored| stored.batch.span.end_offset)
    }

    /// Batches that a power failure may take.
    pub fn unflushed_count(&self) -> usize {
        self.batches.len() - self.flushed_count
    }

    /// Appends a batch.
    ///
    /// # Panics
    /// If it does not begin at the end: the machine above miscounted.
    pub fn append(&mut self, batch: Batch) {
        let (end, span) = (self.end(), batch.span);
        assert!(span.base_offset == end, "append at {}, log ends at {end}", span.base_offset);
        let digest = digest(self.batches.last().map_or(0, |stored| stored.digest), &batch.bytes);
        self.batches.push(Stored { batch, digest });
    }

    /// Ends the log at `to`; cuts are durable at once.
    ///
    /// # Errors
    /// [`InsideBatch`] if a batch spans `to`: it is dropped whole.
    pub fn truncate(&mut self, to: Offset) -> Result<(), InsideBatch> {
        let kept = self.count_below(to);
        self.batches.truncate(kept);
        self.flushed_count = self.flushed_count.min(kept);
        let end = self.end();
        if end == to { Ok(()) } else { Err(InsideBatch { to, end }) }
    }

    /// Drops everything and begins at `at`.
    pub fn restart(&mut self, at: Offset) {
        *self = Disk { start: at, ..Disk::default() };
    }

    /// Everything up to `end` survives a power failure from now on.
    pub fn flush(&mut self, end: Offset) {
        self.flushed_count = self.flushed_count.max(self.count_below(end));
    }

    /// Power fails: of the batches that are not flushed only the first `kept` are left.
    pub fn lose_unflushed(&mut self, kept: usize) {
        let kept = (self.flushed_count + kept).min(self.batches.len());
        self.batches.truncate(kept);
        self.flushed_count = kept;
    }

    /// The batches that lie in `[from, until)` whole, at most `count_max`; none if `from` is not the
    /// first offset of a batch.
    pub fn read(&self, from: Offset, until: Offset, count_max: usize) -> Vec<Batch> {
        let first = self.count_below(from);
        let stored = self.batches[first..].iter().map(|stored| &stored.batch);
        stored.take_while(|batch| batch.span.end_offset <= until).take(count_max).cloned().collect()
    }

    /// Digest of everything below `end`; `None` if no batch ends there.
    pub fn digest_at(&self, end: Offset) -> Option<u64> {
        if end == self.start {
            return Some(0);
        }
        let last = self.count_below(end).checked_sub(1)?;
        let stored = &self.batches[last];
        (stored.batch.span.end_offset == end).then_some(stored.digest)
    }

    /// End and digest of the log at every batch that ends in `(from, until]`.
    pub fn ends_between(&self, from: Offset, until: Offset) -> Vec<(Offset, u64)> {
        let stored = &self.batches[self.count_below(from)..self.count_below(until)];
        stored.iter().map(|stored| (stored.batch.span.end_offset, stored.digest)).collect()
    }

    /// What a restarted broker finds: everything that is here is on the disk, and nothing is known
    /// to be committed.
    pub fn recovered(&self) -> LogState {
        let spans = self.batches.iter().map(|stored| stored.batch.span);
        let epochs = spans.map(|span| (span.leader_epoch, span.base_offset));
        LogState {
            log_start_offset: self.start,
            log_end_offset: self.end(),
            durable_offset: self.end(),
            high_watermark: self.start,
            epochs: LeaderEpochs::from_entries(epochs),
        }
    }

    fn count_below(&self, end: Offset) -> usize {
        self.batches.partition_point(|stored| stored.batch.span.end_offset <= end)
    }
}

/// Digest of a log whose last batch is `bytes`, from the digest before it (FNV-1a).
pub fn digest(before: u64, bytes: &[u8]) -> u64 {
    let start = before ^ 0xcbf2_9ce4_8422_2325;
    bytes
        .iter()
        .fold(start, |digest, &byte| (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

//! Batches out of the log: from memory at once, or a disk read the caller has to make.

use std::path::PathBuf;

use bytes::Bytes;

use crate::engine::FileId;
use crate::types::Offset;

use super::scan::{Step, step};
use super::{PartitionLog, StorageError, device};

/// No disk read is longer unless one batch is: larger reads block the device for others
/// (spec/io.md section 1).
const DISK_READ_BYTES_MAX: usize = 1 << 20;

/// Read beyond what is asked for, as the index does not name every batch.
const DISK_READ_SLACK_BYTES: usize = 8 << 10;

/// Where the batches asked for are.
#[derive(Debug)]
pub enum Read {
    /// In memory: pushed already.
    Memory {
        /// Offset after the last batch pushed; where the read started if there was none.
        end_offset: Offset,
        /// Bytes pushed.
        bytes: usize,
    },
    /// On disk: submit this and give the result to [`PartitionLog::complete_disk_read`].
    Disk(DiskRead),
}

/// A read for [`crate::engine::Io::submit_read`].
#[derive(Clone, Debug)]
pub struct DiskRead {
    /// Which file.
    pub file: FileId,
    /// From which byte; aligned as the file needs it.
    pub position: u64,
    /// How many bytes; aligned likewise.
    pub length: usize,
    path: PathBuf,
    /// First offset wanted.
    from: Offset,
    until: Offset,
    bytes_max: usize,
    /// A known batch start at or before `from`, and its byte in the file.
    batch_offset: Offset,
    batch_position: u64,
    /// Cuts of the log when the read was planned.
    cuts: u64,
}

impl PartitionLog {
    /// Reads whole batches from the one with offset `from` on, none that ends past `until`: one at
    /// least if there is one, then no more than `bytes_max`. Batches in memory are pushed to `out`
    /// as few ranges, shared without a copy.
    ///
    /// Errors: [`StorageError::OffsetOutOfRange`], [`StorageError::Failed`].
    pub fn read(
        &self,
        from: Offset,
        until: Offset,
        bytes_max: usize,
        out: &mut Vec<Bytes>,
    ) -> Result<Read, StorageError> {
        self.check_usable()?;
        if from < self.log_start_offset() || from > self.log_end_offset {
            return Err(StorageError::OffsetOutOfRange {
                offset: from,
                log_start_offset: self.log_start_offset(),
                log_end_offset: self.log_end_offset,
            });
        }
        if from >= self.tail.start_offset() || from >= until {
            let (end_offset, bytes) = self.tail.read(from, until, bytes_max, out);
            return Ok(Read::Memory { end_offset, bytes });
        }
        Ok(Read::Disk(self.plan_disk_read(from, until, bytes_max)))
    }

    /// Pushes the batches of a finished disk read, sliced out of `bytes`; gives the offset after
    /// the last. Nothing is pushed, and the read's start given, if the log was cut meanwhile.
    ///
    /// Checks offsets and lengths; CRCs are left to whoever reads the records.
    ///
    /// Errors: [`StorageError::CorruptRead`] if the first batch wanted is not there.
    pub fn complete_disk_read(
        &self,
        read: &DiskRead,
        bytes: Bytes,
        out: &mut Vec<Bytes>,
    ) -> Result<Offset, StorageError> {
        self.check_usable()?;
        if read.cuts != self.cuts {
            return Ok(read.from);
        }
        read.take_batches(&bytes, out)
    }

    fn plan_disk_read(&self, from: Offset, until: Offset, bytes_max: usize) -> DiskRead {
        let segment = &self.segments[self.segment_holding(from)];
        let (batch_offset, batch_position) = segment.index.floor(from);
        // Memory takes over at its start; below that, all is written.
        let end_position = match self.tail.start_place() {
            Some((base_offset, position)) if base_offset == segment.base_offset => position,
            _ => segment.end_position,
        };
        let needed = segment.index.ceiling(from).unwrap_or(end_position).min(end_position);
        let wanted = bytes_max.saturating_add(DISK_READ_SLACK_BYTES).min(DISK_READ_BYTES_MAX);
        let end = (batch_position + wanted as u64).min(end_position).max(needed);
        let block_bytes = self.spec.block_bytes;
        let position = batch_position - batch_position % block_bytes as u64;
        DiskRead {
            file: segment.registered_file(),
            position,
            length: (device::align_up(end, block_bytes) - position) as usize,
            path: segment.path.clone(),
            from,
            until: until.min(self.tail.start_offset()),
            bytes_max,
            batch_offset,
            batch_position,
            cuts: self.cuts,
        }
    }
}

impl DiskRead {
    fn take_batches(&self, bytes: &Bytes, out: &mut Vec<Bytes>) -> Result<Offset, StorageError> {
        let mut at = (self.batch_position - self.position) as usize;
        let mut expected = self.batch_offset;
        let mut run = 0..0;
        let mut total = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match step(rest, self.position + at as u64, expected) {
                Step::Padding(length) => at += length,
                Step::Batch(header) => {
                    let is_wanted = header.end_offset() > self.from;
                    let is_over = total > 0 && total + header.size_bytes > self.bytes_max;
                    if header.end_offset() > self.until || (is_wanted && is_over) {
                        break;
                    }
                    if is_wanted {
                        if run.end != at {
                            push_run(bytes, &mut run, out);
                            run.start = at;
                        }
                        run.end = at + header.size_bytes;
                        total += header.size_bytes;
                    }
                    at += header.size_bytes;
                    expected = header.end_offset();
                }
                Step::Short(_) | Step::Bad if expected > self.from => break,
                Step::Short(_) | Step::Bad => return Err(self.corrupt(at, expected)),
            }
        }
        push_run(bytes, &mut run, out);
        Ok(expected.max(self.from))
    }

    fn corrupt(&self, at: usize, expected: Offset) -> StorageError {
        let position = self.position + at as u64;
        StorageError::CorruptRead { path: self.path.clone(), position, expected }
    }
}

fn push_run(bytes: &Bytes, run: &mut std::ops::Range<usize>, out: &mut Vec<Bytes>) {
    if run.start < run.end {
        out.push(bytes.slice(run.clone()));
    }
    *run = 0..0;
}

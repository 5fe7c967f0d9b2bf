//! Steps over the batches of a segment's bytes, across the padding between commit groups.
//!
//! Direct modes fill the last block of a commit group with zeros, so a walk goes from batch to
//! batch and over zeros to the next block boundary. The block size of the run that wrote a file is
//! not stored; every block size is a multiple of [`PADDING_UNIT_BYTES`], so walking boundary by
//! boundary of that unit reaches the next group whatever the block was.
//!
//! Zeros and batches cannot be confused: a batch is accepted only with the offset that must come
//! next, and a header that starts inside padding would need an offset of zero past the log's start.

use std::borrow::Borrow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::record::{BatchError, BatchHeader, HEADER_BYTES, parse_batch};
use crate::types::Offset;

use super::StorageError;
use super::segment::PIECE_BYTES;

/// Smallest block any device writes, and the grid padding is skipped on.
pub(super) const PADDING_UNIT_BYTES: usize = 512;

/// What lies at a position.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The batch that must come next; its CRC has not been checked.
    Batch(BatchHeader),
    /// So many zero bytes up to the next boundary.
    Padding(usize),
    /// The bytes given end too early to say; at least so many are needed.
    Short(usize),
    /// Neither the next batch nor padding.
    Bad,
}

/// Looks at `bytes`, which start at byte `position` of a segment, for the batch with base offset
/// `expected`.
pub(super) fn step(bytes: &[u8], position: u64, expected: Offset) -> Step {
    match parse_batch(bytes) {
        Ok(header) if header.base_offset == expected && header.last_offset_delta >= 0 => {
            Step::Batch(header)
        }
        Err(BatchError::SizeMismatch { batch_bytes, .. })
            if batch_bytes > bytes.len() as i64 && starts_with(bytes, expected) =>
        {
            Step::Short(usize::try_from(batch_bytes).unwrap_or(usize::MAX))
        }
        _ => padding(bytes, position),
    }
}

fn starts_with(bytes: &[u8], expected: Offset) -> bool {
    bytes.get(..8) == Some(&expected.0.to_be_bytes()[..])
}

fn padding(bytes: &[u8], position: u64) -> Step {
    let unit = PADDING_UNIT_BYTES as u64;
    let length = (unit - position % unit) as usize;
    match bytes.get(..length) {
        Some(gap) if gap.iter().all(|byte| *byte == 0) => Step::Padding(length),
        Some(_) if bytes.len() >= HEADER_BYTES => Step::Bad,
        _ => Step::Short(length.max(HEADER_BYTES)),
    }
}

/// A file that somebody else has open, seen through one buffer.
pub(super) type Window<'f> = FileWindow<&'f File, &'f Path>;

/// A file seen through one buffer that follows the reader.
#[derive(Debug)]
pub(super) struct FileWindow<F, P> {
    file: F,
    path: P,
    length: u64,
    /// Holds the file's bytes from `start` on.
    buffer: Vec<u8>,
    start: u64,
}

impl<F: Borrow<File>, P: AsRef<Path>> FileWindow<F, P> {
    /// A window on `file`, whose length is read once.
    pub(super) fn new(file: F, path: P) -> Result<FileWindow<F, P>, StorageError> {
        let metadata = file.borrow().metadata();
        let length =
            metadata.map_err(StorageError::io("read the segment's size", path.as_ref()))?.len();
        Ok(FileWindow { file, path, length, buffer: Vec::new(), start: 0 })
    }

    /// The file's length.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes from `position` on: at least `wanted` and at least a batch header, or all there
    /// are. `position` is not past the end.
    pub(super) fn bytes(&mut self, position: u64, wanted: usize) -> Result<&[u8], StorageError> {
        let available = usize::try_from(self.length - position).unwrap_or(usize::MAX);
        let needed = wanted.max(PADDING_UNIT_BYTES).min(available);
        let end = self.start + self.buffer.len() as u64;
        if position < self.start || position + needed as u64 > end {
            let length = needed.max(PIECE_BYTES).min(available);
            self.buffer.resize(length, 0);
            self.start = position;
            let file: &File = self.file.borrow();
            file.read_exact_at(&mut self.buffer, position)
                .map_err(StorageError::io("read the segment", self.path.as_ref()))?;
        }
        Ok(&self.buffer[(position - self.start) as usize..])
    }

    /// At most `length_max` of the bytes from `position` on, and one at least unless it is the end.
    pub(super) fn piece(
        &mut self,
        position: u64,
        length_max: usize,
    ) -> Result<&[u8], StorageError> {
        let bytes = self.bytes(position, 1)?;
        Ok(&bytes[..bytes.len().min(length_max)])
    }
}

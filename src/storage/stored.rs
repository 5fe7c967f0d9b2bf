//! A log's batches as they are on disk, read by somebody who does not own the log: nothing is
//! changed, nothing is trusted but the bytes.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::record::BatchHeader;
use crate::types::Offset;

use super::StorageError;
use super::scan::{FileWindow, Step, step};
use super::segment::base_offset_of;

/// The batches of a directory, in order, from its first segment to the first bytes that are not the
/// batch that must come next. CRCs are not checked: that is for the reader to judge.
///
/// Read while nothing is appended, or the end is where the reader happened to be.
pub struct StoredBatches {
    /// Not yet begun.
    segments: VecDeque<(Offset, PathBuf)>,
    window: Option<FileWindow<File, PathBuf>>,
    position: u64,
    next: Offset,
}

/// One batch.
#[derive(Clone, Debug)]
pub struct StoredBatch {
    /// Its header.
    pub header: BatchHeader,
    /// As stored, header included.
    pub bytes: Bytes,
}

impl StoredBatches {
    /// Lists the segments in `directory`.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn open(directory: &Path) -> Result<StoredBatches, StorageError> {
        let fault = |error| StorageError::io("list the directory", directory)(error);
        let mut segments = Vec::new();
        for entry in fs::read_dir(directory).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            if let Some(base_offset) = base_offset_of(&entry.file_name().to_string_lossy()) {
                segments.push((base_offset, entry.path()));
            }
        }
        segments.sort_unstable();
        let next = segments.first().map_or(Offset::ZERO, |(base_offset, _)| *base_offset);
        Ok(StoredBatches { segments: segments.into(), window: None, position: 0, next })
    }

    /// Goes on in the segment that continues the log; `false` if there is none.
    fn open_next(&mut self) -> Result<bool, StorageError> {
        let Some((base_offset, path)) = self.segments.pop_front() else { return Ok(false) };
        if base_offset != self.next {
            self.segments.clear();
            return Ok(false);
        }
        let file = File::open(&path).map_err(StorageError::io("open the segment", &path))?;
        self.window = Some(FileWindow::new(file, path)?);
        self.position = 0;
        Ok(true)
    }

    fn read_next(&mut self) -> Result<Option<StoredBatch>, StorageError> {
        let mut wanted = 0;
        loop {
            let Some(window) = &mut self.window else {
                if self.open_next()? {
                    continue;
                }
                return Ok(None);
            };
            let length = window.length();
            let bytes = window.bytes(self.position, wanted)?;
            wanted = 0;
            match step(bytes, self.position, self.next) {
                Step::Batch(header) => {
                    let bytes = Bytes::copy_from_slice(&bytes[..header.size_bytes]);
                    self.position += header.size_bytes as u64;
                    self.next = header.end_offset();
                    return Ok(Some(StoredBatch { header, bytes }));
                }
                Step::Padding(padding) => self.position += padding as u64,
                Step::Short(needed) if self.position + needed as u64 <= length => wanted = needed,
                Step::Short(_) | Step::Bad => self.window = None,
            }
        }
    }
}

impl Iterator for StoredBatches {
    type Item = Result<StoredBatch, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read_next();
        if read.is_err() {
            self.window = None;
            self.segments.clear();
        }
        read.transpose()
    }
}

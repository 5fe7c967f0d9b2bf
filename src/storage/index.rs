//! Where batches are in one segment: one entry per few KiB of log, in memory and on disk.
//!
//! The file (`%020d.index`) is written when nothing more is appended to the segment: at the roll,
//! at a clean close, after recovery. It is a hint that saves a scan: entries of relative offset and
//! position (4 + 4 bytes, big-endian, as in Kafka's offset index), then a footer of end offset (8),
//! end position (8) and CRC-32C of all before (4). One that does not check out is ignored.

use std::fs;
use std::path::Path;

use crate::types::Offset;

use super::{StorageError, checkpoint};

/// One entry for so much log (Kafka's `index.interval.bytes`): a reader walks at most that far.
const INTERVAL_BYTES: u64 = 4096;

const ENTRY_BYTES: usize = 8;
const FOOTER_BYTES: usize = 20;

/// A batch's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// Base offset minus the segment's.
    relative_offset: u32,
    /// Byte in the segment.
    position: u32,
}

/// Sparse index of one segment. Invariant: both columns of `entries` grow strictly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    base_offset: Offset,
    entries: Vec<Entry>,
}

/// What an index file says about its segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredIndex {
    pub(super) index: Index,
    /// Offset after the segment's last batch.
    pub(super) end_offset: Offset,
    /// Byte after it.
    pub(super) end_position: u64,
}

impl Index {
    pub(super) fn new(base_offset: Offset) -> Index {
        Index { base_offset, entries: Vec::new() }
    }

    /// Notes a batch appended at `position`; keeps it if the last entry is far enough back.
    pub(super) fn note(&mut self, base_offset: Offset, position: u64) {
        let last = self.entries.last().map(|entry| u64::from(entry.position));
        if last.is_some_and(|last| position < last + INTERVAL_BYTES) {
            return;
        }
        let relative = u32::try_from(base_offset.0 - self.base_offset.0);
        if let (Ok(relative_offset), Ok(position)) = (relative, u32::try_from(position)) {
            self.entries.push(Entry { relative_offset, position });
        }
    }

    /// Whether [`Index::note`] would keep a batch at `position`: spares the caller the write.
    pub(super) fn wants(&self, position: u64) -> bool {
        self.entries.last().is_none_or(|last| position >= u64::from(last.position) + INTERVAL_BYTES)
    }

    /// The last known batch start at or before `offset`; the segment's start if none is known.
    pub(super) fn floor(&self, offset: Offset) -> (Offset, u64) {
        let after = self.first_after(offset);
        match after.checked_sub(1) {
            Some(at) => self.at(at),
            None => (self.base_offset, 0),
        }
    }

    /// Position of the first known batch start after `offset`.
    pub(super) fn ceiling(&self, offset: Offset) -> Option<u64> {
        let after = self.first_after(offset);
        self.entries.get(after).map(|entry| u64::from(entry.position))
    }

    /// Forgets batches that start at or after `offset`.
    pub(super) fn truncate(&mut self, offset: Offset) {
        let kept = self.first_after(Offset(offset.0 - 1));
        self.entries.truncate(kept);
    }

    /// Writes the file; durable once the directory is.
    pub(super) fn store(
        &self,
        path: &Path,
        end_offset: Offset,
        end_position: u64,
    ) -> Result<(), StorageError> {
        let mut bytes = Vec::with_capacity(self.entries.len() * ENTRY_BYTES + FOOTER_BYTES);
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.relative_offset.to_be_bytes());
            bytes.extend_from_slice(&entry.position.to_be_bytes());
        }
        bytes.extend_from_slice(&end_offset.0.to_be_bytes());
        bytes.extend_from_slice(&end_position.to_be_bytes());
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        checkpoint::replace(path, &bytes)
    }

    /// Reads the file; `None` if it is missing or does not check out.
    pub(super) fn load(path: &Path, base_offset: Offset) -> Option<StoredIndex> {
        let bytes = fs::read(path).ok()?;
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_be_bytes(*crc) {
            return None;
        }
        let (rest, end_position) = body.split_last_chunk::<8>()?;
        let (rest, end_offset) = rest.split_last_chunk::<8>()?;
        let (entries, []) = rest.as_chunks::<ENTRY_BYTES>() else { return None };
        let entries = entries.iter().map(|entry| {
            let value = u64::from_be_bytes(*entry);
            Entry { relative_offset: (value >> 32) as u32, position: value as u32 }
        });
        Some(StoredIndex {
            index: Index { base_offset, entries: entries.collect() },
            end_offset: Offset(i64::from_be_bytes(*end_offset)),
            end_position: u64::from_be_bytes(*end_position),
        })
    }

    fn first_after(&self, offset: Offset) -> usize {
        let relative = offset.0 - self.base_offset.0;
        self.entries.partition_point(|entry| i64::from(entry.relative_offset) <= relative)
    }

    fn at(&self, at: usize) -> (Offset, u64) {
        let entry = self.entries[at];
        (self.base_offset.plus(i64::from(entry.relative_offset)), u64::from(entry.position))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let mut index = Index::new(Offset(100));
        for batch in 0..10 {
            index.note(Offset(100 + batch * 5), batch as u64 * 3000);
        }
        index
    }

    #[test]
    fn entries_are_sparse_and_found_from_both_sides() {
        let index = index();
        assert_eq!(index.entries.len(), 5, "every second batch: {index:?}");
        assert_eq!(index.floor(Offset(100)), (Offset(100), 0));
        assert_eq!(index.floor(Offset(109)), (Offset(100), 0));
        assert_eq!(index.floor(Offset(110)), (Offset(110), 6000));
        assert_eq!(index.ceiling(Offset(109)), Some(6000));
        assert_eq!(index.ceiling(Offset(140)), None);
    }

    #[test]
    fn a_stored_index_comes_back_and_a_damaged_one_does_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.index");
        let mut index = index();
        index.truncate(Offset(120));
        assert_eq!(index.entries.len(), 2);
        index.store(&path, Offset(120), 12_000).expect("stored");
        let stored = StoredIndex { index, end_offset: Offset(120), end_position: 12_000 };
        assert_eq!(Index::load(&path, Offset(100)), Some(stored));

        let mut bytes = fs::read(&path).expect("bytes");
        bytes[3] ^= 1;
        fs::write(&path, bytes).expect("written");
        assert_eq!(Index::load(&path, Offset(100)), None);
        fs::write(&path, b"abc").expect("written");
        assert_eq!(Index::load(&path, Offset(100)), None);
    }
}

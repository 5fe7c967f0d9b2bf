//! One file of the metadata log: whole batches in a row, named by the index of its first entry.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::error::MetadataLogError;
use crate::record::{BatchError, BatchHeader, check_crc, parse_batch};

const EXTENSION: &str = "log";

/// An open file of the log.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    file: File,
    /// Index of the first entry it holds or will hold.
    pub(super) first_index: u64,
}

/// A batch as found in a file.
pub(super) struct Found {
    pub(super) header: BatchHeader,
    pub(super) position: u64,
    pub(super) bytes: Bytes,
}

impl Segment {
    /// Opens or creates the file; the caller syncs the directory.
    pub(super) fn open(directory: &Path, first_index: u64) -> Result<Segment, MetadataLogError> {
        let path = directory.join(format!("{first_index:020}.{EXTENSION}"));
        let opened = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let file = at(&path, "open", opened)?;
        Ok(Segment { path, file, first_index })
    }

    /// First indexes of the files in `directory`, in order. Other files are none of ours.
    pub(super) fn list(directory: &Path) -> Result<Vec<u64>, MetadataLogError> {
        let mut indexes = Vec::new();
        for entry in at(directory, "read directory", fs::read_dir(directory))? {
            let path = at(directory, "read directory", entry)?.path();
            let is_log = path.extension().is_some_and(|extension| extension == EXTENSION);
            let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_log);
            indexes
                .extend(stem.filter(|stem| stem.len() == 20).and_then(|s| s.parse::<u64>().ok()));
        }
        indexes.sort_unstable();
        Ok(indexes)
    }

    /// Every whole batch, and the bytes of an interrupted write behind the last one, which only
    /// the last file of a log may have.
    pub(super) fn scan(&self, is_last: bool) -> Result<(Vec<Found>, u64), MetadataLogError> {
        let mut bytes = Vec::new();
        self.io("read", (&self.file).read_to_end(&mut bytes))?;
        let bytes = Bytes::from(bytes);
        let mut found = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let header = match whole_batch(&bytes[at..]) {
                Ok(header) => header,
                Err(source) => {
                    if !is_last || holds_whole_batch(&bytes[at + 1..]) {
                        let (path, position) = (self.path.clone(), at as u64);
                        return Err(MetadataLogError::Damaged { path, position, source });
                    }
                    break;
                }
            };
            let batch = bytes.slice(at..at + header.size_bytes);
            found.push(Found { header, position: at as u64, bytes: batch });
            at += header.size_bytes;
        }
        Ok((found, (bytes.len() - at) as u64))
    }

    pub(super) fn append(&self, bytes: &[u8]) -> Result<(), MetadataLogError> {
        self.io("append", (&self.file).write_all(bytes))?;
        self.io("fdatasync", self.file.sync_data())
    }

    pub(super) fn truncate(&self, size_bytes: u64) -> Result<(), MetadataLogError> {
        self.io("truncate", self.file.set_len(size_bytes))?;
        self.io("sync", self.file.sync_all())
    }

    /// The caller syncs the directory.
    pub(super) fn remove(self) -> Result<(), MetadataLogError> {
        at(&self.path, "remove", fs::remove_file(&self.path))
    }

    fn io<T>(&self, op: &'static str, result: io::Result<T>) -> Result<T, MetadataLogError> {
        at(&self.path, op, result)
    }
}

/// Names what was tried on which path.
pub(in crate::node::controller) fn at<T>(
    path: &Path,
    op: &'static str,
    result: io::Result<T>,
) -> Result<T, MetadataLogError> {
    result.map_err(|source| MetadataLogError::Io { op, path: path.to_owned(), source })
}

/// Makes the creation, removal and renaming of files in it survive a power loss.
pub(in crate::node::controller) fn sync_directory(
    directory: &Path,
) -> Result<(), MetadataLogError> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    at(directory, "sync directory", synced)
}

fn whole_batch(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = parse_batch(bytes)?;
    check_crc(&bytes[..header.size_bytes], &header)?;
    Ok(header)
}

/// What is written at once ends the file, so nothing whole is behind an interrupted write of one
/// batch. Of several batches a file system may have kept the second and lost the first: that cannot
/// be told from damage to committed records, so it is not cut off either.
fn holds_whole_batch(bytes: &[u8]) -> bool {
    (0..bytes.len()).any(|at| whole_batch(&bytes[at..]).is_ok())
}

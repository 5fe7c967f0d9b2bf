//! Why the metadata log cannot be used. Every one of them ends the process.

use std::io;
use std::path::PathBuf;

use crate::protocol::metadata::ApplyError;
use crate::record::BatchError;
use crate::types::Offset;
use crate::wire::MetadataRecordError;

/// Why the metadata log cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MetadataLogError {
    /// The file system refused.
    #[error("{}: {op}: {source}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Another process has the log open.
    #[error("{}: in use by another controller: give each its own data directory", path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
    },
    /// A batch is damaged, and a whole one follows it or its checksum is right: this is no interrupted
    /// write, and cutting here would drop committed records.
    #[error("{}: batch at byte {position} is damaged, and not by an interrupted write: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// What is wrong with it.
        source: BatchError,
    },
    /// A batch is whole, but not the one that belongs here.
    #[error("{}: batch at byte {position} begins at offset {found}, {expected} belongs there", path.display())]
    Gap {
        /// The file.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// Its base offset.
        found: Offset,
        /// End offset of the batch before it.
        expected: Offset,
    },
    /// A file of the log is missing, or the snapshot that it continues.
    #[error("{}: begins with entry {found}, {expected} belongs there: a file is missing", path.display())]
    Missing {
        /// The file after the gap.
        path: PathBuf,
        /// Index of its first entry.
        found: u64,
        /// Index after the last entry before it.
        expected: u64,
    },
    /// The only voter has voted, which it does after its first entry is durable, and has none.
    #[error(
        "{}: the metadata log is empty, but its controller has led before: the file was emptied or \
         lost; restore it, or begin a new cluster in empty data directories",
        path.display()
    )]
    Emptied {
        /// The file that takes the next entry.
        path: PathBuf,
    },
    /// A batch is whole, but a record in it is none of ours.
    #[error("{}: record at offset {offset}: {source}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Which record.
        offset: Offset,
        /// What is wrong with it.
        source: MetadataRecordError,
    },
    /// A control record, a snapshot's header or the vote is none of ours.
    #[error("{}: {what} makes no sense", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Which part.
        what: &'static str,
    },
    /// A record does not fit the ones before it.
    #[error("{}: {source}", path.display())]
    Misfit {
        /// The file.
        path: PathBuf,
        /// Which record, and why.
        source: ApplyError,
    },
    /// Another voter sent an entry that does not continue this log.
    #[error(
        "entry {index} begins at offset {found} under epoch {epoch}, the log ends at {expected}"
    )]
    Entry {
        /// Its index.
        index: u64,
        /// Its base offset.
        found: Offset,
        /// The epoch of its batch.
        epoch: i32,
        /// End of the log.
        expected: Offset,
    },
}

//! What can go wrong between the log and the disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::record::BatchError;
use crate::types::{DurabilityMode, LeaderEpoch, Offset, TopicId};

/// A fault of a partition log. Whatever failed on the disk itself leaves the log failed for good:
/// see [`StorageError::Failed`].
#[derive(Debug, Error)]
pub enum StorageError {
    /// A call failed.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// What was tried, as a verb phrase.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// A direct mode was asked for where O_DIRECT does not reach a device.
    #[error(
        "{}: durability mode {mode} needs O_DIRECT: {reason}; use fsync or page-cache, or a \
         directory on a block device",
        directory.display()
    )]
    DirectUnavailable {
        /// The log's directory.
        directory: PathBuf,
        /// The mode asked for.
        mode: DurabilityMode,
        /// What was found.
        reason: String,
    },
    /// The directory holds another topic's log.
    #[error("{}: topic id is {found}, expected {expected}", path.display())]
    TopicId {
        /// The metadata file.
        path: PathBuf,
        /// The id in it.
        found: TopicId,
        /// The id asked for.
        expected: TopicId,
    },
    /// A small text file does not have the form it must have.
    #[error("{}: line {line}: {problem}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(String),
    /// An append does not continue the log.
    #[error("append at offset {base_offset}, but the log ends at {log_end_offset}")]
    NotContiguous {
        /// The batch's base offset.
        base_offset: Offset,
        /// Where it would have to be.
        log_end_offset: Offset,
    },
    /// An append carries an epoch below the log's latest.
    #[error("append with leader epoch {leader_epoch}, below the log's latest {latest}")]
    OlderEpoch {
        /// The batch's epoch.
        leader_epoch: LeaderEpoch,
        /// The latest in the log.
        latest: LeaderEpoch,
    },
    /// An append does not fit a segment.
    #[error("batch of {batch_bytes} bytes: a segment holds {segment_bytes}")]
    BatchTooLarge {
        /// Its size.
        batch_bytes: usize,
        /// What a segment holds.
        segment_bytes: u64,
    },
    /// The bytes given to append are not one whole batch, or not the span they are said to be.
    #[error("append of bytes that are not the batch they are said to be")]
    BadBatch(#[source] BatchError),
    /// A batch spans other offsets than the caller says.
    #[error("append of offsets {base_offset} to {end_offset}, but the batch holds {records}")]
    BadSpan {
        /// First offset as said.
        base_offset: Offset,
        /// Exclusive end as said.
        end_offset: Offset,
        /// Offsets the batch spans.
        records: i64,
    },
    /// A read starts outside the log.
    #[error("offset {offset} is outside the log, {log_start_offset} to {log_end_offset}")]
    OffsetOutOfRange {
        /// The offset asked for.
        offset: Offset,
        /// First offset kept.
        log_start_offset: Offset,
        /// Exclusive end.
        log_end_offset: Offset,
    },
    /// What came back from disk is not the batch that was written there.
    #[error("{}: no batch with offset {expected} at byte {position}", path.display())]
    CorruptRead {
        /// The segment.
        path: PathBuf,
        /// Where in it.
        position: u64,
        /// The batch that should be there.
        expected: Offset,
    },
    /// A completion names an operation that is not in flight here.
    #[error("completion of operation {0}, which this log did not start")]
    UnknownOperation(u64),
    /// The log was asked to close with writes outstanding.
    #[error("{}: {undurable_bytes} bytes are not durable yet", directory.display())]
    Busy {
        /// The log's directory.
        directory: PathBuf,
        /// Bytes appended and not durable.
        undurable_bytes: usize,
    },
    /// An earlier write or sync failed, or the log was closed. What is durable is no longer known,
    /// so the log takes and gives nothing more; reopening it recovers what the disk holds.
    #[error("{}: the log is offline: {reason}", directory.display())]
    Failed {
        /// The log's directory.
        directory: PathBuf,
        /// The first failure.
        reason: Arc<str>,
    },
}

impl StorageError {
    /// Wraps `source` with what was tried on what: for `map_err`.
    pub(super) fn io(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(io::Error) -> StorageError + use<> {
        let path = path.to_path_buf();
        move |source| StorageError::Io { action, path, source }
    }
}

/// The whole chain of causes in one line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    text
}

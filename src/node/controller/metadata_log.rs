//! The metadata log of one voter: Raft entries, each one Kafka v2 record batch, in memory and in
//! files under Kafka's name for the directory, so that Kafka's own tools can dump them.
//!
//! Two counts run through it. An entry's *index* is its place among all entries and names the files;
//! a record's *offset* is its place among the metadata records and is what brokers see. Control
//! batches (a new leader's first entry, the voters) are entries and take no offset. Every batch's
//! leader epoch is the Raft term of its entry. Entries before the first one kept are in the snapshot.
//!
//! What is pushed is durable only once flushed: who may wait for what is `raft`'s to decide. What the
//! records mean is `protocol::metadata`'s.

mod error;
mod load;
mod segment;

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::ops::Range;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};

pub use self::error::MetadataLogError;
use self::segment::{Found, Segment};
pub(super) use self::segment::{at, sync_directory};
use crate::record::{BatchError, parse_batch};
use crate::types::{LeaderEpoch, Offset};

/// Directory as Kafka names it.
const DIRECTORY: &str = "__cluster_metadata-0";
/// Most entries that are handed out at once, in bytes, unless a single one is larger.
const READ_BYTES_MAX: usize = 1 << 20;

/// Names an entry for good: no two leaders have the same epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Its term.
    pub epoch: LeaderEpoch,
    /// Its place in the log.
    pub index: u64,
}

/// What a snapshot covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotPoint {
    /// The last entry in it.
    pub last: EntryId,
    /// Offset after the last record in it.
    pub end_offset: Offset,
}

/// What was found when the log was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of an interrupted write that were cut off.
    pub truncated_bytes: u64,
    /// Records kept, those in the snapshot included.
    pub end_offset: Offset,
}

/// One entry of the log.
#[derive(Clone, Debug)]
pub struct LogEntry {
    /// Its name.
    pub id: EntryId,
    /// Offset of its first record; of the record after it, for a control batch.
    pub base_offset: Offset,
    /// Offset after its last record.
    pub end_offset: Offset,
    /// Whether it is a control batch.
    pub is_control: bool,
    /// The batch.
    pub batch: Bytes,
    /// Where it begins in its file.
    position: u64,
}

/// The open log.
/// Invariants: `entries` is without gaps in index and offset and follows `start`; the last segment
/// takes the next entry; all but the last `unflushed.len()` bytes are synced.
#[derive(Debug)]
pub struct MetadataLog {
    directory: PathBuf,
    /// Held for as long as the log is open.
    _lock: File,
    segments: Vec<Segment>,
    entries: VecDeque<LogEntry>,
    /// What was dropped from the front; `None` if nothing was.
    start: Option<SnapshotPoint>,
    unflushed: BytesMut,
    unflushed_entries: u64,
    /// Bytes of the last segment, unflushed ones included.
    segment_bytes: u64,
}

/// The directory of the metadata log and its snapshots under a controller's data directory, created
/// if it is not there.
///
/// # Errors
/// [`MetadataLogError::Io`].
pub fn directory(data_dir: &Path) -> Result<PathBuf, MetadataLogError> {
    let directory = data_dir.join(DIRECTORY);
    at(&directory, "create directory", fs::create_dir_all(&directory))?;
    sync_directory(data_dir)?;
    Ok(directory)
}

impl MetadataLog {
    /// Opens or creates the log in `directory`, which continues `snapshot`. An interrupted write at
    /// the end is cut off.
    ///
    /// # Errors
    /// [`MetadataLogError`], every one of them fatal.
    pub fn open(
        directory: &Path,
        snapshot: Option<SnapshotPoint>,
    ) -> Result<(MetadataLog, Recovery), MetadataLogError> {
        let lock = lock(directory)?;
        let mut log = MetadataLog {
            directory: directory.to_owned(),
            _lock: lock,
            segments: Vec::new(),
            entries: VecDeque::new(),
            start: snapshot,
            unflushed: BytesMut::new(),
            unflushed_entries: 0,
            segment_bytes: 0,
        };
        let truncated_bytes = log.load()?;
        log.forget_snapshotted()?;
        let recovery = Recovery { truncated_bytes, end_offset: log.end_offset() };
        Ok((log, recovery))
    }

    /// Offset of the next record.
    pub fn end_offset(&self) -> Offset {
        let start = self.start.map_or(Offset::ZERO, |start| start.end_offset);
        self.entries.back().map_or(start, |entry| entry.end_offset)
    }

    /// Offset of the first record that is not in the snapshot only.
    pub fn start_offset(&self) -> Offset {
        self.start.map_or(Offset::ZERO, |start| start.end_offset)
    }

    /// The last entry, kept or not.
    pub fn last(&self) -> Option<EntryId> {
        self.entries.back().map(|entry| entry.id).or(self.purged())
    }

    /// The last entry that was dropped from the front.
    pub fn purged(&self) -> Option<EntryId> {
        self.start.map(|start| start.last)
    }

    /// Index of the next entry.
    pub fn next_index(&self) -> u64 {
        self.last().map_or(0, |last| last.index + 1)
    }

    /// Index after the last entry that is durable.
    pub fn durable_end(&self) -> u64 {
        self.next_index() - self.unflushed_entries
    }

    /// Adds an entry, which is not durable before [`MetadataLog::flush`].
    ///
    /// # Errors
    /// [`MetadataLogError::Entry`]: it does not continue this log.
    pub fn push(&mut self, index: u64, batch: Bytes) -> Result<(), MetadataLogError> {
        let damaged = |source: BatchError| self.damaged(source);
        let header = parse_batch(&batch).map_err(damaged)?;
        let (found, expected) = (header.base_offset, self.end_offset());
        if index != self.next_index() || found != expected {
            let epoch = header.leader_epoch.0;
            return Err(MetadataLogError::Entry { index, found, epoch, expected });
        }
        self.unflushed.extend_from_slice(&batch);
        self.unflushed_entries += 1;
        self.keep(Found { header, position: self.segment_bytes, bytes: batch }, index);
        Ok(())
    }

    /// Writes and syncs what was pushed, all at once.
    ///
    /// # Errors
    /// [`MetadataLogError::Io`]: what reached the disk is unknown, the process must end.
    pub fn flush(&mut self) -> Result<(), MetadataLogError> {
        if self.unflushed.is_empty() {
            return Ok(());
        }
        self.active().append(&self.unflushed)?;
        self.unflushed.clear();
        self.unflushed_entries = 0;
        Ok(())
    }

    /// Entries of these indexes, cut short once they are large; those not kept are left out.
    pub fn entries(&self, indexes: Range<u64>) -> impl Iterator<Item = &LogEntry> {
        let mut bytes = 0;
        self.kept(indexes).take_while(move |entry| {
            let is_first = bytes == 0;
            bytes += entry.batch.len();
            is_first || bytes <= READ_BYTES_MAX
        })
    }

    /// All entries of these indexes that are kept.
    pub fn kept(&self, indexes: Range<u64>) -> impl Iterator<Item = &LogEntry> {
        let first = self.first_index();
        let from = usize::try_from(indexes.start.saturating_sub(first)).unwrap_or(usize::MAX);
        self.entries.iter().skip(from).take_while(move |entry| entry.id.index < indexes.end)
    }

    /// Whole data batches from the one that holds `offset` up to `end`: at least one, more while all
    /// fit `bytes_max`; nothing if none is there.
    pub fn read(&self, offset: Offset, end: Offset, bytes_max: usize) -> Bytes {
        let first = self.entries.partition_point(|entry| entry.end_offset <= offset);
        let committed = self.entries.range(first..).take_while(|entry| entry.end_offset <= end);
        let mut batches = committed.filter(|entry| !entry.is_control).map(|entry| &entry.batch);
        let Some(only) = batches.next() else { return Bytes::new() };
        let mut bytes = BytesMut::from(&only[..]);
        for batch in batches {
            if bytes.len() + batch.len() > bytes_max {
                break;
            }
            bytes.extend_from_slice(batch);
        }
        bytes.freeze()
    }

    /// Cuts off the entry `from` and all after it.
    ///
    /// # Errors
    /// [`MetadataLogError::Io`].
    pub fn truncate(&mut self, from: u64) -> Result<(), MetadataLogError> {
        self.flush()?;
        let kept = usize::try_from(from.saturating_sub(self.first_index())).unwrap_or(usize::MAX);
        let Some(first_cut) = self.entries.get(kept) else { return Ok(()) };
        let position = first_cut.position;
        self.entries.truncate(kept);
        while self.segments.len() > 1 && self.active().first_index > from {
            if let Some(segment) = self.segments.pop() {
                segment.remove()?;
            }
        }
        self.segment_bytes = position;
        self.active().truncate(position)?;
        sync_directory(&self.directory)
    }

    /// Drops entries up to `upto`, which a snapshot covers, and the files that hold no others. New
    /// entries go to a new file, so that the one they would have gone to can be dropped next time.
    ///
    /// # Errors
    /// [`MetadataLogError::Io`].
    pub fn purge(&mut self, upto: u64) -> Result<(), MetadataLogError> {
        self.flush()?;
        let dropped = self.entries.partition_point(|entry| entry.id.index <= upto);
        if let Some(entry) = self.entries.drain(..dropped).next_back() {
            self.start = Some(SnapshotPoint { last: entry.id, end_offset: entry.end_offset });
        }
        let next_index = self.next_index();
        if self.active().first_index < next_index && self.active().first_index <= upto {
            self.roll(next_index)?;
        }
        let covered = self.segments.partition_point(|segment| segment.first_index <= upto + 1);
        for segment in self.segments.drain(..covered.saturating_sub(1)) {
            segment.remove()?;
        }
        sync_directory(&self.directory)
    }

    /// Drops all entries: a snapshot that reaches past them takes their place.
    ///
    /// # Errors
    /// [`MetadataLogError::Io`].
    pub fn restart_after(&mut self, snapshot: SnapshotPoint) -> Result<(), MetadataLogError> {
        self.unflushed.clear();
        self.unflushed_entries = 0;
        self.entries.clear();
        self.start = Some(snapshot);
        let old = std::mem::take(&mut self.segments);
        self.roll(snapshot.last.index + 1)?;
        for segment in old {
            if segment.first_index != snapshot.last.index + 1 {
                segment.remove()?;
            }
        }
        sync_directory(&self.directory)
    }

    fn keep(&mut self, found: Found, index: u64) {
        let Found { header, position, bytes } = found;
        let base_offset = header.base_offset;
        let is_control = header.is_control();
        let end_offset = if is_control { base_offset } else { header.end_offset() };
        let id = EntryId { epoch: header.leader_epoch, index };
        self.segment_bytes = position + bytes.len() as u64;
        let entry = LogEntry { id, base_offset, end_offset, is_control, batch: bytes, position };
        self.entries.push_back(entry);
    }

    fn roll(&mut self, first_index: u64) -> Result<(), MetadataLogError> {
        let segment = Segment::open(&self.directory, first_index)?;
        segment.truncate(0)?;
        self.segments.push(segment);
        self.segment_bytes = 0;
        sync_directory(&self.directory)
    }

    fn first_index(&self) -> u64 {
        self.entries.front().map_or(self.next_index(), |entry| entry.id.index)
    }

    /// The file that takes the next entry.
    pub fn active_path(&self) -> &Path {
        &self.active().path
    }

    fn active(&self) -> &Segment {
        &self.segments[self.segments.len() - 1]
    }

    fn damaged(&self, source: BatchError) -> MetadataLogError {
        let (path, position) = (self.active().path.clone(), self.segment_bytes);
        MetadataLogError::Damaged { path, position, source }
    }
}

fn lock(directory: &Path) -> Result<File, MetadataLogError> {
    let path = directory.join(".lock");
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = at(&path, "open", file)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(MetadataLogError::InUse { path }),
        Err(TryLockError::Error(source)) => at(&path, "lock", Err(source)),
    }
}

//! The metadata log: one file of Kafka v2 record batches, synced before anybody is answered.
//!
//! A record's offset is its position in the metadata log. What the records mean is
//! `protocol::metadata`'s; who may read how far is `fetch`'s.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;

use crate::protocol::metadata::{ApplyError, Record};
use crate::record::{
    BatchBuilder, BatchError, BatchHeader, batches, check_crc, parse_batch, records, stamp,
};
use crate::types::{LeaderEpoch, Offset};
use crate::wire::{MetadataRecordError, decode_metadata_record, encode_metadata_record};

/// Directory and file as Kafka names them, so that Kafka's own tools can dump the log.
const DIRECTORY: &str = "__cluster_metadata-0";
const FILE_NAME: &str = "00000000000000000000.log";

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
        /// The log file.
        path: PathBuf,
    },
    /// A batch is damaged, and a whole one follows it or its checksum is right: this is no interrupted
    /// write, and cutting here would drop committed records.
    #[error("{}: batch at byte {position} is damaged, and not by an interrupted write: {source}", path.display())]
    Damaged {
        /// The log file.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// What is wrong with it.
        source: BatchError,
    },
    /// A batch is whole, but not the one that belongs here.
    #[error("{}: batch at byte {position} begins at offset {found}, {expected} belongs there", path.display())]
    Gap {
        /// The log file.
        path: PathBuf,
        /// Where the batch begins.
        position: u64,
        /// Its base offset.
        found: Offset,
        /// End offset of the batch before it.
        expected: Offset,
    },
    /// A batch is whole, but a record in it is none of ours.
    #[error("{}: record at offset {offset}: {source}", path.display())]
    Record {
        /// The log file.
        path: PathBuf,
        /// Which record.
        offset: Offset,
        /// What is wrong with it.
        source: MetadataRecordError,
    },
    /// A record does not fit the ones before it.
    #[error("{}: {source}", path.display())]
    Misfit {
        /// The log file.
        path: PathBuf,
        /// Which record, and why.
        source: ApplyError,
    },
}

/// What was found when the log was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of an interrupted write that were cut off.
    pub truncated_bytes: u64,
    /// Records kept.
    pub end_offset: Offset,
}

/// Where one batch is.
#[derive(Clone, Copy, Debug)]
struct Entry {
    end_offset: Offset,
    /// Byte after its last one.
    end_position: u64,
}

/// The open log.
/// Invariants: everything below `end_offset` is synced; `entries` is ordered and without gaps.
#[derive(Debug)]
pub struct MetadataLog {
    path: PathBuf,
    file: File,
    epoch: LeaderEpoch,
    entries: Vec<Entry>,
    builder: BatchBuilder,
}

impl MetadataLog {
    /// Opens or creates the log under `data_dir` and gives every record to `apply`. An interrupted
    /// write at the end is cut off. The log's epoch is one higher than that of its last batch.
    ///
    /// # Errors
    /// [`MetadataLogError`], every one of them fatal.
    pub fn open(
        data_dir: &Path,
        mut apply: impl FnMut(Offset, &Record) -> Result<(), ApplyError>,
    ) -> Result<(MetadataLog, Recovery), MetadataLogError> {
        let (path, file) = open_locked(data_dir)?;
        let mut log = MetadataLog {
            path,
            file,
            epoch: LeaderEpoch(0),
            entries: Vec::new(),
            builder: BatchBuilder::default(),
        };
        let bytes = log.read_whole()?;
        log.scan(&bytes, &mut apply)?;
        let truncated_bytes = bytes.len() as u64 - log.end_position();
        if truncated_bytes > 0 {
            log.io("truncate", log.file.set_len(log.end_position()))?;
            log.io("sync", log.file.sync_all())?;
        }
        log.epoch = LeaderEpoch(log.epoch.0 + 1);
        let recovery = Recovery { truncated_bytes, end_offset: log.end_offset() };
        Ok((log, recovery))
    }

    /// Offset of the next record.
    pub fn end_offset(&self) -> Offset {
        self.entries.last().map_or(Offset::ZERO, |entry| entry.end_offset)
    }

    /// The epoch under which this process appends.
    pub fn epoch(&self) -> LeaderEpoch {
        self.epoch
    }

    /// Appends records as one batch at [`MetadataLog::end_offset`]. When it returns they are durable:
    /// all of them, or after a crash in between none, because one CRC covers them.
    ///
    /// # Errors
    /// [`MetadataLogError::Io`]: what reached the disk is unknown, the process must end.
    ///
    /// # Panics
    /// Without a record.
    pub fn append(&mut self, records: &[Record]) -> Result<(), MetadataLogError> {
        let batch = self.encode(records);
        let end_offset = self.end_offset().plus(records.len() as i64);
        let end_position = self.end_position() + batch.len() as u64;
        let written = (&self.file).write_all(&batch);
        self.io("append", written)?;
        self.io("fdatasync", self.file.sync_data())?;
        self.entries.push(Entry { end_offset, end_position });
        Ok(())
    }

    /// Whole batches from the one that holds `offset` on: at least one, more while all fit
    /// `bytes_max`. Nothing at the end of the log.
    ///
    /// # Errors
    /// [`MetadataLogError::Io`].
    pub fn read(&self, offset: Offset, bytes_max: usize) -> Result<Bytes, MetadataLogError> {
        let first = self.entries.partition_point(|entry| entry.end_offset <= offset);
        let Some(first_entry) = self.entries.get(first) else { return Ok(Bytes::new()) };
        let start = first.checked_sub(1).map_or(0, |before| self.entries[before].end_position);
        let fits = |entry: &Entry| entry.end_position - start <= bytes_max as u64;
        let count = self.entries[first..].partition_point(fits);
        let last = count.checked_sub(1).map_or(first_entry, |last| &self.entries[first + last]);
        let mut bytes = vec![0; usize::try_from(last.end_position - start).unwrap_or(usize::MAX)];
        self.io("read", self.file.read_exact_at(&mut bytes, start))?;
        Ok(Bytes::from(bytes))
    }

    fn end_position(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.end_position)
    }

    fn encode(&mut self, records: &[Record]) -> Vec<u8> {
        self.builder.start(wall_clock_ms());
        for record in records {
            self.builder.push(0, None, &encode_metadata_record(record));
        }
        let mut batch = self.builder.finish().to_vec();
        stamp(&mut batch, self.end_offset(), self.epoch);
        batch
    }

    fn read_whole(&self) -> Result<Bytes, MetadataLogError> {
        let mut bytes = Vec::new();
        let read = (&self.file).read_to_end(&mut bytes);
        self.io("read", read)?;
        Ok(Bytes::from(bytes))
    }

    /// Applies whole batches up to the first fault.
    fn scan(
        &mut self,
        bytes: &Bytes,
        apply: &mut impl FnMut(Offset, &Record) -> Result<(), ApplyError>,
    ) -> Result<(), MetadataLogError> {
        for found in batches(bytes) {
            let Ok((header, range)) = found else { break };
            let batch = bytes.slice(range);
            if check_crc(&batch, &header).is_err() {
                break;
            }
            self.check_follows(&header)?;
            self.apply_batch(&header, &batch, apply)?;
            let end_position = self.end_position() + batch.len() as u64;
            self.entries.push(Entry { end_offset: header.end_offset(), end_position });
            self.epoch = header.leader_epoch;
        }
        let scanned = usize::try_from(self.end_position()).unwrap_or(usize::MAX);
        self.check_nothing_follows(&bytes[scanned..])
    }

    /// The base offset is not covered by the CRC.
    fn check_follows(&self, header: &BatchHeader) -> Result<(), MetadataLogError> {
        let (found, expected) = (header.base_offset, self.end_offset());
        if found == expected {
            return Ok(());
        }
        let position = self.end_position();
        Err(MetadataLogError::Gap { path: self.path.clone(), position, found, expected })
    }

    /// An interrupted write is one batch, so that nothing whole is behind the damage.
    fn check_nothing_follows(&self, rest: &[u8]) -> Result<(), MetadataLogError> {
        let whole = |at: usize| whole_batch(&rest[at..]).is_ok();
        match whole_batch(rest) {
            Err(source) if (1..rest.len()).any(whole) => Err(self.damaged(source)),
            Err(_) | Ok(()) => Ok(()),
        }
    }

    fn damaged(&self, source: BatchError) -> MetadataLogError {
        let position = self.end_position();
        MetadataLogError::Damaged { path: self.path.clone(), position, source }
    }

    fn apply_batch(
        &self,
        header: &BatchHeader,
        batch: &Bytes,
        apply: &mut impl FnMut(Offset, &Record) -> Result<(), ApplyError>,
    ) -> Result<(), MetadataLogError> {
        if header.is_control() {
            return Ok(());
        }
        for found in records(batch).map_err(|source| self.damaged(source))? {
            let found = found.map_err(|source| self.damaged(source))?;
            let offset = header.base_offset.plus(i64::from(found.offset_delta));
            let value = batch.slice_ref(found.value.unwrap_or_default());
            let record = decode_metadata_record(&value).map_err(|source| {
                MetadataLogError::Record { path: self.path.clone(), offset, source }
            })?;
            apply(offset, &record)
                .map_err(|source| MetadataLogError::Misfit { path: self.path.clone(), source })?;
        }
        Ok(())
    }

    fn io<T>(&self, op: &'static str, result: io::Result<T>) -> Result<T, MetadataLogError> {
        result.map_err(|source| MetadataLogError::Io { op, path: self.path.clone(), source })
    }
}

/// Record timestamps are for people who dump the log; no rule reads them.
fn wall_clock_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

fn whole_batch(bytes: &[u8]) -> Result<(), BatchError> {
    let header = parse_batch(bytes)?;
    check_crc(&bytes[..header.size_bytes], &header)
}

fn open_locked(data_dir: &Path) -> Result<(PathBuf, File), MetadataLogError> {
    let directory = data_dir.join(DIRECTORY);
    let at = |op, path: &Path| {
        let path = path.to_owned();
        move |source| MetadataLogError::Io { op, path, source }
    };
    fs::create_dir_all(&directory).map_err(at("create directory", &directory))?;
    let path = directory.join(FILE_NAME);
    let mut options = OpenOptions::new();
    let file = options.read(true).append(true).create(true).open(&path);
    let file = file.map_err(at("open", &path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(MetadataLogError::InUse { path }),
        Err(TryLockError::Error(source)) => return Err(at("lock", &path)(source)),
    }
    // The file itself must survive a power loss, not just its records.
    for directory in [&directory, data_dir] {
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.map_err(at("sync directory", directory))?;
    }
    Ok((path, file))
}

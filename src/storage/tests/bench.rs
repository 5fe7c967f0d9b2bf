//! A log on a test's disk, beside a model of what it must hold.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tempfile::TempDir;

use crate::config::node::LogConfig;
use crate::engine::{Io, OperationId};
use crate::record::{self, BatchBuilder};
use crate::types::{CommitRoute, DurabilityMode, Flush, LeaderEpoch, Offset, TopicId};

use super::super::preparer::Preparer;
use super::super::{PartitionLog, Read, Recovery, StorageError, default_route, device};
use super::disk::Disk;

pub(super) const TOPIC: TopicId = TopicId([7; 16]);

/// Small enough that a few hundred batches roll and leave memory.
pub(super) const SEGMENT_BYTES: u64 = 256 << 10;

pub(super) const FLUSH: Flush = Flush { messages: 10, interval: Duration::from_millis(50) };

pub(super) const MODES: [DurabilityMode; 6] = [
    DurabilityMode::PageCache,
    DurabilityMode::PageCacheFlush(FLUSH),
    DurabilityMode::Fsync,
    DurabilityMode::Direct,
    DurabilityMode::DirectFsync,
    DurabilityMode::DirectDsync,
];

/// A batch the log must hold.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) base_offset: Offset,
    pub(super) end_offset: Offset,
    pub(super) bytes: Bytes,
}

/// A log, its disk, and its model.
pub(super) struct Bench {
    pub(super) directory: TempDir,
    pub(super) disk: Disk,
    pub(super) preparer: Preparer,
    pub(super) config: LogConfig,
    pub(super) log: PartitionLog,
    pub(super) operation: u64,
    pub(super) epoch: LeaderEpoch,
    /// All batches the log holds, in order.
    pub(super) batches: Vec<Batch>,
    pub(super) random: ChaCha8Rng,
    builder: BatchBuilder,
}

pub(super) fn config(durability: DurabilityMode) -> LogConfig {
    LogConfig {
        durability,
        commit_route: default_route(durability),
        commit_pipeline_depth: 1,
        segment_bytes: SEGMENT_BYTES,
        memory_bytes: 128 << 10,
        message_bytes_max: 128 << 10,
    }
}

/// A directory that takes the mode. `None`, said aloud, if there is none for O_DIRECT.
pub(super) fn directory(mode: DurabilityMode) -> Option<TempDir> {
    if !mode.is_direct() {
        // In memory where possible: the tests sync a lot and none looks at the time.
        return tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).ok();
    }
    let candidates = [std::env::temp_dir(), Path::new(env!("CARGO_MANIFEST_DIR")).join("target")];
    for candidate in candidates {
        let Ok(directory) = tempfile::tempdir_in(candidate) else { continue };
        if device::block_bytes(directory.path(), mode).is_ok() {
            return Some(directory);
        }
    }
    eprintln!("SKIPPED for {mode}: no directory with O_DIRECT");
    None
}

impl Bench {
    /// A new log; `None` if no directory takes the mode.
    pub(super) fn new(config: LogConfig, seed: u64) -> Option<Bench> {
        let directory = directory(config.durability)?;
        let mut disk = Disk::default();
        let preparer = Preparer::start().expect("a thread");
        let (log, recovery) =
            PartitionLog::open(directory.path(), TOPIC, &config, &preparer, &mut disk)
                .expect("a new log");
        assert_eq!(recovery.log_end_offset, Offset::ZERO);
        Some(Bench {
            directory,
            disk,
            preparer,
            config,
            log,
            operation: 0,
            epoch: LeaderEpoch(0),
            batches: Vec::new(),
            random: ChaCha8Rng::seed_from_u64(seed),
            builder: BatchBuilder::default(),
        })
    }

    /// A new log of `mode` with the defaults.
    pub(super) fn of(mode: DurabilityMode) -> Option<Bench> {
        Bench::new(config(mode), 1)
    }

    /// Builds a batch of `records` records of about `record_bytes` each.
    pub(super) fn build(&mut self, records: usize, record_bytes: usize) -> Bytes {
        self.builder.start(1_700_000_000_000);
        for _ in 0..records {
            let mut value = vec![0; record_bytes];
            self.random.fill(&mut value[..]);
            self.builder.push(0, None, &value);
        }
        self.builder.finish()
    }

    /// Appends as a leader.
    pub(super) fn append(&mut self, records: usize, record_bytes: usize) {
        let batch = self.build(records, record_bytes);
        let base_offset = self.log.log_end_offset();
        let end_offset = base_offset.plus(records as i64);
        self.log.append(&batch, base_offset, end_offset, self.epoch, true).expect("appended");
        let mut bytes = batch.to_vec();
        record::stamp(&mut bytes, base_offset, self.epoch);
        self.batches.push(Batch { base_offset, end_offset, bytes: bytes.into() });
        self.log.check_invariants();
    }

    /// Appends `count` batches of random shapes.
    pub(super) fn append_some(&mut self, count: usize) {
        for _ in 0..count {
            let records = self.random.random_range(1..4);
            let record_bytes = self.random.random_range(1..3000);
            self.append(records, record_bytes);
        }
    }

    /// Starts writes; gives the new durable offset.
    pub(super) fn start(&mut self) -> Option<Offset> {
        let moved = self.log.start_writes(&mut self.disk, &mut self.operation).expect("started");
        self.log.check_invariants();
        moved
    }

    /// Completes one pending operation.
    pub(super) fn complete(&mut self, at: usize) -> Option<Offset> {
        let (operation, result) = self.disk.complete(at);
        let moved = self.log.written(operation, result).expect("completed");
        self.log.check_invariants();
        moved
    }

    /// Until nothing waits.
    pub(super) fn commit(&mut self) {
        self.start();
        while !self.disk.pending.is_empty() {
            self.complete(0);
            self.start();
        }
        assert_eq!(self.log.undurable_bytes(), 0);
        assert_eq!(self.log.durable_offset(), self.log.log_end_offset());
    }

    /// The process dies and starts again, perhaps with another configuration.
    pub(super) fn reopen(&mut self, config: LogConfig) -> Recovery {
        self.try_reopen(config).expect("reopened")
    }

    pub(super) fn try_reopen(&mut self, config: LogConfig) -> Result<Recovery, StorageError> {
        self.log.abandon();
        self.config = config;
        self.disk = Disk::default();
        let (log, recovery) = PartitionLog::open(
            self.directory.path(),
            TOPIC,
            &config,
            &self.preparer,
            &mut self.disk,
        )?;
        self.log = log;
        assert_eq!(recovery.log_end_offset, self.log.log_end_offset());
        assert_eq!(self.log.durable_offset(), self.log.log_end_offset());
        self.log.check_invariants();
        Ok(recovery)
    }

    /// Reads once from `from`; gives the bytes and the offset after them.
    pub(super) fn read(
        &mut self,
        from: Offset,
        until: Offset,
        bytes_max: usize,
    ) -> (Vec<u8>, Offset) {
        let mut out = Vec::new();
        let end_offset = match self.log.read(from, until, bytes_max, &mut out).expect("in range") {
            Read::Memory { end_offset, bytes } => {
                assert_eq!(bytes, out.iter().map(Bytes::len).sum::<usize>());
                end_offset
            }
            Read::Disk(read) => {
                let operation = OperationId(u64::MAX);
                self.disk.submit_read(operation, read.file, read.position, read.length);
                let bytes = self.disk.take_read(operation);
                self.log.complete_disk_read(&read, bytes, &mut out).expect("batches")
            }
        };
        (out.concat(), end_offset)
    }

    /// Asserts that the log holds exactly the model's batches.
    pub(super) fn check_content(&mut self) {
        let (start, end) = (self.log.log_start_offset(), self.log.log_end_offset());
        assert_eq!(self.batches.last().map_or(start, |batch| batch.end_offset), end);
        let mut from = start;
        let mut content = Vec::new();
        while from < end {
            let (bytes, next) = self.read(from, end, 20_000);
            assert!(next > from, "nothing at {from}, log {start} to {end}");
            content.extend_from_slice(&bytes);
            from = next;
        }
        let expected: Vec<u8> =
            self.batches.iter().flat_map(|batch| batch.bytes.iter().copied()).collect();
        assert!(content == expected, "{} bytes read, {} expected", content.len(), expected.len());
    }

    /// Drops from the model what is at or above `end`.
    pub(super) fn cut_model(&mut self, end: Offset) {
        self.batches.retain(|batch| batch.end_offset <= end);
    }

    /// Paths of the segments, in order.
    pub(super) fn segment_paths(&self) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(self.directory.path()).expect("the directory");
        let mut paths: Vec<_> = entries.map(|entry| entry.expect("entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort();
        paths
    }
}

/// As `config`, with everything inline: commits need no completions.
pub(super) fn inline(durability: DurabilityMode) -> LogConfig {
    LogConfig { commit_route: CommitRoute::Inline, ..config(durability) }
}

//! What the hot path costs when no disk and no network are in it: `cargo bench`.
//!
//! The disk and the network are the product's own subject; `ackmark run`, `probe` and `bench-floor`
//! measure them.

mod page_cache;

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use ackmark::config::node::LogConfig;
use ackmark::measure::clock;
use ackmark::protocol::partition::high_watermark::{FollowerEnd, Question, decide};
use ackmark::record::{self, BatchBuilder};
use ackmark::storage::{PartitionLog, Preparer, Read, StorageError, default_route};
use ackmark::types::{BrokerId, DurabilityMode, HwmGate, LeaderEpoch, Offset, TopicId};
use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use self::page_cache::PageCache;

const BATCH_BYTES: [usize; 2] = [1 << 10, 64 << 10];

/// A log is cut to nothing after this much, outside the time measured: its file stays in memory.
const PASS_BYTES: u64 = 64 << 20;

/// As after topic creation.
const EPOCH: LeaderEpoch = LeaderEpoch(0);

criterion_group!(benches, parse, high_watermark, append, fetch);
criterion_main!(benches);

/// What a leader does to a produced batch before it takes it: header checks and CRC-32C.
fn parse(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parse_and_check_crc");
    for batch_bytes in BATCH_BYTES {
        let batch = batch(batch_bytes);
        group.throughput(Throughput::Bytes(batch.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(batch_bytes), |bencher| {
            bencher.iter(|| record::validate_produced(black_box(&batch), 1 << 20).is_ok());
        });
    }
    group.finish();
}

/// One decision of a leader, all followers in the ISR and one of them behind.
fn high_watermark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("high_watermark");
    for replicas in [3, 100] {
        let question = Question {
            gate: HwmGate::Kip966,
            isr_count: replicas as usize,
            min_isr: 2,
            high_watermark: Offset(1_000),
            durable_offset: Offset(2_000),
        };
        let followers: Vec<FollowerEnd> = (1..replicas)
            .map(|id| FollowerEnd {
                id: BrokerId(id),
                log_end_offset: Some(Offset(2_000 - i64::from(id))),
                in_maximal_isr: true,
                about_to_join: false,
            })
            .collect();
        group.bench_function(BenchmarkId::from_parameter(replicas), |bencher| {
            bencher.iter(|| decide(black_box(&question), black_box(&followers).iter().copied()));
        });
    }
    group.finish();
}

/// One batch into the log's memory and, by an inline pwrite, into the page cache.
fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("append_page_cache");
    for batch_bytes in BATCH_BYTES {
        let batch = batch(batch_bytes);
        group.throughput(Throughput::Bytes(batch.len() as u64));
        group.bench_function(BenchmarkId::from_parameter(batch_bytes), |bencher| {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let mut io = PageCache::default();
            let mut log = open(&folder.path().join("log"), &mut io).expect("a log");
            bencher.iter_custom(|count| {
                append_many(&mut log, &mut io, &batch, count).expect("appends")
            });
        });
    }
    group.finish();
}

fn append_many(
    log: &mut PartitionLog,
    io: &mut PageCache,
    batch: &Bytes,
    count: u64,
) -> Result<Duration, StorageError> {
    let pass_count = PASS_BYTES / batch.len() as u64;
    let (mut left, mut time) = (count, Duration::ZERO);
    while left > 0 {
        log.truncate(io, Offset::ZERO)?;
        let now = left.min(pass_count);
        let started = clock::now();
        for _ in 0..now {
            append_one(log, io, batch)?;
        }
        time += clock::now().since(started);
        left -= now;
    }
    Ok(time)
}

fn append_one(
    log: &mut PartitionLog,
    io: &mut PageCache,
    batch: &Bytes,
) -> Result<(), StorageError> {
    let base = log.log_end_offset();
    log.append(batch, base, base.plus(1), EPOCH, true)?;
    log.start_writes(io, &mut 0).map(drop)
}

/// Up to 64 KiB of the log's recent end, as a follower's fetch gets it.
fn fetch(criterion: &mut Criterion) {
    const FETCH_BYTES: usize = 64 << 10;
    const BATCH_COUNT: i64 = 256;
    let folder = tempfile::tempdir().expect("a temporary directory");
    let mut io = PageCache::default();
    let mut log = open(&folder.path().join("log"), &mut io).expect("a log");
    let batch = batch(1 << 10);
    for _ in 0..BATCH_COUNT {
        append_one(&mut log, &mut io, &batch).expect("an append");
    }
    let mut group = criterion.benchmark_group("fetch_from_memory");
    for (name, bytes_max) in [("one batch", 1), ("64 KiB", FETCH_BYTES)] {
        let mut out = Vec::new();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                let (from, until) = (Offset(BATCH_COUNT / 2), log.log_end_offset());
                let read = log.read(black_box(from), until, bytes_max, &mut out);
                assert!(matches!(read, Ok(Read::Memory { .. })), "not in memory");
            });
        });
    }
    group.finish();
}

fn open(folder: &Path, io: &mut PageCache) -> Result<PartitionLog, StorageError> {
    let mode = DurabilityMode::PageCache;
    let config = LogConfig {
        durability: mode,
        commit_route: default_route(mode),
        commit_pipeline_depth: 1,
        // More than twice a pass: no next segment is ever ordered.
        segment_bytes: 3 * PASS_BYTES,
        memory_bytes: 4 << 20,
        message_bytes_max: 1 << 20,
    };
    let (log, _) = PartitionLog::open(folder, TopicId([1; 16]), &config, &Preparer::start()?, io)?;
    Ok(log)
}

/// A batch of one record, of about `batch_bytes`.
fn batch(batch_bytes: usize) -> Bytes {
    let value: Vec<u8> = (0..batch_bytes - record::HEADER_BYTES - 10)
        .map(|index| ((index * 2_654_435_761) >> 8) as u8)
        .collect();
    let mut builder = BatchBuilder::with_capacity(batch_bytes);
    builder.start(0);
    builder.push(0, None, &value);
    builder.finish()
}

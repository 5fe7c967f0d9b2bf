//! Our side of the comparison: one partition log, one batch at a time, under either engine.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::{Advice, fadvise};

use crate::config::node::LogConfig;
use crate::engine::{self, App, EngineError, Event, Io, Limits};
use crate::environment::Samples;
use crate::measure::threads;
use crate::record::BatchBuilder;
use crate::storage::{PartitionLog, Preparer, StorageError};
use crate::types::{
    CommitRoute, DurabilityMode, EngineKind, LeaderEpoch, MonotonicTime, Offset, TopicId,
};

use super::Side;

/// What is measured.
pub(super) struct Job<'a> {
    /// For the log; must not be there, and is gone afterwards.
    pub folder: &'a Path,
    pub engine: EngineKind,
    pub mode: DurabilityMode,
    pub route: CommitRoute,
    /// Length of one batch.
    pub write_bytes: usize,
    /// After this much the log is cut to nothing and begun again, outside the time measured.
    pub pass_bytes: u64,
    /// Time measured.
    pub duration: Duration,
}

/// Our side gave no result.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// The engine could not run.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The log could not be written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The log's pages could not be dropped from the page cache between two passes.
    #[error("{}: cannot drop the log from the page cache", path.display())]
    Drop {
        /// The log.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The system gives no thread for the shard.
    #[error(transparent)]
    Thread(io::Error),
    /// The shard's thread ended without a result.
    #[error("the shard's thread panicked")]
    Panicked,
    /// Not one write was done in the time.
    #[error("{0}: no write was done in time")]
    NoWrite(DurabilityMode),
}

/// The direct and syncing modes are steady from the first few writes on. A growing file must be
/// grown once, whatever that takes: only then are its pages just freed ones, as fio's are.
const WARM_UP_DURATION: Duration = Duration::from_millis(100);

/// The log's memory where a write ends in memory itself: nobody fetches here, so all it has to hold
/// is the write in flight, and this little stays in the CPU's cache, as the one buffer does that
/// fio writes from.
const MEMORY_BYTES_BUFFERED: usize = 256 << 10;
/// The log's memory where the device takes the bytes: its chunks are long enough to cut no write.
const MEMORY_BYTES_DEVICE: usize = 4 << 20;

/// Latencies there is room for before the list must grow; more than a second of page-cache writes.
const LATENCY_COUNT: usize = 1 << 20;

/// Runs the log writer on a thread of its own.
pub(super) fn measure(job: &Job<'_>) -> Result<Side, WriterError> {
    let limits = Limits { frame_bytes_max: 1 << 20, half_frame_idle_max: Duration::from_secs(1) };
    let writer = Writer::new(job, Preparer::start()?);
    let engine = job.engine;
    let run = move || match engine {
        EngineKind::Uring => engine::uring::run(writer, limits, None),
        EngineKind::Glommio => engine::glommio::run(writer, limits, None),
    };
    let thread = threads::start("log-writer", run).map_err(WriterError::Thread)?;
    let writer = thread.join().map_err(|_| WriterError::Panicked)??;
    if let Some(error) = writer.error {
        return Err(error);
    }
    let iops = writer.latencies.len() as f64 / writer.measured.as_secs_f64();
    let samples: Samples = writer.latencies.into_iter().collect();
    let p50_ns = samples.median_ns().ok_or(WriterError::NoWrite(job.mode))?;
    Ok(Side { iops, p50_ns, p99_ns: samples.p99_ns() })
}

/// The program on the shard.
struct Writer {
    folder: PathBuf,
    config: LogConfig,
    preparer: Preparer,
    log: Option<PartitionLog>,
    batch: Bytes,
    pass_bytes: u64,
    duration: Duration,
    next_operation: u64,
    /// First pass; nothing counts yet.
    is_warm_up: bool,
    pass_started: MonotonicTime,
    /// When the batch before was durable, or the pass began: each latency starts there, so that
    /// nothing the writer does between two batches is left out, and one reading serves for both.
    append_started: MonotonicTime,
    /// Time of the passes that count and are over.
    measured: Duration,
    latencies: Vec<Duration>,
    is_finished: bool,
    error: Option<WriterError>,
}

impl Writer {
    fn new(job: &Job<'_>, preparer: Preparer) -> Writer {
        Writer {
            folder: job.folder.to_owned(),
            config: LogConfig {
                durability: job.mode,
                commit_route: job.route,
                commit_pipeline_depth: 1,
                // The log has its next segment made once half of this one is used; in a pass that
                // stays below, no preparation runs beside the writes. fio does none either.
                segment_bytes: 2 * job.pass_bytes + (1 << 20),
                memory_bytes: match job.mode {
                    DurabilityMode::PageCache => MEMORY_BYTES_BUFFERED,
                    _ => MEMORY_BYTES_DEVICE,
                },
                message_bytes_max: 1 << 20,
            },
            preparer,
            log: None,
            batch: batch_of(job.write_bytes),
            pass_bytes: job.pass_bytes,
            duration: job.duration,
            next_operation: 0,
            is_warm_up: true,
            pass_started: MonotonicTime::ZERO,
            append_started: MonotonicTime::ZERO,
            measured: Duration::ZERO,
            latencies: touched(LATENCY_COUNT),
            is_finished: false,
            error: None,
        }
    }

    /// Keeps one batch in flight; goes round on the spot while the route completes inline.
    fn advance(&mut self, io: &mut dyn Io) -> Result<(), WriterError> {
        let Some(mut log) = self.log.take() else { return Ok(()) };
        while log.in_flight() == 0 {
            if self.is_pass_over(&log) {
                self.end_pass();
                if self.is_finished {
                    return Ok(log.delete(io)?);
                }
                log.truncate(io, Offset::ZERO)?;
                self.drop_page_cache()?;
                self.start_pass(io);
            }
            let base = log.log_end_offset();
            log.append(&self.batch, base, base.plus(1), LeaderEpoch(0), true)?;
            if log.start_writes(io, &mut self.next_operation)?.is_some() {
                self.note_durable(io);
            }
        }
        self.log = Some(log);
        Ok(())
    }

    fn is_pass_over(&self, log: &PartitionLog) -> bool {
        let written = log.log_end_offset().0.unsigned_abs() * self.batch.len() as u64;
        let elapsed = self.append_started.since(self.pass_started);
        written >= self.pass_bytes || elapsed >= self.time_left()
    }

    fn time_left(&self) -> Duration {
        match (self.is_warm_up, super::grows(self.config.durability)) {
            (true, true) => Duration::MAX,
            (true, false) => WARM_UP_DURATION,
            (false, _) => self.duration.saturating_sub(self.measured),
        }
    }

    fn start_pass(&mut self, io: &mut dyn Io) {
        self.pass_started = io.now();
        self.append_started = self.pass_started;
    }

    fn end_pass(&mut self) {
        if self.is_warm_up {
            self.is_warm_up = false;
        } else {
            self.measured += self.append_started.since(self.pass_started);
            self.is_finished = self.measured >= self.duration;
        }
    }

    fn note_durable(&mut self, io: &mut dyn Io) {
        let now = io.now();
        if !self.is_warm_up {
            self.latencies.push(now.since(self.append_started));
        }
        self.append_started = now;
    }

    /// The cut filled the file with zeros through the page cache, where each direct write would
    /// have to throw a page out.
    fn drop_page_cache(&self) -> Result<(), WriterError> {
        if !self.config.durability.is_direct() {
            return Ok(());
        }
        let drop_all = || {
            for entry in fs::read_dir(&self.folder)? {
                fadvise(File::open(entry?.path())?, 0, None, Advice::DontNeed)?;
            }
            Ok(())
        };
        drop_all().map_err(|source| WriterError::Drop { path: self.folder.clone(), source })
    }

    fn open(&mut self, io: &mut dyn Io) -> Result<(), WriterError> {
        let topic = TopicId([1; 16]);
        let (log, _) = PartitionLog::open(&self.folder, topic, &self.config, &self.preparer, io)?;
        self.log = Some(log);
        self.start_pass(io);
        Ok(())
    }

    fn take_completion(&mut self, io: &mut dyn Io, event: Event) -> Result<(), WriterError> {
        let (Event::Written { operation, result, .. }, Some(log)) = (event, &mut self.log) else {
            return Ok(());
        };
        if log.written(operation, result)?.is_some() {
            self.note_durable(io);
        }
        Ok(())
    }

    fn end_on_error(&mut self, result: Result<(), WriterError>) {
        if let Err(error) = result {
            self.error = Some(error);
            self.is_finished = true;
            self.log = None;
        }
    }
}

impl App for Writer {
    fn start(&mut self, io: &mut dyn Io) {
        let opened = self.open(io);
        self.end_on_error(opened);
    }

    fn on_event(&mut self, io: &mut dyn Io, event: Event) {
        let taken = self.take_completion(io, event);
        self.end_on_error(taken);
    }

    fn on_batch_end(&mut self, io: &mut dyn Io) {
        let advanced = self.advance(io);
        self.end_on_error(advanced);
    }

    fn deadline(&self) -> Option<MonotonicTime> {
        None
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

/// An empty list whose memory is there: a first touch costs microseconds in a virtual machine.
fn touched(capacity: usize) -> Vec<Duration> {
    let mut list = vec![Duration::MAX; capacity];
    list.clear();
    list
}

/// A valid batch of one record whose length is exactly `batch_bytes`.
///
/// # Panics
/// Below the length of a batch with an empty record, or at the few lengths just above 8 KiB where
/// the record's own length takes one more byte.
fn batch_of(batch_bytes: usize) -> Bytes {
    let build = |value_bytes: usize| {
        let value: Vec<u8> = (0..value_bytes).map(|index| (index * 2_654_435_761) as u8).collect();
        let mut builder = BatchBuilder::with_capacity(batch_bytes);
        builder.start(0);
        builder.push(0, None, &value);
        builder.finish()
    };
    let overhead_max = build(0).len() + 8;
    let values = batch_bytes.saturating_sub(overhead_max)..batch_bytes;
    let fitting = values.map(build).find(|batch| batch.len() >= batch_bytes);
    fitting
        .filter(|batch| batch.len() == batch_bytes)
        .unwrap_or_else(|| panic!("no batch of one record has {batch_bytes} bytes"))
}

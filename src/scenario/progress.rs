//! What a run tells of itself while it goes on. Who listens, and how it looks, is `live`'s.
//!
//! A message on a channel is all that telling costs: nobody here waits for a terminal or a scraper.
//! A cell under load tells a few times a second, and only if somebody looks.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crossbeam::atomic::AtomicCell;
use crossbeam::channel::Sender;

use crate::driver::{Phase, Progress as CellProgress};
use crate::measure::histogram::{LatencyHistogram, PERCENTILES, Percentile};

use super::partitions::{Partition, Watch};

/// Between two [`Snapshot`]s: often enough for the eye.
pub const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(333);
/// A listener that is so far behind, such as one whose terminal is held, misses snapshots.
const BEHIND_MAX: usize = 64;

const P50: &Percentile = &PERCENTILES[0];
const P99: &Percentile = &PERCENTILES[3];

/// One thing that a run tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Update {
    /// What is done between cells.
    Note(String),
    /// A cell begins.
    CellBegins(CellId),
    /// A cell goes on; only if somebody looks.
    CellGoesOn(Snapshot),
    /// A cell is over; `p50` is absent where the sample is too small for it.
    CellIsOver {
        /// Which.
        cell: CellId,
        /// Of its acknowledgements.
        p50: Option<Duration>,
    },
    /// The partitions of the present cell, as the cluster tells them; only if somebody looks.
    Partitions(Vec<Partition>),
    /// A fault, made or found.
    Event(String),
    /// The run is over.
    Finished,
}

/// One repeat of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellId {
    /// Counts the cells of the run, repeats too, from 1.
    pub step: usize,
    /// The cell's name in its workload.
    pub name: String,
    /// From 0.
    pub repeat: usize,
}

/// A cell under load, at one instant. Counts and percentiles are of its measured part so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// When.
    pub at: Instant,
    /// Where the cell is.
    pub phase: Phase,
    /// Since the load began.
    pub elapsed: Duration,
    /// Warm-up and measured part together.
    pub load_length: Duration,
    /// Records sent.
    pub records_sent: u64,
    /// Records acknowledged.
    pub records_acknowledged: u64,
    /// Records given up.
    pub records_failed: u64,
    /// Produce requests without an answer now.
    pub in_flight_batches: usize,
    /// Of the acknowledgement latency; absent where the sample is too small.
    pub p50_ns: Option<u64>,
    /// Of the acknowledgement latency; absent where the sample is too small.
    pub p99_ns: Option<u64>,
}

/// The run's side of the channel.
#[derive(Debug)]
pub struct Progress {
    updates: Sender<Update>,
    is_watched: bool,
    step: usize,
    snapshot_due: AtomicCell<Instant>,
    partitions: Option<Watch>,
}

impl Progress {
    /// Tells `updates`. Unless the run `is_watched`, cells under load and partitions are not told.
    pub fn new(updates: Sender<Update>, is_watched: bool) -> Progress {
        let snapshot_due = AtomicCell::new(Instant::now());
        Progress { updates, is_watched, step: 0, snapshot_due, partitions: None }
    }

    /// Says what is done between cells.
    pub fn note(&self, text: &str) {
        self.tell(Update::Note(text.to_owned()));
    }

    /// Says that a fault was made or found.
    pub fn event(&self, text: &str) {
        self.tell(Update::Event(text.to_owned()));
    }

    /// A cell begins: repeat `repeat` of `name`.
    pub fn cell_begins(&mut self, name: &str, repeat: usize) {
        self.step += 1;
        self.tell(Update::CellBegins(self.cell(name, repeat)));
    }

    /// From now until the cell is over, tells the partitions of its `topic` as the cluster at
    /// `bootstrap` knows them.
    pub fn watch_partitions(&mut self, bootstrap: SocketAddr, topic: &str) {
        if self.is_watched {
            self.partitions = Watch::start(bootstrap, topic, self.updates.clone());
        }
    }

    /// A cell goes on; called ten times a second, on the load's own thread.
    pub fn cell_goes_on(&self, now: CellProgress) {
        let at = Instant::now();
        if !self.is_watched || at < self.snapshot_due.load() || self.updates.len() > BEHIND_MAX {
            return;
        }
        self.snapshot_due.store(at + SNAPSHOT_INTERVAL);
        let percentile_ns = |which| LatencyHistogram::percentile_ns(now.acknowledged, which);
        self.tell(Update::CellGoesOn(Snapshot {
            at,
            phase: now.phase,
            elapsed: now.elapsed,
            load_length: now.load_length,
            records_sent: now.records_sent,
            records_acknowledged: now.records_acknowledged,
            records_failed: now.records_failed,
            in_flight_batches: now.in_flight_batches,
            p50_ns: percentile_ns(P50),
            p99_ns: percentile_ns(P99),
        }));
    }

    /// A cell is over; `p50` is absent where the sample is too small for it.
    pub fn cell_is_over(&mut self, name: &str, repeat: usize, p50: Option<Duration>) {
        self.partitions = None;
        self.tell(Update::CellIsOver { cell: self.cell(name, repeat), p50 });
    }

    fn cell(&self, name: &str, repeat: usize) -> CellId {
        CellId { step: self.step, name: name.to_owned(), repeat }
    }

    fn tell(&self, update: Update) {
        // A run goes on whether anybody listens or not.
        let _ = self.updates.send(update);
    }
}

//! The driver's hot path does not allocate per record: counted by this binary's own allocator, and
//! with a twin that allocates once per record and must be found out.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use ackmark::driver::Batcher;
use ackmark::driver::load::{Batching, LoadMode, PartitionLoad};
use ackmark::driver::payload::Payload;
use ackmark::driver::schedule::{Arrivals, Rate, Share};
use ackmark::measure::histogram::LatencyHistogram;
use ackmark::measure::stage::{StageHistograms, Trace, gaps};
use ackmark::types::{Acks, BrokerStamps, ClockId, MonotonicTime, PartitionId};

thread_local! {
    /// Allocations of this thread: tests of one binary run side by side.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches only a
// thread-local integer that needs no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const RECORD_BYTES: usize = 1_024;
const RECORDS_PER_BATCH: u64 = 63;
const WARM_UP_BATCHES: u64 = 100;
const BATCHES: u64 = 1_600;

/// What a record costs on its way out and back, but for sockets.
struct HotPath {
    load: PartitionLoad,
    batcher: Batcher,
    latency: LatencyHistogram,
    stages: StageHistograms,
    now: MonotonicTime,
}

impl HotPath {
    fn new(arrivals: Arrivals) -> HotPath {
        let rate = Rate::per_second(1e6).expect("a rate in range");
        let mode = LoadMode::OpenLoop { rate, arrivals };
        let linger = Duration::from_millis(5);
        let batching = Batching { records_max: RECORDS_PER_BATCH, linger };
        let share = Share { partition: 0, of: 1 };
        HotPath {
            load: PartitionLoad::new(mode, batching, share, 1, u64::MAX),
            batcher: Batcher::new(
                Payload::new(1, RECORD_BYTES, 0.0),
                RECORDS_PER_BATCH as usize * (RECORD_BYTES + 16) + 61,
                MonotonicTime(1),
            ),
            latency: LatencyHistogram::new(),
            stages: StageHistograms::new(),
            now: MonotonicTime(1),
        }
    }

    /// One batch: scheduled, built, and its latency and stages recorded. Its records.
    fn turn(&mut self) -> u64 {
        let closes_ns = self.load.closes_ns(self.now.0).expect("the load has no end");
        self.now = MonotonicTime(1 + closes_ns);
        let batch = self.batcher.next(PartitionId(0), &mut self.load, self.now);
        let (facts, bytes) = batch.expect("a batch that has closed");
        let acked = self.now.plus(Duration::from_nanos(bytes.len() as u64 * 1_000));
        let dues = &facts.dues;
        self.latency.record_batch(dues.iter(), acked);
        let gaps = gaps(&trace(dues.oldest(), self.now, acked), Acks::Leader);
        self.stages.record(gaps, dues, self.now);
        u64::from(dues.records())
    }

    /// Allocations and records of so many turns.
    fn count(&mut self, batches: u64, mut beside: impl FnMut(u64)) -> (u64, u64) {
        let before = ALLOCATIONS.get();
        let mut records = 0;
        for _ in 0..batches {
            let of_batch = self.turn();
            beside(of_batch);
            records += of_batch;
        }
        (ALLOCATIONS.get() - before, records)
    }
}

fn trace(intended: MonotonicTime, sent: MonotonicTime, acked: MonotonicTime) -> Trace {
    let broker = BrokerStamps {
        clock: ClockId(1),
        received: sent,
        append_started: sent,
        appended: sent,
        durable: sent,
        follower_served: MonotonicTime::ZERO,
        follower_received: MonotonicTime::ZERO,
        follower_appended: MonotonicTime::ZERO,
        follower_durable: MonotonicTime::ZERO,
        follower_acknowledged: MonotonicTime::ZERO,
        committed: sent,
        answered: sent,
    };
    Trace { clock: ClockId(1), intended, sent, broker, acked }
}

fn warm(arrivals: Arrivals) -> HotPath {
    let mut path = HotPath::new(arrivals);
    path.count(WARM_UP_BATCHES, |_| {});
    path
}

/// A batch whose buffer is still on a socket leaves the builder without one to reuse, so a few
/// allocations per batch are allowed; one per record is not.
fn is_free_of_per_record_allocations((allocations, records): (u64, u64)) -> bool {
    assert!(records >= 100_000, "{records} records say too little");
    allocations <= 4 * BATCHES
}

#[test]
fn scheduling_building_and_recording_do_not_allocate_per_record() {
    for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
        let counted = warm(arrivals).count(BATCHES, |_| {});
        assert!(is_free_of_per_record_allocations(counted), "{arrivals:?}: {counted:?}");
    }
}

#[test]
fn recording_does_not_allocate_at_all() {
    let mut latency = LatencyHistogram::new();
    let before = ALLOCATIONS.get();
    for exponent in 0..64 {
        latency.record_ns(1 << exponent);
        latency.record_ns((1 << exponent) - 1);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0, "not even for values beyond the range");
}

#[test]
fn the_twin_that_allocates_per_record_is_found_out() {
    let counted = warm(Arrivals::Uniform).count(BATCHES, |records| {
        for record in 0..records {
            std::hint::black_box(Box::new(record));
        }
    });
    assert!(!is_free_of_per_record_allocations(counted), "{counted:?}");
}

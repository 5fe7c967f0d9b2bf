//! Which stages the time of slow batches, or of middling ones, went to.
//!
//! Percentiles of stages do not add up to the percentile of the whole: the batch with the slowest
//! sync is not the one with the slowest transfer. So records are counted by latency, and each count
//! keeps the sum of its records' gaps: means over a band of latencies do add up.
//!
//! Hot path: [`Composition::record`] does not allocate.

use super::{Gaps, Stage};

/// Buckets per doubling of the latency: a bucket is at most 1/16 wide.
const BUCKETS_PER_DOUBLING: usize = 16;

/// `log2` of [`BUCKETS_PER_DOUBLING`].
const SUB_BITS: u32 = BUCKETS_PER_DOUBLING.ilog2();

/// For every `u64`.
const BUCKET_COUNT: usize = (u64::BITS - SUB_BITS + 1) as usize * BUCKETS_PER_DOUBLING;

/// Records by latency, with what they spent in each stage.
#[derive(Clone, Debug)]
pub struct Composition {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    count: u64,
    stage_ns: [u64; Stage::COUNT],
}

/// The records of a band of latencies.
#[derive(Clone, Debug, PartialEq)]
pub struct Band {
    /// Least latency in it.
    pub from_ns: u64,
    /// First latency above it.
    pub to_ns: u64,
    /// Records, at least 1.
    pub count: u64,
    /// Mean of each stage that took any time, in path order; they add up to the mean latency.
    pub mean_ns: Vec<(Stage, f64)>,
}

impl Composition {
    /// An empty one.
    pub fn new() -> Composition {
        Composition { buckets: vec![Bucket::default(); BUCKET_COUNT] }
    }

    /// Counts the records of one batch: `lags` are their own [`Stage::ScheduleLag`]s and how many
    /// records have each, `gaps` has the stages they share.
    pub fn record(&mut self, gaps: &Gaps, lags: impl Iterator<Item = (u64, u64)>) {
        let shared_ns = gaps.after_lag_ns();
        // Neighbours mostly fall into one bucket: the shared stages are added once for all of them.
        let (mut index, mut records) = (0, 0);
        for (lag_ns, n) in lags {
            let own = index_of(lag_ns + shared_ns);
            if own != index {
                self.add_shared(gaps, index, records);
                (index, records) = (own, 0);
            }
            records += n;
            self.buckets[own].stage_ns[Stage::ScheduleLag as usize] += lag_ns * n;
        }
        self.add_shared(gaps, index, records);
    }

    fn add_shared(&mut self, gaps: &Gaps, index: usize, records: u64) {
        let bucket = &mut self.buckets[index];
        bucket.count += records;
        for (stage, gap_ns) in gaps.after_lag() {
            bucket.stage_ns[*stage as usize] += gap_ns * records;
        }
    }

    /// Records counted.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.count).sum()
    }

    /// Adds the records of `other`.
    pub fn merge(&mut self, other: &Composition) {
        for (own, other) in self.buckets.iter_mut().zip(&other.buckets) {
            own.add(other);
        }
    }

    /// The records from quantile `from` to quantile `to` (0 to 1, ascending) of the latency, widened
    /// to whole buckets; `None` without records.
    pub fn band(&self, from: f64, to: f64) -> Option<Band> {
        let all = self.count() as f64;
        let (first_rank, last_rank) = (from * all, (to * all).max(1.0));
        let mut seen = 0.0;
        let mut sum = Bucket::default();
        let mut range = None;
        for (index, bucket) in self.buckets.iter().enumerate().filter(|(_, b)| b.count > 0) {
            let before = seen;
            seen += bucket.count as f64;
            if seen > first_rank && before < last_rank {
                sum.add(bucket);
                let (first, _) = range.unwrap_or((index, index));
                range = Some((first, index));
            }
        }
        let (first, last) = range?;
        let mean = |stage: Stage| sum.stage_ns[stage as usize] as f64 / sum.count as f64;
        Some(Band {
            from_ns: least_of(first),
            to_ns: least_of(last + 1),
            count: sum.count,
            mean_ns: Stage::ALL
                .into_iter()
                .map(|stage| (stage, mean(stage)))
                .filter(|(_, mean_ns)| *mean_ns > 0.0)
                .collect(),
        })
    }
}

impl Default for Composition {
    fn default() -> Composition {
        Composition::new()
    }
}

impl Bucket {
    fn add(&mut self, other: &Bucket) {
        self.count += other.count;
        for (own, other) in self.stage_ns.iter_mut().zip(other.stage_ns) {
            *own += other;
        }
    }
}

/// The first 16 buckets hold one value each; then each doubling has 16.
fn index_of(latency_ns: u64) -> usize {
    if latency_ns < BUCKETS_PER_DOUBLING as u64 {
        return latency_ns as usize;
    }
    let shift = latency_ns.ilog2() - SUB_BITS;
    let within = (latency_ns >> shift) as usize - BUCKETS_PER_DOUBLING;
    (shift as usize + 1) * BUCKETS_PER_DOUBLING + within
}

/// The least latency of a bucket; `u64::MAX` past the last one.
fn least_of(index: usize) -> u64 {
    if index < BUCKETS_PER_DOUBLING {
        return index as u64;
    }
    let (doubling, within) = (index / BUCKETS_PER_DOUBLING - 1, index % BUCKETS_PER_DOUBLING);
    let mantissa = (BUCKETS_PER_DOUBLING + within) as u128;
    u64::try_from(mantissa << doubling).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use crate::measure::stage::{Trace, gaps};
    use crate::types::{Acks, BrokerStamps, ClockId, MonotonicTime};

    use super::*;

    /// A batch that waited `lag_ns` in the driver, then took `sync_ns` on the leader's disk.
    fn batch(lag_ns: u64, sync_ns: u64) -> Gaps {
        let at = |ns: u64| MonotonicTime(1_000 + ns);
        let (sent, durable) = (at(lag_ns), at(lag_ns + sync_ns));
        let mut broker = BrokerStamps {
            clock: ClockId(1),
            received: sent,
            append_started: sent,
            appended: sent,
            durable,
            follower_served: MonotonicTime::ZERO,
            follower_received: MonotonicTime::ZERO,
            follower_appended: MonotonicTime::ZERO,
            follower_durable: MonotonicTime::ZERO,
            follower_acknowledged: MonotonicTime::ZERO,
            committed: MonotonicTime::ZERO,
            answered: durable,
        };
        broker.committed = durable;
        let trace = Trace { clock: ClockId(1), intended: at(0), sent, broker, acked: durable };
        gaps(&trace, Acks::Leader).expect("an unbroken path")
    }

    #[test]
    fn every_latency_lies_in_its_bucket() {
        let values = (0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) + 1, (1 << bit) - 1]);
        for value in values.chain([u64::MAX]) {
            let index = index_of(value);
            assert!(least_of(index) <= value, "{value}");
            assert!(value < least_of(index + 1) || value == u64::MAX, "{value}");
            let width = least_of(index + 1) - least_of(index);
            assert!(width <= 1.max(value / 16), "{value}");
        }
        assert_eq!(index_of(u64::MAX), BUCKET_COUNT - 1);
    }

    #[test]
    fn the_middle_and_the_tail_are_told_apart() {
        let mut composition = Composition::new();
        for _ in 0..970 {
            composition.record(&batch(20_000, 80_000), [(20_000, 1)].into_iter());
        }
        for _ in 0..30 {
            composition.record(&batch(900_000, 100_000), [(900_000, 1)].into_iter());
        }
        let middle = composition.band(0.45, 0.55).expect("batches");
        assert_eq!(middle.count, 970);
        assert_eq!(middle.mean_ns, [(Stage::ScheduleLag, 20_000.0), (Stage::LeaderSync, 80_000.0)]);
        assert!((middle.from_ns..middle.to_ns).contains(&100_000), "{middle:?}");
        let tail = composition.band(0.985, 0.995).expect("batches");
        assert_eq!(tail.count, 30);
        assert_eq!(tail.mean_ns, [(Stage::ScheduleLag, 900_000.0), (Stage::LeaderSync, 100_000.0)]);
    }

    #[test]
    fn the_records_of_a_batch_have_their_own_wait_and_share_the_rest() {
        let mut composition = Composition::new();
        let lags = [(900_000, 1), (500_000, 2), (20_000, 1)];
        composition.record(&batch(900_000, 100_000), lags.into_iter());
        assert_eq!(composition.count(), 4);
        let all = composition.band(0.0, 1.0).expect("records");
        assert_eq!(all.mean_ns, [(Stage::ScheduleLag, 480_000.0), (Stage::LeaderSync, 100_000.0)]);
        let slowest = composition.band(0.9, 1.0).expect("records");
        assert_eq!((slowest.count, slowest.mean_ns[0].1), (1, 900_000.0));
    }

    #[test]
    fn merged_is_as_if_recorded_together() {
        let (mut left, mut right) = (Composition::new(), Composition::new());
        left.record(&batch(10, 30), [(10, 1)].into_iter());
        right.record(&batch(20, 20), [(20, 1)].into_iter());
        left.merge(&right);
        let band = left.band(0.0, 1.0).expect("batches");
        assert_eq!((left.count(), band.count), (2, 2));
        assert_eq!(band.mean_ns, [(Stage::ScheduleLag, 15.0), (Stage::LeaderSync, 25.0)]);
        assert_eq!(Composition::new().band(0.0, 1.0), None);
    }
}

//! When each record should be sent: the open loop's clock.
//!
//! Owns intended times and nothing else: it does not know whether any record was ever sent, so a
//! stalled cluster cannot slow it down (spec/measurement.md M1, M4, M5).
//!
//! The cell's records are dealt to its partitions: partition `p` of `n` has records `p`, `p + n`,
//! `p + 2n` … of a uniform schedule, and an independent Poisson process of rate `1/n` of a Poisson
//! one (the sum of independent Poisson processes is one). Each partition can so walk its own
//! schedule without memory, however far the cluster falls behind.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Micro-records per record: the resolution of a [`Rate`].
const MICRO: u128 = 1_000_000;
/// Nanoseconds per second.
const SECOND_NS: u128 = 1_000_000_000;

/// Records per second over the whole cell; from 0.000001 to 1e12.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    micro_records_per_s: u64,
}

/// A rate that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("rate = {0} records per second: must be a number from 0.000001 to 1e12")]
pub struct RateError(pub f64);

impl Rate {
    /// From records per second, to six decimals.
    ///
    /// Errors: [`RateError`] for zero, negative, infinite and NaN, which would otherwise mean
    /// "never" or "unlimited" by accident, and outside the range.
    pub fn per_second(records: f64) -> Result<Rate, RateError> {
        let micro = (records * MICRO as f64).round();
        if micro.is_finite() && (1.0..=1e18).contains(&micro) {
            Ok(Rate { micro_records_per_s: micro as u64 })
        } else {
            Err(RateError(records))
        }
    }

    /// Records per second.
    pub fn records_per_s(self) -> f64 {
        self.micro_records_per_s as f64 / MICRO as f64
    }

    /// When record `index` of a uniform schedule is due, in nanoseconds after its start. Rational,
    /// not a multiple of a rounded interval: off by less than a nanosecond at any index.
    #[inline]
    fn due_ns(self, index: u64) -> u64 {
        let exact = u128::from(index) * SECOND_NS * MICRO / u128::from(self.micro_records_per_s);
        u64::try_from(exact).unwrap_or(u64::MAX)
    }
}

/// How records are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances.
    Uniform,
    /// As a Poisson process: independent, exponentially distributed distances.
    Poisson,
}

impl Arrivals {
    /// The name in workloads and results.
    pub fn name(self) -> &'static str {
        match self {
            Arrivals::Uniform => "uniform",
            Arrivals::Poisson => "poisson",
        }
    }
}

/// One partition's place in a deal of all records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which partition; below `of`.
    pub partition: u32,
    /// How many partitions share the records; at least 1.
    pub of: u32,
}

/// A walk along one partition's intended times. Clones walk on independently, over the same times.
#[derive(Clone, Debug)]
pub struct Schedule {
    next_ns: u64,
    walk: Walk,
}

#[expect(
    clippy::large_enum_variant,
    reason = "cloned to look ahead on the hot path, where boxing would allocate"
)]
#[derive(Clone, Debug)]
enum Walk {
    Uniform { rate: Rate, index: u64, step: u64 },
    Poisson { mean_ns: f64, at_ns: f64, random: ChaCha8Rng },
}

impl Schedule {
    /// The schedule of `share` at `rate` over all shares. Only Poisson arrivals use the seed; each
    /// partition draws from a stream of its own.
    pub fn new(rate: Rate, arrivals: Arrivals, share: Share, seed: u64) -> Schedule {
        assert!(share.partition < share.of, "partition {} of {}", share.partition, share.of);
        let walk = match arrivals {
            Arrivals::Uniform => {
                Walk::Uniform { rate, index: u64::from(share.partition), step: u64::from(share.of) }
            }
            Arrivals::Poisson => {
                let mut random = ChaCha8Rng::seed_from_u64(seed);
                random.set_stream(u64::from(share.partition));
                let mean_ns = 1e9 * f64::from(share.of) / rate.records_per_s();
                Walk::Poisson { mean_ns, at_ns: 0.0, random }
            }
        };
        let mut schedule = Schedule { next_ns: 0, walk };
        schedule.look_up();
        schedule
    }

    /// When the next record is due, in nanoseconds after the schedule's start.
    #[inline]
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Moves on to the record after it.
    #[inline]
    pub fn advance(&mut self) {
        if let Walk::Uniform { index, step, .. } = &mut self.walk {
            *index += *step;
        }
        self.look_up();
    }

    fn look_up(&mut self) {
        self.next_ns = match &mut self.walk {
            Walk::Uniform { rate, index, .. } => rate.due_ns(*index),
            Walk::Poisson { mean_ns, at_ns, random } => {
                // 1 - u is in (0, 1], so the logarithm is finite.
                let uniform: f64 = random.random();
                *at_ns -= *mean_ns * (1.0 - uniform).ln();
                *at_ns as u64
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Share = Share { partition: 0, of: 1 };

    fn times(schedule: Schedule) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(schedule), |schedule| {
            let mut next = schedule.clone();
            next.advance();
            Some(next)
        })
        .map(|schedule| schedule.next_ns())
    }

    #[test]
    fn a_uniform_schedule_is_as_long_as_its_rate_says() {
        for rate in [0.5, 500.0, 7e5, 3e6, 1.5e9] {
            let records = 30_000_000_u64;
            let length_ns = Rate::per_second(rate).unwrap().due_ns(records) as f64;
            let asked_ns = records as f64 / rate * 1e9;
            let ppm = (length_ns / asked_ns - 1.0).abs() * 1e6;
            assert!(ppm < 1.0, "{rate}/s: {ppm} ppm");
        }
    }

    #[test]
    fn a_schedule_faster_than_the_clock_ticks_does_not_collapse() {
        let rate = Rate::per_second(1.5e9).unwrap();
        let first: Vec<u64> =
            times(Schedule::new(rate, Arrivals::Uniform, WHOLE, 0)).take(7).collect();
        assert_eq!(first, [0, 0, 1, 2, 2, 3, 4]);
    }

    #[test]
    fn a_rate_that_means_never_or_unlimited_is_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-7, 1e13] {
            let refused = Rate::per_second(rate).unwrap_err();
            assert!(refused.to_string().starts_with("rate = "), "{refused}");
        }
    }

    #[test]
    fn partitions_deal_the_uniform_schedule_out_among_them() {
        let rate = Rate::per_second(7_000.0).unwrap();
        let whole: Vec<u64> =
            times(Schedule::new(rate, Arrivals::Uniform, WHOLE, 0)).take(30).collect();
        let mut dealt: Vec<u64> = (0..3)
            .flat_map(|partition| {
                let share = Share { partition, of: 3 };
                times(Schedule::new(rate, Arrivals::Uniform, share, 0)).take(10)
            })
            .collect();
        dealt.sort_unstable();
        assert_eq!(dealt, whole);
    }

    /// Kolmogorov-Smirnov against the exponential distribution, at 1 % significance.
    fn assert_exponential(mut gaps_ns: Vec<f64>, mean_ns: f64) {
        gaps_ns.sort_by(f64::total_cmp);
        let n = gaps_ns.len() as f64;
        let distance = gaps_ns
            .iter()
            .enumerate()
            .map(|(rank, gap_ns)| {
                let expected = 1.0 - (-gap_ns / mean_ns).exp();
                (expected - rank as f64 / n).abs().max(((rank + 1) as f64 / n - expected).abs())
            })
            .fold(0.0, f64::max);
        assert!(distance < 1.63 / n.sqrt(), "distance {distance}");
    }

    fn gaps_ns(times_ns: &[u64]) -> Vec<f64> {
        times_ns.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
    }

    #[test]
    fn poisson_arrivals_are_exponential_alone_and_together() {
        let rate = Rate::per_second(1_000.0).unwrap();
        let partitions = 4;
        let mut together = Vec::new();
        for partition in 0..partitions {
            let share = Share { partition, of: partitions };
            let schedule = Schedule::new(rate, Arrivals::Poisson, share, 42);
            let own: Vec<u64> = times(schedule).take(25_000).collect();
            assert_exponential(gaps_ns(&own), 4e6);
            together.extend(own);
        }
        together.sort_unstable();
        // The partitions end at different times: compare where all of them still run.
        together.truncate(90_000);
        assert_exponential(gaps_ns(&together), 1e6);
    }

    #[test]
    fn a_seed_gives_the_same_times_again_and_another_gives_others() {
        let rate = Rate::per_second(1_000.0).unwrap();
        let walk = |seed, partition| -> Vec<u64> {
            let share = Share { partition, of: 2 };
            times(Schedule::new(rate, Arrivals::Poisson, share, seed)).take(100).collect()
        };
        assert_eq!(walk(1, 0), walk(1, 0));
        assert_ne!(walk(1, 0), walk(2, 0));
        assert_ne!(walk(1, 0), walk(1, 1));
    }
}

//! One random stream per concern, all from one seed: a new draw in one does not move the others, so
//! that a change of the client load leaves the faults of a seed as they were.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One stream.
#[derive(Clone, Debug)]
pub struct Random(ChaCha8Rng);

/// All streams of a run.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Which options and rates the run has.
    pub options: Random,
    /// Delays, losses, copies.
    pub network: Random,
    /// Flush times, and what survives a power failure.
    pub disk: Random,
    /// What fails when.
    pub faults: Random,
    /// What clients do.
    pub clients: Random,
}

impl Streams {
    /// The streams of `seed`.
    pub fn of(seed: u64) -> Streams {
        let stream = |number| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            random.set_stream(number);
            Random(random)
        };
        Streams {
            options: stream(0),
            network: stream(1),
            disk: stream(2),
            faults: stream(3),
            clients: stream(4),
        }
    }
}

impl Random {
    /// Uniform in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        if bound == 0 { 0 } else { self.0.random_range(0..bound) }
    }

    /// True `per_mille` times of a thousand.
    pub fn chance(&mut self, per_mille: usize) -> bool {
        self.below(1000) < per_mille
    }

    /// Uniform in whole microseconds, both ends included.
    pub fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let (low, high) = (micros(low), micros(high));
        Duration::from_micros(self.0.random_range(low..=high.max(low)))
    }

    /// One of `choices`, which is not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

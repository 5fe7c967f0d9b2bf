//! How far a figure from a few blocks can be trusted: bootstrap over blocks.
//!
//! Blocks are drawn with replacement and the figure is taken again from what was drawn; the spread
//! of its logarithm over many draws is its standard error. Two corrections make it honest for the
//! three to ten blocks a run has: the bootstrap's variance is `(n - 1) / n` of the true one, and the
//! interval is Student's, not the normal one. Ratios are handled as logarithms, so that twice as
//! fast and twice as slow are equally far from no change.

use rand::RngExt;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Draws per figure: the standard error is then known within about 2 %.
const DRAWS: usize = 1_000;

/// What an interval covers: 95 %.
pub const CONFIDENCE: f64 = 0.95;

/// Half a histogram bucket, as a share: figures are not known better than that, however often they
/// repeat.
const RESOLUTION: f64 = 0.0005;

/// Fewest blocks that say anything about the noise between them.
pub const BLOCKS_MIN: usize = 2;

/// A logarithm estimated from blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate.
    pub log: f64,
    /// Its standard error.
    pub standard_error: f64,
    /// Degrees of freedom of that error.
    pub freedom: f64,
}

impl Estimate {
    /// Lower and upper end of the interval that covers the true value with [`CONFIDENCE`].
    pub fn interval(&self) -> (f64, f64) {
        let reach = self.student().inverse_cdf(0.5 + CONFIDENCE / 2.0) * self.standard_error;
        (self.log - reach, self.log + reach)
    }

    /// How probable an estimate at least this far beyond `threshold` would be, if the true value
    /// were at most `threshold`.
    pub fn probability_above(&self, threshold: f64) -> f64 {
        self.student().cdf(-(self.log - threshold) / self.standard_error)
    }

    /// Blocks a side that would bring the interval's reach down to `reach`, the noise being as it is.
    pub fn blocks_needed(&self, blocks: usize, reach: f64) -> usize {
        let (low, high) = self.interval();
        let shrink = (high - low) / 2.0 / reach;
        ((blocks as f64 * shrink * shrink).ceil() as usize).max(blocks + 1)
    }

    fn student(&self) -> StudentsT {
        StudentsT::new(0.0, 1.0, self.freedom)
            .expect("freedom is at least 1: there are two blocks or more")
    }
}

/// A figure of one side, from a choice of its blocks.
pub type Figure<'a> = &'a dyn Fn(&[usize]) -> Option<f64>;

/// `new / base` of figures from unrelated blocks. `None` with fewer than [`BLOCKS_MIN`] blocks on a
/// side, or if a figure does not exist or is not above zero.
pub fn ratio(base: (usize, Figure<'_>), new: (usize, Figure<'_>), seed: u64) -> Option<Estimate> {
    let one = single(base.0, base.1, seed)?;
    let other = single(new.0, new.1, seed.wrapping_add(1))?;
    let (a, b) = (one.standard_error.powi(2), other.standard_error.powi(2));
    // Welch and Satterthwaite.
    let freedom = (a + b).powi(2) / (a * a / one.freedom + b * b / other.freedom);
    Some(Estimate { log: other.log - one.log, standard_error: (a + b).sqrt(), freedom })
}

/// `new / base` of figures whose blocks belong together pairwise, as those of runs that alternate:
/// what both had to bear cancels out. `None` as for [`ratio`].
pub fn paired_ratio(
    blocks: usize,
    base: Figure<'_>,
    new: Figure<'_>,
    seed: u64,
) -> Option<Estimate> {
    single(blocks, &|picks| Some(new(picks)? / base(picks)?), seed)
}

/// The logarithm of one figure. `None` as for [`ratio`].
pub fn single(blocks: usize, figure: Figure<'_>, seed: u64) -> Option<Estimate> {
    if blocks < BLOCKS_MIN {
        return None;
    }
    let log = |picks: &[usize]| figure(picks).filter(|value| *value > 0.0).map(f64::ln);
    let all: Vec<usize> = (0..blocks).collect();
    let estimate = log(&all)?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut picks = all;
    let mut draws = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        picks.fill_with(|| random.random_range(0..blocks));
        draws.extend(log(&picks));
    }
    // Where most draws have no samples at all, the few that have some tell nothing.
    if draws.len() < DRAWS / 2 {
        return None;
    }
    let count = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / count;
    let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / count;
    let corrected = variance * blocks as f64 / (blocks - 1) as f64;
    Some(Estimate {
        log: estimate,
        standard_error: corrected.sqrt().max(RESOLUTION),
        freedom: (blocks - 1) as f64,
    })
}

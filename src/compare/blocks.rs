//! The samples of one cell of one side, block by block, and the percentile of any choice of blocks.
//!
//! A block is one repeat of a run (or one whole run, where runs alternate). Pooling blocks pools
//! their samples; percentiles are never averaged (spec/measurement.md M18).

use crate::measure::histogram::{HistogramError, LatencyHistogram};
use crate::results::schema::{Cell, Latency, Repeat, Status};

/// The end points of a latency, all from the intended send time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// The acknowledgement was read.
    Acknowledged,
    /// The high watermark passed the batch.
    Committed,
    /// A consumer had read it.
    Consumed,
}

impl Endpoint {
    /// In the order of the result.
    pub const ALL: [Endpoint; 3] =
        [Endpoint::Acknowledged, Endpoint::Committed, Endpoint::Consumed];

    /// As in the result's keys.
    pub fn name(self) -> &'static str {
        match self {
            Endpoint::Acknowledged => "acknowledged",
            Endpoint::Committed => "committed",
            Endpoint::Consumed => "consumed",
        }
    }

    /// The distribution of one repeat.
    pub fn of(self, repeat: &Repeat) -> &Latency {
        match self {
            Endpoint::Acknowledged => &repeat.acknowledged,
            Endpoint::Committed => &repeat.committed,
            Endpoint::Consumed => &repeat.consumed,
        }
    }
}

/// A stored histogram that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{cell}, repeat {repeat}: {endpoint}.histogram_v2_deflate_base64")]
pub struct BlockError {
    /// The cell's name.
    pub cell: String,
    /// Which repeat, from 0.
    pub repeat: usize,
    /// Which distribution.
    pub endpoint: &'static str,
    /// What is wrong with it.
    #[source]
    pub source: HistogramError,
}

/// Bucket counts, lowest value first.
pub type Counts = Vec<(u64, u64)>;

/// One block.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its samples.
    pub counts: Counts,
    /// Independent events they come from.
    pub events: u64,
}

/// Samples that are each an event of their own.
impl From<Counts> for Block {
    fn from(counts: Counts) -> Block {
        let events = counts.iter().map(|(_, count)| count).sum();
        Block { counts, events }
    }
}

impl From<LatencyHistogram> for Block {
    fn from(histogram: LatencyHistogram) -> Block {
        Block { counts: histogram.buckets(), events: histogram.event_count() }
    }
}

/// The repeats of a cell that ran to their end.
pub fn complete_repeats(cell: &Cell) -> impl Iterator<Item = &Repeat> {
    cell.repeats.iter().filter(|repeat| repeat.status == Status::Complete)
}

/// Each complete repeat of `cell` as a block.
///
/// # Errors
/// [`BlockError`]
pub fn per_repeat(cell: &Cell, endpoint: Endpoint) -> Result<Vec<Block>, BlockError> {
    let block = |repeat| Ok(histogram(cell, repeat, endpoint)?.into());
    complete_repeats(cell).map(block).collect()
}

/// All complete repeats of `cell` as one block.
///
/// # Errors
/// [`BlockError`]
pub fn whole_run(cell: &Cell, endpoint: Endpoint) -> Result<Block, BlockError> {
    let mut all = LatencyHistogram::new();
    for repeat in complete_repeats(cell) {
        all.merge(&histogram(cell, repeat, endpoint)?);
    }
    Ok(all.into())
}

fn histogram(
    cell: &Cell,
    repeat: &Repeat,
    endpoint: Endpoint,
) -> Result<LatencyHistogram, BlockError> {
    let latency = endpoint.of(repeat);
    let mut histogram = match &latency.histogram_v2_deflate_base64 {
        None => LatencyHistogram::new(),
        Some(text) => LatencyHistogram::from_base64(text).map_err(|source| BlockError {
            cell: cell.name.clone(),
            repeat: repeat.repeat,
            endpoint: endpoint.name(),
            source,
        })?,
    };
    // The stored buckets hold no overflow; it is beside them.
    histogram.record_n_ns(u64::MAX, latency.overflow_count);
    Ok(histogram.with_event_count(latency.events()))
}

/// Blocks on one grid of values, so that the percentile of any choice of them is a binary search.
#[derive(Clone, Debug)]
pub struct Blocks {
    values_ns: Vec<u64>,
    /// Per block: samples at or below each of `values_ns`.
    cumulative: Vec<Vec<u64>>,
    /// Of all blocks together.
    event_count: u64,
}

impl Blocks {
    /// Puts blocks on a common grid. Blocks without samples stay: they count as blocks.
    pub fn new(blocks: &[Block]) -> Blocks {
        let counts = || blocks.iter().map(|block| &block.counts);
        let mut values_ns: Vec<u64> = counts().flatten().map(|(value, _)| *value).collect();
        values_ns.sort_unstable();
        values_ns.dedup();
        let cumulative = counts().map(|block| cumulate(&values_ns, block)).collect();
        let event_count = blocks.iter().map(|block| block.events).sum();
        Blocks { values_ns, cumulative, event_count }
    }

    /// How many blocks.
    pub fn len(&self) -> usize {
        self.cumulative.len()
    }

    /// Whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.cumulative.is_empty()
    }

    /// Independent events that the samples of all blocks come from: they, not the samples, say how
    /// deep a percentile may be judged.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// The value at `quantile` (0 to 1) of the samples of the blocks in `picks` pooled; a block
    /// picked twice counts twice. `None` without samples.
    pub fn quantile(&self, quantile: f64, picks: &[usize]) -> Option<u64> {
        let below = |at: usize| picks.iter().map(|block| self.cumulative[*block][at]).sum::<u64>();
        let last = self.values_ns.len().checked_sub(1)?;
        let count = below(last);
        if count == 0 {
            return None;
        }
        // The factor keeps 0.9999 * 100_000 from being rounded up past its rank.
        let rank = ((quantile * count as f64 * (1.0 - 1e-12)).ceil() as u64).max(1);
        let (mut low, mut high) = (0, last);
        while low < high {
            let middle = low.midpoint(high);
            if below(middle) < rank { low = middle + 1 } else { high = middle }
        }
        Some(self.values_ns[low])
    }
}

fn cumulate(values_ns: &[u64], block: &Counts) -> Vec<u64> {
    let mut rest = block.iter().peekable();
    let mut total = 0;
    let up_to = |value: &u64| {
        while let Some((_, count)) = rest.next_if(|(at, _)| at <= value) {
            total += count;
        }
        total
    };
    values_ns.iter().map(up_to).collect()
}

//! Sets the log writer against fio on the same file pattern, mode by mode: the bar is at
//! least 0.95 of fio's writes a second and at most 1.25 times its 99th percentile.
//!
//! One write at a time, as fast as it goes, in turns (ours, fio's, ours, ...), so that a change of
//! the machine's mood hits both. In the direct and syncing modes both write over and over a file
//! that was filled with zeros; in page-cache mode both grow a file into space reserved for it, as
//! the log does. fio runs its io_uring engine for the direct modes, psync for the buffered ones.
//! Ours is a [`PartitionLog`](crate::storage::PartitionLog) under the `uring` engine: the append,
//! its header checks and the copy into the log's memory are in its times. The same under glommio
//! stands beside it, without a bar.
//!
//! The commit route is the user's to choose, so modes with a rival to their default route show
//! both, and the bar is on the better one. (A helper thread keeps a shard's other partitions and
//! connections going during a sync, at the price of two thread switches; fio has nothing else to
//! keep going.)

mod render;
#[cfg(test)]
mod tests;
mod writer;

use std::path::Path;
use std::time::Duration;

use crate::environment::fio::{self, FioEnd, FioError, FioPattern};
use crate::environment::scratch::{Scratch, ScratchError};
use crate::environment::{
    Contamination, DirectIoUnavailable, HostSample, NotEnoughSpace, direct_io, require_free_space,
};
use crate::storage::default_route;
use crate::types::{CommitRoute, DurabilityMode, EngineKind};

pub use render::render;
pub use writer::WriterError;

/// Least share of fio's writes a second.
pub const IOPS_RATIO_MIN: f64 = 0.95;

/// Largest multiple of fio's 99th percentile.
pub const P99_RATIO_MAX: f64 = 1.25;

const MODES: [DurabilityMode; 5] = [
    DurabilityMode::PageCache,
    DurabilityMode::Fsync,
    DurabilityMode::Direct,
    DurabilityMode::DirectFsync,
    DurabilityMode::DirectDsync,
];

const WRITE_BYTES: [usize; 2] = [4 << 10, 64 << 10];

/// How long each side of a pair is measured; a growing file may end earlier.
const SIDE_DURATION: Duration = Duration::from_secs(1);

/// Writes of a round below which it has no 99th percentile: ten must lie beyond it.
const P99_COUNT_MIN: u64 = 1_000;

/// A file that is written over and over: as long as in `ackmark probe`.
const REWRITTEN_BYTES: u64 = 64 << 20;

/// A file that grows: long enough to be over neither in a blink nor only after write-back begins.
const GROWN_BYTES: u64 = 256 << 20;

/// One side's figures in one cell: medians over the pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Side {
    /// Writes a second, each with its sync.
    pub iops: f64,
    /// Median of a write with its sync.
    pub p50_ns: u64,
    /// 99th percentile of a write with its sync. For fio, whose histograms of writes and syncs are
    /// apart, that of their sum as independent draws. `None` if a round had fewer than 1 000 writes.
    pub p99_ns: Option<u64>,
}

/// One mode at one length by one route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BenchCell {
    /// The mode.
    pub mode: DurabilityMode,
    /// Length of one write.
    pub write_bytes: usize,
    /// How our commit groups reach the disk. The mode's default route comes first.
    pub route: CommitRoute,
    /// The log writer under `uring`.
    pub uring: Side,
    /// fio.
    pub fio: Side,
    /// The log writer under `glommio`; with the default route only.
    pub glommio: Option<Side>,
    /// Ours under `uring` by fio's, the median over the pairs.
    pub iops_ratio: f64,
    /// Ours under `uring` by fio's, the median over the pairs; `None` if either has no percentile.
    pub p99_ratio: Option<f64>,
}

/// What the comparison found.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchFloor {
    /// By length, then mode, then route.
    pub cells: Vec<BenchCell>,
    /// Rounds of ours, fio and glommio in each cell.
    pub pairs: usize,
    /// fio's version line.
    pub fio_version: String,
    /// What else the host did meanwhile.
    pub contamination: Contamination,
}

/// The comparison could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchFloorError {
    /// No pairs, no medians.
    #[error("pairs = 0: must be at least 1, and at least 5 for the bar to count")]
    NoPairs,
    /// The direct modes cannot run there.
    #[error(transparent)]
    Direct(#[from] DirectIoUnavailable),
    /// No room for the files.
    #[error(transparent)]
    Space(#[from] NotEnoughSpace),
    /// No folder for the files.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// fio gave no result.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// Our side gave no result.
    #[error(transparent)]
    Writer(#[from] WriterError),
}

/// Compares all modes at both lengths in `directory`: about a minute for each pair. All files lie in one folder there, which is removed afterwards, on error too.
pub fn run(directory: &Path, pairs: usize) -> Result<BenchFloor, BenchFloorError> {
    if pairs == 0 {
        return Err(BenchFloorError::NoPairs);
    }
    let fio_version = fio::version().ok_or(FioError::NotInstalled)?;
    direct_io(directory)?;
    require_free_space(directory, 3 * GROWN_BYTES)?;
    let scratch = Scratch::create(directory)?;
    let host = HostSample::sample();
    let mut cells = Vec::new();
    for write_bytes in WRITE_BYTES {
        for mode in MODES {
            cells.extend(Cell { folder: scratch.path(), mode, write_bytes }.measure(pairs)?);
        }
    }
    let contamination = HostSample::sample().since(&host);
    Ok(BenchFloor { cells, pairs, fio_version, contamination })
}

impl BenchCell {
    /// What falls short of the bar, in words; empty if nothing does.
    pub fn shortfalls(&self) -> Vec<String> {
        let (kibibytes, route) = (self.write_bytes >> 10, self.route.name());
        let name = format!("{} {kibibytes} KiB by {route}", self.mode);
        let mut shortfalls = Vec::new();
        if self.iops_ratio < IOPS_RATIO_MIN {
            let ratio = self.iops_ratio;
            shortfalls.push(format!("{name}: IOPS {ratio:.2}x, at least {IOPS_RATIO_MIN}x"));
        }
        match self.p99_ratio {
            Some(ratio) if ratio <= P99_RATIO_MAX => {}
            Some(ratio) => {
                shortfalls.push(format!("{name}: p99 {ratio:.2}x, at most {P99_RATIO_MAX}x"));
            }
            None => shortfalls.push(format!("{name}: too few writes for a p99")),
        }
        shortfalls
    }
}

impl BenchFloor {
    /// What falls short of the bar, in words; empty if the bar is met. Of a mode's routes at one
    /// length the one that falls least short counts.
    pub fn shortfalls(&self) -> Vec<String> {
        let same =
            |a: &BenchCell, b: &BenchCell| (a.mode, a.write_bytes) == (b.mode, b.write_bytes);
        let least = |routes: &[BenchCell]| {
            routes.iter().map(BenchCell::shortfalls).min_by_key(Vec::len).unwrap_or_default()
        };
        self.cells.chunk_by(same).flat_map(least).collect()
    }
}

/// One cell to be measured.
struct Cell<'a> {
    folder: &'a Path,
    mode: DurabilityMode,
    write_bytes: usize,
}

impl Cell<'_> {
    fn measure(&self, pairs: usize) -> Result<Vec<BenchCell>, BenchFloorError> {
        let job = self.fio_job();
        if job.end == FioEnd::FileGrown {
            // A run that does not count: the pages of the first file may be new to the machine,
            // those of all later ones were just freed by the one before.
            run_fio(&job)?;
        } else {
            fio::zero_filled_file(&job.path, job.file_bytes)?;
        }
        let routes = routes(self.mode);
        let mut uring = vec![Vec::new(); routes.len()];
        let (mut fio, mut glommio) = (Vec::new(), Vec::new());
        for _ in 0..pairs {
            for (route, sides) in routes.iter().zip(&mut uring) {
                sides.push(self.log_writer(EngineKind::Uring, *route)?);
            }
            fio.push(run_fio(&job)?);
            glommio.push(self.log_writer(EngineKind::Glommio, routes[0])?);
        }
        // Already gone if the file grew.
        let _ = std::fs::remove_file(&job.path);
        let cell = |(index, uring): (usize, &Vec<Side>)| BenchCell {
            mode: self.mode,
            write_bytes: self.write_bytes,
            route: routes[index],
            iops_ratio: median(pairs_of(uring, &fio).map(|(our, their)| our.iops / their.iops)),
            p99_ratio: p99_ratio(uring, &fio),
            uring: medians(uring),
            fio: medians(&fio),
            glommio: (index == 0).then(|| medians(&glommio)),
        };
        Ok(uring.iter().enumerate().map(cell).collect())
    }

    fn log_writer(&self, engine: EngineKind, route: CommitRoute) -> Result<Side, WriterError> {
        writer::measure(&writer::Job {
            folder: &self.folder.join("log"),
            engine,
            mode: self.mode,
            route,
            write_bytes: self.write_bytes,
            pass_bytes: self.file_bytes(),
            duration: SIDE_DURATION,
        })
    }

    fn fio_job(&self) -> FioPattern {
        FioPattern {
            path: self.folder.join("fio"),
            mode: self.mode,
            write_bytes: self.write_bytes,
            file_bytes: self.file_bytes(),
            end: match grows(self.mode) {
                true => FioEnd::FileGrown,
                false => FioEnd::Time(SIDE_DURATION),
            },
            rate_per_second: None,
        }
    }

    fn file_bytes(&self) -> u64 {
        if grows(self.mode) { GROWN_BYTES } else { REWRITTEN_BYTES }
    }
}

/// The default route, and blocking calls on the shard's own thread.
fn routes(mode: DurabilityMode) -> Vec<CommitRoute> {
    match default_route(mode) {
        CommitRoute::Inline => vec![CommitRoute::Inline],
        route => vec![route, CommitRoute::Inline],
    }
}

fn grows(mode: DurabilityMode) -> bool {
    mode == DurabilityMode::PageCache
}

/// A grown file is removed right after, so that the next one, of either side, gets its pages.
fn run_fio(job: &FioPattern) -> Result<Side, FioError> {
    let result = fio::run(job)?;
    if job.end == FioEnd::FileGrown {
        let _ = std::fs::remove_file(&job.path);
    }
    let quantile = |quantile| result.total.quantile_ns(quantile);
    let is_deep = result.write.count() >= P99_COUNT_MIN;
    Ok(Side {
        iops: result.iops,
        p50_ns: quantile(0.5).unwrap_or(0),
        p99_ns: quantile(0.99).filter(|_| is_deep),
    })
}

fn pairs_of<'a>(
    ours: &'a [Side],
    theirs: &'a [Side],
) -> impl Iterator<Item = (&'a Side, &'a Side)> {
    ours.iter().zip(theirs)
}

fn p99_ratio(ours: &[Side], theirs: &[Side]) -> Option<f64> {
    let ratio = |(our, their): (&Side, &Side)| Some(our.p99_ns? as f64 / their.p99_ns? as f64);
    let ratios: Option<Vec<f64>> = pairs_of(ours, theirs).map(ratio).collect();
    ratios.map(|ratios| median(ratios.into_iter()))
}

fn medians(sides: &[Side]) -> Side {
    let p99_ns: Option<Vec<f64>> =
        sides.iter().map(|side| side.p99_ns.map(|ns| ns as f64)).collect();
    Side {
        iops: median(sides.iter().map(|side| side.iops)),
        p50_ns: median(sides.iter().map(|side| side.p50_ns as f64)) as u64,
        p99_ns: p99_ns.map(|values| median(values.into_iter()) as u64),
    }
}

/// The middle value; the mean of the two middle ones of an even number.
///
/// # Panics
/// Without a value.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.len() / 2;
    let lower = (values.len() - 1) / 2;
    (values[lower] + values[upper]) / 2.0
}

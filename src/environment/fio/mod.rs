//! Runs the same file patterns through `fio`, the measure everybody knows, where it is installed.
//!
//! fio keeps the latency of a write and of the fdatasync after it in two histograms. Percentiles of
//! the sum are found by adding the two as if they were independent. If slow writes and slow syncs
//! come together, the true percentile is higher, so a bar set against this one is never too lax.

mod output;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::types::DurabilityMode;

use super::filesystem::{NotEnoughSpace, require_free_space};
use super::pattern;
use super::scratch::{Scratch, ScratchError};

pub use output::{FioLatency, FioResult, parse};

/// Piece and total of [`sequential_buffered_bandwidth`]: the batch of a throughput run, and enough
/// to be over neither in a blink nor only after write-back has begun.
const SEQUENTIAL_WRITE_BYTES: usize = 64 << 10;
const SEQUENTIAL_FILE_BYTES: u64 = 384 << 20;
const SEQUENTIAL_RUNS: usize = 3;

/// One job for fio: sequential writes of equal length, one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FioPattern {
    /// The file. Unless `end` is [`FioEnd::FileGrown`] it must be there, full of zeros, with
    /// `file_bytes` ([`zero_filled_file`] makes it); fio then makes no file or folder of its own.
    pub path: PathBuf,
    /// Decides fio's engine (io_uring for direct modes, psync for buffered ones) and its sync.
    pub mode: DurabilityMode,
    /// Length of one write.
    pub write_bytes: usize,
    /// Writes begin again at the front here.
    pub file_bytes: u64,
    /// When the job ends.
    pub end: FioEnd,
    /// Writes a second; `None` is as fast as it goes.
    pub rate_per_second: Option<u32>,
}

/// When a job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FioEnd {
    /// After this time, writing the file over and over.
    Time(Duration),
    /// After this time or so many bytes, whichever comes first.
    TimeOrBytes(Duration, u64),
    /// When a file that was not there has grown to its length, in space reserved for it before.
    FileGrown,
}

/// fio gave no result.
#[derive(Debug, thiserror::Error)]
pub enum FioError {
    /// No such program.
    #[error("fio is not installed: install it (Debian: apt-get install fio), or leave it out")]
    NotInstalled,
    /// The file it was to write is not there.
    #[error("{}: there is no such file for fio to write", path.display())]
    NoFile {
        /// The file.
        path: PathBuf,
        /// The answer.
        #[source]
        source: io::Error,
    },
    /// It could not be started.
    #[error("fio could not be started")]
    Start(#[source] io::Error),
    /// It ended with an error.
    #[error("fio failed ({status}) on {}: {message}", path.display())]
    Failed {
        /// The file it was to write.
        path: PathBuf,
        /// How it ended.
        status: String,
        /// What it said last.
        message: String,
    },
    /// Its output is not what fio 3 writes.
    #[error("fio's output is not understood: {0}")]
    Output(String),
    /// No folder for the files.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// No room for the files.
    #[error(transparent)]
    Space(#[from] NotEnoughSpace),
    /// The file could not be filled.
    #[error("{}: cannot fill the file with zeros", path.display())]
    Fill {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// fio's version line; `None` if it is not installed.
pub fn version() -> Option<String> {
    let output = Command::new("fio").arg("--version").output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Makes a file of `file_bytes` zeros on the device, as fio's and our patterns want it.
pub fn zero_filled_file(path: &Path, file_bytes: u64) -> Result<(), FioError> {
    pattern::zero_filled(path, file_bytes)
        .map_err(|source| FioError::Fill { path: path.to_owned(), source })
}

/// Runs one job and waits for its result.
///
/// A missing file is found here and not by fio, which makes missing folders before it complains.
pub fn run(job: &FioPattern) -> Result<FioResult, FioError> {
    if job.end != FioEnd::FileGrown {
        std::fs::metadata(&job.path)
            .map_err(|source| FioError::NoFile { path: job.path.clone(), source })?;
    }
    let output =
        Command::new("fio").args(arguments(job)).output().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => FioError::NotInstalled,
            _ => FioError::Start(error),
        })?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return parse(&stdout);
    }
    let said = stderr.lines().rev().chain(stdout.lines()).find(|line| !line.trim().is_empty());
    Err(FioError::Failed {
        path: job.path.clone(),
        status: output.status.to_string(),
        message: said.unwrap_or("no message").trim().to_owned(),
    })
}

/// Bytes a second at which fio writes a growing file into the page cache, in 64 KiB pieces without
/// a sync; the median of three runs of 384 MiB.
///
/// Each run has a file of its own, and none is removed before the last has ended: pages that were
/// just freed are several times faster to fill than fresh ones, above all in a virtual machine,
/// where the host has to find memory for each fresh one. A log that grows gets fresh ones.
pub fn sequential_buffered_bandwidth(directory: &Path) -> Result<f64, FioError> {
    require_free_space(directory, SEQUENTIAL_FILE_BYTES * SEQUENTIAL_RUNS as u64)?;
    let scratch = Scratch::create(directory)?;
    let one_run = |index| {
        run(&FioPattern {
            path: scratch.path().join(format!("sequential-{index}")),
            mode: DurabilityMode::PageCache,
            write_bytes: SEQUENTIAL_WRITE_BYTES,
            file_bytes: SEQUENTIAL_FILE_BYTES,
            end: FioEnd::FileGrown,
            rate_per_second: None,
        })
        .map(|result| result.bytes_per_second)
    };
    let mut rates = (0..SEQUENTIAL_RUNS).map(one_run).collect::<Result<Vec<f64>, _>>()?;
    rates.sort_by(f64::total_cmp);
    Ok(rates[SEQUENTIAL_RUNS / 2])
}

/// fio's arguments for a job. `overwrite` and `fallocate=none` keep fio from preparing the file in
/// its own way; times carry their unit because fio reads a bare 0.9 as 0.
fn arguments(job: &FioPattern) -> Vec<String> {
    let mode = job.mode;
    let engine = if mode.is_direct() { "io_uring" } else { "psync" };
    let mut arguments = vec![
        "--name=ackmark".to_owned(),
        format!("--filename={}", escaped(&job.path)),
        format!("--size={}", job.file_bytes),
        format!("--bs={}", job.write_bytes),
        format!("--ioengine={engine}"),
        format!("--direct={}", u8::from(mode.is_direct())),
        "--rw=write".to_owned(),
        "--iodepth=1".to_owned(),
        "--lat_percentiles=1".to_owned(),
        "--output-format=json+".to_owned(),
    ];
    match mode {
        DurabilityMode::Fsync | DurabilityMode::DirectFsync => {
            arguments.push("--fdatasync=1".to_owned());
        }
        DurabilityMode::DirectDsync => arguments.push("--sync=dsync".to_owned()),
        DurabilityMode::PageCache | DurabilityMode::PageCacheFlush(_) | DurabilityMode::Direct => {}
    }
    // A direct write over a cached page would first have to throw that page out; a buffered one
    // finds it there, as in a file just prepared.
    let invalidate = format!("--invalidate={}", u8::from(mode.is_direct()));
    let existing = ["--overwrite=1", "--fallocate=none", "--allow_file_create=0", &invalidate];
    let existing = existing.map(str::to_owned);
    let runtime = |time: Duration| format!("--runtime={}ms", time.as_millis().max(1));
    match job.end {
        FioEnd::Time(time) => {
            arguments.extend([runtime(time), "--time_based=1".to_owned()]);
            arguments.extend(existing);
        }
        FioEnd::TimeOrBytes(time, bytes) => {
            arguments.extend([runtime(time), format!("--io_size={bytes}")]);
            arguments.extend(existing);
        }
        FioEnd::FileGrown => arguments.push("--fallocate=keep".to_owned()),
    }
    if let Some(rate) = job.rate_per_second {
        arguments.push(format!("--rate_iops={rate}"));
    }
    arguments
}

/// fio takes a colon for the end of a file name.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(':', "\\:")
}

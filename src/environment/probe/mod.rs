//! `ackmark probe DIR`: what the directory's disk does by itself, mode by mode, with nothing of
//! ackmark's log, network or replication in the way.
//!
//! About ten seconds and less than 1 GiB of writes; with fio beside it about forty seconds and less
//! than 4 GiB, since every cell is then measured three times by each, in turn. All files lie in one
//! folder inside the directory, which is removed afterwards, on error too.

mod bandwidth;
mod cell;
#[cfg(test)]
mod tests;
mod text;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use crate::types::{DurabilityMode, FilePreparation};

use super::filesystem::{NotEnoughSpace, require_free_space};
use super::fio::{self, FioError};
use super::pattern::{self, Pattern};
use super::scratch::{Scratch, ScratchError};
use super::{Contamination, DeviceCounters, DirectIo, Environment, HostSample, SyncPath};

pub use bandwidth::Bandwidth;
pub use cell::{FioCell, PacedCell, ProbeCell};

/// The modes of a probe, in the order of their promise.
const MODES: [DurabilityMode; 5] = [
    DurabilityMode::PageCache,
    DurabilityMode::Fsync,
    DurabilityMode::Direct,
    DurabilityMode::DirectFsync,
    DurabilityMode::DirectDsync,
];

/// Write lengths of a probe.
const WRITE_BYTES: [usize; 2] = [4 << 10, 64 << 10];

/// One file for all tight loops: larger than any device's own small cache of hot blocks, small
/// enough to fill quickly.
const FILE_BYTES: u64 = 64 << 20;

/// A tight loop ends at the first of these two.
const CELL_DURATION: Duration = Duration::from_millis(400);
const CELL_BYTES_MAX: u64 = 64 << 20;

/// The rate of a modest run, which no busy CPU and no warm device helps along.
const PACED_RATE_PER_SECOND: u32 = 500;
const PACED_DURATION: Duration = Duration::from_millis(500);

/// Rounds of each cell when fio runs beside; the median of three drops one outlier.
const ROUNDS_WITH_FIO: usize = 3;

/// Files at the largest moment: the tight loops' file and the growing one of the bandwidth part.
const SPACE_BYTES: u64 = FILE_BYTES + bandwidth::WRITTEN_BYTES;

/// What `probe` found.
#[derive(Debug)]
pub struct Probe {
    /// Where.
    pub environment: Environment,
    /// Tight loops, by length and mode.
    pub cells: Vec<ProbeCell>,
    /// Paced writes of the shortest length, by mode.
    pub paced: Vec<PacedCell>,
    /// Long sequential writes.
    pub bandwidth: Bandwidth,
    /// Modes left out, each with the reason.
    pub skipped: Vec<(DurabilityMode, String)>,
    /// fio's version line, if it ran beside.
    pub fio_version: Option<String>,
    /// What the device was sent meanwhile.
    pub device_counters: Option<DeviceCounters>,
    /// What else the host did meanwhile.
    pub contamination: Contamination,
}

/// A directory could not be probed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No folder for the files.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// No room for the files.
    #[error(transparent)]
    Space(#[from] NotEnoughSpace),
    /// fio was asked for and gave no result.
    #[error(transparent)]
    Fio(#[from] FioError),
    /// A write failed.
    #[error("{}: probing {part} failed", directory.display())]
    Io {
        /// Where.
        directory: PathBuf,
        /// At what.
        part: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Probes `directory`, with fio beside if `with_fio`.
pub fn probe(directory: &Path, with_fio: bool) -> Result<Probe, ProbeError> {
    let fio_version = match with_fio {
        true => Some(fio::version().ok_or(FioError::NotInstalled)?),
        false => None,
    };
    require_free_space(directory, SPACE_BYTES)?;
    let scratch = Scratch::create(directory)?;
    let environment = Environment::capture(directory);
    let (host, device) = (HostSample::sample(), DeviceCounters::sample(directory));
    let sync_path = environment.sync_path();
    let site = Site { directory, path: scratch.path().join("file"), with_fio, sync_path };
    let (modes, skipped) = modes(&environment);

    pattern::zero_filled(&site.path, FILE_BYTES).map_err(site.failed("preparing a file"))?;
    let mut cells = Vec::new();
    for length in WRITE_BYTES {
        for (mode, block_bytes) in &modes {
            cells.push(cell::measure(&site, *mode, length.next_multiple_of(*block_bytes))?);
        }
    }
    let mut paced = Vec::new();
    for (mode, block_bytes) in &modes {
        paced.push(cell::measure_paced(&site, *mode, WRITE_BYTES[0].max(*block_bytes))?);
    }
    let bandwidth = bandwidth::measure(&site, environment.direct_io.is_ok())?;

    let sent = DeviceCounters::sample(directory).zip(device).map(|(now, then)| now.since(&then));
    Ok(Probe {
        environment,
        cells,
        paced,
        bandwidth,
        skipped,
        fio_version,
        device_counters: sent,
        contamination: HostSample::sample().since(&host),
    })
}

impl Probe {
    /// All findings as one JSON object.
    pub fn to_json(&self) -> Value {
        let skipped = self
            .skipped
            .iter()
            .map(|(mode, reason)| json!({ "durability": mode.name(), "reason": reason }));
        let warnings = self.environment.warnings(1);
        let warnings = warnings
            .iter()
            .map(|warning| json!({ "code": warning.code(), "message": warning.to_string() }));
        json!({
            "schema": "ackmark-probe-1",
            "environment": self.environment.to_json(),
            "warnings": warnings.collect::<Vec<_>>(),
            "tight": self.cells.iter().map(ProbeCell::to_json).collect::<Vec<_>>(),
            "paced": self.paced.iter().map(PacedCell::to_json).collect::<Vec<_>>(),
            "bandwidth": self.bandwidth.to_json(),
            "skipped": skipped.collect::<Vec<_>>(),
            "fio_version": self.fio_version,
            "device_counters": super::text::json(
                self.device_counters.as_ref().map(DeviceCounters::to_json),
            ),
            "contamination": self.contamination.to_json(),
        })
    }

    /// All findings for a person, ending with a newline.
    pub fn to_text(&self) -> String {
        text::render(self)
    }
}

/// Where and how the cells of one probe are measured.
struct Site<'a> {
    directory: &'a Path,
    path: PathBuf,
    with_fio: bool,
    sync_path: SyncPath,
}

impl Site<'_> {
    fn failed(&self, part: &str) -> impl FnOnce(io::Error) -> ProbeError + use<> {
        let (directory, part) = (self.directory.to_owned(), part.to_owned());
        move |source| ProbeError::Io { directory, part, source }
    }

    fn pattern(&self, mode: DurabilityMode, write_bytes: usize) -> Pattern {
        Pattern {
            path: self.path.clone(),
            mode,
            preparation: FilePreparation::ZeroFilled,
            write_bytes,
            file_bytes: FILE_BYTES,
        }
    }
}

/// The modes this directory has, each with its block; and the others, each with the reason.
type Modes = (Vec<(DurabilityMode, usize)>, Vec<(DurabilityMode, String)>);

fn modes(environment: &Environment) -> Modes {
    let (mut measured, mut skipped) = (Vec::new(), Vec::new());
    for mode in MODES {
        match &environment.direct_io {
            _ if !mode.is_direct() => measured.push((mode, 1)),
            Ok(DirectIo { block_bytes, .. }) => measured.push((mode, *block_bytes)),
            Err(unavailable) => skipped.push((mode, unavailable.reason.to_string())),
        }
    }
    (measured, skipped)
}

//! `results/<name>/<time>/`: written whole or not at all, never over an older one, and read back
//! with errors that name the file and the field.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::measure::histogram::{HistogramError, LatencyHistogram};

use super::migration;
use super::schema::{Cell, Latency, RunResult, SCHEMA_VERSION};

/// The file that holds everything; the others can be made from it.
pub const RESULT_FILE: &str = "result.json";

/// Runs of one name in one second that still get a folder each.
const FOLDERS_PER_SECOND_MAX: u32 = 100;

/// Why a result could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct WriteError {
    /// What was tried.
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// The system's reason.
    #[source]
    pub source: io::Error,
}

/// Why a result could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Not JSON, a needed key missing, or a value of the wrong kind.
    #[error("{}: not a result", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// Names the field and the place.
        #[source]
        source: serde_json::Error,
    },
    /// Made by another version of the schema.
    #[error(
        "{}: schema_version = {found}: must be 1 to {SCHEMA_VERSION}; read it with the release \
         that wrote it",
        file.display()
    )]
    SchemaVersion {
        /// The file.
        file: PathBuf,
        /// As found.
        found: Value,
    },
    /// A histogram is damaged.
    #[error("{}: cells[{cell}]: {field}", file.display())]
    Histogram {
        /// The file.
        file: PathBuf,
        /// The cell's position in the array.
        cell: usize,
        /// The key's path in the cell.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        source: HistogramError,
    },
}

/// Makes sure, before anything is measured, that results of this name can be written below `out`.
///
/// # Errors
/// [`WriteError`]
pub fn prepare(out: &Path, name: &str) -> Result<(), WriteError> {
    let parent = out.join(name);
    fs::create_dir_all(&parent).map_err(failed("create", &parent))?;
    let trial = parent.join(format!(".trial-{}", std::process::id()));
    File::create(&trial).map_err(failed("write in", &parent))?;
    fs::remove_file(&trial).map_err(failed("remove", &trial))
}

/// Writes `result` and a percentile file per cell into a new folder below `out`; returns the folder.
///
/// `folder_name` is the time part; a taken one gets `-2`, `-3` … appended.
///
/// # Errors
/// [`WriteError`]; then no folder of that name is left behind.
pub fn write(out: &Path, folder_name: &str, result: &RunResult) -> Result<PathBuf, WriteError> {
    let parent = out.join(&result.workload.name);
    fs::create_dir_all(&parent).map_err(failed("create", &parent))?;
    let hidden = parent.join(format!(".{folder_name}.{}", result.run_id));
    fs::create_dir(&hidden).map_err(failed("create", &hidden))?;
    let outcome = fill(&hidden, result).and_then(|()| publish(&hidden, &parent, folder_name));
    if outcome.is_err() {
        // The first error is the one to report; a half-written hidden folder harms nobody.
        let _ = fs::remove_dir_all(&hidden);
    }
    outcome
}

/// Reads a result from its folder or from the file itself.
///
/// # Errors
/// [`LoadError`] naming the file and, where there is one, the field.
pub fn load(path: &Path) -> Result<RunResult, LoadError> {
    let file = if path.is_dir() { path.join(RESULT_FILE) } else { path.to_owned() };
    let text = fs::read_to_string(&file)
        .map_err(|source| LoadError::Read { file: file.clone(), source })?;
    let format = |source| LoadError::Format { file: file.clone(), source };
    let mut value: Value = serde_json::from_str(&text).map_err(format)?;
    let found = value.get("schema_version").cloned().unwrap_or(Value::Null);
    let result: RunResult = if found == SCHEMA_VERSION {
        serde_json::from_str(&text).map_err(format)?
    } else if migration::bring_up_to_date(&mut value) {
        serde_json::from_value(value).map_err(format)?
    } else {
        return Err(LoadError::SchemaVersion { file, found });
    };
    for (index, cell) in result.cells.iter().enumerate() {
        check_histograms(&file, index, cell)?;
    }
    Ok(result)
}

fn check_histograms(file: &Path, index: usize, cell: &Cell) -> Result<(), LoadError> {
    let latencies: [(&'static str, &Latency); 3] = [
        ("latency.acknowledged.histogram_v2_deflate_base64", &cell.latency.acknowledged),
        ("latency.committed.histogram_v2_deflate_base64", &cell.latency.committed),
        ("latency.consumed.histogram_v2_deflate_base64", &cell.latency.consumed),
    ];
    for (field, latency) in latencies {
        if let Some(text) = &latency.histogram_v2_deflate_base64 {
            LatencyHistogram::from_base64(text).map_err(|source| LoadError::Histogram {
                file: file.to_owned(),
                cell: index,
                field,
                source,
            })?;
        }
    }
    Ok(())
}

fn fill(folder: &Path, result: &RunResult) -> Result<(), WriteError> {
    for cell in &result.cells {
        for (kind, latency) in [
            ("acknowledged", &cell.latency.acknowledged),
            ("committed", &cell.latency.committed),
            ("consumed", &cell.latency.consumed),
        ] {
            write_percentiles(folder, cell, kind, latency)?;
        }
    }
    let file = folder.join(RESULT_FILE);
    let json = serde_json::to_vec_pretty(result)
        .map_err(|error| failed("serialise", &file)(io::Error::other(error)))?;
    write_synced(&file, &json)
}

/// `<index>-<kind>.hgrm`; none where there are no samples.
fn write_percentiles(
    folder: &Path,
    cell: &Cell,
    kind: &str,
    latency: &Latency,
) -> Result<(), WriteError> {
    let Some(text) = &latency.histogram_v2_deflate_base64 else { return Ok(()) };
    let file = folder.join(format!("cell-{:03}-{kind}.hgrm", cell.index));
    let histogram = LatencyHistogram::from_base64(text)
        .map_err(|error| failed("serialise", &file)(io::Error::other(error)))?;
    let mut bytes = format!("# {} {kind} latency in microseconds\n", cell.name).into_bytes();
    histogram.write_hgrm(&mut bytes).map_err(failed("serialise", &file))?;
    write_synced(&file, &bytes)
}

fn write_synced(file: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let mut handle = File::create_new(file).map_err(failed("create", file))?;
    handle.write_all(bytes).map_err(failed("write", file))?;
    handle.sync_all().map_err(failed("sync", file))
}

/// Gives the finished folder its name: the rename replaces the empty folder that claimed it in one
/// step.
fn publish(hidden: &Path, parent: &Path, folder_name: &str) -> Result<PathBuf, WriteError> {
    sync_folder(hidden)?;
    let folder = claim(parent, folder_name)?;
    fs::rename(hidden, &folder).map_err(|error| {
        // Only the empty folder just made; the rename's error is the one to report.
        let _ = fs::remove_dir(&folder);
        failed("rename to", &folder)(error)
    })?;
    sync_folder(parent)?;
    Ok(folder)
}

/// Makes a folder of this name in `parent`, or the name with a number if it is taken, so that nothing
/// is ever overwritten.
///
/// # Errors
/// [`WriteError`]: it cannot be made, or too many names are taken.
pub fn claim(parent: &Path, folder_name: &str) -> Result<PathBuf, WriteError> {
    for attempt in 1..=FOLDERS_PER_SECOND_MAX {
        let name = match attempt {
            1 => folder_name.to_owned(),
            later => format!("{folder_name}-{later}"),
        };
        let folder = parent.join(name);
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed("create", &folder)(error)),
        }
    }
    let taken = parent.join(folder_name);
    Err(failed("create", &taken)(io::Error::from(io::ErrorKind::AlreadyExists)))
}

fn sync_folder(folder: &Path) -> Result<(), WriteError> {
    File::open(folder).and_then(|handle| handle.sync_all()).map_err(failed("sync", folder))
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> WriteError {
    let path = path.to_owned();
    move |source| WriteError { operation, path, source }
}

#[cfg(test)]
mod tests;

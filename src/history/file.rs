//! `results/history/NAME.jsonl`: one line of JSON a run, only ever appended to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::entry::{Entry, HISTORY_VERSION};

/// What a file of history is called after the workload's name.
const SUFFIX: &str = "jsonl";

/// A history that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct HistoryError {
    /// What was tried.
    pub operation: &'static str,
    /// On what.
    pub path: PathBuf,
    /// The system's reason.
    #[source]
    pub source: io::Error,
}

/// A history as read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// By the time the runs began.
    pub entries: Vec<Entry>,
    /// Lines that are no entry, each in words: they are skipped, never repaired.
    pub complaints: Vec<String>,
}

/// The file of `workload` below `folder`.
pub fn path(folder: &Path, workload: &str) -> PathBuf {
    folder.join(format!("{workload}.{SUFFIX}"))
}

/// The workloads that have a history below `folder`, sorted; none if there is no such folder.
///
/// # Errors
/// [`HistoryError`]
pub fn workloads(folder: &Path) -> Result<Vec<String>, HistoryError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed("read", folder))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let file = entry.map_err(failed("read", folder))?.path();
        let is_history = file.extension().is_some_and(|suffix| suffix == SUFFIX);
        if let Some(name) = file.file_stem().and_then(|name| name.to_str()).filter(|_| is_history) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Reads a history; a file that does not exist is an empty one.
///
/// # Errors
/// [`HistoryError`]
pub fn load(file: &Path) -> Result<History, HistoryError> {
    let bytes = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(History::default()),
        other => other.map_err(failed("read", file))?,
    };
    let mut history = History::default();
    // Bytes, not text: one that is not UTF-8 damages its own line only.
    let lines = bytes.split(|&byte| byte == b'\n').enumerate();
    for (index, line) in lines.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        match serde_json::from_slice::<Entry>(line) {
            Ok(entry) if entry.history_version == HISTORY_VERSION => history.entries.push(entry),
            Ok(entry) => history.complaints.push(format!(
                "{}:{}: history_version = {}: must be {HISTORY_VERSION}; skipped",
                file.display(),
                index + 1,
                entry.history_version
            )),
            Err(error) => history.complaints.push(format!(
                "{}:{}: not a line of history ({error}); skipped",
                file.display(),
                index + 1
            )),
        }
    }
    history.entries.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    Ok(history)
}

/// Appends `entry` to the history of its workload below `folder`, in one write, and syncs it.
/// Returns whether it was new: a run that is there already is not appended again.
///
/// # Errors
/// [`HistoryError`]
pub fn append(folder: &Path, entry: &Entry) -> Result<bool, HistoryError> {
    fs::create_dir_all(folder).map_err(failed("create", folder))?;
    let file = path(folder, &entry.workload);
    if load(&file)?.entries.iter().any(|known| known.run_id == entry.run_id) {
        return Ok(false);
    }
    let json = serde_json::to_string(entry)
        .map_err(|error| failed("serialise", &file)(io::Error::other(error)))?;
    let mut handle = OpenOptions::new()
        .create(true)
        .read(true)
        .append(true)
        .open(&file)
        .map_err(failed("open", &file))?;
    // A line that a crash cut short stays alone on its line, and is complained about.
    let torn = if ends_mid_line(&mut handle).map_err(failed("read", &file))? { "\n" } else { "" };
    handle.write_all(format!("{torn}{json}\n").as_bytes()).map_err(failed("write", &file))?;
    handle.sync_all().map_err(failed("sync", &file))?;
    Ok(true)
}

fn ends_mid_line(handle: &mut File) -> io::Result<bool> {
    if handle.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    let mut last = [0];
    handle.seek(SeekFrom::End(-1))?;
    handle.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> HistoryError {
    let path = path.to_owned();
    move |source| HistoryError { operation, path, source }
}

//! Where probes put their files: one folder inside the probed directory, gone afterwards.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Sets two folders or trial files of one process apart.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A folder that is removed with all it holds when this value goes, on success and on error.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

/// The folder could not be made.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot make a folder for measuring in it", directory.display())]
pub struct ScratchError {
    /// The directory that was to hold the folder.
    pub directory: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

impl Scratch {
    /// Makes `ackmark-probe-PID` (or `ackmark-probe-PID-N`) inside `directory`.
    pub fn create(directory: &Path) -> Result<Scratch, ScratchError> {
        let path = directory.join(format!("ackmark-probe-{}", suffix()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Scratch { path }),
            Err(source) => Err(ScratchError { directory: directory.to_owned(), source }),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about a failure here; the name says whose the folder was.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A name for one small file in `directory` that its maker removes at once.
pub(super) fn trial_path(directory: &Path) -> PathBuf {
    directory.join(format!(".ackmark-trial-{}", suffix()))
}

fn suffix() -> String {
    let pid = std::process::id();
    match NEXT.fetch_add(1, Ordering::Relaxed) {
        0 => pid.to_string(),
        number => format!("{pid}-{number}"),
    }
}

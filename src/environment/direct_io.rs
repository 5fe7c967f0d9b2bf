//! Whether O_DIRECT on a directory reaches a device, by the check the brokers make too
//! ([`crate::storage::direct_io`]), with refusals that a person can act on.

use std::path::{Path, PathBuf};

use super::filesystem::{StorageClass, kind_of};
use super::scratch;
use super::system_calls;

pub use crate::storage::DirectIo;
use crate::storage::{self, StorageError};

/// Why a directory has no O_DIRECT that means anything.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: O_DIRECT is not available: {reason}: use durability page-cache or fsync, or a directory \
     on a block device",
    directory.display()
)]
pub struct DirectIoUnavailable {
    /// The directory.
    pub directory: PathBuf,
    /// Why; part of the message, so not a source of its own.
    pub reason: DirectIoReason,
}

/// The reason in a [`DirectIoUnavailable`].
#[derive(Debug, thiserror::Error)]
pub enum DirectIoReason {
    /// Memory, whatever `open` says.
    #[error("it is on {0}: no device behind it")]
    Memory(&'static str),
    /// A protocol stands between the file and any device.
    #[error("it is on {0}: what its writes reach is not known here")]
    Remote(&'static str),
    /// What the check found, with the kind of file system.
    #[error("{found} ({kind})")]
    Refused {
        /// In words.
        found: String,
        /// Its name, or its magic number.
        kind: String,
    },
    /// The check could not be made.
    #[error("{operation} failed: {source}")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// The answer.
        #[source]
        source: std::io::Error,
    },
    /// As `Failed`, in the storage's words.
    #[error(transparent)]
    Trial(#[from] StorageError),
}

/// Checks that O_DIRECT works in `directory` and reaches a device, with a trial write.
pub fn direct_io(directory: &Path) -> Result<DirectIo, DirectIoUnavailable> {
    check(directory)
        .map_err(|reason| DirectIoUnavailable { directory: directory.to_owned(), reason })
}

fn check(directory: &Path) -> Result<DirectIo, DirectIoReason> {
    let operation = "reading its file system";
    let status = system_calls::file_system_status(directory)
        .map_err(|source| DirectIoReason::Failed { operation, source })?;
    let kind = kind_of(status.magic);
    refuse_by_kind(kind)?;
    storage::direct_io(&scratch::trial_path(directory))?.map_err(|found| {
        let magic = || format!("magic {:#x}", status.magic);
        let kind = kind.map_or_else(magic, |(name, _)| name.to_owned());
        DirectIoReason::Refused { found, kind }
    })
}

/// Kinds that never have a device of their own to reach.
pub(super) fn refuse_by_kind(
    kind: Option<(&'static str, StorageClass)>,
) -> Result<(), DirectIoReason> {
    match kind {
        Some((name, StorageClass::Memory)) => Err(DirectIoReason::Memory(name)),
        Some((name, StorageClass::Remote)) => Err(DirectIoReason::Remote(name)),
        _ => Ok(()),
    }
}

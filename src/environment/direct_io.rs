//! Whether O_DIRECT on a directory reaches a device. A successful open proves nothing: tmpfs of
//! current kernels accepts O_DIRECT, even unaligned (spec/io.md finding 9, device check table).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::device::DeviceFacts;
use super::filesystem::{StorageClass, kind_of};
use super::pattern::AlignedBytes;
use super::scratch;
use super::system_calls;

/// Assumed where the device does not state its physical block: the most common one, and a multiple
/// of the only smaller one in use.
const PHYSICAL_BLOCK_BYTES_ASSUMED: usize = 4096;

/// What O_DIRECT needs on a directory that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectIo {
    /// File positions and lengths must be multiples of this.
    pub offset_align: usize,
    /// Memory addresses must be multiples of this.
    pub memory_align: usize,
    /// What writes should be multiples of, so that neither the file system nor the device reads
    /// before it writes: the larger of `offset_align` and the device's physical block.
    pub block_bytes: usize,
    /// Whether the kernel stated the alignment; if not (before Linux 6.1) it rests on the kind of
    /// file system and a trial write.
    pub verified: bool,
}

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
    /// An overlay that passes no alignment through, such as one over tmpfs.
    #[error("it is on an overlay whose upper layer states no O_DIRECT alignment")]
    Overlay,
    /// The file system says that its files do not support it.
    #[error("its file system ({0}) supports none")]
    NotSupported(String),
    /// The kernel does not state alignments and the kind is not on the list of known ones.
    #[error(
        "the kernel states no O_DIRECT alignment for its file system ({0}), which is not known"
    )]
    UnknownKind(String),
    /// `open` took the flag and dropped it.
    #[error("its file system drops the flag silently")]
    FlagDropped,
    /// A system call failed.
    #[error("{operation} failed: {source}")]
    Failed {
        /// What was tried.
        operation: &'static str,
        /// The answer.
        #[source]
        source: io::Error,
    },
}

/// Checks that O_DIRECT works in `directory` and reaches a device, with a trial write.
pub fn direct_io(directory: &Path) -> Result<DirectIo, DirectIoUnavailable> {
    check(directory)
        .map_err(|reason| DirectIoUnavailable { directory: directory.to_owned(), reason })
}

fn check(directory: &Path) -> Result<DirectIo, DirectIoReason> {
    let status =
        system_calls::file_system_status(directory).map_err(failed("reading its file system"))?;
    let kind = kind_of(status.magic);
    refuse_by_kind(kind)?;
    let file = open_trial(directory)?;
    if !system_calls::is_direct(&file).map_err(failed("reading back the open flags"))? {
        return Err(DirectIoReason::FlagDropped);
    }
    let alignment = system_calls::dio_alignment(&file).map_err(failed("statx"))?;
    let name = kind.map_or_else(|| format!("magic {:#x}", status.magic), |kind| kind.0.to_owned());
    let (offset_align, memory_align, verified) = match alignment {
        Some(alignment) if alignment.offset_bytes == 0 => {
            return Err(DirectIoReason::NotSupported(name));
        }
        Some(alignment) => (alignment.offset_bytes, alignment.memory_bytes, true),
        None => {
            let logical = trusted_without_statement(kind, directory, name)?;
            (logical, logical, false)
        }
    };
    let direct = direct_io_of(directory, offset_align as usize, memory_align as usize, verified);
    trial_write(&file, &direct)?;
    Ok(direct)
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

/// Before Linux 6.1 no alignment is stated: only local kinds known to support O_DIRECT pass, with
/// the device's logical block.
fn trusted_without_statement(
    kind: Option<(&'static str, StorageClass)>,
    directory: &Path,
    name: String,
) -> Result<u32, DirectIoReason> {
    const LOGICAL_BLOCK_BYTES_ASSUMED: u64 = 4096;
    match kind {
        Some((_, StorageClass::Overlay)) => Err(DirectIoReason::Overlay),
        Some((_, StorageClass::Device)) => {
            let stated = DeviceFacts::capture(directory).and_then(|it| it.logical_block_bytes);
            let logical = stated.unwrap_or(LOGICAL_BLOCK_BYTES_ASSUMED);
            u32::try_from(logical).map_err(|_| DirectIoReason::NotSupported(name))
        }
        _ => Err(DirectIoReason::UnknownKind(name)),
    }
}

fn direct_io_of(
    directory: &Path,
    offset_align: usize,
    memory_align: usize,
    verified: bool,
) -> DirectIo {
    let physical = DeviceFacts::capture(directory)
        .and_then(|device| device.physical_block_bytes)
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(PHYSICAL_BLOCK_BYTES_ASSUMED);
    DirectIo { offset_align, memory_align, block_bytes: offset_align.max(physical), verified }
}

/// The file is unlinked at once: nothing stays behind, whatever follows.
fn open_trial(directory: &Path) -> Result<File, DirectIoReason> {
    let path = scratch::trial_path(directory);
    let open = |flags| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .custom_flags(flags)
            .open(&path)
    };
    let plain = open(0).map_err(failed("making a trial file"));
    let direct = plain.and_then(|_| open(libc::O_DIRECT).map_err(failed("opening with O_DIRECT")));
    // A file that was never made cannot be removed, and one that was made always can be.
    let _ = std::fs::remove_file(&path);
    direct
}

fn trial_write(file: &File, direct: &DirectIo) -> Result<(), DirectIoReason> {
    let data = AlignedBytes::zeroed(direct.block_bytes);
    file.write_all_at(data.as_slice(), 0).map_err(failed("a trial write"))
}

fn failed(operation: &'static str) -> impl Fn(io::Error) -> DirectIoReason {
    move |source| DirectIoReason::Failed { operation, source }
}

//! What the directory's file system and device ask of O_DIRECT, and the opening of segment files.
//!
//! A direct mode is verified, never assumed: file systems without a device accept O_DIRECT and keep
//! the bytes in memory (spec/io.md finding 9), so the flag being set proves nothing alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, StatxAttributes, StatxFlags};

use crate::engine::passes_page_cache;
use crate::types::DurabilityMode;

use super::StorageError;
use super::aligned::MEMORY_ALIGNMENT_BYTES;

/// Assumed where the device behind a directory is unknown: what today's disks use inside.
const PHYSICAL_BLOCK_BYTES_ASSUMED: usize = 4096;

/// `statfs` types that are named in messages.
const FILE_SYSTEMS_IN_MEMORY: [(u64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// What O_DIRECT needs on a directory that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectIo {
    /// File positions and lengths must be multiples of this.
    pub offset_align: usize,
    /// Memory addresses must be multiples of this.
    pub memory_align: usize,
    /// What writes should be multiples of, so that neither the file system nor the device reads
    /// before it writes: the larger of the alignments and the device's physical block.
    pub block_bytes: usize,
}

/// The unit every write in `directory` must be aligned to: 1 in the buffered modes; in the direct
/// ones [`DirectIo::block_bytes`].
///
/// Errors: [`StorageError::DirectUnavailable`] if a direct mode cannot reach a device from here.
pub(super) fn block_bytes(directory: &Path, mode: DurabilityMode) -> Result<usize, StorageError> {
    if !mode.is_direct() {
        return Ok(1);
    }
    let direct = direct_io(&directory.join("direct-check.tmp"))?;
    direct.map(|direct| direct.block_bytes).map_err(|reason| StorageError::DirectUnavailable {
        directory: directory.to_path_buf(),
        mode,
        reason,
    })
}

/// What O_DIRECT needs for files beside `trial`, a file that is made and removed again; or why it
/// reaches no device there. The one check of everybody who writes directly, since the flag, and even
/// a stated alignment, prove nothing: a trial write is looked for in the page cache.
///
/// Errors: the trial file could not be made, looked at or removed.
pub fn direct_io(trial: &Path) -> Result<Result<DirectIo, String>, StorageError> {
    // A plain open first, so that a full or read-only disk is not blamed on O_DIRECT.
    File::create(trial).map_err(StorageError::io("create a file to check O_DIRECT with", trial))?;
    let checked = check_direct(trial);
    let removed = fs::remove_file(trial);
    let checked = checked?;
    removed.map_err(StorageError::io("remove the file O_DIRECT was checked with", trial))?;
    Ok(checked)
}

/// Opens a segment file for reading and writing; `direct` adds O_DIRECT and verifies it.
pub(super) fn open_segment(path: &Path, create: bool, direct: bool) -> Result<File, StorageError> {
    let flags = if direct { OFlags::DIRECT.bits().cast_signed() } else { 0 };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(create)
        .custom_flags(flags)
        .open(path)
        .map_err(StorageError::io("open the segment", path))?;
    if direct && !has_direct_flag(&file) {
        let source = io::Error::other("the file system dropped O_DIRECT");
        return Err(StorageError::io("open the segment", path)(source));
    }
    Ok(file)
}

/// Makes the names in `directory` durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), StorageError> {
    File::open(directory)
        .and_then(|file| file.sync_all())
        .map_err(StorageError::io("sync the directory", directory))
}

fn check_direct(path: &Path) -> Result<Result<DirectIo, String>, StorageError> {
    let file = match open_direct(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(format!("open with O_DIRECT failed ({error})"))),
    };
    if !has_direct_flag(&file) {
        return Ok(Err("the file system dropped the flag".to_owned()));
    }
    let status = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .map_err(|error| StorageError::io("call statx", path)(error.into()))?;
    let is_stated = status.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    let (offset_align, memory_align) = match is_stated {
        true => (status.stx_dio_offset_align as usize, status.stx_dio_mem_align as usize),
        // Not every file system says; the trial write does.
        false => (PHYSICAL_BLOCK_BYTES_ASSUMED, MEMORY_ALIGNMENT_BYTES),
    };
    if offset_align == 0 {
        return Ok(Err("statx states that files here take no direct I/O".to_owned()));
    }
    let alignment = offset_align.max(memory_align);
    if !alignment.is_power_of_two() {
        return Ok(Err(format!("statx states an alignment of {alignment}, not a power of two")));
    }
    let physical = path.parent().and_then(physical_block_bytes);
    let block_bytes = alignment
        .max(super::scan::PADDING_UNIT_BYTES)
        .max(physical.unwrap_or(PHYSICAL_BLOCK_BYTES_ASSUMED));
    // Memory that is the medium itself has no page cache to be past of.
    if !status.stx_attributes.contains(StatxAttributes::DAX) {
        match passes_page_cache(&file, block_bytes) {
            Ok(true) => {}
            Ok(false) => return Ok(Err(buffered_reason(&file))),
            Err(error) => return Ok(Err(format!("a trial write failed ({error})"))),
        }
    }
    Ok(Ok(DirectIo { offset_align, memory_align, block_bytes }))
}

fn open_direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

fn has_direct_flag(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

fn buffered_reason(file: &File) -> String {
    let magic = rustix::fs::fstatfs(file).map(|status| status.f_type.cast_unsigned());
    let name = magic.ok().and_then(|magic| {
        FILE_SYSTEMS_IN_MEMORY.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
    });
    match name {
        Some(name) => format!("the directory is on {name} with no device behind it"),
        None => "the file system takes O_DIRECT, but a trial write went through the page cache \
                 (btrfs does that for files with data checksums: `chattr +C` on the empty \
                 directory turns them off)"
            .to_owned(),
    }
}

/// Physical block size of the device under `directory`, if sysfs knows it.
fn physical_block_bytes(directory: &Path) -> Option<usize> {
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = format!("/sys/dev/block/{major}:{minor}");
    // A partition has no queue of its own; its parent's applies.
    ["queue", "../queue"].iter().find_map(|queue| {
        let path = format!("{device}/{queue}/physical_block_size");
        let size: usize = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        size.is_power_of_two().then_some(size)
    })
}

/// Alignment of the memory that is written in units of `block_bytes`.
pub(super) fn memory_alignment(block_bytes: usize) -> usize {
    block_bytes.max(MEMORY_ALIGNMENT_BYTES)
}

/// `position` rounded up to a multiple of `block_bytes`, a power of two.
pub(super) fn align_up(position: u64, block_bytes: usize) -> u64 {
    position.next_multiple_of(block_bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffered_modes_need_no_alignment_anywhere() {
        let directory = tempfile::tempdir().expect("a directory");
        let block = block_bytes(directory.path(), DurabilityMode::Fsync).expect("any directory");
        assert_eq!(block, 1);
    }

    #[test]
    fn memory_file_systems_are_refused_by_name() {
        let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
            eprintln!("SKIPPED: no /dev/shm here");
            return;
        };
        let error = block_bytes(directory.path(), DurabilityMode::DirectDsync)
            .expect_err("tmpfs has no device");
        let message = error.to_string();
        for part in ["/dev/shm", "direct-dsync", "tmpfs with no device"] {
            assert!(message.contains(part), "{message}");
        }
        let left = std::fs::read_dir(directory.path()).expect("directory").count();
        assert_eq!(left, 0, "the check leaves nothing behind");
    }
}

//! What the directory's file system and device ask of O_DIRECT, and the opening of segment files.
//!
//! A direct mode is verified, never assumed: file systems without a device accept O_DIRECT and keep
//! the bytes in memory (spec/io.md finding 9), so the flag being set proves nothing alone.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, StatxFlags};

use crate::types::DurabilityMode;

use super::StorageError;
use super::aligned::MEMORY_ALIGNMENT_BYTES;

/// Assumed where the device behind a directory is unknown: what today's disks use inside.
const PHYSICAL_BLOCK_BYTES_ASSUMED: usize = 4096;

/// `statfs` types that are named in messages.
const FILE_SYSTEMS_WITHOUT_DEVICE: [(u64, &str); 3] =
    [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs"), (0x794c_7630, "overlay")];

/// The unit every write in `directory` must be aligned to: 1 in the buffered modes; in the direct
/// ones the largest of what statx reports for O_DIRECT and the device's physical block.
///
/// Errors: [`StorageError::DirectUnavailable`] if a direct mode cannot reach a device from here.
pub(super) fn block_bytes(directory: &Path, mode: DurabilityMode) -> Result<usize, StorageError> {
    if !mode.is_direct() {
        return Ok(1);
    }
    let path = directory.join("direct-check.tmp");
    let checked = check_direct(&path);
    let removed = fs::remove_file(&path);
    let alignment = checked?.map_err(|reason| StorageError::DirectUnavailable {
        directory: directory.to_path_buf(),
        mode,
        reason,
    })?;
    removed.map_err(StorageError::io("remove the file O_DIRECT was checked with", &path))?;
    Ok(alignment.max(physical_block_bytes(directory).unwrap_or(PHYSICAL_BLOCK_BYTES_ASSUMED)))
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

/// The alignment O_DIRECT needs for a file at `path`, or the reason it does not work there.
fn check_direct(path: &Path) -> Result<Result<usize, String>, StorageError> {
    // A plain open first, so that a full or read-only disk is not blamed on O_DIRECT.
    File::create(path).map_err(StorageError::io("create a file to check O_DIRECT with", path))?;
    let file = match open_direct(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(format!("open with O_DIRECT failed ({error})"))),
    };
    if !has_direct_flag(&file) {
        return Ok(Err("the file system dropped the flag".to_owned()));
    }
    let status = rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        .map_err(|error| StorageError::io("call statx", path)(error.into()))?;
    let is_reported = status.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    if !is_reported || status.stx_dio_offset_align == 0 {
        return Ok(Err(no_alignment_reason(&file)));
    }
    let alignment = status.stx_dio_offset_align.max(status.stx_dio_mem_align) as usize;
    Ok(if alignment.is_power_of_two() {
        Ok(alignment.max(super::scan::PADDING_UNIT_BYTES))
    } else {
        Err(format!("statx reports an alignment of {alignment}, not a power of two"))
    })
}

fn open_direct(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).open(path)
}

fn has_direct_flag(file: &File) -> bool {
    rustix::fs::fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT))
}

fn no_alignment_reason(file: &File) -> String {
    let magic = rustix::fs::fstatfs(file).map(|status| status.f_type.cast_unsigned());
    let name = magic.ok().and_then(|magic| {
        FILE_SYSTEMS_WITHOUT_DEVICE.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
    });
    match name {
        Some(name) => format!("the directory is on {name} with no device behind it"),
        None => {
            "statx reports no O_DIRECT alignment (file system without it, or kernel before 6.1)"
                .to_owned()
        }
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

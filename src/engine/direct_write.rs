//! What the kernel does with a direct write, looked at instead of believed: a file system may take
//! O_DIRECT and go through the page cache all the same (btrfs with data checksums, tmpfs).
//!
//! A page of the file is mapped and touched before the write. A write past the page cache throws that
//! page out, since it would be stale; one through the cache writes into it, and a mapped page is
//! not thrown out afterwards. So whether it is still cached tells the two apart.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::ptr;

/// Whether a write to `file`, which is open for reading and writing with O_DIRECT, goes past the
/// page cache. Overwrites the front of the file, in a length that is a multiple of `block_bytes`,
/// a power of two.
///
/// # Errors
/// A system call failed, or the page cache does not show what it holds.
pub fn passes_page_cache(file: &File, block_bytes: usize) -> io::Result<bool> {
    let length = block_bytes.max(page_bytes()?);
    let memory = vec![0_u8; 2 * length];
    let start = memory.as_ptr().align_offset(length);
    let data = &memory[start..start + length];
    file.write_all_at(data, 0)?;
    let mapping = Mapping::of(file, length)?;
    mapping.touch();
    if !mapping.is_cached()? {
        return Err(io::Error::other("a page that was just read is not in the page cache"));
    }
    file.write_all_at(data, 0)?;
    Ok(!mapping.is_cached()?)
}

fn page_bytes() -> io::Result<usize> {
    // SAFETY: takes a plain integer and touches no memory.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).map_err(|_| io::Error::last_os_error())
}

/// The front of a file, shared and read-only.
struct Mapping {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    fn of(file: &File, length: usize) -> io::Result<Mapping> {
        let (protection, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: the kernel chooses the address, so no memory of this process is replaced; the
        // descriptor is open.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), length, protection, shared, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping { start, length })
    }

    /// Brings its first page into the page cache.
    fn touch(&self) {
        // SAFETY: the mapping is readable while `self` lives, and the caller wrote the file to its
        // length, so the byte is there; volatile because the file may change meanwhile.
        let _ = unsafe { ptr::read_volatile(self.start.cast::<u8>()) };
    }

    /// Whether its first page is in the page cache.
    fn is_cached(&self) -> io::Result<bool> {
        let mut resident = 0_u8;
        // SAFETY: asks for one byte's page, so the kernel fills one byte of `resident`.
        let status = unsafe { libc::mincore(self.start, 1, &raw mut resident) };
        if status == 0 { Ok(resident & 1 != 0) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `of` mapped, and nothing refers to it any more.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    /// tmpfs is a file system that takes the flag and keeps the bytes in memory.
    #[test]
    fn a_file_system_that_buffers_direct_writes_is_seen_to() {
        let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
            eprintln!("SKIPPED: no /dev/shm here");
            return;
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).custom_flags(libc::O_DIRECT);
        match options.open(folder.path().join("file")) {
            Ok(file) => assert!(!passes_page_cache(&file, 4096).expect("a trial")),
            Err(error) => eprintln!("SKIPPED: this kernel's tmpfs takes no O_DIRECT: {error}"),
        }
    }

    #[test]
    fn a_buffered_write_is_seen_to() {
        let file = tempfile::tempfile().expect("a file");
        assert!(!passes_page_cache(&file, 4096).expect("a trial"));
    }
}

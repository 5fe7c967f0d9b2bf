//! The system calls std has no wrapper for: the only `unsafe` of this room.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What statfs(2) says about the file system a path is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSystemStatus {
    pub magic: u64,
    pub total_bytes: u64,
    /// Free for an unprivileged user.
    pub free_bytes: u64,
    pub free_inodes: u64,
}

pub(super) fn file_system_status(path: &Path) -> io::Result<FileSystemStatus> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: an all-zero `statfs` is a valid value of that plain struct of integers.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the path is NUL-terminated and `status` is writable; both outlive the call.
    let result = unsafe { libc::statfs(path.as_ptr(), &raw mut status) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // The widths of these fields differ by architecture; magic numbers are 32 bits everywhere.
    let block_bytes = status.f_bsize as u64;
    Ok(FileSystemStatus {
        magic: (status.f_type as u64) & 0xffff_ffff,
        total_bytes: status.f_blocks as u64 * block_bytes,
        free_bytes: status.f_bavail as u64 * block_bytes,
        free_inodes: status.f_ffree as u64,
    })
}

/// syncfs(2): returns once the file system of `file` has nothing left to write back.
pub(super) fn sync_file_system(file: &File) -> io::Result<()> {
    // SAFETY: the descriptor is open during the call, which takes nothing else.
    match unsafe { libc::syncfs(file.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// O_DIRECT alignment as the file system states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DioAlignment {
    pub memory_bytes: u32,
    /// Zero means that this file does not support O_DIRECT.
    pub offset_bytes: u32,
}

/// `None` if the kernel or the file system does not answer STATX_DIOALIGN (Linux 6.1+).
pub(super) fn dio_alignment(file: &File) -> io::Result<Option<DioAlignment>> {
    // SAFETY: an all-zero `statx` is a valid value of that plain struct of integers.
    let mut answer: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the path is an empty NUL-terminated string as AT_EMPTY_PATH
    // wants it, and `answer` is writable and outlives the call.
    let result = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &raw mut answer,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((answer.stx_mask & libc::STATX_DIOALIGN != 0).then_some(DioAlignment {
        memory_bytes: answer.stx_dio_mem_align,
        offset_bytes: answer.stx_dio_offset_align,
    }))
}

/// Reserves `length_bytes` for the file and keeps its size.
pub(super) fn reserve(file: &File, length_bytes: u64) -> io::Result<()> {
    let length = libc::off_t::try_from(length_bytes).map_err(io::Error::other)?;
    // SAFETY: takes plain integers; the descriptor is open.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Drops the file's clean pages from the page cache.
pub(super) fn drop_page_cache(file: &File) -> io::Result<()> {
    // SAFETY: takes plain integers; the descriptor is open.
    let errno = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    if errno == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
}

/// One pwritev2(2) with RWF_DSYNC; a short write is an error.
pub(super) fn write_dsync(file: &File, data: &[u8], position: u64) -> io::Result<()> {
    let vector = libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() };
    let position = libc::off_t::try_from(position).map_err(io::Error::other)?;
    // SAFETY: the vector describes `data`, which the kernel only reads and which outlives the call.
    let written = unsafe {
        libc::pwritev2(file.as_raw_fd(), &raw const vector, 1, position, libc::RWF_DSYNC)
    };
    match usize::try_from(written) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(count) if count == data.len() => Ok(()),
        Ok(count) => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("short write: {count} of {} bytes", data.len()),
        )),
    }
}

/// Ticks a second, from the resolution of the coarse clock, which is one tick.
pub(super) fn tick_hz() -> Option<u64> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `resolution` is writable and outlives the call.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut resolution) };
    let tick_ns = u64::try_from(resolution.tv_nsec).ok().filter(|ns| *ns > 0)?;
    (result == 0 && resolution.tv_sec == 0).then(|| (1_000_000_000 + tick_ns / 2) / tick_ns)
}

/// The unit of CPU times in /proc, in ticks a second.
pub(super) fn cpu_time_hz() -> Option<u64> {
    // SAFETY: takes a plain integer and touches no memory.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).ok().filter(|ticks| *ticks > 0)
}

//! A file system of its own for one broker's logs, on a loop device, that can lose the page cache.
//!
//! The file system's shutdown ioctl without a log flush drops everything the kernel had not yet
//! written: unsynced data and metadata are gone, as after a power cut. What it does not lose is the
//! device's own volatile cache: the loop device writes with direct I/O to a file, whose device goes
//! on. A killed process loses none of this; that is why it is never called power loss.
//!
//! Everything is taken away again on every way out: dropping a disk unmounts it, its loop device
//! frees itself with the last use (autoclear), and mounts live in a mount namespace of the thread
//! that made them, so that even SIGKILL leaves none behind.
//!
//! One of the few files that say `unsafe`: two system calls without a safe wrapper.
//!
//! Source: spec/io.md section 4, "Power loss, honest simulation".

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use crate::measure::{clock, threads};
use crate::types::MonotonicTime;

/// EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN: `_IOR('X', 125, u32)`.
const SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;
/// The journal is not flushed first.
const NO_LOG_FLUSH: u32 = 2;
/// A process that was killed may keep files open until the kernel has ended its io_uring.
const UNMOUNT_PATIENCE: Duration = Duration::from_secs(10);
/// Enough for a file system.
const TRIED_BYTES: u64 = 16 << 20;
const UNMOUNT_AGAIN: Duration = Duration::from_millis(5);

/// Why such a disk cannot be had, or failed.
#[derive(Debug, thiserror::Error)]
pub enum LoopDiskError {
    /// Mounting needs a mount namespace of its own.
    #[error("page-cache loss needs root: a mount namespace of its own")]
    Namespace(#[source] io::Error),
    /// Trying it needs a thread of its own.
    #[error("page-cache loss: {0}")]
    Thread(#[source] io::Error),
    /// A program failed or is not there.
    #[error("page-cache loss: `{command}` failed: {reason}")]
    Command {
        /// As typed.
        command: String,
        /// What it said.
        reason: String,
    },
    /// A file or folder could not be made or opened.
    #[error("page-cache loss: {}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Whether this user and machine can make such disks in `folder`: one is made there and cut, on a
/// thread of its own.
///
/// # Errors
/// Why not.
pub fn try_in(folder: &Path) -> Result<(), LoopDiskError> {
    let scratch = folder.join(format!("loop-disk-{}", std::process::id()));
    let tried = thread::scope(|scope| {
        let make = || {
            enter_mount_namespace()?;
            let image = scratch.with_extension("image");
            let disk = LoopDisk::create(&image, &scratch, TRIED_BYTES)?;
            disk.cut().map(drop)
        };
        let made = threads::start_in(scope, "loop disk", make).map_err(LoopDiskError::Thread)?;
        made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    // It may not have come to be.
    let _ = (fs::remove_dir(&scratch), fs::remove_file(scratch.with_extension("image")));
    tried
}

/// Gives the calling thread, and whatever it starts from now on, a mount namespace of its own: what
/// is mounted there is seen nowhere else and ends with its last process.
///
/// # Errors
/// [`LoopDiskError`]: not root, or no namespaces.
pub fn enter_mount_namespace() -> Result<(), LoopDiskError> {
    // SAFETY: unshare takes flags and touches no memory; only this thread's view of mounts (and its
    // working directory, which stays) is made its own.
    let status = unsafe { libc::unshare(libc::CLONE_NEWNS) };
    if status != 0 {
        return Err(LoopDiskError::Namespace(io::Error::last_os_error()));
    }
    run("mount", &["--make-rprivate", "/"]).map(drop)
}

/// One mounted ext4 in an image file.
#[derive(Debug)]
pub struct LoopDisk {
    image: PathBuf,
    mount_point: PathBuf,
    is_mounted: bool,
}

impl LoopDisk {
    /// Makes `image` (sparse, of `size_bytes`) an ext4 and mounts it on `mount_point`, which is made.
    /// Call [`enter_mount_namespace`] on this thread first.
    ///
    /// # Errors
    /// [`LoopDiskError`].
    pub fn create(
        image: &Path,
        mount_point: &Path,
        size_bytes: u64,
    ) -> Result<LoopDisk, LoopDiskError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| LoopDiskError::File { path, source }
        };
        let file = File::create_new(image).map_err(failed(image))?;
        file.set_len(size_bytes).map_err(failed(image))?;
        fs::create_dir_all(mount_point).map_err(failed(mount_point))?;
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &text(image)])?;
        let (image, mount_point) = (image.to_owned(), mount_point.to_owned());
        let mut disk = LoopDisk { image, mount_point, is_mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount_point
    }

    /// Drops what was not synced: from now on every call on a file fails until
    /// [`LoopDisk::remount`]. Gives the instant.
    ///
    /// # Errors
    /// [`LoopDiskError::File`].
    pub fn cut(&self) -> Result<MonotonicTime, LoopDiskError> {
        let failed = |source| LoopDiskError::File { path: self.mount_point.clone(), source };
        let root = File::open(&self.mount_point).map_err(failed)?;
        let flags = NO_LOG_FLUSH;
        // SAFETY: the request reads one u32 through the pointer, which outlives the call.
        let status = unsafe { libc::ioctl(root.as_raw_fd(), SHUTDOWN, &raw const flags) };
        match status {
            0 => Ok(clock::now()),
            _ => Err(failed(io::Error::last_os_error())),
        }
    }

    /// Mounts it anew: what is seen then is what the device has. Nobody may have a file open.
    ///
    /// # Errors
    /// [`LoopDiskError`].
    pub fn remount(&mut self) -> Result<(), LoopDiskError> {
        self.unmount()?;
        self.mount()
    }

    fn mount(&mut self) -> Result<(), LoopDiskError> {
        let shown = run("losetup", &["--find", "--show", "--direct-io=on", &text(&self.image)])?;
        let device = String::from_utf8_lossy(&shown.stdout).trim().to_owned();
        let mounted = run("mount", &["-t", "ext4", &device, &text(&self.mount_point)]);
        // In use by the mount: it frees itself when that is gone. Else it goes now.
        let detached = run("losetup", &["--detach", &device]);
        mounted?;
        self.is_mounted = true;
        detached.map(drop)
    }

    fn unmount(&mut self) -> Result<(), LoopDiskError> {
        let deadline = Instant::now() + UNMOUNT_PATIENCE;
        while self.is_mounted {
            match run("umount", &[&text(&self.mount_point)]) {
                Ok(_) => self.is_mounted = false,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => thread::sleep(UNMOUNT_AGAIN),
            }
        }
        Ok(())
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            // Gone from the tree at once, from the kernel with its last user.
            let _ = run("umount", &["--lazy", &text(&self.mount_point)]);
        }
        let _ = fs::remove_file(&self.image);
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn run(program: &str, arguments: &[&str]) -> Result<Output, LoopDiskError> {
    let failed = |reason: String| LoopDiskError::Command {
        command: format!("{program} {}", arguments.join(" ")),
        reason,
    };
    // Where distributions keep them, whatever the caller's PATH.
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests;

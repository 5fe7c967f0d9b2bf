//! One registered file: its asynchronous writes and reads through glommio.
//!
//! glommio opens its own files, so a file handed over by descriptor is opened again through
//! /proc/self/fd: once for writes without RWF_DSYNC and for reads, once with O_DSYNC, each when
//! first needed. Buffered files are only read here; the shard writes them.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::rc::Rc;

use ::glommio::GlommioError;
use ::glommio::io::{BufferedFile, DmaFile, OpenOptions};
use ::glommio::sync::Semaphore;
use bytes::BytesMut;

use super::super::Write;
use crate::types::Sync;

/// Larger reads are made in pieces: one read of several MiB has put processes of glommio's users
/// into uninterruptible sleep.
const READ_BYTES_MAX: usize = 1 << 20;
/// At least one block of any device.
const SCRATCH_BYTES: usize = 4096;

/// The devices (st_dev) glommio has probed for polled I/O in this shard, see [`File::probe_device`].
pub(super) type ProbedDevices = Rc<RefCell<BTreeSet<u64>>>;

pub(super) struct File {
    pub(super) fd: OwnedFd,
    pub(super) is_direct: bool,
    plain: OnceCell<DmaFile>,
    dsync: OnceCell<DmaFile>,
    buffered: OnceCell<BufferedFile>,
    /// One permit: held while glommio opens the file again.
    opening: Semaphore,
    probed: ProbedDevices,
}

impl File {
    pub(super) fn new(fd: OwnedFd, is_direct: bool, probed: ProbedDevices) -> File {
        File {
            fd,
            is_direct,
            plain: OnceCell::new(),
            dsync: OnceCell::new(),
            buffered: OnceCell::new(),
            opening: Semaphore::new(1),
            probed,
        }
    }

    /// Writes to a direct file and syncs as asked.
    pub(super) async fn write(&self, write: &Write) -> io::Result<()> {
        let file = self.direct(write.sync).await?;
        if !write.data.is_empty() {
            let mut buffer = file.alloc_dma_buffer(write.data.len());
            buffer.as_bytes_mut().copy_from_slice(&write.data);
            let written = file.write_at(buffer, write.position).await.map_err(io_error)?;
            if written != write.data.len() {
                return Err(io::Error::from(io::ErrorKind::WriteZero));
            }
        }
        // A write of no bytes syncs nothing, with O_DSYNC or without.
        let must_sync = match write.sync {
            Sync::None => false,
            Sync::Dsync => write.data.is_empty(),
            Sync::Fdatasync => true,
        };
        if must_sync { file.fdatasync().await.map_err(io_error) } else { Ok(()) }
    }

    /// Reads until `length` bytes are there or the file ends.
    pub(super) async fn read(&self, position: u64, length: usize) -> io::Result<BytesMut> {
        let mut bytes = BytesMut::with_capacity(length);
        while bytes.len() < length {
            let at = position + bytes.len() as u64;
            let wanted = (length - bytes.len()).min(READ_BYTES_MAX);
            let read = if self.is_direct {
                self.direct(Sync::None).await?.read_at_aligned(at, wanted).await
            } else {
                self.buffered()?.read_at(at, wanted).await
            };
            let read = read.map_err(io_error)?;
            bytes.extend_from_slice(&read);
            if read.len() < wanted {
                break;
            }
        }
        Ok(bytes)
    }

    /// Gives up one reference; the last one closes what was opened. glommio would close a dropped
    /// file by itself, but not any more once its executor has ended.
    pub(super) async fn release(file: Rc<File>) {
        let Some(file) = Rc::into_inner(file) else { return };
        // A failed close(2) has closed the descriptor all the same, and every write was answered.
        for opened in [file.plain.into_inner(), file.dsync.into_inner()].into_iter().flatten() {
            let _ = opened.close().await;
        }
        if let Some(opened) = file.buffered.into_inner() {
            let _ = opened.close().await;
        }
    }

    async fn direct(&self, sync: Sync) -> io::Result<&DmaFile> {
        let (slot, flags) = match sync {
            Sync::Dsync => (&self.dsync, libc::O_DSYNC),
            Sync::None | Sync::Fdatasync => (&self.plain, 0),
        };
        if let Some(file) = slot.get() {
            return Ok(file);
        }
        let _permit = self.opening.acquire_permit(1).await.map_err(io_error)?;
        match slot.get() {
            Some(file) => Ok(file),
            None => {
                let opened = self.open(flags).await?;
                Ok(slot.get_or_init(|| opened))
            }
        }
    }

    async fn open(&self, flags: i32) -> io::Result<DmaFile> {
        self.probe_device().await?;
        let opened = reopen(self.fd.as_raw_fd(), flags).await?;
        // SAFETY: F_GETFL takes no pointers, and `opened` keeps the descriptor open.
        let obtained = unsafe { libc::fcntl(opened.as_raw_fd(), libc::F_GETFL) };
        let wanted = libc::O_DIRECT | flags;
        if obtained & wanted != wanted {
            // glommio opens files on tmpfs without O_DIRECT and says nothing.
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "glommio opened the file without O_DIRECT or O_DSYNC: no block device behind it",
            ));
        }
        Ok(opened)
    }

    /// Lets glommio find out with a scratch file whether the device can do polled I/O.
    ///
    /// It finds out by reading the first block of the first file it opens on a device, and believes
    /// in polled I/O unless the device refuses. An empty file or a hole never asks the device, and
    /// from then on every read and write fails with EOPNOTSUPP. The scratch file has a written
    /// block. Costs one sync, once per device and shard.
    async fn probe_device(&self) -> io::Result<()> {
        let device = fs::File::from(self.fd.try_clone()?).metadata()?.dev();
        if !self.probed.borrow().contains(&device) {
            let scratch = scratch_file(self.fd.as_raw_fd())?;
            reopen(scratch.as_raw_fd(), 0).await?.close().await.map_err(io_error)?;
            self.probed.borrow_mut().insert(device);
        }
        Ok(())
    }

    fn buffered(&self) -> io::Result<&BufferedFile> {
        match self.buffered.get() {
            Some(file) => Ok(file),
            None => {
                let copy = self.fd.try_clone()?;
                // SAFETY: the descriptor is new, and handed over.
                let opened = unsafe { BufferedFile::from_raw_fd(copy.into_raw_fd()) };
                Ok(self.buffered.get_or_init(|| opened))
            }
        }
    }
}

async fn reopen(fd: RawFd, flags: i32) -> io::Result<DmaFile> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags)
        .dma_open(descriptor_path(fd))
        .await
        .map_err(io_error)
}

fn descriptor_path(fd: RawFd) -> String {
    format!("/proc/self/fd/{fd}")
}

/// A nameless file with one written block, in the same directory as `fd`.
fn scratch_file(fd: RawFd) -> io::Result<fs::File> {
    let path = fs::read_link(descriptor_path(fd))?;
    let scratch = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(path.parent().unwrap_or(Path::new("/")))?;
    scratch.write_all_at(&[1; SCRATCH_BYTES], 0)?;
    scratch.sync_data()?;
    Ok(scratch)
}

/// The cause with its errno; glommio's own conversion would keep only its text.
pub(super) fn io_error(error: GlommioError<()>) -> io::Error {
    match error {
        GlommioError::EnhancedIoError { source, .. } => source,
        other => io::Error::from(other),
    }
}

//! One segment: a file, its index, and how far it is filled.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::engine::{FileId, Io};
use crate::types::{FilePreparation, Offset};

use super::index::Index;
use super::scan::{Step, Window, step};
use super::tail::Place;
use super::{StorageError, device};

/// Files are filled and zeroed in pieces of this size: the largest write whose latency is still
/// near that of a small one (spec/io.md section 2, "Group commit").
pub(super) const PIECE_BYTES: usize = 1 << 20;

const LOG_SUFFIX: &str = ".log";
const INDEX_SUFFIX: &str = ".index";

/// The engine's side of a segment file.
#[derive(Debug)]
enum Handle {
    /// Not yet given to the engine.
    Own(OwnedFd),
    Engine(FileId),
    /// Moved out; only while it changes hands.
    Gone,
}

/// A segment of the log.
///
/// Invariant: `issued_end <= end_position` rounded up to the block `<= capacity_bytes`, but for
/// segments of an earlier configuration, which are only read.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) base_offset: Offset,
    pub(super) path: PathBuf,
    handle: Handle,
    direct: bool,
    /// A buffered descriptor for cutting and background syncs, with its own error state; only the
    /// active segment has one all the time.
    maintenance: Option<File>,
    /// Shared with the background writer once nothing is appended any more.
    pub(super) index: Arc<Index>,
    /// Byte after the last batch appended.
    pub(super) end_position: u64,
    /// Byte after the last write issued, padding included.
    pub(super) issued_end: u64,
    pub(super) capacity_bytes: u64,
}

impl Segment {
    /// A segment over files already open; empty.
    pub(super) fn new(
        base_offset: Offset,
        path: PathBuf,
        file: File,
        direct: bool,
        maintenance: Option<File>,
        capacity_bytes: u64,
    ) -> Segment {
        Segment {
            base_offset,
            path,
            handle: Handle::Own(file.into()),
            direct,
            maintenance,
            index: Arc::new(Index::new(base_offset)),
            end_position: 0,
            issued_end: 0,
            capacity_bytes,
        }
    }

    /// The engine's name for the file; gives it the file at first use.
    pub(super) fn file(&mut self, io: &mut dyn Io) -> FileId {
        self.handle = match std::mem::replace(&mut self.handle, Handle::Gone) {
            Handle::Own(file) => Handle::Engine(io.register_file(file, self.direct)),
            handle => handle,
        };
        match self.handle {
            Handle::Engine(file) => file,
            Handle::Own(_) | Handle::Gone => unreachable!("the file was just registered"),
        }
    }

    /// The engine's name for the file, which it has once anything is written.
    pub(super) fn registered_file(&self) -> FileId {
        match self.handle {
            Handle::Engine(file) => file,
            Handle::Own(_) | Handle::Gone => {
                unreachable!("{} is read but was never written", self.path.display())
            }
        }
    }

    /// Lets go of the file; writes in flight to it still end.
    pub(super) fn close(&mut self, io: &mut dyn Io) {
        if let Handle::Engine(file) = std::mem::replace(&mut self.handle, Handle::Gone) {
            io.close_file(file);
        }
    }

    /// A buffered descriptor, opened if there is none.
    pub(super) fn maintenance(&mut self) -> Result<&File, StorageError> {
        if self.maintenance.is_none() {
            self.maintenance = Some(device::open_segment(&self.path, false, false)?);
        }
        self.maintenance.as_ref().ok_or_else(|| unreachable!("just opened"))
    }

    /// Gives the buffered descriptor away: to the background writer, with its error state.
    pub(super) fn take_maintenance(&mut self) -> Result<File, StorageError> {
        match self.maintenance.take() {
            Some(file) => Ok(file),
            None => device::open_segment(&self.path, false, false),
        }
    }

    /// Notes a batch at `position`.
    pub(super) fn note(&mut self, base_offset: Offset, position: u64, length: usize) {
        if self.index.wants(position) {
            Arc::make_mut(&mut self.index).note(base_offset, position);
        }
        self.end_position = position + length as u64;
    }

    pub(super) fn index_path(&self) -> PathBuf {
        index_path(&self.path)
    }

    /// Whether `batch_bytes` more at `position`, padded to the block, stay within the capacity.
    pub(super) fn has_room(&self, position: u64, batch_bytes: usize, block_bytes: usize) -> bool {
        device::align_up(position + batch_bytes as u64, block_bytes) <= self.capacity_bytes
    }

    /// Finds the batch boundary at or before `to`, which is on disk, by walking from the index.
    pub(super) fn boundary(&mut self, to: Offset) -> Result<Place, StorageError> {
        let (mut offset, mut position) = self.index.floor(to);
        let (segment, path) = (self.base_offset, self.path.clone());
        let mut window = Window::new(self.maintenance()?, &path)?;
        let mut wanted = 0;
        while position < window.length() {
            match step(window.bytes(position, wanted)?, position, offset) {
                Step::Batch(header) if header.end_offset() > to => {
                    return Ok(Place { segment, position, offset });
                }
                Step::Batch(header) => {
                    position += header.size_bytes as u64;
                    offset = header.end_offset();
                }
                Step::Padding(length) => position += length as u64,
                Step::Short(needed) if position + needed as u64 <= window.length() => {
                    wanted = needed;
                }
                Step::Short(_) | Step::Bad => break,
            }
        }
        Err(StorageError::CorruptRead { path, position, expected: offset })
    }

    /// Makes what was issued from `position` on unreadable for good: zeros where the file keeps its
    /// size, else the file ends there.
    ///
    /// A block that also holds kept batches is rewritten with the same kept bytes. A device that
    /// tears a sector whose content does not change could damage them: accepted here, at a rare
    /// moment, and never at an append.
    pub(super) fn cut(
        &mut self,
        position: u64,
        preparation: FilePreparation,
    ) -> Result<(), StorageError> {
        let (end, capacity_bytes) = (self.issued_end, self.capacity_bytes);
        if position >= end {
            return Ok(());
        }
        let path = self.path.clone();
        let file = self.maintenance()?;
        let cut = match preparation {
            FilePreparation::Reserved => {
                file.set_len(position).and_then(|()| reserve(file, capacity_bytes))
            }
            FilePreparation::ZeroFilled => zero(file, position, end),
        };
        cut.and_then(|()| file.sync_all()).map_err(StorageError::io("cut the segment", &path))?;
        self.issued_end = position;
        Ok(())
    }

    /// Removes the file and its index; durable once the directory is.
    pub(super) fn remove(mut self, io: &mut dyn Io) -> Result<(), StorageError> {
        self.close(io);
        remove_if_there(&self.index_path())?;
        fs::remove_file(&self.path).map_err(StorageError::io("remove the segment", &self.path))
    }
}

/// Reserves space without changing the size. A file system without fallocate just has none
/// reserved: that costs time at the append, never safety.
pub(super) fn reserve(file: &File, capacity_bytes: u64) -> std::io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, 0, capacity_bytes) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn zero(file: &File, position: u64, end: u64) -> std::io::Result<()> {
    let zeros = vec![0; PIECE_BYTES];
    let mut at = position;
    while at < end {
        let length = (end - at).min(PIECE_BYTES as u64) as usize;
        file.write_all_at(&zeros[..length], at)?;
        at += length as u64;
    }
    Ok(())
}

/// Path of the segment that starts at `base_offset`.
pub(super) fn segment_path(directory: &Path, base_offset: Offset) -> PathBuf {
    directory.join(format!("{:020}{LOG_SUFFIX}", base_offset.0))
}

/// Path of the index beside the segment at `path`.
pub(super) fn index_path(path: &Path) -> PathBuf {
    path.with_extension(&INDEX_SUFFIX[1..])
}

/// The base offset in a segment's file name.
pub(super) fn base_offset_of(name: &str) -> Option<Offset> {
    let digits = name.strip_suffix(LOG_SUFFIX)?;
    let is_plain = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { digits.parse().ok().map(Offset) } else { None }
}

pub(super) fn remove_if_there(path: &Path) -> Result<(), StorageError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StorageError::io("remove the file", path)(error))
        }
        _ => Ok(()),
    }
}

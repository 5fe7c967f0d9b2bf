//! The file pattern every floor is measured on, by plain blocking calls: one file, written from
//! front to back in equal pieces, each piece synced as its durability mode says.
//!
//! This is the simplest code that keeps a mode's promise, so that what it costs is the floor.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::measure::clock;
use crate::types::{DurabilityMode, FilePreparation};

use super::system_calls;

/// Where every buffer begins: no device or file system in use asks for more.
const MEMORY_ALIGN_BYTES: usize = 4096;

/// Pieces in which files are filled with zeros.
const FILL_BYTES: usize = 1 << 20;

/// A buffer whose first byte lies on a [`MEMORY_ALIGN_BYTES`] boundary.
#[derive(Debug)]
pub(super) struct AlignedBytes {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBytes {
    pub(super) fn zeroed(length: usize) -> AlignedBytes {
        let memory = vec![0; length + MEMORY_ALIGN_BYTES];
        let address = memory.as_ptr() as usize;
        let start = address.next_multiple_of(MEMORY_ALIGN_BYTES) - address;
        AlignedBytes { memory, start, length }
    }

    /// Bytes no device can compress or find twice (M35): a xorshift sequence from `seed`.
    pub(super) fn random(length: usize, seed: u64) -> AlignedBytes {
        let mut bytes = AlignedBytes::zeroed(length);
        let mut state = seed | 1;
        for byte in bytes.as_mut_slice() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = (state >> 24) as u8;
        }
        bytes
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.length]
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.length]
    }
}

/// What to write, and where.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    pub path: PathBuf,
    pub mode: DurabilityMode,
    pub preparation: FilePreparation,
    /// Length of one write; a multiple of the block for direct modes.
    pub write_bytes: usize,
    /// Writes begin again at the front here; a multiple of `write_bytes`.
    pub file_bytes: u64,
}

/// An open [`Pattern`].
#[derive(Debug)]
pub(super) struct PatternFile {
    file: File,
    pattern: Pattern,
    data: AlignedBytes,
    position: u64,
}

/// Times of one write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteTime {
    pub write: Duration,
    /// Zero where no separate sync follows.
    pub sync: Duration,
}

impl WriteTime {
    pub(super) fn total(self) -> Duration {
        self.write + self.sync
    }
}

impl PatternFile {
    /// Makes the file as its preparation says, and opens it as its mode says.
    pub(super) fn create(pattern: Pattern) -> io::Result<PatternFile> {
        assert!(
            pattern.file_bytes.is_multiple_of(pattern.write_bytes as u64),
            "{} bytes are no whole number of writes of {}",
            pattern.file_bytes,
            pattern.write_bytes
        );
        prepare(&pattern)?;
        PatternFile::open(pattern)
    }

    /// Opens a file that was made before.
    pub(super) fn open(pattern: Pattern) -> io::Result<PatternFile> {
        let flags = if pattern.mode.is_direct() { libc::O_DIRECT } else { 0 };
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(flags).open(&pattern.path)?;
        if pattern.mode.is_direct() {
            // Every direct write over a cached page would first have to throw that page out.
            file.sync_all()?;
            system_calls::drop_page_cache(&file)?;
        }
        let data = AlignedBytes::random(pattern.write_bytes, 0x9e37_79b9_7f4a_7c15);
        Ok(PatternFile { file, pattern, data, position: 0 })
    }

    /// Writes the next piece and waits until its mode's promise holds.
    pub(super) fn write_next(&mut self) -> io::Result<WriteTime> {
        let position = self.position;
        self.position = (position + self.pattern.write_bytes as u64) % self.pattern.file_bytes;
        let data = self.data.as_slice();
        let started = clock::now();
        match self.pattern.mode {
            DurabilityMode::DirectDsync => system_calls::write_dsync(&self.file, data, position)?,
            _ => self.file.write_all_at(data, position)?,
        }
        let written = clock::now();
        let write = written.since(started);
        if !syncs_apart(self.pattern.mode) {
            return Ok(WriteTime { write, sync: Duration::ZERO });
        }
        self.file.sync_data()?;
        Ok(WriteTime { write, sync: clock::now().since(written) })
    }

    /// Length of one write.
    pub(super) fn write_bytes(&self) -> usize {
        self.pattern.write_bytes
    }

    /// Waits until all that was written is on the device.
    pub(super) fn finish(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// Whether a mode calls fdatasync(2) after its write.
pub(super) fn syncs_apart(mode: DurabilityMode) -> bool {
    matches!(mode, DurabilityMode::Fsync | DurabilityMode::DirectFsync)
}

/// Makes a file of `length` zeros and puts it, and its name, on the device.
pub(super) fn zero_filled(path: &Path, length: u64) -> io::Result<()> {
    let file = created(path)?;
    fill_with_zeros(&file, length)?;
    put_on_device(&file, path)
}

fn prepare(pattern: &Pattern) -> io::Result<()> {
    match pattern.preparation {
        FilePreparation::ZeroFilled => zero_filled(&pattern.path, pattern.file_bytes),
        FilePreparation::Reserved => {
            let file = created(&pattern.path)?;
            // Reserving saves time later and nothing else, so a file system without it will do.
            let _ = system_calls::reserve(&file, pattern.file_bytes);
            put_on_device(&file, &pattern.path)
        }
    }
}

fn created(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).open(path)
}

/// A new file is found again after power loss only once its directory is synced too.
fn put_on_device(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

fn fill_with_zeros(file: &File, length: u64) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES];
    let mut position = 0;
    while position < length {
        let count = usize::try_from(length - position).map_or(FILL_BYTES, |it| it.min(FILL_BYTES));
        file.write_all_at(&zeros[..count], position)?;
        position += count as u64;
    }
    Ok(())
}

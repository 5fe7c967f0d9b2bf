//! An [`Io`] over real files that a test drives by hand: completions in any order, failures, and
//! power loss.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rand::RngExt;

use crate::engine::{ConnectionId, FileId, Io, OperationId, Route, Waker, Write};
use crate::types::{MonotonicTime, Sync};

const SECTOR_BYTES: u64 = 512;
const DIRECT_ALIGNMENT: u64 = 512;

/// One registered file.
struct DiskFile {
    file: File,
    /// Buffered, to look at and to damage.
    plain: File,
    direct: bool,
    /// What each sector written since its last sync held before, oldest first.
    unsynced: BTreeMap<u64, Vec<Vec<u8>>>,
    synced_length: u64,
}

/// The engine of a test.
#[derive(Default)]
pub(super) struct Disk {
    files: BTreeMap<FileId, DiskFile>,
    file_count: u64,
    /// Asynchronous writes and syncs not completed.
    pub(super) pending: Vec<Write>,
    /// The clock.
    pub(super) now: u64,
    /// What every inline call takes.
    pub(super) inline_call: Duration,
    /// Fails the write or sync that comes next with EIO.
    pub(super) fails_next: bool,
    reads: Vec<(OperationId, Bytes)>,
}

impl Disk {
    /// Executes the pending write at `at` and gives its completion.
    pub(super) fn complete(&mut self, at: usize) -> (OperationId, io::Result<()>) {
        let write = self.pending.remove(at);
        (write.operation, self.execute(&write))
    }

    /// The result of a read that was submitted.
    pub(super) fn take_read(&mut self, operation: OperationId) -> Bytes {
        let at = self.reads.iter().position(|(read, _)| *read == operation).expect("submitted");
        self.reads.swap_remove(at).1
    }

    /// The process is killed: calls not yet made are never made, or were made in part.
    pub(super) fn kill(&mut self, random: &mut impl RngExt) {
        for write in std::mem::take(&mut self.pending) {
            let end = write.position + write.data.len() as u64;
            let mut at = write.position;
            while at < end {
                let next = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(end);
                if random.random_bool(0.5) {
                    let range = (at - write.position) as usize..(next - write.position) as usize;
                    self.note_unsynced(write.file, at, range.len());
                    let file = &self.files[&write.file];
                    file.plain.write_all_at(&write.data[range], at).expect("written");
                }
                at = next;
            }
        }
    }

    /// As [`Disk::kill`], and each sector not synced holds any of the contents it had since, each
    /// growing file any of the lengths.
    pub(super) fn lose_power(&mut self, random: &mut impl RngExt) {
        self.kill(random);
        for file in self.files.values_mut() {
            for (sector, versions) in std::mem::take(&mut file.unsynced) {
                let version = random.random_range(0..=versions.len());
                if let Some(bytes) = versions.get(version) {
                    file.plain.write_all_at(bytes, sector * SECTOR_BYTES).expect("written");
                }
            }
            let length = file.plain.metadata().expect("length").len();
            if length > file.synced_length {
                let length = random.random_range(file.synced_length..=length);
                file.plain.set_len(length).expect("cut");
            }
        }
    }

    fn execute(&mut self, write: &Write) -> io::Result<()> {
        if std::mem::take(&mut self.fails_next) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.check_alignment(write);
        if !write.data.is_empty() {
            self.note_unsynced(write.file, write.position, write.data.len());
        }
        let file = self.files.get_mut(&write.file).expect("registered");
        file.file.write_all_at(&write.data, write.position)?;
        match write.sync {
            Sync::None => {}
            Sync::Fdatasync => {
                file.unsynced.clear();
                file.synced_length = file.plain.metadata()?.len();
            }
            Sync::Dsync => {
                let sectors = sectors(write.position, write.data.len());
                file.unsynced.retain(|sector, _| !sectors.contains(sector));
                file.synced_length = file.plain.metadata()?.len();
            }
        }
        Ok(())
    }

    fn check_alignment(&self, write: &Write) {
        if self.files[&write.file].direct && !write.data.is_empty() {
            let start = write.data.as_ptr() as u64;
            for number in [write.position, write.data.len() as u64, start] {
                assert_eq!(number % DIRECT_ALIGNMENT, 0, "misaligned: {number}");
            }
        }
    }

    fn note_unsynced(&mut self, file: FileId, position: u64, length: usize) {
        let file = self.files.get_mut(&file).expect("registered");
        for sector in sectors(position, length) {
            let mut bytes = vec![0; SECTOR_BYTES as usize];
            // Past the end of a growing file the sector was all zeros.
            let mut at = 0;
            while at < bytes.len() {
                let from = sector * SECTOR_BYTES + at as u64;
                match file.plain.read_at(&mut bytes[at..], from).expect("read") {
                    0 => break,
                    read => at += read,
                }
            }
            file.unsynced.entry(sector).or_default().push(bytes);
        }
    }
}

fn sectors(position: u64, length: usize) -> std::ops::Range<u64> {
    position / SECTOR_BYTES..(position + length as u64).div_ceil(SECTOR_BYTES)
}

impl Io for Disk {
    fn now(&self) -> MonotonicTime {
        MonotonicTime(self.now)
    }

    fn register_file(&mut self, file: OwnedFd, direct: bool) -> FileId {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let plain = OpenOptions::new().read(true).write(true).open(path).expect("reopened");
        let synced_length = plain.metadata().expect("length").len();
        let id = FileId(self.file_count);
        self.file_count += 1;
        let (file, unsynced) = (File::from(file), BTreeMap::new());
        self.files.insert(id, DiskFile { file, plain, direct, unsynced, synced_length });
        id
    }

    fn close_file(&mut self, file: FileId) {
        if self.pending.iter().all(|write| write.file != file) {
            self.files.remove(&file).expect("registered and not closed");
        }
    }

    fn submit_write(&mut self, write: Write) -> Option<io::Result<()>> {
        if write.route == Route::Inline {
            self.now += u64::try_from(self.inline_call.as_nanos()).expect("short");
            return Some(self.execute(&write));
        }
        self.pending.push(write);
        None
    }

    fn submit_read(&mut self, operation: OperationId, file: FileId, position: u64, length: usize) {
        let file = &self.files[&file];
        if file.direct {
            assert_eq!((position % DIRECT_ALIGNMENT, length as u64 % DIRECT_ALIGNMENT), (0, 0));
        }
        let mut bytes = vec![0; length];
        let mut read = 0;
        while read < length {
            match file.plain.read_at(&mut bytes[read..], position + read as u64).expect("read") {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        self.reads.push((operation, BytesMut::from(&bytes[..]).freeze()));
    }

    fn listen(&mut self, _: SocketAddr) -> io::Result<SocketAddr> {
        unreachable!("a log has no sockets")
    }

    fn connect(&mut self, _: SocketAddr) -> ConnectionId {
        unreachable!("a log has no sockets")
    }

    fn send(&mut self, _: ConnectionId, _: Bytes, _: &[Bytes]) {
        unreachable!("a log has no sockets")
    }

    fn unsent_bytes(&self, _: ConnectionId) -> usize {
        unreachable!("a log has no sockets")
    }

    fn pause_reading(&mut self, _: ConnectionId, _: bool) {
        unreachable!("a log has no sockets")
    }

    fn close(&mut self, _: ConnectionId) {
        unreachable!("a log has no sockets")
    }

    fn waker(&self) -> Waker {
        unreachable!("a log wakes nobody")
    }
}

//! The least engine a page-cache log needs: it makes inline writes and nothing else.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use ackmark::engine::{ConnectionId, FileId, Io, OperationId, Waker, Write};
use ackmark::measure::clock;
use ackmark::types::MonotonicTime;
use bytes::Bytes;

/// Files by their number; closed ones keep their place.
#[derive(Debug, Default)]
pub struct PageCache {
    files: Vec<Option<File>>,
}

impl Io for PageCache {
    fn now(&self) -> MonotonicTime {
        clock::now()
    }

    fn register_file(&mut self, file: OwnedFd, _direct: bool) -> FileId {
        self.files.push(Some(File::from(file)));
        FileId(self.files.len() as u64 - 1)
    }

    fn close_file(&mut self, file: FileId) {
        self.files[file.0 as usize] = None;
    }

    fn submit_write(&mut self, write: Write) -> Option<io::Result<()>> {
        let file = self.files[write.file.0 as usize].as_ref().expect("an open file");
        Some(file.write_all_at(&write.data, write.position))
    }

    fn submit_read(&mut self, _: OperationId, _: FileId, _: u64, _: usize) {
        unreachable!("everything read here is in memory")
    }

    fn listen(&mut self, _: SocketAddr) -> io::Result<SocketAddr> {
        unreachable!("a log knows no network")
    }

    fn connect(&mut self, _: SocketAddr) -> ConnectionId {
        unreachable!("a log knows no network")
    }

    fn send(&mut self, _: ConnectionId, _: Bytes, _: &[Bytes]) {
        unreachable!("a log knows no network")
    }

    fn unsent_bytes(&self, _: ConnectionId) -> usize {
        unreachable!("a log knows no network")
    }

    fn pause_reading(&mut self, _: ConnectionId, _: bool) {
        unreachable!("a log knows no network")
    }

    fn close(&mut self, _: ConnectionId) {
        unreachable!("a log knows no network")
    }

    fn waker(&self) -> Waker {
        unreachable!("nobody wakes a benchmark")
    }
}

//! Files: every sync by every route, reads, and how they fail.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use bytes::{Bytes, BytesMut};
use tempfile::TempDir;

use super::Run;
use super::host::Host;
use crate::engine::{Event, FileId, OperationId, Route, Write};
use crate::types::Sync;

const BLOCK_BYTES: usize = 4096;
const SYNCS: [Sync; 3] = [Sync::None, Sync::Dsync, Sync::Fdatasync];
const ROUTES: [Route; 3] = [Route::Async, Route::Helper, Route::Inline];

/// A directory beside the test's program: on the disk of the build, not on a tmpfs under /tmp.
fn directory() -> TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

fn open(path: &PathBuf, flags: i32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags)
        .open(path)
}

/// A file opened with O_DIRECT, or `None`, with a word about it, where no disk is behind.
fn open_direct(path: &PathBuf) -> Option<File> {
    // SAFETY: statfs is plain data for which all zeros is a valid value.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    let file = open(path, libc::O_DIRECT);
    // SAFETY: "/proc/self/exe" is a C string, and `about` outlives the call.
    unsafe { libc::statfs(c"/proc/self/exe".as_ptr(), &raw mut about) };
    match file {
        Ok(file) if about.f_type != libc::TMPFS_MAGIC => Some(file),
        _ => {
            eprintln!("SKIPPED: no O_DIRECT at {}", path.display());
            None
        }
    }
}

fn register(host: &Host, file: File, direct: bool) -> FileId {
    let file = OwnedFd::from(file);
    host.call(move |_, io| io.register_file(file, direct))
}

/// `blocks` blocks of memory that O_DIRECT accepts, filled with `byte`.
fn aligned(byte: u8, blocks: usize) -> Bytes {
    let memory = Bytes::from(vec![byte; (blocks + 1) * BLOCK_BYTES]);
    let pad = memory.as_ptr().align_offset(BLOCK_BYTES);
    memory.slice(pad..pad + blocks * BLOCK_BYTES)
}

/// Makes the write and waits for its end, by event or at once as its route has it.
fn write(host: &mut Host, write: Write) -> io::Result<()> {
    let (operation, route) = (write.operation, write.route);
    let at_once = host.call(move |_, io| io.submit_write(write));
    assert_eq!(at_once.is_some(), route == Route::Inline);
    at_once.unwrap_or_else(|| written(host, operation))
}

fn written(host: &mut Host, which: OperationId) -> io::Result<()> {
    host.wait(|event| match event {
        Event::Written { operation, result, .. } if *operation == which => {
            Some(std::mem::replace(result, Ok(())))
        }
        _ => None,
    })
}

fn read(host: &mut Host, file: FileId, position: u64, length: usize) -> io::Result<BytesMut> {
    host.call(move |_, io| io.submit_read(OperationId(99), file, position, length));
    host.wait(|event| match event {
        Event::Read { operation: OperationId(99), result } => {
            Some(std::mem::replace(result, Ok(BytesMut::new())))
        }
        _ => None,
    })
}

fn writes_by_every_route(engine: Run, path: &PathBuf, file: File, direct: bool) {
    let mut host = Host::start(engine);
    let file = register(&host, file, direct);
    let mut number = 0;
    for sync in SYNCS {
        for route in ROUTES {
            // One block, then three, over what zeros or an older write has left there.
            for (position, blocks) in [(2 * number, 1), (2 * number + 1, 3)] {
                let data = aligned(number as u8 + 1, blocks);
                let position = position * BLOCK_BYTES as u64;
                let operation = OperationId(number);
                let write_it = Write { operation, file, position, data, sync, route };
                let result = write(&mut host, write_it);
                assert!(result.is_ok(), "{sync:?} by {route:?}: {result:?}");
            }
            let got = read(&mut host, file, 2 * number * BLOCK_BYTES as u64, 4 * BLOCK_BYTES);
            assert!(got.unwrap() == [number as u8 + 1; 4 * BLOCK_BYTES][..], "{sync:?} {route:?}");
            number += 1;
        }
    }
    assert!(host.finish().is_empty());
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes.len() as u64, (2 * number + 2) * BLOCK_BYTES as u64);
    for (block, chunk) in bytes.chunks(BLOCK_BYTES).enumerate() {
        let expected = (block as u64 / 2 + 1).min(number) as u8;
        assert!(chunk.iter().all(|byte| *byte == expected), "block {block}");
    }
}

pub(super) fn writes_buffered_by_every_route(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    writes_by_every_route(engine, &path, open(&path, 0).unwrap(), false);
}

pub(super) fn writes_direct_by_every_route(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    if let Some(file) = open_direct(&path) {
        writes_by_every_route(engine, &path, file, true);
    }
}

pub(super) fn syncs_without_data(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    let mut files = vec![(open(&path, 0).unwrap(), false)];
    files.extend(open_direct(&path).map(|file| (file, true)));
    let mut host = Host::start(engine);
    for (file, direct) in files {
        let file = register(&host, file, direct);
        for sync in SYNCS {
            for route in ROUTES {
                let (operation, data) = (OperationId(0), Bytes::new());
                let nothing = Write { operation, file, position: 0, data, sync, route };
                assert!(write(&mut host, nothing).is_ok(), "{sync:?} by {route:?}");
            }
        }
    }
    assert!(host.finish().is_empty());
    assert!(std::fs::read(&path).unwrap().is_empty());
}

pub(super) fn keeps_many_writes_in_flight(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    let Some(file) = open_direct(&path) else { return };
    let mut host = Host::start(engine);
    let file = register(&host, file, true);
    host.call(move |_, io| {
        for number in 0..64 {
            let position = number * BLOCK_BYTES as u64;
            let data = aligned(number as u8, 1);
            let (sync, route) = (SYNCS[number as usize % 3], ROUTES[number as usize % 2]);
            let operation = OperationId(number);
            io.submit_write(Write { operation, file, position, data, sync, route });
        }
    });
    (0..64).for_each(|number| written(&mut host, OperationId(number)).unwrap());
    let got = read(&mut host, file, 0, 64 * BLOCK_BYTES).unwrap();
    assert!(got.chunks(BLOCK_BYTES).zip(0..).all(|(chunk, number)| chunk == [number; BLOCK_BYTES]));
    assert!(host.finish().is_empty());
}

pub(super) fn reads_only_up_to_the_end(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|at| (at / 11) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let mut host = Host::start(engine);
    let file = register(&host, open(&path, 0).unwrap(), false);
    for (position, length) in [(0, 10), (7, 3_000_000), (2_999_999, 100), (5_000_000, 10), (0, 0)] {
        let from = bytes.len().min(position);
        let expected = &bytes[from..bytes.len().min(position + length)];
        let got = read(&mut host, file, position as u64, length).unwrap();
        assert!(got == expected, "{length} bytes at {position}: {} read", got.len());
    }
    assert!(host.finish().is_empty());
}

pub(super) fn reads_direct_up_to_the_end(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    let Some(file) = open_direct(&path) else { return };
    let bytes: Vec<u8> = (0..600 * BLOCK_BYTES).map(|at| (at / 13) as u8).collect();
    std::fs::write(&path, &bytes).unwrap();
    let mut host = Host::start(engine);
    let file = register(&host, file, true);
    for (block, blocks) in [(0, 1), (3, 597), (599, 4), (700, 1)] {
        let (position, length) = (block * BLOCK_BYTES, blocks * BLOCK_BYTES);
        let from = bytes.len().min(position);
        let expected = &bytes[from..bytes.len().min(position + length)];
        let got = read(&mut host, file, position as u64, length).unwrap();
        assert!(got == expected, "{length} bytes at {position}: {} read", got.len());
    }
    assert!(host.finish().is_empty());
}

pub(super) fn tells_that_a_write_failed(engine: Run) {
    let mut host = Host::start(engine);
    let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let file = register(&host, full, false);
    for route in ROUTES {
        let (operation, data) = (OperationId(1), Bytes::from_static(b"x"));
        let write_it = Write { operation, file, position: 0, data, sync: Sync::None, route };
        let error = write(&mut host, write_it).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "by {route:?}");
    }
    assert!(host.finish().is_empty());
}

pub(super) fn refuses_a_file_it_does_not_know(engine: Run) {
    let mut host = Host::start(engine);
    let file = FileId(7);
    for route in ROUTES {
        let (operation, data) = (OperationId(1), Bytes::from_static(b"x"));
        let write_it = Write { operation, file, position: 0, data, sync: Sync::None, route };
        assert!(write(&mut host, write_it).is_err(), "by {route:?}");
    }
    assert!(read(&mut host, file, 0, 1).is_err());
    host.call(move |_, io| io.close_file(file));
    assert!(host.finish().is_empty());
}

/// One write by each route that lasts, to be found in the file afterwards.
fn submit_lasting_writes(io: &mut dyn crate::engine::Io, file: FileId) {
    for (number, route) in [(0, Route::Async), (1, Route::Helper)] {
        let data = aligned(number as u8 + 1, 64);
        let position = number * data.len() as u64;
        let (operation, sync) = (OperationId(number), Sync::Fdatasync);
        io.submit_write(Write { operation, file, position, data, sync, route });
    }
}

fn assert_lasting_writes(path: &PathBuf) {
    let bytes = std::fs::read(path).unwrap();
    let (first, second) = bytes.split_at(64 * BLOCK_BYTES);
    assert!(first.iter().all(|byte| *byte == 1) && second.iter().all(|byte| *byte == 2));
    assert_eq!(second.len(), first.len());
}

pub(super) fn finishes_what_is_in_flight_on_a_closed_file(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    let mut host = Host::start(engine);
    let file = register(&host, open(&path, 0).unwrap(), false);
    host.call(move |_, io| {
        submit_lasting_writes(io, file);
        io.close_file(file);
    });
    (0..2).for_each(|number| written(&mut host, OperationId(number)).unwrap());
    assert!(host.finish().is_empty());
    assert_lasting_writes(&path);
}

pub(super) fn takes_nothing_new_on_a_closed_file(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    let mut host = Host::start(engine);
    let file = register(&host, open(&path, 0).unwrap(), false);
    host.call(move |_, io| {
        submit_lasting_writes(io, file);
        io.close_file(file);
        io.submit_read(OperationId(2), file, 0, 1);
    });
    let refused = host.wait(|event| match event {
        Event::Read { result, .. } => Some(result.is_err()),
        _ => None,
    });
    assert!(refused, "the read was made");
    (0..2).for_each(|number| written(&mut host, OperationId(number)).unwrap());
    assert!(host.finish().is_empty());
}

pub(super) fn finishes_what_is_in_flight_when_the_app_ends(engine: Run) {
    let directory = directory();
    let path = directory.path().join("log");
    let host = Host::start(engine);
    let file = register(&host, open(&path, 0).unwrap(), false);
    let direct_path = directory.path().join("direct");
    let direct = open_direct(&direct_path).map(|it| register(&host, it, true));
    host.call(move |remote, io| {
        submit_lasting_writes(io, file);
        if let Some(direct) = direct {
            submit_lasting_writes(io, direct);
        }
        remote.is_finished = true;
    });
    host.join();
    assert_lasting_writes(&path);
    if direct.is_some() {
        assert_lasting_writes(&direct_path);
    }
}

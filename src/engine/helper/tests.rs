use std::io::Read;
use std::os::fd::AsRawFd;
use std::time::Duration;

use bytes::Bytes;

use super::{Completion, Helper, perform};
use crate::engine::{FileId, OperationId, Route, Waker, Write};
use crate::types::Sync;

fn write(number: u64, sync: Sync) -> Write {
    Write {
        operation: OperationId(number),
        file: FileId(0),
        position: number * 4,
        data: Bytes::copy_from_slice(&(number as u32).to_be_bytes()),
        sync,
        route: Route::Helper,
    }
}

fn wait_until_readable(waker: &Waker) {
    let mut poll = libc::pollfd { fd: waker.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit_ms = Duration::from_secs(60).as_millis() as i32;
    // SAFETY: `poll` outlives the call and its count is one.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, limit_ms) }, 1, "no wake-up came");
}

#[test]
fn the_thread_writes_all_it_was_given_in_order_and_wakes() {
    let mut file = tempfile::tempfile().unwrap();
    let waker = Waker::new().unwrap();
    let mut helper = Helper::start(waker.clone()).unwrap();
    let syncs = [Sync::None, Sync::Dsync, Sync::Fdatasync];
    for number in 0..30 {
        helper.submit(write(number, syncs[number as usize % 3]), file.as_raw_fd());
    }
    let mut done: Vec<Completion> = Vec::new();
    while done.len() < 30 {
        wait_until_readable(&waker);
        waker.drain();
        helper.drain(&mut done);
    }
    assert!(done.iter().all(|completion| completion.result.is_ok()));
    assert!(done.iter().map(|completion| completion.operation.0).eq(0..30));
    assert!(done.windows(2).all(|pair| pair[0].completed <= pair[1].completed));
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert!(bytes.chunks(4).map(|c| u32::from_be_bytes(c.try_into().unwrap())).eq(0..30));
}

#[test]
fn dropping_the_helper_waits_for_its_writes() {
    let file = tempfile::tempfile().unwrap();
    let mut helper = Helper::start(Waker::new().unwrap()).unwrap();
    (0..10).for_each(|number| helper.submit(write(number, Sync::Fdatasync), file.as_raw_fd()));
    drop(helper);
    assert_eq!(file.metadata().unwrap().len(), 40);
}

#[test]
fn failures_are_results() {
    let file = std::fs::File::open("/dev/null").unwrap();
    let error = perform(&write(1, Sync::None), file.as_raw_fd()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EBADF), "opened for reading only");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let error = perform(&write(1, Sync::None), full.as_raw_fd()).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    let far = Write { position: u64::MAX, ..write(1, Sync::None) };
    assert_eq!(
        perform(&far, full.as_raw_fd()).unwrap_err().kind(),
        std::io::ErrorKind::InvalidInput
    );
}

#[test]
fn a_sync_without_data_is_made() {
    let file = tempfile::tempfile().unwrap();
    for sync in [Sync::None, Sync::Dsync, Sync::Fdatasync] {
        let empty = Write { data: Bytes::new(), ..write(0, sync) };
        assert!(perform(&empty, file.as_raw_fd()).is_ok());
    }
}

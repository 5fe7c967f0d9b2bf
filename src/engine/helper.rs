//! The blocking disk calls, and the one thread per shard that can make them in its place.

use std::io;
use std::os::fd::RawFd;
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::{FileId, OperationId, Waker, Write};
use crate::measure::{clock, threads};
use crate::types::{MonotonicTime, Sync};

/// A [`Write`] the helper thread is done with.
#[derive(Debug)]
pub struct Completion {
    /// As given.
    pub operation: OperationId,
    /// As given.
    pub file: FileId,
    /// How it ended.
    pub result: io::Result<()>,
    /// When the last call of the write came back, on the helper thread.
    pub completed: MonotonicTime,
}

/// One thread that makes the blocking calls of the writes handed to it, in the order given.
///
/// Dropping it waits for the writes handed over so far.
#[derive(Debug)]
pub struct Helper {
    jobs: Option<Sender<(Write, RawFd)>>,
    done: Receiver<Completion>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread; `waker` is called after every completion.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(waker: Waker) -> io::Result<Helper> {
        let (jobs, received) = unbounded::<(Write, RawFd)>();
        let (completed, done) = unbounded();
        let name = format!("{} helper", thread::current().name().unwrap_or("shard"));
        let thread = threads::start(&name, move || {
            for (write, fd) in received {
                let result = perform(&write, fd);
                let Write { operation, file, .. } = write;
                let completion = Completion { operation, file, result, completed: clock::now() };
                if completed.send(completion).is_err() {
                    return;
                }
                waker.wake();
            }
        })?;
        Ok(Helper { jobs: Some(jobs), done, thread: Some(thread) })
    }

    /// Hands a write over. `fd` must stay open until its [`Completion`] has come back.
    pub fn submit(&mut self, write: Write, fd: RawFd) {
        let delivered = self.jobs.as_ref().is_some_and(|jobs| jobs.send((write, fd)).is_ok());
        assert!(delivered, "the helper thread ended while its shard was running");
    }

    /// Moves the completions that are there to the end of `into`.
    pub fn drain(&mut self, into: &mut Vec<Completion>) {
        into.extend(self.done.try_iter());
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed by its hook; there is nobody to hand it to.
            let _ = thread.join();
        }
    }
}

/// Makes the calls of `write` on the calling thread, all of them before it returns. A write that
/// the file takes only in part is continued; one it takes nothing of is an error.
pub fn perform(write: &Write, fd: RawFd) -> io::Result<()> {
    let flags = if write.sync == Sync::Dsync { libc::RWF_DSYNC } else { 0 };
    write_all(fd, &write.data, write.position, flags)?;
    // Zero bytes carry no RWF_DSYNC to the device: a sync without data is always fdatasync.
    match write.sync {
        Sync::Fdatasync => data_sync(fd),
        Sync::Dsync if write.data.is_empty() => data_sync(fd),
        Sync::Dsync | Sync::None => Ok(()),
    }
}

fn write_all(fd: RawFd, mut data: &[u8], mut position: u64, flags: i32) -> io::Result<()> {
    while !data.is_empty() {
        let at = libc::off_t::try_from(position)
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let written = retried(|| write_once(fd, data, at, flags))?;
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero));
        }
        data = &data[written..];
        position += written as u64;
    }
    Ok(())
}

fn write_once(fd: RawFd, data: &[u8], position: libc::off_t, flags: i32) -> isize {
    if flags == 0 {
        // SAFETY: `data` outlives the call and its length is its own.
        return unsafe { libc::pwrite(fd, data.as_ptr().cast(), data.len(), position) };
    }
    let slice = io::IoSlice::new(data);
    // SAFETY: IoSlice has iovec's layout; `slice` and the bytes it points to outlive the call.
    unsafe { libc::pwritev2(fd, (&raw const slice).cast(), 1, position, flags) }
}

fn data_sync(fd: RawFd) -> io::Result<()> {
    // SAFETY: fdatasync(2) takes no pointers.
    retried(|| unsafe { libc::fdatasync(fd) } as isize).map(drop)
}

/// Repeats `call` while signals interrupt it.
fn retried(mut call: impl FnMut() -> isize) -> io::Result<usize> {
    loop {
        if let Ok(count) = usize::try_from(call()) {
            return Ok(count);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests;

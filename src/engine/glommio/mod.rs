//! The `glommio` engine: one glommio executor per shard hosts the same [`App`] as the other engine.
//!
//! The app runs in one task. Other tasks, one per connection that reads, one per connection whose
//! peer is slow, one per disk operation in flight, put events into the shard's queue and wake that
//! task; it takes all events there are and then calls `on_batch_end` once. Wakes are thus batched.
//!
//! glommio 0.9.0 has hazards that its shape here avoids (spec/io.md section 1):
//! - It may sleep for ever with runnable tasks when it is preempted often: the preempt timer stays
//!   at its default, no task queue asks for a latency, and the watchdog watches each shard.
//! - It panics in the executor's thread where io_uring is forbidden: io_uring is probed first.
//! - It never looks at its rings while tasks are runnable (up to the preempt timer, 100 ms): a
//!   reader that could go on reading goes through the ring first (connection.rs).
//! - It watches no foreign descriptor: a [`Waker`](super::Waker) is a socket pair here.
//! - It has no RWF_DSYNC: a file written with [`Sync::Dsync`](crate::types::Sync::Dsync) is opened
//!   a second time with O_DSYNC (file.rs).
//! - It takes a device for one with polled I/O after opening an empty file there (file.rs).
//! - A task dropped by a panic may panic again: the app's panics are caught in the app's own task.

mod connection;
mod file;
mod shard;

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::thread;

use ::glommio::{GlommioError, LocalExecutorBuilder, Placement, ReactorErrorKind};

use self::shard::Shard;
use super::watchdog::{self, Heartbeat};
use super::{App, EngineError, Limits};
use crate::measure::threads;

const ENGINE: &str = "glommio";
/// Memory for registered buffers per ring, of three. glommio's default of 10 MiB exceeds the usual
/// memlock limit of 8 MiB, and it then goes on without registered buffers.
const IO_MEMORY_BYTES: usize = 1 << 20;

/// Hosts `app` on the calling thread until it is finished, pinned to `cpu` if one is given, and
/// gives it back. What is in flight on the disk is waited for; what sockets have not taken is not.
///
/// # Errors
/// io_uring is forbidden, memlock is below 512 KiB, or the program panicked.
pub fn run<A: App>(app: A, limits: Limits, cpu: Option<usize>) -> Result<A, EngineError> {
    probe_io_uring()?;
    let outcome = catch_unwind(AssertUnwindSafe(|| host(app, limits, cpu)));
    outcome.unwrap_or_else(|panic| Err(EngineError::panicked(ENGINE, &*panic)))
}

fn host<A: App>(app: A, limits: Limits, cpu: Option<usize>) -> Result<A, EngineError> {
    // The executor starts one thread for blocking calls, and panics where the system gives none.
    let tried = threads::start("glommio blocking", || ());
    let has_ended = tried.map_err(|source| failed("starting the executor", source))?.join();
    has_ended.map_err(|panic| EngineError::panicked(ENGINE, &*panic))?;
    let executor = LocalExecutorBuilder::new(cpu.map_or(Placement::Unbound, Placement::Fixed))
        .io_memory(IO_MEMORY_BYTES)
        .make()
        .map_err(refused)?;
    let heartbeat = watchdog::watch(thread::current().name().unwrap_or(ENGINE).to_owned())
        .map_err(|source| failed("watching the shard", source))?;
    executor.run(async {
        let shard = Shard::new(limits).map_err(|source| failed("socketpair", source))?;
        let outcome = catching(live(app, &shard, &heartbeat)).await;
        shard.shut_down().await;
        outcome
    })
}

/// The loop: take all events, tell the app that the batch ended, sleep.
async fn live<A: App>(mut app: A, shard: &Rc<Shard>, heartbeat: &Heartbeat) -> A {
    let mut io = Rc::clone(shard);
    app.start(&mut io);
    loop {
        heartbeat.beat();
        while let Some(event) = shard.take_event() {
            app.on_event(&mut io, event);
        }
        app.on_batch_end(&mut io);
        if !shard.has_events() && app.is_finished() {
            return app;
        }
        shard.sleep(app.deadline()).await;
    }
}

/// A panic of the app ends the app, not the executor, which can then be ended in order.
async fn catching<A>(program: impl Future<Output = A>) -> Result<A, EngineError> {
    let mut program = pin!(program);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| program.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(app)) => Poll::Ready(Ok(app)),
        Err(panic) => Poll::Ready(Err(EngineError::panicked(ENGINE, &*panic))),
    })
    .await
}

fn probe_io_uring() -> Result<(), EngineError> {
    match io_uring::IoUring::new(2) {
        Ok(_) => Ok(()),
        Err(source) => match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
                Err(EngineError::Unavailable { source })
            }
            _ => Err(failed("io_uring_setup", source)),
        },
    }
}

fn refused(error: GlommioError<()>) -> EngineError {
    match error {
        GlommioError::ReactorError(ReactorErrorKind::MemLockLimit(actual, needed)) => {
            EngineError::Limit {
                engine: ENGINE,
                what: format!(
                    "memlock is limited to {actual} bytes, at least {needed} are needed: \
                     raise it with `ulimit -l {}` or LimitMEMLOCK",
                    needed / 1024
                ),
            }
        }
        other => failed("starting the executor", file::io_error(other)),
    }
}

fn failed(operation: &'static str, source: io::Error) -> EngineError {
    EngineError::Io { engine: ENGINE, operation, source }
}

#[cfg(test)]
mod tests;

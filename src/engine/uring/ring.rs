//! The io_uring itself: set-up, submission, waiting.

use std::io;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};

use super::super::EngineError;
use super::failed;
use super::operation::Operations;

/// Entries of the submission queue; a full queue is submitted early, nothing is dropped.
const ENTRIES: u32 = 256;
/// Key of entries whose completion means nothing.
const NO_OPERATION: u64 = u64::MAX;

/// Which optional io_uring set-up flags the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupFlags {
    /// IORING_SETUP_SINGLE_ISSUER and IORING_SETUP_DEFER_TASKRUN (6.1): completions are run only
    /// when this thread asks for them.
    pub defer_taskrun: bool,
    /// IORING_SETUP_COOP_TASKRUN (5.19): no inter-processor interrupt for a completion.
    pub coop_taskrun: bool,
}

pub(super) struct Ring {
    ring: IoUring,
    flags: SetupFlags,
}

impl Ring {
    /// The best set-up the kernel grants; older kernels refuse newer flags with EINVAL.
    pub(super) fn new() -> Result<Ring, EngineError> {
        let wanted = [(true, true), (false, true), (false, false)];
        let mut refusal = io::Error::from(io::ErrorKind::Unsupported);
        for (defer_taskrun, coop_taskrun) in wanted {
            let mut builder = IoUring::builder();
            builder.setup_clamp();
            if defer_taskrun {
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            if coop_taskrun {
                builder.setup_coop_taskrun();
            }
            match builder.build(ENTRIES) {
                Ok(ring) if !ring.params().is_feature_ext_arg() => {
                    return Err(EngineError::Unavailable {
                        source: io::Error::from(io::ErrorKind::Unsupported),
                    });
                }
                Ok(ring) => {
                    return Ok(Ring { ring, flags: SetupFlags { defer_taskrun, coop_taskrun } });
                }
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refusal = error,
                Err(error) if error.raw_os_error() == Some(libc::ENOMEM) => {
                    return Err(EngineError::Limit {
                        engine: "uring",
                        what: "io_uring_setup found no memory for a ring: raise the limit of \
                               locked memory (RLIMIT_MEMLOCK) with `ulimit -l` or LimitMEMLOCK"
                            .to_owned(),
                    });
                }
                Err(source) => return Err(EngineError::Unavailable { source }),
            }
        }
        Err(EngineError::Unavailable { source: refusal })
    }

    pub(super) fn flags(&self) -> SetupFlags {
        self.flags
    }

    pub(super) fn push(&mut self, entry: Entry, key: u64) {
        self.make_room(1);
        // SAFETY: the memory the entry points to is owned by its `Operation` until it completes.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(key)) };
        assert!(pushed.is_ok(), "the submission queue was full after room was made");
    }

    /// Two entries, the second started only when the first has succeeded in full.
    pub(super) fn push_linked(&mut self, first: (Entry, u64), second: (Entry, u64)) {
        self.make_room(2);
        let pair = [first.0.user_data(first.1).flags(Flags::IO_LINK), second.0.user_data(second.1)];
        // SAFETY: as in `push`.
        let pushed = unsafe { self.ring.submission().push_multiple(&pair) };
        assert!(pushed.is_ok(), "the submission queue was full after room was made");
    }

    fn make_room(&mut self, entries: usize) {
        let queue = self.ring.submission();
        let room = queue.capacity() - queue.len();
        drop(queue);
        if room < entries {
            self.submit();
        }
    }

    /// Submits without waiting. A failure shows again, with its error, in the next wait.
    pub(super) fn submit(&mut self) {
        let _ = self.ring.submit();
    }

    /// Submits and sleeps until a completion is there or `timeout` has passed.
    pub(super) fn submit_and_wait(&mut self, timeout: Option<Duration>) -> Result<(), EngineError> {
        let submitted = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let timespec = types::Timespec::from(timeout);
                let arguments = types::SubmitArgs::new().timespec(&timespec);
                self.ring.submitter().submit_with_args(1, &arguments)
            }
        };
        match submitted {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // The timeout passed, a signal came, or completions must be taken first.
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(failed("io_uring_enter", error)),
            },
        }
    }

    pub(super) fn completions(&mut self, into: &mut Vec<(u64, i32)>) {
        into.extend(self.ring.completion().map(|entry| (entry.user_data(), entry.result())));
    }

    /// Asks the kernel to cancel everything that can still be cancelled.
    pub(super) fn cancel_all(&mut self, operations: &mut Operations) {
        if !operations.is_idle() {
            let cancel = opcode::AsyncCancel2::new(types::CancelBuilder::any()).build();
            self.push(cancel, NO_OPERATION);
        }
    }
}

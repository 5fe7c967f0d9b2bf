//! Why an engine could not start or go on.

use std::any::Any;
use std::io;

/// Ends a shard; the process says it once and exits.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// io_uring_setup(2) is not allowed or not there.
    #[error(
        "io_uring is not available here ({source}): needs kernel 5.11 or newer, \
         kernel.io_uring_disabled = 0, and a container seccomp profile that allows io_uring_setup"
    )]
    Unavailable {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A resource limit is too low.
    #[error("{engine} engine: {what}")]
    Limit {
        /// Which engine.
        engine: &'static str,
        /// Which limit, its value, what is needed, and how to raise it.
        what: String,
    },
    /// A call of the event loop itself failed.
    #[error("{engine} engine: {operation}: {source}")]
    Io {
        /// Which engine.
        engine: &'static str,
        /// What was attempted.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The program on the shard panicked.
    #[error("{engine} engine: the shard's program panicked: {message}")]
    Panicked {
        /// Which engine.
        engine: &'static str,
        /// The panic's message.
        message: String,
    },
}

impl EngineError {
    /// From what a caught panic carried.
    pub(super) fn panicked(engine: &'static str, panic: &(dyn Any + Send)) -> EngineError {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        EngineError::Panicked { engine, message: text.unwrap_or("no message").to_owned() }
    }
}

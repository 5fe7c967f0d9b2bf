//! Threads, as the product starts them: one that cannot be started is an error that says which, and
//! what to raise. `std::thread::spawn` and `Scope::spawn` panic instead, and a panic on one thread
//! leaves the others waiting for it.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread.
///
/// # Errors
/// The system gives none; the message names the thread and the limits.
pub fn start<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(run).map_err(|error| refused(name, &error))
}

/// Starts a thread that ends within `scope`.
///
/// # Errors
/// As [`start`].
pub fn start_in<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    run: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let builder = Builder::new().name(name.to_owned());
    builder.spawn_scoped(scope, run).map_err(|error| refused(name, &error))
}

fn refused(name: &str, error: &io::Error) -> io::Error {
    let text = format!(
        "cannot start the thread \"{name}\": {error}; the limits are the processes of a user \
         (RLIMIT_NPROC: `ulimit -u`, LimitNPROC) and of a control group (pids.max)"
    );
    io::Error::new(error.kind(), text)
}

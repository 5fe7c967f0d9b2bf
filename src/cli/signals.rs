//! SIGINT and SIGTERM: the first asks the run to stop and keep what it has, the second ends the
//! process at once. Signals are taken on a thread of their own, so that it can give a terminal back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::live::terminal;

use super::exit::Failure;

const INTERRUPTED_STATUS: i32 = 130;

/// A flag that the first signal sets.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    on_each(&[SIGINT, SIGTERM], move |_| {
        if flag.swap(true, Ordering::Relaxed) {
            terminal::restore();
            std::process::exit(INTERRUPTED_STATUS);
        }
    })?;
    Ok(stop)
}

/// Signals that end the process by default still do, but give the terminal back first.
pub fn restore_terminal() -> Result<(), Failure> {
    on_each(&[SIGHUP, SIGQUIT], |signal| {
        terminal::restore();
        // It fails for numbers that are no signals only.
        let _ = emulate_default_handler(signal);
    })
}

fn on_each(signals: &[i32], act: impl Fn(i32) + Send + 'static) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::invalid(format!("cannot watch for signals: {error}"));
    let mut signals = Signals::new(signals).map_err(failed)?;
    let watch = move || signals.forever().for_each(act);
    let thread = thread::Builder::new().name("signals".to_owned()).spawn(watch);
    thread.map(drop).map_err(failed)
}

//! SIGINT, SIGTERM and SIGHUP: the first asks the run to stop and keep what it has, the second ends
//! the process at once. Signals are taken on a thread of their own, so that it can give a terminal
//! back.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::live::terminal;
use crate::measure::threads;

use super::exit::Failure;

const INTERRUPTED_STATUS: i32 = 130;

/// SIGHUP came: what was a terminal takes no text any more.
static HUNG_UP: AtomicBool = AtomicBool::new(false);

/// Whether the terminal this process was started from is gone.
pub fn is_hung_up() -> bool {
    HUNG_UP.load(Ordering::Relaxed)
}

/// A flag that the first signal sets.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let mut stopping = vec![SIGINT, SIGTERM];
    // nohup(1) ignores it for good.
    if !is_ignored(SIGHUP) {
        stopping.push(SIGHUP);
    }
    on_each(&stopping, move |signal| {
        HUNG_UP.fetch_or(signal == SIGHUP, Ordering::Relaxed);
        if flag.swap(true, Ordering::Relaxed) {
            terminal::restore();
            std::process::exit(INTERRUPTED_STATUS);
        }
    })?;
    Ok(stop)
}

/// Whether this process was started with the signal ignored, as its own status says.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

/// A signal that ends the process by default still does, but gives the terminal back first.
pub fn restore_terminal() -> Result<(), Failure> {
    on_each(&[SIGQUIT], |signal| {
        terminal::restore();
        // It fails for numbers that are no signals only.
        let _ = emulate_default_handler(signal);
    })
}

fn on_each(signals: &[i32], act: impl Fn(i32) + Send + 'static) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::invalid(format!("cannot watch for signals: {error}"));
    let mut signals = Signals::new(signals).map_err(failed)?;
    let watch = move || signals.forever().for_each(act);
    threads::start("signals", watch).map(drop).map_err(failed)
}

//! SIGINT and SIGTERM: the first asks the run to stop and keep what it has, the second ends the
//! process at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::exit::Failure;

const INTERRUPTED_STATUS: i32 = 130;

/// A flag that the first signal sets.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset and only sets it.
        flag::register_conditional_shutdown(signal, INTERRUPTED_STATUS, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|error| Failure::invalid(format!("cannot watch for signals: {error}")))?;
    }
    Ok(stop)
}

//! Runs a cell on the `uring` engine.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::driver::cell::{Cell, Progress};
use crate::driver::error::DriverError;
use crate::driver::outcome::CellOutcome;
use crate::driver::spec::CellSpec;
use crate::engine::{Limits, uring};
use crate::measure::clock;

/// Twice what a fetch asks for: an answer may exceed that by one batch.
const FRAME_BYTES_MAX: usize = 64 << 20;

/// Runs one cell against the cluster at `bootstrap`, on the calling thread, until it is over or
/// `stop` is set; a stopped cell gives what it has, marked. `progress` is called every tenth of a
/// second, on the same thread: what it takes is schedule lag.
///
/// Errors: [`DriverError`] if the cell makes no sense, its topic cannot be created, or the cluster
/// cannot be reached. Failed records are part of the outcome instead.
pub fn run_cell(
    bootstrap: SocketAddr,
    spec: &CellSpec,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<CellOutcome, DriverError> {
    let cell = Cell::new(bootstrap, spec, stop, progress)?;
    // Where the kernel refuses, timers fire some 50 us late, which the schedule lag shows.
    let _ = clock::use_finest_timers();
    let limits = Limits {
        frame_bytes_max: FRAME_BYTES_MAX,
        half_frame_idle_max: spec.request_timeout.max(Duration::from_secs(1)),
    };
    uring::run(cell, limits, None)?.into_result()
}

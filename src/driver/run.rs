//! Runs a cell, or reads one back, on the `uring` engine.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::driver::cell::{Cell, Progress};
use crate::driver::error::DriverError;
use crate::driver::ledger::{Ledger, Verification};
use crate::driver::outcome::{Acknowledged, CellOutcome};
use crate::driver::payload::Payload;
use crate::driver::read_back::ReadBack;
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
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<CellOutcome, DriverError> {
    let cell = Cell::new(bootstrap, spec, stop, progress)?;
    // Where the kernel refuses, timers fire some 50 us late, which the schedule lag shows.
    let _ = clock::use_finest_timers();
    uring::run(cell, limits(spec), None)?.into_result()
}

/// Reads back every record of a cell's topic and compares with what was acknowledged: its outcome's
/// `acknowledged` list, kept if the spec says so. Patience is the spec's setup timeout.
///
/// Errors: [`DriverError`] if a partition cannot be read at all. Missing and damaged records are
/// part of the verification instead.
pub fn read_back(
    bootstrap: SocketAddr,
    spec: &CellSpec,
    acknowledged: &[Acknowledged],
    stop: &AtomicBool,
) -> Result<Verification, DriverError> {
    let payload = Payload::new(spec.seed, spec.record_bytes, spec.compressible);
    let ledger = Ledger::new(payload, spec.seed, spec.partitions, acknowledged);
    let reading = ReadBack::new(bootstrap, spec, ledger, stop);
    uring::run(reading, limits(spec), None)?.into_result()
}

fn limits(spec: &CellSpec) -> Limits {
    Limits {
        frame_bytes_max: FRAME_BYTES_MAX,
        half_frame_idle_max: spec.request_timeout.max(Duration::from_secs(1)),
    }
}

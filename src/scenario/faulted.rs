//! A cell under faults: the driver on a thread of its own, the faults on this one.
//!
//! This thread starts processes again, and the kernel kills them when the thread that started them
//! ends: so it is the run's main thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::config::workload::Fault;
use crate::driver::error::DriverError;
use crate::driver::outcome::CellOutcome;
use crate::driver::run::run_cell;
use crate::driver::spec::CellSpec;
use crate::driver::{self, Phase};
use crate::measure::clock;
use crate::results::schema;
use crate::types::MonotonicTime;

use super::cluster::{Cluster, ClusterError};
use super::injector::Injector;
use super::progress::Progress;
use super::run::RunError;

/// Longest sleep: the end of the driver and of nodes is looked for this often.
const POLL: Duration = Duration::from_millis(20);
/// How long all brokers may take to be in the cluster before a cell and after its faults.
const COMPLETE_PATIENCE: Duration = Duration::from_secs(60);

/// Runs a cell and `faults` with it; afterwards every node is up again. Gives what was measured and
/// what happened.
///
/// # Errors
/// [`RunError`]: the cell could not be run, or a node does not come back.
pub(super) fn drive(
    cluster: &mut Cluster,
    spec: &CellSpec,
    faults: &[Fault],
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<(CellOutcome, Vec<schema::Event>), RunError> {
    cluster.await_complete(COMPLETE_PATIENCE)?;
    let mut injector = Injector::new(faults, spec, progress);
    let halt = AtomicBool::new(false);
    let bootstrap = cluster.bootstrap();
    let (outcome, failure) = thread::scope(|scope| {
        let (tells, told) = mpsc::channel();
        let halt = &halt;
        let cell = scope.spawn(move || run_and_tell(bootstrap, spec, halt, progress, &tells));
        let mut failure = None;
        let mut measured_from = None;
        while !cell.is_finished() {
            let step = match measured_from {
                Some(from) => act(&mut injector, cluster, from),
                None => {
                    measured_from = told.recv_timeout(POLL).ok();
                    cluster.check_running().map_err(ClusterError::from)
                }
            };
            if let Err(error) = step {
                failure.get_or_insert(error);
            }
            halt.store(failure.is_some() || stop.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let outcome = cell.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (outcome, failure)
    });
    injector.end(cluster)?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    let outcome = outcome?;
    cluster.await_complete(COMPLETE_PATIENCE)?;
    let events = injector.into_events(outcome.measured_from);
    Ok((outcome, events))
}

/// Runs the cell; tells once when its measured part begins.
fn run_and_tell(
    bootstrap: SocketAddr,
    spec: &CellSpec,
    halt: &AtomicBool,
    progress: &Progress,
    tells: &mpsc::Sender<MonotonicTime>,
) -> Result<CellOutcome, DriverError> {
    let mut is_told = false;
    let mut hear = |now: driver::Progress| {
        progress.cell_goes_on(now);
        if !is_told && !matches!(now.phase, Phase::Describing | Phase::Connecting) {
            let elapsed_ns = u64::try_from(now.elapsed.as_nanos()).unwrap_or(u64::MAX);
            let began = MonotonicTime(clock::now().0.saturating_sub(elapsed_ns));
            // Nobody listens once the faults have failed.
            let _ = tells.send(began.plus(spec.warmup));
            is_told = true;
        }
    };
    run_cell(bootstrap, spec, halt, &mut hear)
}

/// Does what is due and sleeps until more may be.
fn act(
    injector: &mut Injector<'_>,
    cluster: &mut Cluster,
    measured_from: MonotonicTime,
) -> Result<(), ClusterError> {
    let due_in = |injector: &Injector<'_>| {
        injector.next_at().map(|at| measured_from.plus(at).since(clock::now()))
    };
    while due_in(injector).is_some_and(|left| left.is_zero()) {
        injector.step(cluster, measured_from)?;
    }
    cluster.look()?;
    cluster.check_running()?;
    thread::sleep(due_in(injector).unwrap_or(POLL).min(POLL));
    Ok(())
}

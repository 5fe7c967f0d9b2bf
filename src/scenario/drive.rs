//! A workload against a cluster that somebody else started, perhaps on other hosts.
//!
//! Nothing is known of its processes, so there are no floors, no memory figures, and no device
//! counters; stages are there only if the brokers share this host's clock.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use crate::config::workload::{Pacing, Workload};
use crate::driver;
use crate::driver::error::DriverError;
use crate::driver::run::run_cell;
use crate::driver::schedule::RateError;
use crate::environment::{Environment, HostSample};
use crate::measure::clock::BothClocks;
use crate::measure::histogram::PERCENTILES;
use crate::results::{described, schema};

use super::book::{Book, Origin};
use super::cell::{self, Surroundings};
use super::floors::RunFloors;
use super::progress::Progress;
use super::saturation;

/// Why a workload cannot be driven.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The cluster was started in one way; the workload lists several.
    #[error(
        "matrix.{key} lists {count} values: must list the one that the brokers at {bootstrap} run \
         with"
    )]
    SeveralClusters {
        /// What the nodes were started with, such as `engine`.
        key: &'static str,
        /// How many.
        count: usize,
        /// The cluster.
        bootstrap: String,
    },
    /// Faults need processes that this one started.
    #[error("fault: the cluster at {bootstrap} was started elsewhere; faults need `ackmark run`")]
    Faults {
        /// The cluster.
        bootstrap: String,
    },
    /// The first cell failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A rate cannot be kept.
    #[error(transparent)]
    Rate(#[from] RateError),
}

/// Whether `workload` can be driven at all against a cluster that was started elsewhere.
///
/// # Errors
/// [`DriveError::SeveralClusters`], [`DriveError::Faults`].
pub fn check(workload: &Workload, bootstrap: &str) -> Result<(), DriveError> {
    one_cluster(workload, bootstrap)?;
    if workload.faults.is_empty() {
        return Ok(());
    }
    Err(DriveError::Faults { bootstrap: bootstrap.to_owned() })
}

/// Drives every cell of `workload`, which [`check`] has passed, against `bootstrap` until it is over
/// or `stop` is set.
///
/// # Errors
/// [`DriveError`] if not even one cell could be measured.
pub fn run(
    workload: &Workload,
    bootstrap: SocketAddr,
    run_id: &str,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Result<schema::RunResult, DriveError> {
    let origin = Origin {
        workload,
        run_id,
        processes: 1,
        started: (SystemTime::now(), Instant::now()),
        clocks: BothClocks::read(),
    };
    let mut book = Book::new(workload);
    book.power_loss_doubt = Some("the cluster's flushes cannot be counted from here".to_owned());
    let cells = workload.rounds().into_iter().flat_map(|round| {
        let cells = round.blocks.into_iter().flat_map(|block| block.cells);
        cells.map(move |cell| (round.repeat, cell)).collect::<Vec<_>>()
    });
    for (repeat, planned) in cells {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = described::cell_name(workload, &planned);
        if let (Pacing::Share { arrival, .. }, None) = (planned.pacing, book.saturation(&planned)) {
            let mut number = 0;
            let probe = (arrival, workload.load.saturation_probe);
            let found = saturation::search(probe, |pacing| {
                number += 1;
                progress.note(&saturation::describe(&name, pacing));
                let mut spec = cell::probe_spec(workload, &planned, pacing, number)?;
                spec.topic = format!("{}-{run_id}", spec.topic);
                match run_cell(bootstrap, &spec, stop, &mut |now| progress.cell_goes_on(now)) {
                    Ok(outcome) => Ok(Some(outcome)),
                    Err(DriverError::Stopped) => Ok(None),
                    Err(error) => Err(DriveError::from(error)),
                }
            })?;
            let Some(found) = found else { break };
            book.add_saturation(&planned, found);
        }
        let planned = book.resolved(&planned);
        if matches!(planned.pacing, Pacing::Share { saturation_per_s: None, .. }) {
            book.failures[planned.index] = Some(saturation::NOT_FOUND.to_owned());
            continue;
        }
        let mut spec = cell::spec(workload, &planned, repeat)?;
        // Earlier runs' topics are still there.
        spec.topic = format!("{}-{run_id}", spec.topic);
        progress.cell_begins(&name, repeat);
        let before = HostSample::sample();
        progress.watch_partitions(bootstrap, &spec.topic);
        let mut show = |now: driver::Progress| progress.cell_goes_on(now);
        let outcome = match run_cell(bootstrap, &spec, stop, &mut show) {
            Ok(outcome) => outcome,
            Err(DriverError::Stopped) => break,
            Err(error) if book.is_empty() => return Err(error.into()),
            Err(error) => {
                book.failures[planned.index] = Some(error.to_string());
                continue;
            }
        };
        let surroundings = Surroundings {
            nodes: Vec::new(),
            device: Value::String("unknown".to_owned()),
            power_loss_doubt: None,
            contamination: HostSample::sample().since(&before).to_json(),
            events: Vec::new(),
            failovers: Vec::new(),
            check: None,
        };
        let measured = cell::measured(repeat, workload.load.duration, outcome, surroundings);
        let p50 = measured.acknowledged.percentile_ns(&PERCENTILES[0]).map(Duration::from_nanos);
        progress.cell_is_over(&name, repeat, p50);
        book.repeats[planned.index].push(measured);
    }
    book.warnings.push(format!(
        "the cluster at {bootstrap} was started elsewhere: its engine, durability mode and \
         settings are as this workload says, not as checked; the environment is the driver's"
    ));
    let environment = Environment::capture(Path::new("."));
    let interrupted = stop.load(Ordering::Relaxed);
    Ok(book.result(&origin, &environment, &RunFloors::default(), interrupted))
}

fn one_cluster(workload: &Workload, bootstrap: &str) -> Result<(), DriveError> {
    let matrix = &workload.matrix;
    for (key, count) in [
        ("engine", matrix.engines.len()),
        ("durability", matrix.durabilities.len()),
        ("fetch_pipeline", matrix.fetch_pipelines.len()),
        ("serve_followers", matrix.serve_followers.len()),
        ("commit_pipeline_depth", matrix.commit_pipeline_depths.len()),
        ("commit_delay", matrix.commit_delays.len()),
    ] {
        if count > 1 {
            return Err(DriveError::SeveralClusters {
                key,
                count,
                bootstrap: bootstrap.to_owned(),
            });
        }
    }
    Ok(())
}

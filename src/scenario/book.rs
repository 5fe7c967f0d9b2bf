//! What a run has measured so far, and the result made of it.

use std::time::{Instant, SystemTime};

use crate::config::cells::Cell;
use crate::config::workload::{Fault, Workload};
use crate::environment::Environment;
use crate::results::measured::{self, Measured};
use crate::results::{described, schema, time};

use super::audit;
use super::floors::RunFloors;

/// Which run it is.
pub(super) struct Origin<'a> {
    /// What was asked for.
    pub(super) workload: &'a Workload,
    /// A random UUID.
    pub(super) run_id: &'a str,
    /// Processes on this host: nodes and driver.
    pub(super) processes: usize,
    /// When it began.
    pub(super) started: (SystemTime, Instant),
}

/// What was measured so far.
pub(super) struct Book {
    /// Per cell, in matrix order.
    pub(super) repeats: Vec<Vec<Measured>>,
    /// Per cell: why a repeat is missing.
    pub(super) failures: Vec<Option<String>>,
    /// About the clusters.
    pub(super) warnings: Vec<String>,
}

impl Book {
    /// An empty one for every cell of `workload`.
    pub(super) fn new(workload: &Workload) -> Book {
        let cells = workload.cells().len();
        Book {
            repeats: (0..cells).map(|_| Vec::new()).collect(),
            failures: vec![None; cells],
            warnings: Vec::new(),
        }
    }

    /// Whether nothing was measured yet.
    pub(super) fn is_empty(&self) -> bool {
        self.repeats.iter().all(Vec::is_empty)
    }

    /// The result of the run, with what was measured until now; `interrupted` says why, if not all.
    pub(super) fn result(
        self,
        origin: &Origin<'_>,
        environment: &Environment,
        floors: &RunFloors,
        interrupted: bool,
    ) -> schema::RunResult {
        let (workload, started) = (origin.workload, origin.started);
        let cell = |planned: &Cell| {
            let repeats = &self.repeats[planned.index];
            let mut cell = measured::cell(workload, planned, repeats, floors.of(workload, planned));
            if !workload.faults.is_empty() {
                cell.warnings.extend(audit::beyond_guarantee(workload, planned));
            }
            if let Some(reason) = &self.failures[planned.index] {
                cell.status_reason = Some(reason.clone());
            }
            cell
        };
        let mut cells: Vec<schema::Cell> = workload.cells().iter().map(cell).collect();
        measured::compare_to_page_cache(&mut cells);
        let partial = cells.iter().find(|cell| cell.status == schema::Status::Partial);
        let slowdown = workload.load.injected_slowdown;
        let injected = (slowdown > 0.0).then(|| {
            format!(
                "INJECTED SLOWDOWN: every acknowledgement was held back by {:.0} % of its latency on \
                 purpose, so no figure here is one of this product",
                100.0 * slowdown
            )
        });
        let mut warnings: Vec<String> = injected.into_iter().collect();
        let facts = environment.warnings(origin.processes);
        warnings.extend(facts.iter().map(ToString::to_string));
        if !workload.cluster.pin {
            warnings.push("broker threads are not pinned to CPUs".to_owned());
        }
        if workload.faults.iter().any(Fault::is_of_network) {
            warnings.push(
                "network faults come from the harness's own TCP relay on loopback, not from packet \
                 loss; every connection runs through it, so each latency holds its hops"
                    .to_owned(),
            );
        }
        if workload.faults.iter().any(Fault::is_page_cache_loss) {
            warnings.push(
                "page-cache loss: each broker's logs are on an ext4 of their own on a loop device \
                 (direct I/O to a file in the data directory), cut by the file system's shutdown \
                 ioctl; it loses what the kernel had not written, not the device's own cache"
                    .to_owned(),
            );
        }
        let storage = |fault: &Fault| fault.kind.is_of_storage() && !fault.is_page_cache_loss();
        if workload.faults.iter().any(storage) {
            warnings.push(
                "disk faults are injected in the broker, at the call of each write or sync; the \
                 device itself is well"
                    .to_owned(),
            );
        }
        warnings.extend(self.warnings);
        schema::RunResult {
            schema_version: schema::SCHEMA_VERSION,
            tool: tool(),
            run_id: origin.run_id.to_owned(),
            started_at: time::rfc3339(started.0),
            wall_time_s: (started.1.elapsed().as_secs_f64() * 1e3).round() / 1e3,
            status: match (interrupted, partial) {
                (false, None) => schema::Status::Complete,
                (true, _) | (_, Some(_)) => schema::Status::Partial,
            },
            status_reason: match interrupted {
                true => Some(schema::INTERRUPTED.to_owned()),
                false => partial.and_then(|cell| {
                    Some(format!("{}: {}", cell.name, cell.status_reason.as_deref()?))
                }),
            },
            environment: environment.to_json(),
            floors: floors.to_json(),
            workload: described::workload(workload),
            cells,
            warnings,
        }
    }
}

/// This program, for a result.
pub fn tool() -> schema::Tool {
    schema::Tool {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("ACKMARK_COMMIT").to_owned(),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
    }
}

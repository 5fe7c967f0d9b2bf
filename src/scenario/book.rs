//! What a run has measured so far, and the result made of it.

use std::time::{Instant, SystemTime};

use crate::config::cells::Cell;
use crate::config::workload::{Fault, Pacing, Workload};
use crate::environment::Environment;
use crate::measure::clock::BothClocks;
use crate::measure::isr::IsrEvent;
use crate::results::measured::{self, Measured};
use crate::results::sweeps::{Saturation, mode, sweeps};
use crate::results::{described, schema, time};

use super::audit;
use super::floors::RunFloors;

/// More than two readings of a clock on a loaded machine are apart.
const WALL_STEP_NOTED_NS: i128 = 50_000_000;

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
    /// Then, to see whether the wall clock was set meanwhile.
    pub(super) clocks: BothClocks,
}

/// What was measured so far.
pub(super) struct Book {
    /// Per cell, in matrix order.
    pub(super) repeats: Vec<Vec<Measured>>,
    /// Per mode whose rates are shares: what was found.
    saturations: Vec<(Cell, Saturation)>,
    /// Per cell: why a repeat is missing.
    pub(super) failures: Vec<Option<String>>,
    /// Why syncs in the data directory are not shown to reach the medium, if they are not.
    pub(super) power_loss_doubt: Option<String>,
    /// About the clusters.
    pub(super) warnings: Vec<String>,
}

impl Book {
    /// An empty one for every cell of `workload`.
    pub(super) fn new(workload: &Workload) -> Book {
        let cells = workload.cells().len();
        Book {
            repeats: (0..cells).map(|_| Vec::new()).collect(),
            saturations: Vec::new(),
            failures: vec![None; cells],
            power_loss_doubt: None,
            warnings: Vec::new(),
        }
    }

    /// Whether nothing was measured yet.
    pub(super) fn is_empty(&self) -> bool {
        self.repeats.iter().all(Vec::is_empty)
    }

    /// What was found for the mode of `cell`.
    pub(super) fn saturation(&self, cell: &Cell) -> Option<&Saturation> {
        let mode = mode(cell);
        self.saturations.iter().find(|(known, _)| *known == mode).map(|(_, found)| found)
    }

    /// The saturation of the mode of `cell` was searched.
    pub(super) fn add_saturation(&mut self, cell: &Cell, found: Saturation) {
        self.saturations.push((mode(cell), found));
    }

    /// `cell` with its rate in records per second, as far as it is known.
    pub(super) fn resolved(&self, cell: &Cell) -> Cell {
        let pacing = match cell.pacing {
            Pacing::Share { percent, arrival, .. } => {
                let saturation_per_s = self.saturation(cell).and_then(|found| found.rate_per_s);
                Pacing::Share { percent, saturation_per_s, arrival }
            }
            known => known,
        };
        Cell { pacing, ..*cell }
    }

    /// What the brokers told of the topic of repeat `repeat` of `cell`. What began after the load is
    /// the next cell's or the shutdown's doing.
    pub(super) fn add_events(&mut self, cell: &Cell, repeat: usize, events: Vec<IsrEvent>) {
        let measured = self.repeats[cell.index].iter_mut();
        if let Some(measured) = measured.rev().find(|measured| measured.repeat == repeat) {
            let end_ns = measured.ended_ns.unwrap_or(u64::MAX);
            let is_its_own = |event: &IsrEvent| event.began_ns() <= end_ns;
            measured.isr_events = events.into_iter().filter(is_its_own).collect();
        }
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
        let planned: Vec<Cell> = workload.cells().iter().map(|cell| self.resolved(cell)).collect();
        let mut cells: Vec<schema::Cell> = planned.iter().map(cell).collect();
        measured::compare_to_page_cache(&mut cells);
        let doubts = measured::power_loss_doubts(&mut cells, self.power_loss_doubt.as_deref());
        let partial = cells.iter().find(|cell| cell.status == schema::Status::Partial);
        let slowdown = workload.load.injected_slowdown;
        let injected = (slowdown > 0.0).then(|| {
            format!(
                "INJECTED SLOWDOWN: every acknowledgement was held back by {:.0} % of its latency on \
                 purpose, so no figure here is one of this product",
                100.0 * slowdown
            )
        });
        let mut warnings: Vec<String> = doubts.into_iter().chain(injected).collect();
        warnings.extend(wall_step(BothClocks::read().wall_step_ns(&origin.clocks)));
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
        warnings.extend(self.warnings.iter().cloned());
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
            sweeps: sweeps(workload, &planned, &cells, |mode| self.saturation(mode).cloned()),
            cells,
            warnings,
        }
    }
}

/// What to say of a wall clock that was set during the run; slewing does not show.
fn wall_step(step_ns: i128) -> Option<String> {
    let seconds = step_ns as f64 / 1e9;
    (step_ns.abs() >= WALL_STEP_NOTED_NS).then(|| {
        format!(
            "the wall clock was set by {seconds:+.3} s during the run (or the machine slept): record \
             timestamps are not of one clock; latencies are, by the monotonic one"
        )
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_of_the_wall_clock_is_told_with_its_size() {
        assert_eq!(wall_step(0), None);
        assert_eq!(wall_step(-20_000_000), None);
        let back = wall_step(-3_600_000_000_000).expect("told");
        assert!(back.contains("by -3600.000 s"), "{back}");
        assert!(wall_step(250_000_000).expect("told").contains("by +0.250 s"));
    }
}

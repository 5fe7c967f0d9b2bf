//! The least this machine allows, measured in the run itself: once before the first cell and once
//! after the last, paced like the cells and with their record sizes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;

use crate::config::cells::Cell;
use crate::config::workload::{Pacing, Workload};
use crate::environment::floor::formula;
use crate::environment::{FloorError, FloorSettings, Floors};
use crate::results::schema;

/// Faster than any sync here: above this rate a part would only run in a tight loop, for longer.
const RATE_PER_S_MAX: u32 = 4_000;
/// Shortest and longest time spent on one part, before and after the run each.
const PART_MIN: Duration = Duration::from_millis(100);
const PART_MAX: Duration = Duration::from_secs(1);
/// Share of a cell's measured time spent on each part.
const PART_DIVISOR: u32 = 10;

/// One measurement per pace and record size of the workload. Closed and max cells have none: there
/// is no rate to pace a floor like.
#[derive(Debug, Default)]
pub struct RunFloors {
    by_pace: Vec<Floors>,
}

impl RunFloors {
    /// Measures all parts that the cells of `workload` need, in `directory`, until `stop` is set.
    ///
    /// # Errors
    /// [`FloorError`]
    pub fn measure(
        workload: &Workload,
        directory: &Path,
        stop: &AtomicBool,
    ) -> Result<RunFloors, FloorError> {
        let mut settings: Vec<FloorSettings> = Vec::new();
        for cell in workload.cells() {
            if let Some(pace) = settings_of(workload, &cell)
                && !settings.contains(&pace)
            {
                settings.push(pace);
            }
        }
        let modes = &workload.matrix.durabilities;
        let measure = |settings| Floors::measure(directory, settings, modes, stop);
        Ok(RunFloors { by_pace: settings.into_iter().map(measure).collect::<Result<_, _>>()? })
    }

    /// Both measurements' samples pooled.
    pub fn merged(self, later: RunFloors) -> RunFloors {
        let pairs = self.by_pace.into_iter().zip(later.by_pace);
        RunFloors { by_pace: pairs.map(|(before, after)| before.merged(after)).collect() }
    }

    /// The bound for the acknowledgement of `cell`, without a ratio.
    pub fn of(&self, workload: &Workload, cell: &Cell) -> Option<schema::Floor> {
        let settings = settings_of(workload, cell)?;
        let floors = self.by_pace.iter().find(|floors| floors.settings == settings)?;
        let mode = cell.durability;
        let parts = [
            ("round_trip", floors.round_trip_ns()),
            ("followers_round_trip", floors.followers_round_trip_ns()),
            ("page_cache_write", floors.page_cache_write_ns()),
            ("durable_alone", floors.durable_ns(mode, false)),
            ("durable_together", floors.durable_ns(mode, true)),
        ];
        let known = |(name, value): (&str, Option<u64>)| Some((name.to_owned(), value?));
        Some(schema::Floor {
            formula: formula(mode, cell.acks).to_owned(),
            parts_ns: parts.into_iter().filter_map(known).collect::<BTreeMap<_, _>>(),
            floor_ns: floors.bound_ns(mode, cell.acks)?,
            ratio: None,
        })
    }

    /// Everything measured, one entry per pace.
    pub fn to_json(&self) -> Vec<Value> {
        self.by_pace.iter().map(Floors::to_json).collect()
    }
}

fn settings_of(workload: &Workload, cell: &Cell) -> Option<FloorSettings> {
    let Pacing::Open { rate_per_s, .. } = cell.pacing else { return None };
    Some(FloorSettings {
        rate_per_second: u32::try_from(rate_per_s).unwrap_or(u32::MAX).min(RATE_PER_S_MAX),
        record_bytes: cell.record_bytes,
        broker_count: workload.cluster.replication_factor,
        part_duration: (workload.load.duration / PART_DIVISOR).clamp(PART_MIN, PART_MAX),
    })
}

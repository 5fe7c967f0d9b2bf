//! Cells that differ in their rate only, as curves: the saturation their rates are shares of, and
//! the knee.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::cells::Cell as Planned;
use crate::config::workload::{Pacing, Workload};

use super::described::mode_name;
use super::knee::{Point, knee};
use super::schema::Cell;

/// The cells of one mode, by rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// The factors they agree in, as a cell's name has them.
    pub name: String,
    /// Their positions in the matrix, by rate.
    pub cells: Vec<usize>,
    /// What their rates are shares of; absent where rates were given as numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// The load beyond which latency grows faster than throughput.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
    /// Why there is none, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee_absent_reason: Option<String>,
}

/// How the highest sustained rate was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saturation {
    /// Records per second; absent if no rate was sustained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u64>,
    /// Every rate tried, in order.
    pub probes: Vec<Probe>,
}

/// One rate tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Probe {
    /// Open loop at this rate; absent for the first probe, which keeps every window full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<u64>,
    /// Records acknowledged per second.
    pub achieved_per_s: f64,
    /// Whether the cluster took it: at most 50 ms and 5 % of the probe behind the schedule at its end,
    /// nothing left over or failed.
    pub sustained: bool,
}

/// Where the curve bends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The cell.
    pub cell: usize,
    /// Records per second asked for there.
    pub rate_per_s: u64,
    /// Records acknowledged per second there.
    pub achieved_per_s: f64,
    /// Mean latency to the acknowledgement there.
    pub mean_ns: f64,
}

/// What two cells of one sweep agree in.
pub fn mode(cell: &Planned) -> Planned {
    Planned { index: 0, pacing: Pacing::Max, ..*cell }
}

/// All sweeps of a result's `cells`; `saturation` gives what was found for a mode.
pub fn sweeps(
    workload: &Workload,
    planned: &[Planned],
    cells: &[Cell],
    saturation: impl Fn(&Planned) -> Option<Saturation>,
) -> Vec<Sweep> {
    let mut modes: Vec<(Planned, Vec<(u64, usize)>)> = Vec::new();
    for cell in planned {
        let Some(rate_per_s) = cell.pacing.rate_per_s() else { continue };
        let key = mode(cell);
        match modes.iter_mut().find(|(known, _)| *known == key) {
            Some((_, rates)) => rates.push((rate_per_s, cell.index)),
            None => modes.push((key, vec![(rate_per_s, cell.index)])),
        }
    }
    let is_share = |key: &Planned| saturation(key).is_some();
    modes.retain(|(key, rates)| rates.len() > 1 || is_share(key));
    let sweep = |(key, mut rates): (Planned, Vec<(u64, usize)>)| {
        rates.sort_unstable();
        let point = |&(_, index): &(u64, usize)| Point {
            achieved_per_s: cells[index].rate.achieved_per_s,
            mean_ns: cells[index].latency.acknowledged.mean_ns,
        };
        let points: Vec<Point> = rates.iter().map(point).collect();
        let (knee, knee_absent_reason) = match knee(&points) {
            Ok(bend) => {
                let (rate_per_s, cell) = rates[bend];
                let Point { achieved_per_s, mean_ns } = points[bend];
                let mean_ns = mean_ns.unwrap_or_default();
                (Some(Knee { cell, rate_per_s, achieved_per_s, mean_ns }), None)
            }
            Err(reason) => (None, Some(reason)),
        };
        Sweep {
            name: mode_name(workload, &key),
            cells: rates.iter().map(|&(_, index)| index).collect(),
            saturation: saturation(&key),
            knee,
            knee_absent_reason,
        }
    };
    modes.into_iter().map(sweep).collect()
}

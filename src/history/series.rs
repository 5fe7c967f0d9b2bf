//! A history as series: one figure of one cell on one machine, run after run.

use serde::Serialize;

use super::changes::{self, Change, RUNS_MIN};
use super::entry::{Entry, Figure};

/// Figures that are followed over time. Deeper percentiles of a short run say more about its noise
/// than about its level; every export has them all.
const FOLLOWED: [&str; 2] = ["p50", "p99"];

/// One run's figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// When the run began.
    pub started_at: String,
    /// What was measured.
    pub commit: String,
    /// The version of ackmark.
    pub version: String,
    /// The figure.
    pub value: f64,
    /// What it may really be.
    pub interval: Option<(f64, f64)>,
}

/// A change of level, with what changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Index of the first run at the new level.
    pub at: usize,
    /// The last commit at the old level.
    pub last_before: String,
    /// The first commit at the new one.
    pub first_after: String,
    /// Median before.
    pub before: f64,
    /// Median after.
    pub after: f64,
    /// `after / before`.
    pub ratio: f64,
    /// Of a step as clear as this by chance.
    pub probability: f64,
    /// Whether the new level is the worse one.
    pub is_worse: bool,
}

/// One figure of one cell on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    /// Tells machines apart.
    pub machine: String,
    /// The machine in words.
    pub machine_name: String,
    /// The cell.
    pub cell: String,
    /// Tells cells of one name and different settings apart.
    pub settings: String,
    /// `acknowledged p50`.
    pub figure: String,
    /// `ns` or `records/s`.
    pub unit: String,
    /// Whether more is better.
    pub bigger_is_better: bool,
    /// By time.
    pub points: Vec<Point>,
    /// In order.
    pub steps: Vec<Step>,
}

impl Series {
    /// Whether there are enough runs to look for changes.
    pub fn is_long_enough(&self) -> bool {
        self.points.len() >= RUNS_MIN
    }

    fn find_steps(&mut self, same_within: f64, seed: u64) {
        let values: Vec<f64> = self.points.iter().map(|point| point.value).collect();
        let step = |change: Change| Step {
            at: change.at,
            last_before: self.points[change.at - 1].commit.clone(),
            first_after: self.points[change.at].commit.clone(),
            before: change.before,
            after: change.after,
            ratio: change.ratio(),
            probability: change.probability,
            is_worse: (change.ratio() > 1.0) != self.bigger_is_better,
        };
        self.steps = changes::find(&values, same_within, seed).into_iter().map(step).collect();
    }
}

/// The followed series of `entries`, in the order in which they first appear, with their changes.
pub fn of(entries: &[Entry], same_within: f64, seed: u64) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for entry in entries {
        for cell in &entry.cells {
            for figure in cell.figures.iter().filter(|figure| is_followed(figure)) {
                let is_it = |series: &&mut Series| {
                    series.machine == entry.machine
                        && series.cell == cell.name
                        && series.settings == cell.settings
                        && series.figure == figure.name
                };
                let point = Point {
                    started_at: entry.started_at.clone(),
                    commit: entry.commit.clone(),
                    version: entry.version.clone(),
                    value: figure.value,
                    interval: figure.interval,
                };
                match all.iter_mut().find(is_it) {
                    Some(series) => series.points.push(point),
                    None => all.push(Series {
                        machine: entry.machine.clone(),
                        machine_name: entry.machine_name.clone(),
                        cell: cell.name.clone(),
                        settings: cell.settings.clone(),
                        figure: figure.name.clone(),
                        unit: figure.unit.clone(),
                        bigger_is_better: figure.bigger_is_better,
                        points: vec![point],
                        steps: Vec::new(),
                    }),
                }
            }
        }
    }
    for series in &mut all {
        series.find_steps(same_within, seed);
    }
    all
}

fn is_followed(figure: &Figure) -> bool {
    figure.bigger_is_better
        || figure.name.rsplit(' ').next().is_some_and(|percentile| FOLLOWED.contains(&percentile))
}

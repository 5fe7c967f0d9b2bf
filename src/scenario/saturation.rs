//! The highest rate a mode sustains, found before the first cell whose rate is a share of it.
//!
//! 1. Every window is kept full. What is achieved is the ceiling.
//! 2. An open loop at the ceiling: if it is sustained, it is the saturation.
//! 3. Else the rates between a sixteenth of the ceiling and the ceiling are halved, by their
//!    logarithms, [`BISECTIONS`] times; the highest sustained rate is the saturation, too low by 5 %
//!    at most.
//!
//! A rate is sustained if the cluster was at most [`BEHIND_MAX`] behind the schedule when the probe
//! ended, and nothing was left unsent or unanswered after that, or failed.

use std::time::Duration;

use crate::config::workload::{Arrival, Pacing};
use crate::driver::outcome::CellOutcome;
use crate::results::sweeps::{Probe, Saturation};

/// Probes after the two at the ceiling.
const BISECTIONS: usize = 6;
/// How far below the ceiling the search begins.
const SPAN: f64 = 16.0;
/// Longer than a sync takes, and a small part of a probe: one of 2 s shows an overload of 2.5 %.
const BEHIND_MAX: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug, Default)]
struct Search {
    probes: Vec<Probe>,
}

impl Search {
    /// What to try next; `None` once it is over.
    fn next(&self) -> Option<Option<u64>> {
        let Some(ceiling) = self.ceiling() else { return Some(None) };
        let open: Vec<(u64, bool)> = self.open().collect();
        match open.as_slice() {
            _ if ceiling == 0 => None,
            [] => Some(Some(ceiling)),
            [(_, true)] => None,
            tried if tried.len() > BISECTIONS => None,
            tried => {
                let sustained = tried.iter().filter(|(_, sustained)| *sustained);
                let low = sustained.map(|&(rate, _)| rate).max();
                let low = low.map_or(ceiling as f64 / SPAN, |rate| rate as f64);
                let failed = tried.iter().filter(|(_, sustained)| !sustained);
                let high = failed.map(|&(rate, _)| rate).min().unwrap_or(ceiling) as f64;
                let middle = significant((low * high).sqrt()).max(1);
                // Too low or too close to tell anything new.
                (!tried.iter().any(|&(rate, _)| rate == middle)).then_some(Some(middle))
            }
        }
    }

    fn ceiling(&self) -> Option<u64> {
        let probe = self.probes.iter().find(|probe| probe.asked_per_s.is_none())?;
        Some(significant(probe.achieved_per_s))
    }

    fn open(&self) -> impl Iterator<Item = (u64, bool)> {
        self.probes.iter().filter_map(|probe| Some((probe.asked_per_s?, probe.sustained)))
    }

    fn found(self) -> Saturation {
        let rate_per_s =
            self.open().filter(|(_, sustained)| *sustained).map(|(rate, _)| rate).max();
        Saturation { rate_per_s, probes: self.probes }
    }
}

/// Why a cell has no rate.
pub(super) const NOT_FOUND: &str =
    "its rate is a share of the saturation, and no rate was sustained";

/// A probe in words.
pub(super) fn describe(name: &str, pacing: Pacing) -> String {
    match pacing.rate_per_s() {
        Some(rate) => format!("searching the saturation of {name}: {rate}/s"),
        None => format!("searching the saturation of {name}: every window full"),
    }
}

/// Three significant digits, rounded down.
fn significant(rate: f64) -> u64 {
    let whole = rate.max(0.0) as u64;
    let scale = 10_u64.pow(whole.max(1).ilog10().saturating_sub(2));
    whole / scale * scale
}

/// Searches with `probe`, which runs one cell of length `duration` at a pacing; `None` from it means that the run was
/// stopped.
pub(super) fn search<E>(
    (arrival, duration): (Arrival, Duration),
    mut probe: impl FnMut(Pacing) -> Result<Option<CellOutcome>, E>,
) -> Result<Option<Saturation>, E> {
    let mut search = Search::default();
    while let Some(asked_per_s) = search.next() {
        let pacing = match asked_per_s {
            Some(rate_per_s) => Pacing::Open { rate_per_s, arrival },
            None => Pacing::Max,
        };
        let Some(outcome) = probe(pacing)? else { return Ok(None) };
        if outcome.interrupted {
            return Ok(None);
        }
        let achieved_per_s = outcome.achieved_records_per_s.round();
        let sustained = is_sustained(asked_per_s, duration, &outcome);
        search.probes.push(Probe { asked_per_s, achieved_per_s, sustained });
    }
    Ok(Some(search.found()))
}

fn is_sustained(asked_per_s: Option<u64>, duration: Duration, outcome: &CellOutcome) -> bool {
    let counts = &outcome.counts;
    let left = counts.records_unsent + counts.records_unanswered + counts.records_failed;
    let achieved_per_s = outcome.achieved_records_per_s;
    left == 0
        && asked_per_s.is_some_and(|asked| behind(asked, achieved_per_s, duration) <= BEHIND_MAX)
}

/// The schedule's time for the records that were not acknowledged by its end.
fn behind(asked_per_s: u64, achieved_per_s: f64, duration: Duration) -> Duration {
    let missing = 1.0 - achieved_per_s / asked_per_s.max(1) as f64;
    duration.mul_f64(missing.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cluster that sustains up to `limit` and achieves `ceiling` with full windows.
    fn searched(ceiling: f64, limit: u64) -> Saturation {
        let mut search = Search::default();
        while let Some(asked_per_s) = search.next() {
            let probe = match asked_per_s {
                None => Probe { asked_per_s, achieved_per_s: ceiling, sustained: false },
                Some(rate) => Probe {
                    asked_per_s,
                    achieved_per_s: rate.min(limit) as f64,
                    sustained: rate <= limit,
                },
            };
            search.probes.push(probe);
            assert!(search.probes.len() <= BISECTIONS + 2, "{:?}", search.probes);
        }
        search.found()
    }

    #[test]
    fn the_highest_sustained_rate_is_found_to_five_percent() {
        for limit in [70_u64, 100, 333, 640, 999] {
            let found = searched(1_000.0, limit).rate_per_s.expect("some rate is sustained");
            assert!(found <= limit && found * 105 >= limit * 100 - 500, "{found} of {limit}");
        }
    }

    #[test]
    fn a_sustained_ceiling_ends_the_search() {
        let found = searched(123_456.0, 200_000);
        assert_eq!((found.rate_per_s, found.probes.len()), (Some(123_000), 2));
    }

    #[test]
    fn no_sustained_rate_is_no_saturation() {
        assert_eq!(searched(1_000.0, 10).rate_per_s, None);
        let nothing = searched(0.0, 0);
        assert_eq!((nothing.rate_per_s, nothing.probes.len()), (None, 1));
    }

    #[test]
    fn a_tiny_ceiling_ends_too() {
        for ceiling in 1..40 {
            let found = searched(f64::from(ceiling), 3);
            assert!(found.rate_per_s.is_none_or(|rate| rate <= 3), "{found:?}");
        }
    }

    #[test]
    fn being_behind_is_the_schedule_s_time_for_what_is_missing() {
        let second = Duration::from_secs(1);
        assert_eq!(behind(1_000, 950.0, 2 * second), Duration::from_millis(100));
        assert_eq!(behind(1_000, 1_000.0, second), Duration::ZERO);
        assert_eq!(behind(1_000, 1_200.0, second), Duration::ZERO, "a warm-up's backlog");
        assert_eq!(behind(1_000, 0.0, second), second);
    }
}

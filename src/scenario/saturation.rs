//! The highest rate a mode sustains, found before the first cell whose rate is a share of it.
//!
//! 1. Every window is kept full. What is achieved is the ceiling.
//! 2. An open loop at the ceiling: if it is sustained, it is the saturation.
//! 3. Else, until a rate is sustained, ever further below what the last one achieved: overload makes
//!    large batches, so what it achieves is about the most there is.
//! 4. Then the rates between the highest sustained and the lowest that was not are halved, by their
//!    logarithms, until they are [`CLOSE`] to each other. The highest sustained is the saturation.
//!
//! A rate is sustained if the cluster was at most [`BEHIND_MAX`] and [`BEHIND_SHARE_MAX`] of the probe
//! behind the schedule when the probe ended, and nothing was left unsent or unanswered after that, or
//! failed. A rate at which a probe holds no more than a handful of records tells nothing: where only
//! such a one is left, nothing was sustained, and the cells that ask for a share of it do not run.

use std::time::Duration;

use crate::config::workload::{Arrival, Pacing};
use crate::driver::outcome::CellOutcome;
use crate::results::sweeps::{Probe, Saturation};

/// Most probes of an open loop.
const PROBES_MAX: usize = 9;
/// A sustained rate and one that is not are this close in the end.
const CLOSE: f64 = 1.05;
/// The step down from what an overloaded rate achieved; from the next one twice that, and so on.
const STEP_DOWN: f64 = 0.88;
/// Longer than a sync takes.
const BEHIND_MAX: Duration = Duration::from_millis(50);
/// A small part of a probe, however short that is.
const BEHIND_SHARE_MAX: f64 = 0.05;

/// See the module.
#[derive(Debug, Default)]
struct Search {
    /// Below it a probe holds too few records to tell.
    least_per_s: u64,
    probes: Vec<Probe>,
}

impl Search {
    /// What to try next; `None` once it is over.
    fn next(&self) -> Option<Option<u64>> {
        let Some(ceiling) = self.ceiling() else { return Some(None) };
        let tried = self.open().count();
        let (sustained, failed): (Vec<&Probe>, Vec<&Probe>) =
            self.open().partition(|probe| probe.sustained);
        let low = sustained.iter().filter_map(|probe| probe.asked_per_s).max();
        let bound = |probe: &&Probe| {
            probe.asked_per_s.map_or(f64::MAX, |asked| probe.achieved_per_s.min(asked as f64))
        };
        let high = failed.iter().map(bound).fold(f64::MAX, f64::min);
        let rate = match low {
            _ if ceiling < self.least_per_s.max(1) || tried == PROBES_MAX => return None,
            None if tried == 0 => ceiling as f64,
            None => high * STEP_DOWN.powi(i32::try_from(failed.len()).unwrap_or(i32::MAX)),
            Some(low) if failed.is_empty() || high <= low as f64 * CLOSE => return None,
            Some(low) => (low as f64 * high).sqrt(),
        };
        let rate = significant(rate);
        if rate < self.least_per_s.max(1) {
            return None;
        }
        // Too low to tell anything new.
        (!self.open().any(|probe| probe.asked_per_s == Some(rate))).then_some(Some(rate))
    }

    fn ceiling(&self) -> Option<u64> {
        let probe = self.probes.iter().find(|probe| probe.asked_per_s.is_none())?;
        Some(significant(probe.achieved_per_s))
    }

    fn open(&self) -> impl Iterator<Item = &Probe> {
        self.probes.iter().filter(|probe| probe.asked_per_s.is_some())
    }

    fn found(self) -> Saturation {
        let sustained = self.open().filter(|probe| probe.sustained);
        let rate_per_s = sustained.filter_map(|probe| probe.asked_per_s).max();
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
    let mut search = Search { least_per_s: least_per_s(duration), ..Search::default() };
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

/// The rate at which one record is all a probe of length `duration` may be behind.
fn least_per_s(duration: Duration) -> u64 {
    let records = 1.0 / BEHIND_SHARE_MAX;
    (records / duration.as_secs_f64().max(f64::MIN_POSITIVE)).ceil() as u64
}

fn is_sustained(asked_per_s: Option<u64>, duration: Duration, outcome: &CellOutcome) -> bool {
    let counts = &outcome.counts;
    let left = counts.records_unsent + counts.records_unanswered + counts.records_failed;
    let achieved_per_s = outcome.achieved_records_per_s;
    left == 0 && asked_per_s.is_some_and(|asked| keeps_up(asked, achieved_per_s, duration))
}

fn keeps_up(asked_per_s: u64, achieved_per_s: f64, duration: Duration) -> bool {
    let most = BEHIND_MAX.min(duration.mul_f64(BEHIND_SHARE_MAX));
    behind(asked_per_s, achieved_per_s, duration) <= most
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
            assert!(search.probes.len() <= PROBES_MAX + 1, "{:?}", search.probes);
        }
        search.found()
    }

    #[test]
    fn the_highest_sustained_rate_is_found_to_five_percent() {
        for limit in [70_u64, 100, 333, 640, 999] {
            let found = searched(1_000.0, limit);
            let rate = found.rate_per_s.expect("some rate is sustained");
            assert!(rate <= limit && rate * 105 >= limit * 100 - 500, "{rate} of {limit}");
            assert!(found.probes.len() <= 5, "{:?}", found.probes);
        }
    }

    /// Overloaded, it achieves more than it sustains: large batches are cheap.
    #[test]
    fn what_overload_achieves_is_only_where_to_look() {
        for limit in [300_u64, 450, 600, 750] {
            let mut search = Search::default();
            while let Some(asked_per_s) = search.next() {
                let sustained = asked_per_s.is_some_and(|rate| rate <= limit);
                let achieved_per_s = asked_per_s.map_or(1_000.0, |rate| rate.min(800) as f64);
                search.probes.push(Probe { asked_per_s, achieved_per_s, sustained });
            }
            let found = search.found();
            let rate = found.rate_per_s.expect("some rate is sustained");
            assert!(rate <= limit && rate * 106 >= limit * 100, "{rate} of {limit}");
        }
    }

    #[test]
    fn a_sustained_ceiling_ends_the_search() {
        let found = searched(123_456.0, 200_000);
        assert_eq!((found.rate_per_s, found.probes.len()), (Some(123_000), 2));
    }

    #[test]
    fn no_sustained_rate_is_no_saturation() {
        let mut search = Search::default();
        while let Some(asked_per_s) = search.next() {
            search.probes.push(Probe { asked_per_s, achieved_per_s: 1_000.0, sustained: false });
        }
        assert_eq!(search.found().rate_per_s, None);
        let nothing = searched(0.0, 0);
        assert_eq!((nothing.rate_per_s, nothing.probes.len()), (None, 1));
    }

    #[test]
    fn what_a_probe_cannot_tell_is_not_gone_on_with() {
        let least_per_s = least_per_s(Duration::from_secs(2));
        assert_eq!(least_per_s, 10);
        for ceiling in [5.0, 1_000.0] {
            let mut search = Search { least_per_s, ..Search::default() };
            while let Some(asked_per_s) = search.next() {
                let sustained = asked_per_s.is_some_and(|rate| rate < least_per_s);
                let achieved_per_s = asked_per_s.map_or(ceiling, |_| 1.0);
                search.probes.push(Probe { asked_per_s, achieved_per_s, sustained });
            }
            let found = search.found();
            assert_eq!(found.rate_per_s, None, "{found:?}");
        }
    }

    #[test]
    fn a_tiny_ceiling_ends_too() {
        for ceiling in 1..40 {
            let found = searched(f64::from(ceiling), 3);
            assert!(found.rate_per_s.is_none_or(|rate| rate <= 3), "{found:?}");
        }
    }

    #[test]
    fn a_short_probe_tolerates_less() {
        let ms = Duration::from_millis;
        for (probe, worst) in [(ms(300), 0.95), (ms(1_000), 0.95), (ms(2_000), 0.975)] {
            assert!(keeps_up(10_000, 10_000.0 * worst + 1.0, probe), "{probe:?}");
            assert!(!keeps_up(10_000, 10_000.0 * worst - 1.0, probe), "{probe:?}");
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

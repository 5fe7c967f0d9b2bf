//! The least that an acknowledged write can take on this host and directory, from parts measured on
//! the spot, paced like the run they are set against.
//!
//! With R a loopback round trip to another process, R(n) one to n processes at once that is over
//! when the last has answered, W a write into the page cache and D(q) a durable write while q
//! writers work at once (spec/io.md section 5, lower bounds over medians):
//!
//! | | page-cache, page-cache-flush | direct, and the syncing modes |
//! |---|---|---|
//! | acks=1 | R + W | R + D(brokers) |
//! | acks=all | R + R(followers) + 2W | R + max(D(brokers), R(followers) + D(brokers)) |
//!
//! The high watermark waits for every member of the ISR, so the leader's round trip is one to all
//! followers at once. Every append is written by all brokers, on their one device, at about the
//! same time, whatever the producer waits for: hence D(brokers) for acks=1 too. In the last cell
//! the leader's D and the followers' overlap, since followers are served from memory at append time.
//! D is measured with blocking calls on a zero-filled file: for this class of machine that is never
//! slower than an asynchronous route (spec/io.md section 2). A tight loop would give a smaller D
//! than a paced run can reach, because a busy CPU and device need no waking.

mod parts;
mod peer;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::types::{Acks, DurabilityMode};

use super::samples::Samples;
use super::scratch::{Scratch, ScratchError};
use super::text;

/// How floors are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloorSettings {
    /// Acts a second in each part; the run's rate. At least 1.
    pub rate_per_second: u32,
    /// Payload of one act; the run's record or batch size.
    pub record_bytes: usize,
    /// Writers at once for acks=all: the brokers that share the directory's device.
    pub broker_count: usize,
    /// How long each part is measured; about one second gives a steady median at 500/s.
    pub part_duration: Duration,
}

/// Measured parts of the floor.
#[derive(Clone, Debug, PartialEq)]
pub struct Floors {
    /// How they were measured.
    pub settings: FloorSettings,
    /// R: request of one record and a small answer over loopback TCP between two processes.
    pub round_trip: Samples,
    /// R(followers): the same to all followers at once, until the last answer; empty without any.
    pub followers_round_trip: Samples,
    /// W: pwrite(2) of one record into a growing file.
    pub page_cache_write: Samples,
    /// D, one entry for each mode asked for that has one.
    pub durable: Vec<DurableFloor>,
    /// How late a sleeping thread of this host wakes. No part of any floor: it tells how much of a
    /// latency from the intended send time is the driver's own timer.
    pub timer_overshoot: Samples,
}

/// D of one mode.
#[derive(Clone, Debug, PartialEq)]
pub struct DurableFloor {
    /// The mode.
    pub mode: DurabilityMode,
    /// Length of one write: the record rounded up to whole blocks.
    pub write_bytes: usize,
    /// D(1).
    pub alone: Samples,
    /// D(brokers).
    pub together: Samples,
}

/// The parts that one bound needs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloorParts {
    /// R.
    pub round_trip_ns: u64,
    /// R(followers).
    pub followers_round_trip_ns: u64,
    /// W.
    pub page_cache_write_ns: u64,
    /// D(brokers); unused by the page-cache modes.
    pub durable_together_ns: u64,
}

/// A floor could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum FloorError {
    /// No folder for the files.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// It was asked to stop.
    #[error("stopped while measuring the floor")]
    Stopped,
    /// The rate is zero.
    #[error("floor rate = 0: must be at least 1 a second")]
    RateZero,
    /// Reading, writing or the loopback connection failed.
    #[error("measuring the floor part `{part}` in {} failed", directory.display())]
    Io {
        /// Which part.
        part: String,
        /// Where.
        directory: std::path::PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl Floors {
    /// Measures R, W, the timer, and D of each of `modes`, in a folder inside `directory` that is
    /// removed afterwards. Takes about (4 + 2 x modes with a D) times the part duration, less
    /// if `stop` is set. Direct
    /// modes must have been checked with [`super::direct_io()`].
    pub fn measure(
        directory: &Path,
        settings: FloorSettings,
        modes: &[DurabilityMode],
        stop: &AtomicBool,
    ) -> Result<Floors, FloorError> {
        if settings.rate_per_second == 0 {
            return Err(FloorError::RateZero);
        }
        let scratch = Scratch::create(directory)?;
        let failed = |part: &str| {
            let part = part.to_owned();
            move |source| FloorError::Io { part, directory: directory.to_owned(), source }
        };
        let go_on = || match stop.load(Ordering::Relaxed) {
            true => Err(FloorError::Stopped),
            false => Ok(()),
        };
        go_on()?;
        let round_trip = parts::round_trip(&settings, 1).map_err(failed("round trip"))?;
        let followers = settings.broker_count.saturating_sub(1);
        go_on()?;
        let followers_round_trip =
            parts::round_trip(&settings, followers).map_err(failed("round trip to followers"))?;
        go_on()?;
        let page_cache_write =
            parts::page_cache_write(&settings, scratch.path()).map_err(failed("page-cache"))?;
        let mut durable = Vec::new();
        for mode in modes.iter().copied().filter(|mode| has_durable_part(*mode)) {
            go_on()?;
            let floor = parts::durable(&settings, scratch.path(), mode);
            durable.push(floor.map_err(failed(mode.name()))?);
        }
        let timer_overshoot = parts::timer_overshoot(&settings);
        Ok(Floors {
            settings,
            round_trip,
            followers_round_trip,
            page_cache_write,
            durable,
            timer_overshoot,
        })
    }

    /// The samples of both measurements together, such as one before and one after a run. Modes
    /// that only one of them has are kept.
    pub fn merged(self, other: Floors) -> Floors {
        let mut durable = self.durable;
        for theirs in other.durable {
            match durable.iter_mut().find(|ours| ours.mode == theirs.mode) {
                Some(ours) => {
                    ours.alone = std::mem::take(&mut ours.alone).merged(theirs.alone);
                    ours.together = std::mem::take(&mut ours.together).merged(theirs.together);
                }
                None => durable.push(theirs),
            }
        }
        Floors {
            settings: self.settings,
            round_trip: self.round_trip.merged(other.round_trip),
            followers_round_trip: self.followers_round_trip.merged(other.followers_round_trip),
            page_cache_write: self.page_cache_write.merged(other.page_cache_write),
            durable,
            timer_overshoot: self.timer_overshoot.merged(other.timer_overshoot),
        }
    }

    /// Median of R.
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.round_trip.median_ns()
    }

    /// Median of R(followers), which cannot truly be less than R; zero without followers.
    pub fn followers_round_trip_ns(&self) -> Option<u64> {
        match self.settings.broker_count {
            0 | 1 => Some(0),
            _ => Some(self.followers_round_trip.median_ns()?.max(self.round_trip_ns()?)),
        }
    }

    /// Median of W.
    pub fn page_cache_write_ns(&self) -> Option<u64> {
        self.page_cache_write.median_ns()
    }

    /// Median of D(1) or, with `together`, D(brokers); `None` if the mode was not measured.
    pub fn durable_ns(&self, mode: DurabilityMode, together: bool) -> Option<u64> {
        let floor = self.durable.iter().find(|floor| floor.mode == mode)?;
        if together { floor.together.median_ns() } else { floor.alone.median_ns() }
    }

    /// The floor of an acknowledged write in this mode, from the medians; `None` for `acks=0`, which
    /// is never acknowledged, and for modes that were not measured.
    pub fn bound_ns(&self, mode: DurabilityMode, acks: Acks) -> Option<u64> {
        let parts = FloorParts {
            round_trip_ns: self.round_trip_ns()?,
            followers_round_trip_ns: self.followers_round_trip_ns()?,
            page_cache_write_ns: self.page_cache_write_ns()?,
            durable_together_ns: match has_durable_part(mode) {
                true => self.durable_ns(mode, true)?,
                false => 0,
            },
        };
        ack_floor_ns(&parts, mode, acks)
    }

    /// All parts, and the bound of each mode measured, as a JSON object.
    pub fn to_json(&self) -> Value {
        let durable = self.durable.iter().map(DurableFloor::to_json).collect::<Vec<_>>();
        json!({
            "rate_per_second": self.settings.rate_per_second,
            "record_bytes": self.settings.record_bytes,
            "broker_count": self.settings.broker_count,
            "part_duration_ms": u64::try_from(self.settings.part_duration.as_millis()).ok(),
            "round_trip": self.round_trip.to_json(),
            "followers_round_trip": self.followers_round_trip.to_json(),
            "page_cache_write": self.page_cache_write.to_json(),
            "durable": durable,
            "timer_overshoot": self.timer_overshoot.to_json(),
            "bounds": self.bounds_json(),
        })
    }

    fn bounds_json(&self) -> Vec<Value> {
        let modes = std::iter::once(DurabilityMode::PageCache)
            .chain(self.durable.iter().map(|floor| floor.mode));
        let bound = |mode: DurabilityMode, acks: Acks| {
            json!({
                "durability": mode.name(),
                "acks": acks.to_string(),
                "formula": formula(mode, acks),
                "bound_ns": text::json(self.bound_ns(mode, acks)),
            })
        };
        modes.flat_map(|mode| [bound(mode, Acks::Leader), bound(mode, Acks::All)]).collect()
    }
}

impl DurableFloor {
    fn to_json(&self) -> Value {
        json!({
            "durability": self.mode.name(),
            "write_bytes": self.write_bytes,
            "alone": self.alone.to_json(),
            "together": self.together.to_json(),
        })
    }
}

/// Whether an acknowledgement in this mode waits for the device.
fn has_durable_part(mode: DurabilityMode) -> bool {
    !matches!(mode, DurabilityMode::PageCache | DurabilityMode::PageCacheFlush(_))
}

/// The lower bound of an acknowledgement's latency; `None` for `acks=0`.
///
/// Formulas: spec/io.md section 5, as tabled at the top of this file.
pub fn ack_floor_ns(parts: &FloorParts, mode: DurabilityMode, acks: Acks) -> Option<u64> {
    let (round_trip, write) = (parts.round_trip_ns, parts.page_cache_write_ns);
    let followers = parts.followers_round_trip_ns;
    let together = parts.durable_together_ns;
    match (acks, has_durable_part(mode)) {
        (Acks::None, _) => None,
        (Acks::Leader, false) => Some(round_trip + write),
        (Acks::Leader, true) => Some(round_trip + together),
        (Acks::All, false) => Some(round_trip + followers + 2 * write),
        (Acks::All, true) => Some(round_trip + together.max(followers + together)),
    }
}

/// The formula of [`ack_floor_ns`] in letters, for a report's legend; `none` for `acks=0`.
pub fn formula(mode: DurabilityMode, acks: Acks) -> &'static str {
    match (acks, has_durable_part(mode)) {
        (Acks::None, _) => "none",
        (Acks::Leader, false) => "R + W",
        (Acks::Leader, true) => "R + D(brokers)",
        (Acks::All, false) => "R + R(followers) + 2W",
        (Acks::All, true) => "R + max(D(brokers), R(followers) + D(brokers))",
    }
}

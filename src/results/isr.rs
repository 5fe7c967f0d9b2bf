//! What became of the ISRs and high watermarks of a cell, from the events its brokers told: the
//! intervals as distributions, stalls weighted by the records they held up, flaps, and the events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::isr::{IsrEvent, IsrInterval, IsrTotals};

use super::measured::{Measured, latency};
use super::schema::Latency;

/// Events kept per cell; the distributions hold all.
pub const EVENTS_MAX: usize = 2_000;

/// See the module. Of all repeats; all that began before the load had ended, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Isr {
    /// Intervals with samples.
    pub intervals: Vec<Interval>,
    /// Partitions whose ISR changed.
    pub partitions: Vec<Partition>,
    /// Stalls of the high watermark by reason.
    pub stalls: Vec<Stalls>,
    /// The first 2000 events, by repeat and time.
    pub events: Vec<Event>,
    /// Events beyond them.
    pub left_out_events: u64,
    /// Events that brokers could not store: then everything here is too low.
    pub lost_events: u64,
}

/// One interval's distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Its name.
    pub name: String,
    /// The symbol of the KIP-966 latency decomposition, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// From where to where.
    pub meaning: String,
    /// Its samples.
    pub latency: Latency,
}

/// Committed changes of one partition's ISR.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Partition {
    /// Which.
    pub partition: i32,
    /// Expansions.
    pub expands: u64,
    /// Shrinks that its leader proposed; those by fencing are the controller's.
    pub shrinks: u64,
    /// Proposals refused or overtaken.
    pub dropped: u64,
    /// Times a member was removed again that had joined.
    pub flaps: u64,
}

/// All stalls of one reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// `under_min_isr`, `lagging_member`, `new_leader`.
    pub reason: String,
    /// How many.
    pub count: u64,
    /// Records they held up.
    pub records: u64,
    /// Sum over those records of the seconds each was invisible during the stall.
    pub held_record_s: f64,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// In which repeat.
    pub repeat: usize,
    /// What happened.
    #[serde(flatten)]
    pub event: IsrEvent,
}

/// Of all repeats of one cell; `None` if nothing was told.
pub(super) fn isr(repeats: &[Measured]) -> Option<Isr> {
    let count: usize = repeats.iter().map(|repeat| repeat.isr_events.len()).sum();
    if count == 0 {
        return None;
    }
    let mut events = Vec::with_capacity(count.min(EVENTS_MAX));
    let mut totals = IsrTotals::default();
    for repeat in repeats {
        // A member's flaps end with its topic, which is of one repeat.
        totals.merge(IsrTotals::of(&repeat.isr_events));
        let numbered = repeat
            .isr_events
            .iter()
            .map(|event| Event { repeat: repeat.repeat, event: event.clone() });
        let room = EVENTS_MAX - events.len();
        events.extend(numbered.take(room));
    }
    let interval = |interval: IsrInterval| {
        let histogram = totals.intervals.get(&interval)?;
        Some(Interval {
            name: interval.name().to_owned(),
            symbol: (!interval.symbol().is_empty()).then(|| interval.symbol().to_owned()),
            meaning: interval.meaning().to_owned(),
            latency: latency(histogram),
        })
    };
    let partitions = totals.partitions.iter().map(|(&partition, changes)| Partition {
        partition,
        expands: changes.expands,
        shrinks: changes.shrinks,
        dropped: changes.dropped,
        flaps: changes.flaps,
    });
    let stalls = totals.stalls.iter().map(|(reason, total)| Stalls {
        reason: reason.name().to_owned(),
        count: total.count,
        records: total.records,
        held_record_s: total.held_record_ns as f64 / 1e9,
    });
    Some(Isr {
        intervals: IsrInterval::ALL.into_iter().filter_map(interval).collect(),
        partitions: partitions.collect(),
        stalls: stalls.collect(),
        left_out_events: (count - events.len()) as u64,
        lost_events: totals.lost,
        events,
    })
}

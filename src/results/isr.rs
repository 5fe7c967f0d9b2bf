//! What became of the ISRs and high watermarks of a cell, from the events its brokers told: the
//! intervals as distributions, stalls weighted by the records they held up, flaps, and the events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::around::{self, Split};
use crate::measure::isr::{IsrChange, IsrEvent, IsrEventKind, IsrInterval, IsrTotals};

use super::measured::{Measured, latency};
use super::schema::{self, Latency};

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
    /// Latencies in and outside of stalls; of cells with faults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub around_stalls: Vec<AroundStalls>,
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

/// One latency of the measured batches, by whether they met a stall of the high watermark (of any
/// partition, other than a new leader's): whether they were due before its end and got there after
/// its begin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AroundStalls {
    /// `acknowledged` or `committed`.
    pub latency: String,
    /// Of batches that met a stall.
    pub met: Latency,
    /// Of the others.
    pub outside: Latency,
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
    let mut splits = [Split::default(), Split::default()];
    for repeat in repeats {
        let stalls = around::stalls(&repeat.isr_events);
        let spans = [&repeat.spans.acknowledged, &repeat.spans.committed];
        for (split, spans) in splits.iter_mut().zip(spans) {
            split.merge(&Split::of(spans, &stalls));
        }
        let from_ns = repeat.measured_from_ns.unwrap_or(0);
        for passed_ns in fenced(from_ns, &repeat.events, &repeat.isr_events) {
            let samples = totals.intervals.entry(IsrInterval::ShrinkByFencing).or_default();
            samples.record_ns(passed_ns);
        }
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
    let split = |(name, split): (&str, &Split)| {
        let is_empty = split.met.is_empty() && split.outside.is_empty();
        (!is_empty).then(|| AroundStalls {
            latency: name.to_owned(),
            met: latency(&split.met),
            outside: latency(&split.outside),
        })
    };
    Some(Isr {
        around_stalls: ["acknowledged", "committed"]
            .into_iter()
            .zip(&splits)
            .filter_map(split)
            .collect(),
        intervals: IsrInterval::ALL.into_iter().filter_map(interval).collect(),
        partitions: partitions.collect(),
        stalls: stalls.collect(),
        left_out_events: (count - events.len()) as u64,
        lost_events: totals.lost,
        events,
    })
}

/// Faults that may part a broker from the controller.
const PARTING: [&str; 9] = [
    "kill",
    "pause",
    "stop",
    "page-cache-loss",
    "disk-full",
    "write-error",
    "sync-error",
    "cut",
    "cut-heartbeats",
];

/// How long after the begin of a fault that still lasted each leader heard of an ISR under min ISR
/// that it had not proposed: the controller had fenced a member. Of several such faults the latest.
fn fenced(measured_from_ns: u64, faults: &[schema::Event], told: &[IsrEvent]) -> Vec<u64> {
    let instant = |at_us: u64| measured_from_ns + 1_000 * at_us;
    let lasts_at = |event: &&schema::Event, at_ns: u64| {
        let has_begun = instant(event.at_us) <= at_ns;
        has_begun && event.until_us.is_none_or(|until_us| instant(until_us) >= at_ns)
    };
    let passed = |event: &IsrEvent| {
        let IsrEventKind::UnderMinIsr { since_ns, .. } = event.kind else { return None };
        if told.iter().any(|other| proposed(other, event.partition, since_ns)) {
            return None;
        }
        let parting = faults.iter().filter(|fault| PARTING.contains(&fault.kind.as_str()));
        let lasting = parting.filter(|fault| lasts_at(fault, since_ns));
        lasting.map(|fault| instant(fault.at_us)).max().map(|begun_ns| since_ns - begun_ns)
    };
    told.iter().filter_map(passed).collect()
}

/// Whether `event` is a shrink that the leader of `partition` proposed and that took effect at
/// `at_ns`: at its proposal where nobody waits for the controller.
fn proposed(event: &IsrEvent, partition: i32, at_ns: u64) -> bool {
    match event.kind {
        IsrEventKind::Change { change: IsrChange::Shrink, submitted_ns, settled_ns, .. }
            if event.partition == partition =>
        {
            (submitted_ns..=settled_ns.unwrap_or(u64::MAX)).contains(&at_ns)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;

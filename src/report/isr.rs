//! What a report says of ISRs and stalls: figures taken together from several places of a cell.

use crate::results::isr::{AroundStalls, Interval, Isr, Stalls};
use crate::results::schema::{Cell, Factors, Latency, RunResult};

/// A follower's fetch, there and back: the leader's answer crosses, is appended, and the next fetch,
/// which acknowledges it, crosses back.
const FETCH_ROUND_TRIP: [&str; 3] =
    ["follower_fetch_transfer", "follower_append", "acknowledge_transfer"];

/// Cells whose ISRs changed or stalled.
pub fn cells(result: &RunResult) -> impl Iterator<Item = (&Cell, &Isr)> {
    let has_any = |isr: &&Isr| !isr.partitions.is_empty() || stalls(isr).next().is_some();
    result.cells.iter().filter_map(move |cell| Some((cell, cell.isr.as_ref().filter(has_any)?)))
}

/// Stalls that an ISR made; a new leader's first commit is none.
pub fn stalls(isr: &Isr) -> impl Iterator<Item = &Stalls> {
    isr.stalls.iter().filter(|stalls| stalls.reason != "new_leader")
}

/// The distribution of an interval.
pub fn interval<'a>(isr: &'a Isr, name: &str) -> Option<&'a Interval> {
    isr.intervals.iter().find(|interval| interval.name == name)
}

/// The split latency of that name.
pub fn around<'a>(isr: &'a Isr, name: &str) -> Option<&'a AroundStalls> {
    isr.around_stalls.iter().find(|around| around.latency == name)
}

/// The median of an interval, where the sample supports one.
fn p50(isr: &Isr, name: &str) -> Option<u64> {
    median(&interval(isr, name)?.latency)
}

fn median(latency: &Latency) -> Option<u64> {
    latency.percentiles_ns.get("p50").copied()
}

/// Committed expansions, shrinks and flaps over all partitions.
pub fn changes(isr: &Isr) -> (u64, u64, u64) {
    isr.partitions.iter().fold((0, 0, 0), |(expands, shrinks, flaps), partition| {
        (expands + partition.expands, shrinks + partition.shrinks, flaps + partition.flaps)
    })
}

/// The stall p50 of an expansion that opens the gate, over an AlterPartition's round trip p50 plus a
/// fetch's, all of the same run; where the gate waits for the controller.
pub fn stall_ratio(result: &RunResult, cell: &Cell) -> Option<f64> {
    let isr = cell.isr.as_ref()?;
    let waits = cell.factors.hwm_gate == "kip966" && cell.factors.isr_wait == "controller";
    let stall_ns = p50(isr, "expand_stall").filter(|_| waits)?;
    let least_ns = p50(isr, "alter_commit")? + fetch_round_trip_p50(result, cell)?;
    Some(stall_ns as f64 / least_ns.max(1) as f64)
}

/// From the stages of the cell, or of its twin whose acknowledgements wait for followers.
fn fetch_round_trip_p50(result: &RunResult, cell: &Cell) -> Option<u64> {
    let of = |cell: &Cell| {
        let stage = |name: &str| {
            let stage = cell.stages.iter().find(|stage| stage.name == name)?;
            median(&stage.latency)
        };
        FETCH_ROUND_TRIP.iter().map(|name| stage(name)).sum::<Option<u64>>()
    };
    let under_all = |factors: &Factors| Factors { acks: "all".to_owned(), ..factors.clone() };
    let is_twin = |other: &&Cell| other.factors == under_all(&cell.factors);
    of(cell).or_else(|| of(result.cells.iter().find(is_twin)?))
}

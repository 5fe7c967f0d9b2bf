//! What faults cost a cell, in words: how long no leader answered, and what was lost.

use crate::results::schema::{Cell, Check};

use super::numbers;

/// The parts of the time to the first acknowledgement, in order.
const PARTS: [&str; 5] = ["detection", "election", "propagation", "client", "answer"];

/// What the losses of its leader cost, each interval with its p50, or the median sample where the
/// p50 needs more of them.
pub fn failover(cell: &Cell) -> Option<String> {
    let losses: Vec<_> = cell.repeats.iter().flat_map(|repeat| &repeat.failovers).collect();
    if losses.is_empty() {
        return None;
    }
    let successors = ["isr", "elr", "unclean"].into_iter().filter_map(|from| {
        let is_from = |successor: &Option<String>| successor.as_deref() == Some(from);
        let count = losses.iter().filter(|loss| is_from(&loss.successor)).count();
        (count > 0).then(|| format!("{count} {from}"))
    });
    let leaderless = losses.iter().filter(|loss| loss.successor.is_none()).count();
    let none = (leaderless > 0).then(|| format!("{leaderless} none"));
    let successors: Vec<String> = successors.chain(none).collect();
    let median = |name: &str| {
        let mut took: Vec<u64> =
            losses.iter().filter_map(|loss| loss.took_ns.get(name).copied()).collect();
        took.sort_unstable();
        took.get(took.len() / 2).copied()
    };
    let shown = |name: &str, label: &str| {
        let interval = cell.failover.iter().find(|interval| interval.name == name)?;
        let p50_ns = interval.latency.percentiles_ns.get("p50").copied().or(median(name))?;
        let max = interval.latency.max_ns.map_or(String::new(), numbers::latency);
        Some(format!("{label} {} (max {max})", numbers::latency(p50_ns)))
    };
    let totals = [
        ("leader_elected", "next leader"),
        ("acknowledged", "first ack"),
        ("high_watermark_moved", "high watermark moved"),
    ];
    let totals: Vec<String> =
        totals.iter().filter_map(|(name, label)| shown(name, label)).collect();
    let parts: Vec<String> = PARTS.iter().filter_map(|name| shown(name, name)).collect();
    let mut text = format!("{} lost, successors: {}", losses.len(), successors.join(", "));
    for group in [totals, parts].into_iter().filter(|group| !group.is_empty()) {
        text.push_str("; ");
        text.push_str(&group.join(", "));
    }
    Some(text)
}

/// What the checker counted, all repeats together.
pub fn kept(cell: &Cell) -> Option<String> {
    let checks: Vec<&Check> =
        cell.repeats.iter().filter_map(|repeat| repeat.check.as_ref()).collect();
    let promised = &checks.first()?.promised;
    let sum = |of: fn(&Check) -> u64| checks.iter().map(|check| of(check)).sum::<u64>();
    let lossy = checks.iter().filter(|check| check.lost > 0).count();
    let promise = match promised.iter().any(|what| what == "acknowledged") {
        true => "promised to be kept",
        false => "not promised to be kept",
    };
    let text = format!(
        "{} acknowledged ({promise}), {} lost in {lossy} of {} repeats, {} elsewhere, {} duplicated, \
         {} seen and gone, {} partitions diverge",
        sum(|check| check.acknowledged),
        sum(|check| check.lost),
        checks.len(),
        sum(|check| check.moved),
        sum(|check| check.duplicated + check.duplicated_by_retries),
        sum(|check| check.visible_lost),
        sum(|check| check.divergent_partitions),
    );
    Some(text)
}

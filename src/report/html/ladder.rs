//! What each durability mode adds over the one below it: modes ordered by what they promise.

use crate::results::schema::{Cell, Repeat};

use super::chart::percent;
use super::figure::{Figure, difference};
use super::groups::Slice;

/// A mode's rung. Modes that promise the same share one: they differ in how the promise is kept.
const RUNGS: [(&str, u8); 6] = [
    ("page-cache", 0),
    ("page-cache-flush", 1),
    ("direct", 2),
    ("fsync", SYNCED),
    ("direct-fsync", SYNCED),
    ("direct-dsync", SYNCED),
];

/// The rung whose modes have been through a device flush before they acknowledge.
const SYNCED: u8 = 3;

/// Rung by rung.
pub struct LadderView {
    /// Lowest promise first.
    pub rows: Vec<LadderRow>,
}

/// One mode.
pub struct LadderRow {
    /// Durability mode.
    pub mode: String,
    /// Of its line.
    pub class: String,
    /// What it promises.
    pub promise: String,
    /// Where the figures stand.
    pub at: String,
    /// p50.
    pub p50: Figure,
    /// p50 over that of the rung below; empty on the lowest. `≈` in front if single repeats of the
    /// two modes overlap: then the difference may be noise.
    pub adds_p50: String,
    /// p99.
    pub p99: Figure,
    /// As `adds_p50`.
    pub adds_p99: String,
    /// The mode it is set against; empty on the lowest rung.
    pub over: String,
    /// CSS width of the part it shares with the rung below.
    pub base_width: String,
    /// CSS width of what it adds.
    pub added_width: String,
}

/// The rung of a mode; a mode of a later release has none.
pub fn rung(durability: &str) -> Option<u8> {
    RUNGS.iter().find(|(name, _)| *name == durability).map(|(_, rung)| *rung)
}

/// Whether an acknowledgement under this mode has been through a device flush.
pub fn is_synced(durability: &str) -> bool {
    rung(durability) == Some(SYNCED)
}

/// The ladder of a slice; `None` if it has fewer than two modes with a median, or they ran at
/// different rates.
pub fn view(slice: &Slice<'_>) -> Option<LadderView> {
    if !slice.is_of_one_rate() {
        return None;
    }
    let mut steps: Vec<(u8, &Cell, &str)> = slice
        .entries
        .iter()
        .filter(|entry| p(entry.cell, "p50").is_some())
        .filter(|entry| slice.series(entry).name == entry.cell.factors.durability)
        .filter_map(|entry| {
            let rung = rung(&entry.cell.factors.durability)?;
            Some((rung, entry.cell, slice.series(entry).class.as_str()))
        })
        .collect();
    if steps.len() < 2 {
        return None;
    }
    steps.sort_by_key(|(rung, cell, _)| (*rung, cell.index));
    let longest = steps.iter().filter_map(|(_, cell, _)| p(cell, "p50")).max().unwrap_or(1);
    let below = |rung: u8| {
        let lower = steps.iter().filter(|(other, _, _)| *other < rung);
        let next = lower.clone().map(|(other, _, _)| *other).max()?;
        let there = lower.filter(|(other, _, _)| *other == next).map(|(_, cell, _)| *cell);
        there.min_by_key(|cell| p(cell, "p50"))
    };
    let rows = steps.iter().map(|(rung, cell, class)| row(cell, class, below(*rung), longest));
    Some(LadderView { rows: rows.collect() })
}

fn row(cell: &Cell, class: &str, below: Option<&Cell>, longest_ns: u64) -> LadderRow {
    let figure = |name: &str| Figure::percentile(&cell.latency.acknowledged, name, "");
    let adds = |name: &str| {
        let sides = p(cell, name).zip(below.and_then(|below| p(below, name)));
        let noise = below.is_some_and(|below| overlap(range(cell, name), range(below, name)));
        let mark = if noise { "≈\u{a0}" } else { "" };
        sides.map_or(String::new(), |(own, base)| format!("{mark}{}", difference(own, base)))
    };
    let own_ns = p(cell, "p50").unwrap_or(0);
    let base_ns = below.and_then(|below| p(below, "p50")).unwrap_or(0).min(own_ns);
    let width = |value_ns: u64| percent(value_ns as f64 / longest_ns.max(1) as f64);
    LadderRow {
        mode: cell.factors.durability.clone(),
        class: class.to_owned(),
        promise: cell.guarantee.clone(),
        at: format!("/cells/{}/latency/acknowledged", cell.index),
        p50: figure("p50"),
        adds_p50: adds("p50"),
        p99: figure("p99"),
        adds_p99: adds("p99"),
        over: below.map_or(String::new(), |below| below.factors.durability.clone()),
        base_width: width(base_ns),
        added_width: width(own_ns - base_ns),
    }
}

/// The acknowledgement latency at a percentile.
pub fn p(cell: &Cell, name: &str) -> Option<u64> {
    cell.latency.acknowledged.percentiles_ns.get(name).copied()
}

/// A percentile in the single repeats, least and largest; `None` with fewer than two.
fn range(cell: &Cell, name: &str) -> Option<(u64, u64)> {
    let of = |repeat: &Repeat| repeat.acknowledged.percentiles_ns.get(name).copied();
    let values: Vec<u64> = cell.repeats.iter().filter_map(of).collect();
    let range = values.iter().min().copied().zip(values.iter().max().copied());
    range.filter(|_| values.len() > 1)
}

fn overlap(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> bool {
    one.zip(other).is_some_and(|((a, b), (c, d))| a <= d && c <= b)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::types::{DurabilityMode, Flush};

    use super::*;

    #[test]
    fn every_mode_has_a_rung_and_the_top_one_is_synced() {
        let flush = Flush { messages: 1, interval: Duration::from_secs(1) };
        for mode in [
            DurabilityMode::PageCache,
            DurabilityMode::PageCacheFlush(flush),
            DurabilityMode::Fsync,
            DurabilityMode::Direct,
            DurabilityMode::DirectFsync,
            DurabilityMode::DirectDsync,
        ] {
            assert!(rung(mode.name()).is_some(), "{mode}");
            assert_eq!(is_synced(mode.name()), mode.is_synced(), "{mode}");
        }
        assert_eq!(rung("of-a-later-release"), None);
    }

    #[test]
    fn ranges_that_touch_overlap() {
        assert!(overlap(Some((1, 3)), Some((3, 5))));
        assert!(!overlap(Some((1, 2)), Some((3, 5))));
        assert!(!overlap(None, Some((3, 5))), "one repeat says nothing about noise");
    }
}

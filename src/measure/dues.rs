//! When the records of one batch should have been sent.
//!
//! Hot path: one allocation per batch whose records fell due at different times, none otherwise;
//! clones share it.

use std::sync::Arc;

use crate::types::MonotonicTime;

/// The intended send times of a batch's records, oldest first; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dues(Times);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Times {
    Together { at: MonotonicTime, records: u32 },
    Apart(Arc<[MonotonicTime]>),
}

impl Dues {
    /// So many records, all due at `at`.
    pub fn together(at: MonotonicTime, records: u32) -> Dues {
        Dues(Times::Together { at, records })
    }

    /// One record for each of `times`, which ascend; `None` without any.
    pub fn of(times: &[MonotonicTime]) -> Option<Dues> {
        let (first, last) = (times.first()?, times.last()?);
        if first == last {
            return Some(Dues::together(*first, u32::try_from(times.len()).unwrap_or(u32::MAX)));
        }
        Some(Dues(Times::Apart(times.into())))
    }

    /// When the oldest was due.
    pub fn oldest(&self) -> MonotonicTime {
        match &self.0 {
            Times::Together { at, .. } => *at,
            Times::Apart(times) => times[0],
        }
    }

    /// How many records.
    pub fn records(&self) -> u32 {
        match &self.0 {
            Times::Together { records, .. } => *records,
            Times::Apart(times) => times.len() as u32,
        }
    }

    /// Instants and how many records were due at each, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (MonotonicTime, u64)> + Clone {
        let (together, apart): (_, &[MonotonicTime]) = match &self.0 {
            Times::Together { at, records } => (Some((*at, u64::from(*records))), &[]),
            Times::Apart(times) => (None, times),
        };
        together.into_iter().chain(apart.iter().map(|at| (*at, 1)))
    }

    /// The records due in `from..until`; `None` if there are none.
    pub fn within(&self, from: MonotonicTime, until: MonotonicTime) -> Option<Dues> {
        match &self.0 {
            Times::Together { at, .. } => (from <= *at && *at < until).then(|| self.clone()),
            Times::Apart(times) => {
                let first = times.partition_point(|at| *at < from);
                let end = times.partition_point(|at| *at < until);
                if (first, end) == (0, times.len()) {
                    return Some(self.clone());
                }
                Dues::of(times.get(first..end)?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ns: &[u64]) -> Vec<MonotonicTime> {
        ns.iter().map(|ns| MonotonicTime(*ns)).collect()
    }

    #[test]
    fn a_part_has_the_records_due_in_it() {
        let dues = Dues::of(&at(&[1, 3, 3, 7])).unwrap();
        assert_eq!(dues.records(), 4);
        let part = |from, until| dues.within(MonotonicTime(from), MonotonicTime(until));
        assert_eq!(part(0, 8), Some(dues.clone()));
        assert_eq!(part(3, 7), Some(Dues::together(MonotonicTime(3), 2)));
        assert_eq!(part(3, 8), Dues::of(&at(&[3, 3, 7])));
        assert_eq!(part(4, 7), None);
        assert_eq!(part(8, 9), None);
        let together = Dues::together(MonotonicTime(5), 9);
        assert_eq!(together.within(MonotonicTime(5), MonotonicTime(6)), Some(together.clone()));
        assert_eq!(together.within(MonotonicTime(4), MonotonicTime(5)), None);
        assert_eq!(Dues::of(&[]), None);
    }
}

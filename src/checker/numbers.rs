//! Sets of record numbers, kept as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers.
///
/// Invariant: ranges are not empty, and neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// From a range's start to its end.
    ranges: BTreeMap<u64, u64>,
}

impl Numbers {
    /// Adds all of `range`.
    pub fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((&from, &to)) = self.ranges.range(..=end).next_back()
            && to >= start
        {
            self.ranges.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.ranges.insert(start, end);
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// The parts of `range` that are in the set, in order.
    pub fn within(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let before = self.ranges.range(..range.start).next_back();
        let ranges = before.into_iter().chain(self.ranges.range(range.start..range.end));
        let cut = ranges.map(|(&start, &end)| start.max(range.start)..end.min(range.end));
        cut.filter(|part| !part.is_empty()).collect()
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn missing(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut from = range.start;
        for part in self.within(range.clone()) {
            gaps.push(from..part.start);
            from = part.end;
        }
        gaps.push(from..range.end);
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }
}

/// Numbers in `ranges`.
pub fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

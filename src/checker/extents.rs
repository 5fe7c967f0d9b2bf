//! Records at offsets, as runs: consecutive numbers at consecutive offsets.

use std::ops::Range;

use crate::types::Offset;

/// Records with consecutive numbers at consecutive offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Of the first.
    pub offset: Offset,
    /// Of the first.
    pub number: u64,
    /// How many; at least 1.
    pub records: u64,
}

impl Extent {
    /// The numbers.
    pub fn numbers(&self) -> Range<u64> {
        self.number..self.number + self.records
    }

    /// Where record `number` is, if it is one of these.
    pub fn offset_of(&self, number: u64) -> Offset {
        self.offset.plus(number as i64 - self.number as i64)
    }

    /// Equal for extents that would put the same record at the same offset.
    fn slope(&self) -> i64 {
        self.offset.0.wrapping_sub(self.number as i64)
    }
}

/// Extents in the order they were added; one that continues the last is merged with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    extents: Vec<Extent>,
}

impl Extents {
    /// Adds `records` from `number` on, at `offset` on.
    pub fn push(&mut self, offset: Offset, number: u64, records: u64) {
        if records == 0 {
            return;
        }
        if let Some(last) = self.extents.last_mut()
            && last.number + last.records == number
            && last.offset.plus(last.records as i64) == offset
        {
            last.records += records;
            return;
        }
        self.extents.push(Extent { offset, number, records });
    }

    /// In the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// How many there are: the size of the books.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Records, those added twice counted twice.
    pub fn records(&self) -> u64 {
        self.extents.iter().map(|extent| extent.records).sum()
    }

    /// For looking records up by number.
    pub fn index(&self) -> Index {
        let mut extents = self.extents.clone();
        extents.sort_by_key(|extent| extent.number);
        let longest = extents.iter().map(|extent| extent.records).max().unwrap_or(0);
        Index { extents, longest }
    }
}

/// Extents by number.
#[derive(Clone, Debug)]
pub struct Index {
    extents: Vec<Extent>,
    longest: u64,
}

impl Index {
    /// The numbers of `extent` that are at the very offsets it says.
    pub fn at_the_same_offsets(&self, extent: &Extent) -> super::numbers::Numbers {
        let wanted = extent.numbers();
        let first = wanted.start.saturating_sub(self.longest);
        let from = self.extents.partition_point(|one| one.number < first);
        let mut same = super::numbers::Numbers::default();
        for one in self.extents[from..].iter().take_while(|one| one.number < wanted.end) {
            if one.slope() == extent.slope() {
                let own = one.numbers();
                same.insert(own.start.max(wanted.start)..own.end.min(wanted.end));
            }
        }
        same
    }
}

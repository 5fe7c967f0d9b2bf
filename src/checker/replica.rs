//! What one replica of one partition holds.

use crate::types::Offset;

use super::extents::Extents;

/// A replica's log, as it was read. Records are added in the order of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Records of this cell and partition.
    pub found: Extents,
    /// Records whose bytes are not those that were sent, or in a batch with a wrong CRC.
    pub damaged: Tally,
    /// Records nobody sent.
    pub phantom: Tally,
    /// Where the log ends.
    pub end: Offset,
}

/// How many, and the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub records: u64,
    /// Where the first of them is, or should be.
    pub first: Option<Offset>,
}

impl Tally {
    /// `records` more, from `offset` on.
    pub fn add(&mut self, records: u64, offset: Offset) {
        if records > 0 {
            self.records += records;
            self.first = Some(self.first.map_or(offset, |first| first.min(offset)));
        }
    }
}

/// What a record turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// One of this cell and partition, byte for byte.
    Record {
        /// Its number within the partition.
        number: u64,
    },
    /// Another cell's or partition's, or of no cell.
    Foreign,
    /// Not as it was sent.
    Damaged,
}

impl Default for Replica {
    fn default() -> Replica {
        Replica {
            found: Extents::default(),
            damaged: Tally::default(),
            phantom: Tally::default(),
            end: Offset::ZERO,
        }
    }
}

impl Replica {
    /// A record was read at `offset`; records below `sent_end` were sent.
    pub fn found(&mut self, offset: Offset, found: Found, sent_end: u64) {
        self.end = offset.plus(1);
        match found {
            Found::Record { number } if number < sent_end => self.found.push(offset, number, 1),
            Found::Record { .. } | Found::Foreign => self.phantom.add(1, offset),
            Found::Damaged => self.damaged.add(1, offset),
        }
    }
}

//! Is every acknowledged record there, once, byte for byte?
//!
//! Owns the books: what was acknowledged and what was found. Does not read (see `read_back`).

use crate::driver::outcome::Acknowledged;
use crate::driver::payload::{Payload, PayloadError};
use crate::types::{Offset, PartitionId};

/// Records per partition beyond which a sequence is not believed: the books would take 4 GiB.
const RECORDS_PER_PARTITION_MAX: u64 = 1 << 32;

/// Set in a record's byte once it was found at the offset that was acknowledged.
const AT_ITS_OFFSET: u8 = 0x80;
/// The rest of the byte: how often it was found.
const TIMES_MAX: u8 = 0x7f;

/// What reading back found. Counts are of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Read, of whatever kind.
    pub read: u64,
    /// Acknowledged by the cluster.
    pub acknowledged: u64,
    /// Acknowledged and not there: lost.
    pub missing: u64,
    /// There more than once although sent once.
    pub duplicate: u64,
    /// There more than once, and sent more than once because an answer was lost: what a producer
    /// that is not idempotent must expect.
    pub duplicate_after_resend: u64,
    /// There, but not as sent, or in a batch whose CRC is wrong.
    pub corrupt: u64,
    /// Acknowledged and there, but not at the acknowledged offset.
    pub elsewhere: u64,
    /// There and never acknowledged: sent, and its answer lost or refused after the append.
    pub unacknowledged: u64,
    /// Not of this cell.
    pub foreign: u64,
}

impl Verification {
    /// Whether every acknowledged record is there, once, byte for byte, where it was said to be.
    pub fn is_sound(&self) -> bool {
        self.missing == 0 && self.duplicate == 0 && self.corrupt == 0 && self.elsewhere == 0
    }
}

/// Acknowledged records with consecutive numbers in their partition, at consecutive offsets.
#[derive(Clone, Copy, Debug)]
struct Range {
    first: u64,
    records: u64,
    base_offset: Offset,
    resent: bool,
}

#[derive(Debug, Default)]
struct Partition {
    /// By `first`; they do not overlap.
    acknowledged: Vec<Range>,
    /// By the record's number in its partition.
    found: Vec<u8>,
}

/// The books of one cell.
#[derive(Debug)]
pub struct Ledger {
    payload: Payload,
    seed: u64,
    partitions: Vec<Partition>,
    so_far: Verification,
}

impl Ledger {
    /// Books over what was acknowledged; nothing was found yet.
    pub fn new(
        payload: Payload,
        seed: u64,
        partitions: u32,
        acknowledged: &[Acknowledged],
    ) -> Ledger {
        let mut books: Vec<Partition> = (0..partitions).map(|_| Partition::default()).collect();
        let mut so_far = Verification::default();
        for batch in acknowledged {
            let Some(partition) = books.get_mut(batch.partition.0 as usize) else { continue };
            so_far.acknowledged += u64::from(batch.records);
            partition.acknowledged.push(Range {
                first: batch.first_sequence / u64::from(partitions),
                records: u64::from(batch.records),
                base_offset: batch.base_offset,
                resent: batch.resent,
            });
        }
        for partition in &mut books {
            partition.acknowledged.sort_unstable_by_key(|range| range.first);
        }
        Ledger { payload, seed, partitions: books, so_far }
    }

    /// End of what was acknowledged in a partition: it must be readable up to here.
    pub fn acknowledged_end(&self, partition: PartitionId) -> Offset {
        let ranges = self.partitions.get(partition.0 as usize).map(|books| &books.acknowledged);
        let ends = ranges.into_iter().flatten();
        let ends = ends.map(|range| range.base_offset.plus(range.records as i64));
        ends.max().unwrap_or(Offset::ZERO)
    }

    /// A record was found.
    pub fn found(&mut self, partition: PartitionId, offset: Offset, value: Option<&[u8]>) {
        self.so_far.read += 1;
        let header = match value.ok_or(PayloadError::Header).map(|value| self.payload.check(value))
        {
            Ok(Ok(header)) => header,
            Ok(Err(_)) | Err(_) => {
                self.so_far.corrupt += 1;
                return;
            }
        };
        if header.seed != self.seed {
            self.so_far.foreign += 1;
            return;
        }
        let count = self.partitions.len() as u64;
        let (number, home) = (header.sequence / count, header.sequence % count);
        if number >= RECORDS_PER_PARTITION_MAX || home != u64::from(partition.0.unsigned_abs()) {
            self.so_far.foreign += 1;
            return;
        }
        self.partitions[home as usize].found(number, offset);
    }

    /// So many records were in a batch that cannot be read.
    pub fn found_corrupt(&mut self, records: u64) {
        self.so_far.read += records;
        self.so_far.corrupt += records;
    }

    /// Adds everything up.
    pub fn close(mut self) -> Verification {
        for partition in &self.partitions {
            partition.add_up(&mut self.so_far);
        }
        self.so_far
    }
}

impl Partition {
    fn found(&mut self, number: u64, offset: Offset) {
        let index = number as usize;
        if index >= self.found.len() {
            self.found.resize(index + 1, 0);
        }
        let is_at_its_offset = self
            .range_of(number)
            .is_some_and(|range| range.base_offset.plus((number - range.first) as i64) == offset);
        let found = &mut self.found[index];
        if *found & TIMES_MAX < TIMES_MAX {
            *found += 1;
        }
        if is_at_its_offset {
            *found |= AT_ITS_OFFSET;
        }
    }

    fn range_of(&self, number: u64) -> Option<&Range> {
        let after = self.acknowledged.partition_point(|range| range.first <= number);
        let range = self.acknowledged.get(after.checked_sub(1)?)?;
        (number < range.first + range.records).then_some(range)
    }

    fn add_up(&self, sum: &mut Verification) {
        let missing_behind = self.acknowledged.iter().map(|range| {
            let end = range.first + range.records;
            end.saturating_sub(range.first.max(self.found.len() as u64))
        });
        sum.missing += missing_behind.sum::<u64>();
        for (number, found) in (0_u64..).zip(&self.found) {
            let times = u64::from(found & TIMES_MAX);
            let range = self.range_of(number);
            if times > 1 && range.is_some_and(|range| range.resent) {
                sum.duplicate_after_resend += times - 1;
            } else if times > 1 {
                sum.duplicate += times - 1;
            }
            match range {
                Some(_) if times == 0 => sum.missing += 1,
                Some(_) if found & AT_ITS_OFFSET == 0 => sum.elsewhere += 1,
                Some(_) => {}
                None => sum.unacknowledged += u64::from(times > 0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::MonotonicTime;

    const SEED: u64 = 5;

    fn payload() -> Payload {
        Payload::new(SEED, 64, 0.0)
    }

    /// Two partitions; records 0, 2, 4 of partition 0 acknowledged at offset 10.
    fn ledger(resent: bool) -> Ledger {
        let batch = Acknowledged {
            partition: PartitionId(0),
            first_sequence: 0,
            records: 3,
            base_offset: Offset(10),
            resent,
        };
        Ledger::new(payload(), SEED, 2, &[batch])
    }

    fn value(sequence: u64) -> Vec<u8> {
        let mut value = vec![0; 64];
        payload().write(sequence, MonotonicTime(1), &mut value);
        value
    }

    fn find(ledger: &mut Ledger, sequence: u64, offset: i64) {
        ledger.found(PartitionId(0), Offset(offset), Some(&value(sequence)));
    }

    fn find_all(ledger: &mut Ledger) {
        for number in 0..3 {
            find(ledger, 2 * number, 10 + number as i64);
        }
    }

    #[test]
    fn all_there_once_is_sound() {
        let mut ledger = ledger(false);
        assert_eq!(ledger.acknowledged_end(PartitionId(0)), Offset(13));
        assert_eq!(ledger.acknowledged_end(PartitionId(1)), Offset(0));
        find_all(&mut ledger);
        let verification = ledger.close();
        assert!(verification.is_sound());
        let expected = Verification { read: 3, acknowledged: 3, ..Verification::default() };
        assert_eq!(verification, expected);
    }

    #[test]
    fn what_is_lost_is_missing_at_the_end_and_in_the_middle() {
        assert_eq!(ledger(false).close().missing, 3);
        let mut middle = ledger(false);
        find(&mut middle, 4, 12);
        let verification = middle.close();
        assert_eq!(verification.missing, 2);
        assert!(!verification.is_sound());
    }

    #[test]
    fn a_duplicate_is_the_brokers_fault_unless_it_was_sent_twice() {
        let mut once = ledger(false);
        find_all(&mut once);
        find(&mut once, 2, 13);
        let verification = once.close();
        assert_eq!((verification.duplicate, verification.duplicate_after_resend), (1, 0));
        assert!(!verification.is_sound());
        let mut twice = ledger(true);
        find(&mut twice, 2, 9);
        find_all(&mut twice);
        let verification = twice.close();
        assert_eq!((verification.duplicate, verification.duplicate_after_resend), (0, 1));
        assert!(verification.is_sound());
    }

    #[test]
    fn a_changed_byte_is_corrupt_and_the_record_missing() {
        let mut ledger = ledger(false);
        let mut changed = value(0);
        changed[63] ^= 1;
        ledger.found(PartitionId(0), Offset(10), Some(&changed));
        ledger.found(PartitionId(0), Offset(11), None);
        ledger.found_corrupt(4);
        let verification = ledger.close();
        assert_eq!((verification.corrupt, verification.missing), (6, 3));
        assert_eq!(verification.read, 6);
    }

    #[test]
    fn another_offset_than_acknowledged_is_not_sound() {
        let mut ledger = ledger(false);
        find(&mut ledger, 0, 11);
        find(&mut ledger, 2, 12);
        find(&mut ledger, 4, 13);
        let verification = ledger.close();
        assert_eq!((verification.elsewhere, verification.missing), (3, 0));
        assert!(!verification.is_sound());
    }

    #[test]
    fn strangers_and_the_unacknowledged_are_told_apart() {
        let mut ledger = ledger(false);
        find_all(&mut ledger);
        find(&mut ledger, 6, 13);
        find(&mut ledger, 7, 14);
        let mut stranger = vec![0; 64];
        Payload::new(SEED + 1, 64, 0.0).write(0, MonotonicTime(1), &mut stranger);
        ledger.found(PartitionId(0), Offset(15), Some(&stranger));
        let verification = ledger.close();
        assert_eq!(verification.unacknowledged, 1);
        assert_eq!(verification.foreign, 2, "another seed, and another partition's record");
        assert!(verification.is_sound());
    }
}

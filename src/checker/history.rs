//! What was seen of a run from outside: what producers sent and were told, what consumers saw.

use crate::types::{Offset, PartitionId};

use super::extents::Extents;
use super::numbers::Numbers;

/// What was seen of one cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// By partition.
    pub partitions: Vec<PartitionHistory>,
}

/// What was seen of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionHistory {
    /// Every record below was sent at least once, none above.
    pub sent_end: u64,
    /// Sent more than once: a lost answer may have put them into the log twice.
    pub resent: Numbers,
    /// Acknowledged, at the offsets told.
    pub acknowledged: Extents,
    /// Received by the consumer, in the order of its fetches.
    pub seen: Extents,
    /// As the consumer's fetches told it.
    pub high_watermark: HighWatermarks,
}

/// The high watermarks a consumer was told, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HighWatermarks {
    last: Option<(u64, Offset)>,
    highest: Option<Offset>,
    /// Steps back told over one connection, that is by one life of one broker.
    pub steps_back: u64,
    /// The first of them: from, to.
    pub first_step_back: Option<(Offset, Offset)>,
    /// Connections that began below what another had told: a new leader that has not caught up with
    /// what the old one knew.
    pub lower_at_next_leader: u64,
}

impl HighWatermarks {
    /// The connection `source` told `high_watermark`.
    pub fn told(&mut self, source: u64, high_watermark: Offset) {
        match self.last {
            Some((before, from)) if before == source => {
                if high_watermark < from {
                    self.steps_back += 1;
                    self.first_step_back.get_or_insert((from, high_watermark));
                }
            }
            _ => {
                let is_lower = self.highest.is_some_and(|highest| high_watermark < highest);
                self.lower_at_next_leader += u64::from(is_lower);
            }
        }
        self.last = Some((source, high_watermark));
        self.highest = self.highest.max(Some(high_watermark));
    }
}

impl History {
    /// Of a cell with so many partitions; nothing was seen yet.
    pub fn new(partitions: u32) -> History {
        History { partitions: vec![PartitionHistory::default(); partitions as usize] }
    }

    /// The number within its partition of the record with this sequence within the cell.
    pub fn number(&self, sequence: u64) -> u64 {
        sequence / (self.partitions.len() as u64).max(1)
    }

    /// A batch was handed to a socket; `again` if not for the first time.
    pub fn sent(&mut self, partition: PartitionId, first_sequence: u64, records: u32, again: bool) {
        let number = self.number(first_sequence);
        let Some(history) = self.of(partition) else { return };
        let numbers = number..number + u64::from(records);
        history.sent_end = history.sent_end.max(numbers.end);
        if again {
            history.resent.insert(numbers);
        }
    }

    /// A batch was acknowledged at `offset`.
    pub fn acknowledged(
        &mut self,
        partition: PartitionId,
        first_sequence: u64,
        records: u32,
        offset: Offset,
    ) {
        let number = self.number(first_sequence);
        let Some(history) = self.of(partition) else { return };
        history.acknowledged.push(offset, number, u64::from(records));
    }

    /// A batch was received by the consumer.
    pub fn seen(
        &mut self,
        partition: PartitionId,
        first_sequence: u64,
        records: u32,
        offset: Offset,
    ) {
        let number = self.number(first_sequence);
        let Some(history) = self.of(partition) else { return };
        history.seen.push(offset, number, u64::from(records));
    }

    /// The books of one partition.
    pub fn of(&mut self, partition: PartitionId) -> Option<&mut PartitionHistory> {
        self.partitions.get_mut(usize::try_from(partition.0).ok()?)
    }
}

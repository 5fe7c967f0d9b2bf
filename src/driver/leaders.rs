//! When the driver saw the topic's first partition change hands: the one whose leader faults hit.
//!
//! Owns which sightings are kept; what they mean together is [`crate::measure::failover`]'s.

use crate::measure::failover::{Mark, Marks};
use crate::types::{BrokerId, MonotonicTime, Offset};

/// Keeps [`Marks`].
#[derive(Clone, Debug, Default)]
pub struct LeaderWatch {
    marks: Marks,
    known: Option<BrokerId>,
    answering: Option<u64>,
    /// The connection that last moved the high watermark, and how far it is.
    advancing: Option<u64>,
    high_watermark: Option<Offset>,
}

impl LeaderWatch {
    /// A metadata answer named the leader.
    pub fn learned(&mut self, leader: Option<BrokerId>, at: MonotonicTime) {
        if let Some(leader) = leader.filter(|leader| self.known != Some(*leader)) {
            self.known = Some(leader);
            self.marks.learned.push(Mark { at, leader });
        }
    }

    /// An acknowledgement came over `connection`.
    pub fn answered(&mut self, connection: u64, leader: BrokerId, at: MonotonicTime) {
        if self.answering != Some(connection) {
            self.answering = Some(connection);
            self.marks.answered.push(Mark { at, leader });
        }
    }

    /// A fetch answer over `connection`, sent to the leader known then, told the high watermark.
    pub fn told(&mut self, connection: u64, leader: BrokerId, told: Offset, at: MonotonicTime) {
        if told <= self.high_watermark.unwrap_or(Offset::ZERO) {
            return;
        }
        self.high_watermark = Some(told);
        if self.advancing != Some(connection) {
            self.advancing = Some(connection);
            self.marks.advanced.push(Mark { at, leader });
        }
    }

    /// What was seen.
    pub fn into_marks(self) -> Marks {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: BrokerId = BrokerId(1);
    const B: BrokerId = BrokerId(2);

    fn at(ms: u64) -> MonotonicTime {
        MonotonicTime(ms)
    }

    #[test]
    fn only_changes_are_kept() {
        let mut watch = LeaderWatch::default();
        for (leader, ms) in [(Some(A), 1), (None, 2), (Some(A), 3), (Some(B), 4)] {
            watch.learned(leader, at(ms));
        }
        for (connection, leader, ms) in [(7, A, 5), (7, A, 6), (9, B, 7), (9, B, 8)] {
            watch.answered(connection, leader, at(ms));
        }
        let told = [(7, A, 10, 9), (9, B, 10, 10), (9, B, 8, 11), (9, B, 11, 12), (9, B, 12, 13)];
        for (connection, leader, offset, ms) in told {
            watch.told(connection, leader, Offset(offset), at(ms));
        }
        let marks = watch.into_marks();
        let plain = |marks: &[Mark]| -> Vec<(u64, i32)> {
            marks.iter().map(|mark| (mark.at.0, mark.leader.0)).collect()
        };
        assert_eq!(plain(&marks.learned), [(1, 1), (4, 2)]);
        assert_eq!(plain(&marks.answered), [(5, 1), (7, 2)]);
        assert_eq!(plain(&marks.advanced), [(9, 1), (12, 2)], "an old value moves nothing");
    }
}

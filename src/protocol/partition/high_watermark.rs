//! Decides whether a leader's high watermark may advance, and if not, why. The gate, the maximal
//! ISR and the waiting for a replica about to join are all here, and only here. Does not know how
//! offsets were learned and never looks at the clock.
//!
//! Source: spec/kip966.md 1.4. The leader's own term is its durable offset, which is stricter than
//! Kafka's log end offset: a record counts on the leader once the leader's durability mode holds it.
//!
//! Hot path: one pass over the followers, no allocation.

use crate::types::{BrokerId, HwmGate, Offset};

/// What the decision needs from the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// `hwm.gate`.
    pub gate: HwmGate,
    /// Size of the ISR the gate looks at: the one that counts as committed, or the maximal one.
    pub isr_count: usize,
    /// Effective min ISR.
    pub min_isr: usize,
    /// Where the high watermark is.
    pub high_watermark: Offset,
    /// The leader's own durable offset.
    pub durable_offset: Offset,
}

/// What the decision needs from one follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerEnd {
    /// Its id.
    pub id: BrokerId,
    /// Its log end offset as of its last fetch; `None` before the first.
    pub log_end_offset: Option<Offset>,
    /// Member of the maximal ISR.
    pub in_maximal_isr: bool,
    /// Outside it, but caught up and eligible: waited for so that it can join.
    pub about_to_join: bool,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HighWatermark {
    /// It moves here; always forward.
    Advance(Offset),
    /// It stays.
    Hold(Hold),
}

/// Why the high watermark stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hold {
    /// The ISR the gate looks at is under min ISR.
    UnderMinIsr {
        /// Its members.
        isr_count: usize,
        /// Effective min ISR.
        min_isr: usize,
    },
    /// This ISR member has not fetched since the leader took over.
    UnknownEnd(BrokerId),
    /// Somebody waited for (this replica, or the leader itself if `None`) is no further.
    WaitingFor(Option<BrokerId>),
}

/// May the high watermark advance?
pub fn decide(question: &Question, followers: impl Iterator<Item = FollowerEnd>) -> HighWatermark {
    let &Question { gate, isr_count, min_isr, .. } = question;
    if gate != HwmGate::Legacy && isr_count < min_isr {
        return HighWatermark::Hold(Hold::UnderMinIsr { isr_count, min_isr });
    }
    let mut lowest = (question.durable_offset, None);
    for follower in followers.filter(|f| f.in_maximal_isr || f.about_to_join) {
        let Some(end) = follower.log_end_offset else {
            return HighWatermark::Hold(Hold::UnknownEnd(follower.id));
        };
        if end < lowest.0 {
            lowest = (end, Some(follower.id));
        }
    }
    let (candidate, slowest) = lowest;
    if candidate > question.high_watermark {
        HighWatermark::Advance(candidate)
    } else {
        HighWatermark::Hold(Hold::WaitingFor(slowest))
    }
}

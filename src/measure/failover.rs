//! What follows the loss of a partition's leader: the instants, and the named intervals between
//! them.
//!
//! Owns what E1 to E3 (spec/kip966.md 5.2) mean here and what they are made of. Pure: who saw what
//! when is told by the harness, the driver and the metadata log.

use std::time::Duration;

use crate::types::{BrokerId, MonotonicTime};

/// Where the next leader stood when the last one was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// In the ISR.
    Isr,
    /// An eligible leader replica.
    Elr,
    /// Neither: records may be lost.
    Unclean,
}

impl Successor {
    /// As results say it.
    pub fn name(self) -> &'static str {
        match self {
            Successor::Isr => "isr",
            Successor::Elr => "elr",
            Successor::Unclean => "unclean",
        }
    }
}

/// A record of the metadata log about a partition's leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When the controller wrote it down, to the millisecond below.
    pub decided: MonotonicTime,
    /// When it was committed and an observer had read it.
    pub seen: MonotonicTime,
    /// What it says.
    pub what: Ruling,
}

/// What a [`Decision`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// A broker is fenced.
    Fenced(BrokerId),
    /// The partition has no leader.
    NoLeader,
    /// The partition has this leader; when its own metadata was first seen to say so.
    Leader {
        /// Who.
        broker: BrokerId,
        /// Where it stood.
        from: Successor,
        /// `None` if it was not seen in time.
        known: Option<MonotonicTime>,
    },
}

/// Something a client saw of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: MonotonicTime,
    /// Of whom.
    pub leader: BrokerId,
}

/// What a client saw of the leaders of one partition, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// A metadata answer named another leader than the one before.
    pub learned: Vec<Mark>,
    /// The first acknowledgement over a connection, after those over another.
    pub answered: Vec<Mark>,
    /// The first fetch answer over a connection that told a higher high watermark than any before.
    pub advanced: Vec<Mark>,
}

/// One loss of a leader and what followed. Later instants are never before earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failover {
    /// The leader that was lost.
    pub lost: BrokerId,
    /// When the harness took it away.
    pub injected: MonotonicTime,
    /// Its successor, and where that stood; `None` if there was none before the next loss or the end.
    pub successor: Option<(BrokerId, Successor)>,
    /// The controller wrote down that the leader is fenced, or no leader any more.
    pub decided: Option<MonotonicTime>,
    /// The next leader was committed: E1.
    pub elected: Option<MonotonicTime>,
    /// The next leader knew.
    pub known: Option<MonotonicTime>,
    /// The producer knew.
    pub learned: Option<MonotonicTime>,
    /// The first acknowledgement by the next leader: E2 under `acks=1`, E3 under `acks=all`.
    pub answered: Option<MonotonicTime>,
    /// The high watermark was seen to move under the next leader: E3.
    pub advanced: Option<MonotonicTime>,
}

impl Failover {
    /// What followed the loss of `lost` at `injected`; what is not before `until` belongs to the
    /// next loss.
    pub fn trace(
        lost: BrokerId,
        injected: MonotonicTime,
        until: MonotonicTime,
        decisions: &[Decision],
        marks: &Marks,
    ) -> Failover {
        let own = || decisions.iter().filter(|one| injected <= one.seen && one.seen < until);
        let decided = own().find(|one| is_end_of(lost, one.what)).map(|one| one.decided);
        let elected = own().find_map(|one| match one.what {
            Ruling::Leader { broker, from, known } => Some((one.seen, broker, from, known)),
            Ruling::Fenced(_) | Ruling::NoLeader => None,
        });
        let mut failover = Failover {
            lost,
            injected,
            successor: elected.map(|(_, broker, from, _)| (broker, from)),
            decided,
            elected: elected.map(|(seen, ..)| seen),
            known: elected.and_then(|(.., known)| known),
            learned: None,
            answered: None,
            advanced: None,
        };
        if let Some((_, broker, ..)) = elected {
            let first = |marks: &[Mark]| {
                let is_own =
                    |mark: &&Mark| mark.leader == broker && injected <= mark.at && mark.at < until;
                marks.iter().find(is_own).map(|mark| mark.at)
            };
            failover.learned = first(&marks.learned);
            failover.answered = first(&marks.answered);
            failover.advanced = first(&marks.advanced);
        }
        failover.in_order()
    }

    /// Whoever saw a later step knew that the earlier ones were over, even if their observer was
    /// told a moment later.
    fn in_order(mut self) -> Failover {
        let mut latest = self.answered;
        for instant in [&mut self.learned, &mut self.known, &mut self.elected, &mut self.decided] {
            *instant = instant.map(|at| latest.map_or(at, |latest| at.min(latest)));
            latest = instant.or(latest);
        }
        self.decided = self.decided.map(|decided| decided.max(self.injected));
        self
    }
}

fn is_end_of(lost: BrokerId, ruling: Ruling) -> bool {
    match ruling {
        Ruling::Fenced(broker) => broker == lost,
        Ruling::NoLeader | Ruling::Leader { .. } => true,
    }
}

/// A named interval of a [`Failover`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// Leader lost → fenced, or replaced without.
    Detection,
    /// → next leader committed.
    Election,
    /// → the next leader knows.
    Propagation,
    /// → the producer knows.
    Client,
    /// → the first acknowledgement.
    Answer,
    /// Leader lost → next leader committed.
    LeaderElected,
    /// Leader lost → first acknowledgement.
    Acknowledged,
    /// Leader lost → high watermark moved.
    HighWatermarkMoved,
}

impl Interval {
    /// The parts of [`Interval::Acknowledged`], in order, then the sums.
    pub const ALL: [Interval; 8] = [
        Interval::Detection,
        Interval::Election,
        Interval::Propagation,
        Interval::Client,
        Interval::Answer,
        Interval::LeaderElected,
        Interval::Acknowledged,
        Interval::HighWatermarkMoved,
    ];

    /// As results name it.
    pub fn name(self) -> &'static str {
        match self {
            Interval::Detection => "detection",
            Interval::Election => "election",
            Interval::Propagation => "propagation",
            Interval::Client => "client",
            Interval::Answer => "answer",
            Interval::LeaderElected => "leader_elected",
            Interval::Acknowledged => "acknowledged",
            Interval::HighWatermarkMoved => "high_watermark_moved",
        }
    }

    /// In words.
    pub fn meaning(self) -> &'static str {
        match self {
            Interval::Detection => {
                "the leader was lost → the controller wrote down that it is fenced or replaced (to \
                 the millisecond)"
            }
            Interval::Election => "→ the next leader was committed and an observer had read it",
            Interval::Propagation => "→ the next leader's own metadata named it",
            Interval::Client => "→ the producer's metadata named it",
            Interval::Answer => "→ the producer read its first acknowledgement",
            Interval::LeaderElected => "E1: the leader was lost → the next one was committed",
            Interval::Acknowledged => {
                "the leader was lost → the first acknowledgement by the next: E2 under acks=1, E3 \
                 under acks=all"
            }
            Interval::HighWatermarkMoved => {
                "E3: the leader was lost → a consumer saw the high watermark move under the next"
            }
        }
    }

    /// How long it took; `None` if one of its ends was not seen.
    pub fn of(self, failover: &Failover) -> Option<Duration> {
        let f = failover;
        let lost = Some(f.injected);
        let (from, to) = match self {
            Interval::Detection => (lost, f.decided),
            Interval::Election => (f.decided, f.elected),
            Interval::Propagation => (f.elected, f.known),
            Interval::Client => (f.known, f.learned),
            Interval::Answer => (f.learned, f.answered),
            Interval::LeaderElected => (lost, f.elected),
            Interval::Acknowledged => (lost, f.answered),
            Interval::HighWatermarkMoved => (lost, f.advanced),
        };
        Some(to?.since(from?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: BrokerId = BrokerId(1);
    const NEXT: BrokerId = BrokerId(2);

    fn at(ms: u64) -> MonotonicTime {
        MonotonicTime(ms * 1_000_000)
    }

    fn decision(decided_ms: u64, seen_ms: u64, what: Ruling) -> Decision {
        Decision { decided: at(decided_ms), seen: at(seen_ms), what }
    }

    fn leader(broker: BrokerId, from: Successor, known_ms: u64) -> Ruling {
        Ruling::Leader { broker, from, known: Some(at(known_ms)) }
    }

    fn mark(ms: u64, leader: BrokerId) -> Mark {
        Mark { at: at(ms), leader }
    }

    fn ms(failover: &Failover, interval: Interval) -> Option<u128> {
        interval.of(failover).map(|took| took.as_millis())
    }

    #[test]
    fn the_parts_add_up_to_the_first_acknowledgement() {
        let decisions = [
            decision(50, 51, leader(OLD, Successor::Isr, 51)),
            decision(1_100, 1_103, Ruling::Fenced(OLD)),
            decision(1_100, 1_103, leader(NEXT, Successor::Isr, 1_105)),
        ];
        let marks = Marks {
            learned: vec![mark(60, OLD), mark(1_110, NEXT)],
            answered: vec![mark(61, OLD), mark(1_112, NEXT)],
            advanced: vec![mark(62, OLD), mark(1_115, NEXT)],
        };
        let failover = Failover::trace(OLD, at(100), at(5_000), &decisions, &marks);
        assert_eq!(failover.successor, Some((NEXT, Successor::Isr)));
        let took = Interval::ALL.map(|interval| ms(&failover, interval));
        let expected = [1_000, 3, 2, 5, 2, 1_003, 1_012, 1_015];
        assert_eq!(took, expected.map(Some));
    }

    #[test]
    fn what_comes_after_the_next_loss_is_not_this_one_s() {
        let decisions = [decision(1_000, 1_001, Ruling::Fenced(OLD))];
        let marks = Marks { learned: vec![mark(3_000, NEXT)], ..Marks::default() };
        let failover = Failover::trace(OLD, at(100), at(2_000), &decisions, &marks);
        assert_eq!(failover.successor, None);
        assert_eq!(ms(&failover, Interval::Detection), Some(900));
        assert_eq!(ms(&failover, Interval::LeaderElected), None);
        assert_eq!(ms(&failover, Interval::Acknowledged), None);
    }

    #[test]
    fn an_observer_that_was_late_takes_no_time_from_nobody() {
        let decisions = [
            decision(1_000, 1_020, Ruling::Fenced(OLD)),
            decision(1_000, 1_020, leader(NEXT, Successor::Elr, 1_030)),
        ];
        let marks = Marks {
            learned: vec![mark(1_010, NEXT)],
            answered: vec![mark(1_012, NEXT)],
            advanced: Vec::new(),
        };
        let failover = Failover::trace(OLD, at(0), at(9_000), &decisions, &marks);
        let parts = Interval::ALL.map(|interval| ms(&failover, interval));
        assert_eq!(parts[..7], [1_000, 10, 0, 0, 2, 1_010, 1_012].map(Some));
        assert_eq!(parts[7], None);
    }

    #[test]
    fn another_broker_s_fencing_ends_nothing() {
        let decisions = [
            decision(500, 501, Ruling::Fenced(BrokerId(3))),
            decision(1_000, 1_001, Ruling::NoLeader),
            decision(4_000, 4_001, leader(OLD, Successor::Unclean, 4_002)),
        ];
        let failover = Failover::trace(OLD, at(0), at(9_000), &decisions, &Marks::default());
        assert_eq!(ms(&failover, Interval::Detection), Some(1_000));
        assert_eq!(ms(&failover, Interval::LeaderElected), Some(4_001));
        assert_eq!(failover.successor, Some((OLD, Successor::Unclean)));
    }
}

//! What happened to a partition's ISR and high watermark, as the broker that led it saw it: events
//! with their instants on the one clock, and the intervals, stalls and flaps they add up to.
//!
//! Owns the names of the intervals (spec/kip966.md 5.2) and the events' form, one JSON object a
//! line. Does not know how the instants were learned, nor of faults: what begins with a fault (a
//! leader's death, a follower's stop) is put together from these instants and the fault's own.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::histogram::LatencyHistogram;

/// One event of one partition. Instants are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IsrEvent {
    /// The topic's name.
    pub topic: String,
    /// Which partition of it.
    pub partition: i32,
    /// The broker that led it and tells this.
    pub broker: i32,
    /// The leader epoch.
    pub leader_epoch: i32,
    /// Events of this shard lost just before this one, because they came faster than they could be
    /// stored.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_before: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: IsrEventKind,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum IsrEventKind {
    /// The broker leads, and its high watermark moved for the first time; or it never did.
    Led {
        /// It learned that it leads.
        known_ns: u64,
        /// First append in this leader epoch.
        first_append_ns: Option<u64>,
        /// First move of the high watermark in it.
        first_commit_ns: Option<u64>,
    },
    /// A change of the ISR that this leader proposed.
    Change {
        /// Which way.
        change: IsrChange,
        /// Who joined or left.
        members: Vec<i32>,
        /// Members before.
        isr_before: usize,
        /// Members after.
        isr_after: usize,
        /// Effective min ISR then.
        min_isr: usize,
        /// The fetch with which the joining follower first met the join rule; of a shrink, when
        /// the one that is behind the longest was last caught up. Absent if it never was.
        detected_ns: Option<u64>,
        /// Handed to the broker's queue of AlterPartition requests.
        submitted_ns: u64,
        /// The AlterPartition request that was answered had left; absent if none was.
        sent_ns: Option<u64>,
        /// The leader acted on the answer, or on the metadata record that came before it.
        settled_ns: Option<u64>,
        /// How it ended.
        outcome: IsrOutcome,
        /// First move of the high watermark after the proposal.
        high_watermark_moved_ns: Option<u64>,
    },
    /// The high watermark stood still with records waiting, for a reason that has to do with the
    /// ISR. Ordinary waits for a sync or a fetch are no stalls.
    Stall {
        /// Why.
        reason: StallReason,
        /// First record waiting since the high watermark had moved last.
        since_ns: u64,
        /// It moved.
        until_ns: u64,
        /// Records it then passed.
        records: u64,
        /// Sum over records of the time each was invisible during the stall.
        held_record_ns: u64,
    },
    /// The committed ISR was under min ISR.
    UnderMinIsr {
        /// The leader learned of the commit that dropped it below.
        since_ns: u64,
        /// The leader learned of the commit that restored it; absent if its leadership ended.
        until_ns: Option<u64>,
    },
}

/// Which way the ISR changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsrChange {
    /// A follower joins.
    Expand,
    /// Members leave.
    Shrink,
}

/// How a proposed change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsrOutcome {
    /// As proposed.
    Committed,
    /// Refused, or overtaken by another change.
    Dropped,
    /// The leadership ended first.
    Open,
}

/// Why the high watermark stood still.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StallReason {
    /// The gate was closed.
    UnderMinIsr,
    /// A member of the ISR did not acknowledge, and was proposed to leave.
    LaggingMember,
    /// A new leader waited for its followers.
    NewLeader,
}

impl StallReason {
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            StallReason::UnderMinIsr => "under_min_isr",
            StallReason::LaggingMember => "lagging_member",
            StallReason::NewLeader => "new_leader",
        }
    }
}

macro_rules! intervals {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $symbol:literal, $meaning:literal;)*) => {
        /// A named interval between two instants of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum IsrInterval {
            $($(#[$doc])* $variant,)*
        }

        impl IsrInterval {
            /// All of them.
            pub const ALL: [IsrInterval; [$($name,)*].len()] = [$(IsrInterval::$variant,)*];

            /// The name in results and reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(IsrInterval::$variant => $name,)*
                }
            }

            /// The symbol of spec/kip966.md 5.2; empty where it has none.
            pub fn symbol(self) -> &'static str {
                match self {
                    $(IsrInterval::$variant => $symbol,)*
                }
            }

            /// From where to where, in words.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(IsrInterval::$variant => $meaning,)*
                }
            }
        }
    };
}

intervals! {
    /// detected → submitted, of committed expansions.
    ExpandDetect = "expand_detect", "xD",
        "fetch that first met the join rule to the proposal";
    /// submitted → sent, of committed changes.
    AlterQueue = "alter_queue", "xQ",
        "proposal to AlterPartition sent: behind another one of this broker";
    /// sent → settled, of committed changes.
    AlterCommit = "alter_commit", "xC",
        "AlterPartition sent to its answer acted on";
    /// detected → settled, of committed expansions.
    ExpandWait = "expand_wait", "X",
        "fetch that first met the join rule to the expansion committed";
    /// detected → high watermark moved, of committed expansions that reached min ISR.
    ExpandStall = "expand_stall", "",
        "fetch that first met the join rule to the high watermark's move, where the expansion \
         reached min ISR";
    /// detected → submitted, of committed shrinks.
    ShrinkDetect = "shrink_detect", "sD",
        "a member last caught up to the proposal to remove it";
    /// A fault that parts a broker from the controller → the leader hears of the smaller ISR.
    ShrinkByFencing = "shrink_by_fencing", "sF",
        "a broker parted from the controller by a fault to the leader's hearing of an ISR under min \
         ISR that it did not propose";
    /// since → until, of stalls behind a lagging member.
    LaggingStall = "lagging_member_stall", "S",
        "high watermark held by an ISR member that does not acknowledge, until the shrink";
    /// since → until, of the time under min ISR.
    UnderMinIsr = "under_min_isr", "U",
        "commit that dropped the ISR below min ISR to the commit that restored it";
    /// since → until, of stalls behind the closed gate.
    GateStall = "gate_stall", "",
        "high watermark held by the gate with records waiting";
    /// known → first append.
    FirstAppend = "leader_first_append", "",
        "leadership known to the leader to its first append: the broker's part of E2";
    /// known → first move of the high watermark.
    FirstCommit = "leader_first_commit", "",
        "leadership known to the leader to the high watermark's first move: the broker's part of E3";
}

impl IsrEvent {
    /// Its earliest instant but for the detection that led to a change.
    pub fn began_ns(&self) -> u64 {
        match self.kind {
            IsrEventKind::Led { known_ns, .. } => known_ns,
            IsrEventKind::Change { submitted_ns, .. } => submitted_ns,
            IsrEventKind::Stall { since_ns, .. } | IsrEventKind::UnderMinIsr { since_ns, .. } => {
                since_ns
            }
        }
    }

    /// Its latest instant but for the move of the high watermark that follows a change.
    pub fn ended_ns(&self) -> u64 {
        let instants = match self.kind {
            IsrEventKind::Led { known_ns, first_append_ns, first_commit_ns } => {
                [Some(known_ns), first_append_ns, first_commit_ns]
            }
            IsrEventKind::Change { submitted_ns, settled_ns, .. } => {
                [Some(submitted_ns), settled_ns, None]
            }
            IsrEventKind::Stall { until_ns, .. } => [Some(until_ns), None, None],
            IsrEventKind::UnderMinIsr { since_ns, until_ns } => [Some(since_ns), until_ns, None],
        };
        instants.into_iter().flatten().max().unwrap_or(0)
    }

    /// The intervals this event tells, in nanoseconds.
    pub fn intervals(&self) -> Vec<(IsrInterval, u64)> {
        let mut found = Vec::new();
        let mut tell = |interval, from: Option<u64>, to: Option<u64>| {
            let passed = from.zip(to).and_then(|(from, to)| to.checked_sub(from));
            found.extend(passed.map(|passed| (interval, passed)));
        };
        match &self.kind {
            IsrEventKind::Led { known_ns, first_append_ns, first_commit_ns } => {
                tell(IsrInterval::FirstAppend, Some(*known_ns), *first_append_ns);
                tell(IsrInterval::FirstCommit, Some(*known_ns), *first_commit_ns);
            }
            IsrEventKind::Change {
                change,
                isr_before,
                isr_after,
                min_isr,
                detected_ns,
                submitted_ns,
                sent_ns,
                settled_ns,
                outcome: IsrOutcome::Committed,
                high_watermark_moved_ns,
                ..
            } => {
                let submitted_ns = Some(*submitted_ns);
                tell(IsrInterval::AlterQueue, submitted_ns, *sent_ns);
                tell(IsrInterval::AlterCommit, *sent_ns, *settled_ns);
                if *change == IsrChange::Shrink {
                    tell(IsrInterval::ShrinkDetect, *detected_ns, submitted_ns);
                    return found;
                }
                tell(IsrInterval::ExpandDetect, *detected_ns, submitted_ns);
                tell(IsrInterval::ExpandWait, *detected_ns, *settled_ns);
                if isr_before < min_isr && isr_after >= min_isr {
                    tell(IsrInterval::ExpandStall, *detected_ns, *high_watermark_moved_ns);
                }
            }
            IsrEventKind::Change { .. } => {}
            IsrEventKind::Stall { reason, since_ns, until_ns, .. } => {
                let interval = match reason {
                    StallReason::UnderMinIsr => Some(IsrInterval::GateStall),
                    StallReason::LaggingMember => Some(IsrInterval::LaggingStall),
                    StallReason::NewLeader => None,
                };
                if let Some(interval) = interval {
                    tell(interval, Some(*since_ns), Some(*until_ns));
                }
            }
            IsrEventKind::UnderMinIsr { since_ns, until_ns } => {
                tell(IsrInterval::UnderMinIsr, Some(*since_ns), *until_ns);
            }
        }
        found
    }
}

/// Committed changes of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionChanges {
    /// Expansions.
    pub expands: u64,
    /// Shrinks.
    pub shrinks: u64,
    /// Changes that were dropped.
    pub dropped: u64,
    /// Times a member left that had joined before: in and out again.
    pub flaps: u64,
}

/// All stalls of one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallTotal {
    /// How many.
    pub count: u64,
    /// Records held up in them.
    pub records: u64,
    /// Sum over those records of the time each was invisible meanwhile: the stalls weighted by the
    /// records they held up.
    pub held_record_ns: u64,
}

/// What a list of events adds up to.
#[derive(Debug, Default)]
pub struct IsrTotals {
    /// Samples by interval; those without any are missing.
    pub intervals: BTreeMap<IsrInterval, LatencyHistogram>,
    /// By partition.
    pub partitions: BTreeMap<i32, PartitionChanges>,
    /// By reason.
    pub stalls: BTreeMap<StallReason, StallTotal>,
    /// Events that were lost.
    pub lost: u64,
}

impl IsrTotals {
    /// Adds another time line's.
    pub fn merge(&mut self, other: IsrTotals) {
        for (interval, samples) in other.intervals {
            self.intervals.entry(interval).or_default().merge(&samples);
        }
        for (partition, more) in other.partitions {
            let sum = self.partitions.entry(partition).or_default();
            sum.expands += more.expands;
            sum.shrinks += more.shrinks;
            sum.dropped += more.dropped;
            sum.flaps += more.flaps;
        }
        for (reason, more) in other.stalls {
            let sum = self.stalls.entry(reason).or_default();
            sum.count += more.count;
            sum.records += more.records;
            sum.held_record_ns = sum.held_record_ns.saturating_add(more.held_record_ns);
        }
        self.lost += other.lost;
    }

    /// Adds events up, in the order of their partition's time line.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a IsrEvent>) -> IsrTotals {
        let mut totals = IsrTotals::default();
        let mut joined: Vec<(i32, i32)> = Vec::new();
        for event in events {
            totals.lost += event.lost_before;
            for (interval, passed_ns) in event.intervals() {
                totals.intervals.entry(interval).or_default().record_ns(passed_ns);
            }
            match &event.kind {
                IsrEventKind::Change { change, members, outcome, .. } => {
                    let partition = totals.partitions.entry(event.partition).or_default();
                    let keys = members.iter().map(|&member| (event.partition, member));
                    match (outcome, change) {
                        (IsrOutcome::Committed, IsrChange::Expand) => {
                            partition.expands += 1;
                            joined.extend(keys);
                        }
                        (IsrOutcome::Committed, IsrChange::Shrink) => {
                            partition.shrinks += 1;
                            for key in keys {
                                let before = joined.len();
                                joined.retain(|known| *known != key);
                                partition.flaps += u64::from(joined.len() < before);
                            }
                        }
                        (IsrOutcome::Dropped, _) => partition.dropped += 1,
                        (IsrOutcome::Open, _) => {}
                    }
                }
                IsrEventKind::Stall { reason, records, held_record_ns, .. } => {
                    let total = totals.stalls.entry(*reason).or_default();
                    total.count += 1;
                    total.records += records;
                    total.held_record_ns = total.held_record_ns.saturating_add(*held_record_ns);
                }
                IsrEventKind::Led { .. } | IsrEventKind::UnderMinIsr { .. } => {}
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests;

//! The named gaps between the instants of one acknowledged batch.
//!
//! Owns which gaps there are, what each means, and that they telescope: along one path their sum
//! is the batch's latency, to the nanosecond (spec/measurement.md M43). Does not know how the
//! instants were learned.

pub mod composition;

use crate::measure::dues::Dues;
use crate::measure::histogram::LatencyHistogram;
use crate::measure::stage::composition::Composition;
use crate::types::{Acks, BrokerStamps, ClockId, MonotonicTime};

macro_rules! stages {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $meaning:literal;)*) => {
        /// A gap between two instants on a batch's way.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Stage {
            $($(#[$doc])* $variant,)*
        }

        impl Stage {
            /// All stages, in path order.
            pub const ALL: [Stage; Stage::COUNT] = [$(Stage::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = [$($name,)*].len();

            /// The name in results and reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Stage::$variant => $name,)*
                }
            }

            /// What the time was spent on, in words a report can print beside the name.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Stage::$variant => $meaning,)*
                }
            }
        }
    };
}

stages! {
    /// intended → sent.
    ScheduleLag = "schedule_lag",
        "the record was due; the driver lingered for a batch, was late, or had a full window";
    /// sent → received.
    Send = "send", "the produce request crossed to the leader and was read there";
    /// received → append_started.
    Validate = "validate", "the leader parsed the request and checked the batch";
    /// append_started → appended.
    Append = "append", "the batch was copied into the leader's log";
    /// appended → durable, under `acks=1` and without followers. Under `acks=all` it runs beside
    /// the follower's stages, so it is not on the path: see [`Gaps::leader_sync_ns`].
    LeaderSync = "leader_sync", "the leader's durability mode was waited for";
    /// appended → follower_served.
    FetchWait = "follower_fetch_wait", "the batch waited for the follower's fetch";
    /// follower_served → follower_received.
    FetchTransfer = "follower_fetch_transfer", "the fetch answer crossed to the follower";
    /// follower_received → follower_appended.
    FollowerAppend = "follower_append", "the batch was copied into the follower's log";
    /// follower_appended → follower_durable.
    FollowerSync = "follower_sync", "the follower's durability mode was waited for";
    /// follower_durable → follower_acknowledged.
    AcknowledgeTransfer = "acknowledge_transfer",
        "the follower's next fetch, its acknowledgement, crossed to the leader";
    /// follower_served → follower_acknowledged, instead of the five above but the first, where the
    /// follower's own instants are not known (another host's clock).
    FollowerRound = "follower_round", "the follower had the batch and acknowledged it";
    /// follower_acknowledged → committed, or durable → committed without followers.
    HighWatermarkWait = "high_watermark_wait",
        "the high watermark waited for the leader's own sync or for another replica";
    /// committed (`acks=all`) or durable (`acks=1`) → answered.
    Response = "response", "the leader wrote the answer";
    /// answered → acked.
    Return = "return", "the answer crossed back and was read by the driver";
}

/// Everything known about one acknowledged batch. The driver's instants are its own readings; the
/// broker's are as it reported them.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// The clock of the driver's instants.
    pub clock: ClockId,
    /// When its oldest record should have been sent.
    pub intended: MonotonicTime,
    /// When it was handed to the socket.
    pub sent: MonotonicTime,
    /// What the leader reported.
    pub broker: BrokerStamps,
    /// When its acknowledgement was read.
    pub acked: MonotonicTime,
}

/// Why a batch has no gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGaps {
    /// Under `acks=0` nothing comes back.
    NoAnswer,
    /// The leader's instants are on another host's clock: they cannot be compared.
    OtherClock,
    /// An instant the path needs was not reported.
    Missing(Stage),
    /// The stage ended before it began; the batch is counted as an anomaly, not wrapped or clamped.
    OutOfOrder(Stage),
}

/// The gaps of one batch, in path order.
///
/// Invariant: they sum to `acked - intended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gaps {
    path: [(Stage, u64); Stage::COUNT],
    path_len: usize,
    /// appended → durable at the leader, where that ran beside the followers (`acks=all`).
    pub leader_sync_ns: Option<u64>,
}

impl Gaps {
    /// The gaps and their nanoseconds.
    pub fn path(&self) -> &[(Stage, u64)] {
        &self.path[..self.path_len]
    }

    /// The sum of the gaps: the batch's latency.
    pub fn total_ns(&self) -> u64 {
        self.path().iter().map(|(_, gap_ns)| gap_ns).sum()
    }

    /// The gaps but the first: those that all records of the batch share.
    fn after_lag(&self) -> &[(Stage, u64)] {
        &self.path[1..self.path_len]
    }

    /// The sum of what the records share.
    fn after_lag_ns(&self) -> u64 {
        self.after_lag().iter().map(|(_, gap_ns)| gap_ns).sum()
    }

    fn push(&mut self, stage: Stage, from: MonotonicTime, to: MonotonicTime) -> Result<(), NoGaps> {
        if to == MonotonicTime::ZERO {
            return Err(NoGaps::Missing(stage));
        }
        let gap_ns = to.0.checked_sub(from.0).ok_or(NoGaps::OutOfOrder(stage))?;
        self.path[self.path_len] = (stage, gap_ns);
        self.path_len += 1;
        Ok(())
    }
}

/// Splits a batch's latency into its stages.
///
/// Errors: [`NoGaps`] where the trace does not hold an unbroken path.
pub fn gaps(trace: &Trace, acks: Acks) -> Result<Gaps, NoGaps> {
    if acks == Acks::None {
        return Err(NoGaps::NoAnswer);
    }
    let broker = &trace.broker;
    if broker.clock != trace.clock {
        return Err(NoGaps::OtherClock);
    }
    let mut gaps =
        Gaps { path: [(Stage::Return, 0); Stage::COUNT], path_len: 0, leader_sync_ns: None };
    gaps.push(Stage::ScheduleLag, trace.intended, trace.sent)?;
    gaps.push(Stage::Send, trace.sent, broker.received)?;
    gaps.push(Stage::Validate, broker.received, broker.append_started)?;
    gaps.push(Stage::Append, broker.append_started, broker.appended)?;
    let released = match acks {
        Acks::All => push_commit(&mut gaps, broker)?,
        Acks::Leader | Acks::None => push_leader_sync(&mut gaps, broker)?,
    };
    gaps.push(Stage::Response, released, broker.answered)?;
    gaps.push(Stage::Return, broker.answered, trace.acked)?;
    Ok(gaps)
}

fn push_leader_sync(gaps: &mut Gaps, broker: &BrokerStamps) -> Result<MonotonicTime, NoGaps> {
    gaps.push(Stage::LeaderSync, broker.appended, broker.durable)?;
    Ok(broker.durable)
}

/// appended → committed, by way of the follower that moved the high watermark if there was one.
fn push_commit(gaps: &mut Gaps, broker: &BrokerStamps) -> Result<MonotonicTime, NoGaps> {
    let before = if broker.follower_served == MonotonicTime::ZERO {
        push_leader_sync(gaps, broker)?
    } else {
        gaps.leader_sync_ns = broker.durable.0.checked_sub(broker.appended.0);
        push_follower(gaps, broker)?
    };
    gaps.push(Stage::HighWatermarkWait, before, broker.committed)?;
    Ok(broker.committed)
}

fn push_follower(gaps: &mut Gaps, broker: &BrokerStamps) -> Result<MonotonicTime, NoGaps> {
    gaps.push(Stage::FetchWait, broker.appended, broker.follower_served)?;
    let acknowledged = broker.follower_acknowledged;
    if broker.follower_received == MonotonicTime::ZERO {
        gaps.push(Stage::FollowerRound, broker.follower_served, acknowledged)?;
        return Ok(acknowledged);
    }
    gaps.push(Stage::FetchTransfer, broker.follower_served, broker.follower_received)?;
    gaps.push(Stage::FollowerAppend, broker.follower_received, broker.follower_appended)?;
    gaps.push(Stage::FollowerSync, broker.follower_appended, broker.follower_durable)?;
    gaps.push(Stage::AcknowledgeTransfer, broker.follower_durable, acknowledged)?;
    Ok(acknowledged)
}

/// One histogram per stage, and how many batches had no gaps.
#[derive(Clone, Debug)]
pub struct StageHistograms {
    stages: Vec<LatencyHistogram>,
    /// Per record, the sum of its gaps: must agree with the acknowledgement latency of the same
    /// records, which is computed without the broker's instants.
    pub sum: LatencyHistogram,
    /// What records of about the same latency spent in each stage.
    pub composition: Composition,
    /// Batches whose instants were out of order.
    pub anomaly_count: u64,
    /// Batches without instants to compare: not reported, or on another host's clock.
    pub untraced_count: u64,
}

impl StageHistograms {
    /// Empty ones.
    pub fn new() -> StageHistograms {
        StageHistograms {
            stages: vec![LatencyHistogram::new(); Stage::COUNT],
            sum: LatencyHistogram::new(),
            composition: Composition::new(),
            anomaly_count: 0,
            untraced_count: 0,
        }
    }

    /// Counts the records of one batch that were due at `dues` and sent at `sent`: each has a
    /// [`Stage::ScheduleLag`] of its own, and shares the other stages of `gaps`.
    pub fn record(&mut self, gaps: Result<Gaps, NoGaps>, dues: &Dues, sent: MonotonicTime) {
        match gaps {
            Ok(gaps) => {
                let records = u64::from(dues.records());
                let beside = gaps.leader_sync_ns.map(|gap_ns| (Stage::LeaderSync, gap_ns));
                for (stage, gap_ns) in gaps.after_lag().iter().copied().chain(beside) {
                    let shared = std::iter::once((gap_ns, records));
                    self.stages[stage as usize].record_event_ns(shared);
                }
                let lags = dues.iter().map(|(due, n)| (sent.since(due).as_nanos() as u64, n));
                self.stages[Stage::ScheduleLag as usize].record_event_ns(lags.clone());
                let shared_ns = gaps.after_lag_ns();
                self.sum.record_event_ns(lags.clone().map(|(lag_ns, n)| (lag_ns + shared_ns, n)));
                self.composition.record(&gaps, lags);
            }
            Err(NoGaps::OutOfOrder(_)) => self.anomaly_count += 1,
            Err(NoGaps::NoAnswer | NoGaps::OtherClock | NoGaps::Missing(_)) => {
                self.untraced_count += 1;
            }
        }
    }

    /// The histogram of one stage; empty where the stage was not on any batch's path.
    pub fn get(&self, stage: Stage) -> &LatencyHistogram {
        &self.stages[stage as usize]
    }

    /// The stages that have samples, in path order.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, &LatencyHistogram)> {
        Stage::ALL
            .into_iter()
            .map(|stage| (stage, self.get(stage)))
            .filter(|(_, histogram)| !histogram.is_empty())
    }
}

impl Default for StageHistograms {
    fn default() -> StageHistograms {
        StageHistograms::new()
    }
}

#[cfg(test)]
mod tests;

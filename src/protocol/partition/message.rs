//! What goes into and comes out of a partition machine. Plain values; no rule lives here.

use std::time::Duration;

use crate::types::{
    Acks, BrokerEpoch, BrokerId, ErrorCode, FetchPipeline, HwmGate, IsrExpand, IsrWait,
    LeaderEpoch, MonotonicTime, Offset, PartitionEpoch, ProduceUnderMinIsr, ServeFollowers,
};

/// Names a client request across the machine's outputs; unique per shard, chosen by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What does not change with metadata: cluster and topic settings that steer the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `min.insync.replicas` as configured; the effective value is capped by the replica count.
    pub min_isr: usize,
    /// `hwm.gate`.
    pub hwm_gate: HwmGate,
    /// `isr.wait`.
    pub isr_wait: IsrWait,
    /// `isr.expand`.
    pub isr_expand: IsrExpand,
    /// What becomes of waiting produces once the committed ISR is under min ISR.
    pub produce_under_min_isr: ProduceUnderMinIsr,
    /// `replica.fetch.pipeline`: of this replica as a follower.
    pub fetch_pipeline: FetchPipeline,
    /// `replica.serve.followers`: of this replica as a leader.
    pub serve_followers: ServeFollowers,
    /// `replica.lag.time.max.ms`.
    pub lag_time_max: Duration,
    /// `replica.fetch.backoff.ms`: a follower's pause after a failed fetch.
    pub fetch_backoff: Duration,
}

/// A replica's peer as metadata knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    /// Its id.
    pub id: BrokerId,
    /// Registered epoch; `None` while metadata has no registration for it.
    pub epoch: Option<BrokerEpoch>,
    /// It may neither lead nor join an ISR.
    pub fenced: bool,
    /// It hands over its leaderships, and may not join an ISR.
    pub in_controlled_shutdown: bool,
}

impl Peer {
    /// Unfenced and not in controlled shutdown.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }
}

/// A partition as the metadata log describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionMetadata {
    /// All assigned replicas in assignment order (adding ones included).
    pub replicas: Vec<BrokerId>,
    /// The committed ISR.
    pub isr: Vec<BrokerId>,
    /// The leader, if any.
    pub leader: Option<BrokerId>,
    /// Fences data-plane requests.
    pub leader_epoch: LeaderEpoch,
    /// Compare-and-set token of AlterPartition.
    pub partition_epoch: PartitionEpoch,
    /// The leader was elected uncleanly and has not yet reported recovery.
    pub recovering: bool,
}

/// Who fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fetcher {
    /// A client: sees up to the high watermark.
    Consumer,
    /// A replica: sees up to the log end offset, and acknowledges by its fetch offset.
    Follower {
        /// Its id.
        id: BrokerId,
        /// Its epoch as carried by the request; `None` if the request gave -1.
        epoch: Option<BrokerEpoch>,
        /// Its log start offset.
        log_start_offset: Offset,
    },
}

/// One partition of a fetch request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fetch {
    /// Who asks.
    pub fetcher: Fetcher,
    /// First offset wanted.
    pub offset: Offset,
    /// The leader epoch the fetcher believes in, if it said.
    pub current_leader_epoch: Option<LeaderEpoch>,
    /// Epoch of the last record the fetcher holds, if it said.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// A pipelined follower's durable end: what it acknowledges, instead of its fetch offset.
    pub durable_offset: Option<Offset>,
    /// Unset by an acknowledgement that asks for nothing: it is answered at once, without records.
    pub wants_records: bool,
}

impl Fetch {
    /// Exclusive end of what the fetching follower says is durable there.
    pub fn acknowledged(&self) -> Offset {
        self.durable_offset.map_or(self.offset, |durable| durable.min(self.offset))
    }
}

/// Ask for an ISR change (AlterPartition) exactly as proposed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IsrProposal {
    /// Leader epoch under which it is made.
    pub leader_epoch: LeaderEpoch,
    /// Expected partition epoch.
    pub partition_epoch: PartitionEpoch,
    /// Proposed members, each with the broker epoch known to the leader (`None` skips the check).
    pub isr: Vec<(BrokerId, Option<BrokerEpoch>)>,
    /// `LeaderRecoveryState` of the proposal (always recovered: local recovery is instant).
    pub recovering: bool,
}

/// A positive AlterPartition answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IsrCommitted {
    /// The partition's leader after the change.
    pub leader: Option<BrokerId>,
    /// Its leader epoch.
    pub leader_epoch: LeaderEpoch,
    /// Its partition epoch.
    pub partition_epoch: PartitionEpoch,
    /// The committed ISR.
    pub isr: Vec<BrokerId>,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// The metadata log changed this partition.
    Metadata(PartitionMetadata),
    /// The metadata log changed brokers; the whole current list.
    Peers(Vec<Peer>),
    /// Topic or cluster settings changed. Does not re-evaluate the high watermark (L50).
    Settings(Settings),
    /// Both, as of one offset of the metadata log.
    MetadataAndSettings(PartitionMetadata, Settings),
    /// A producer's batch, already validated.
    Produce {
        /// The request to answer.
        request: RequestId,
        /// What the producer waits for.
        acks: Acks,
        /// Records in the batch; at least 1.
        record_count: u32,
        /// When an unanswered `acks=all` times out.
        deadline: MonotonicTime,
    },
    /// The leader's or follower's own log is durable up to here (exclusive) in its mode. Speaks of
    /// the log as it is now: never of records cut by a `Truncate` or `Restart` since.
    Durable(Offset),
    /// Someone fetches. Ends with exactly one [`Output::AnswerFetch`].
    Fetch {
        /// The request to answer.
        request: RequestId,
        /// What is asked.
        fetch: Fetch,
        /// A fetch with nothing to read is parked until then; at or before `now` never parks.
        deadline: MonotonicTime,
    },
    /// The shell answers this parked fetch now for its own reasons (another partition of the same
    /// request has data, or the connection is gone). No output for this request follows.
    ForgetFetch(RequestId),
    /// The controller committed a proposal.
    IsrCommitted {
        /// The proposal that was sent.
        proposal: IsrProposal,
        /// What the controller made of it.
        committed: IsrCommitted,
    },
    /// The controller refused a proposal for this partition.
    IsrRefused {
        /// The proposal that was sent.
        proposal: IsrProposal,
        /// Its error.
        error: ErrorCode,
    },
    /// Follower: a fetch response arrived from the leader with batches to append or none.
    FetchedFromLeader {
        /// Fetch position and leader epoch of the request this answers.
        request_offset: Offset,
        /// Leader epoch the request carried.
        request_leader_epoch: LeaderEpoch,
        /// First offset, exclusive end offset and epoch of each batch, in order.
        batches: Vec<BatchSpan>,
        /// Leader's high watermark.
        high_watermark: Offset,
        /// Leader's log start offset.
        log_start_offset: Offset,
        /// Set when the leader found the logs to diverge: (epoch, end offset).
        diverging: Option<(LeaderEpoch, Offset)>,
    },
    /// Follower: the leader answered the fetch with an error.
    FetchFailed {
        /// Leader epoch the request carried.
        request_leader_epoch: LeaderEpoch,
        /// The error.
        error: ErrorCode,
    },
    /// Follower: the leader's offsets, asked for after OFFSET_OUT_OF_RANGE. Only the answer to the
    /// latest `AskLeaderOffsets`; if that fails, give [`Input::FetchFailed`] instead.
    LeaderOffsets {
        /// Leader's log start offset.
        log_start_offset: Offset,
        /// Leader's log end offset.
        log_end_offset: Offset,
    },
    /// The deadline passed.
    Tick,
}

/// One record batch as the follower machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchSpan {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset after its last record.
    pub end_offset: Offset,
    /// Leader epoch stamped into it.
    pub leader_epoch: LeaderEpoch,
}

/// What the shell must do. Outputs are carried out in order, but none waits for another's effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Append the batch of `request` at `base_offset` under `leader_epoch`. The machine has already
    /// moved its log end offset.
    Append {
        /// Whose batch.
        request: RequestId,
        /// Where it goes.
        base_offset: Offset,
        /// What it is stamped with.
        leader_epoch: LeaderEpoch,
    },
    /// Answer a produce.
    AnswerProduce {
        /// The request.
        request: RequestId,
        /// `Ok(base offset)` or the error.
        result: Result<Offset, ErrorCode>,
    },
    /// Answer a fetch: read `[offset, until)`; an empty range means no records.
    AnswerFetch {
        /// The request.
        request: RequestId,
        /// What to say.
        answer: FetchAnswer,
    },
    /// The high watermark is now here (leader or follower).
    HighWatermark(Offset),
    /// Send AlterPartition.
    ProposeIsr(IsrProposal),
    /// Follower: append these leading batches of the response (the first `count`).
    AppendFetched {
        /// How many of the response's batches to append, from the first.
        count: usize,
    },
    /// Cut the log so that it ends at `to`.
    Truncate {
        /// New log end offset.
        to: Offset,
    },
    /// Drop the whole log and start at `at`.
    Restart {
        /// New log start and end offset.
        at: Offset,
    },
    /// Follower: fetch from the leader next, with these fields. Replaces an earlier one that has
    /// not been sent yet.
    FetchFromLeader(FollowerFetch),
    /// Follower: tell the leader what has become durable, while a fetch is in flight. Its answer
    /// says nothing. Not needed if the fetch that is in flight has not been sent yet: that one
    /// tells it, with this durable offset.
    Acknowledge(FollowerFetch),
    /// Follower: ask the leader for its log start and log end offset, then give [`Input::LeaderOffsets`].
    AskLeaderOffsets,
    /// An input had no effect, and why; for counting.
    Ignored(&'static str),
}

/// How to answer one partition of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchAnswer {
    /// `None` unless the fetch failed.
    pub error: ErrorCode,
    /// First offset to send.
    pub offset: Offset,
    /// Exclusive end of what may be sent.
    pub until: Offset,
    /// As captured when the answer was made.
    pub high_watermark: Offset,
    /// First offset kept.
    pub log_start_offset: Offset,
    /// Set when the logs diverge.
    pub diverging: Option<(LeaderEpoch, Offset)>,
}

/// The fields of a follower's next fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FollowerFetch {
    /// Leader to ask.
    pub leader: BrokerId,
    /// Leader epoch to claim.
    pub leader_epoch: LeaderEpoch,
    /// Fetch offset: this replica's log end.
    pub offset: Offset,
    /// This replica's durable end, which is what it acknowledges; `None` if that is the fetch
    /// offset.
    pub durable_offset: Option<Offset>,
    /// Epoch of the last record held, if any.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// Own log start offset.
    pub log_start_offset: Offset,
    /// Do not send before this (back-off after an error).
    pub not_before: MonotonicTime,
}

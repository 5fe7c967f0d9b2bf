//! What one cell measured: the definitions of its latencies and counts.
//!
//! A sample is a record, and its latency runs from its own intended send time; the records of one
//! batch are one independent event.

use std::time::Duration;

use crate::checker::history::History;
use crate::measure::around::Spans;
use crate::measure::dues::Dues;
use crate::measure::failover::Marks;
use crate::measure::histogram::LatencyHistogram;
use crate::measure::stage::StageHistograms;
use crate::types::{ErrorCode, MonotonicTime, Offset, PartitionId};

/// One end point's latencies, of the same records.
#[derive(Clone, Debug, Default)]
pub struct EndPoint {
    /// From the oldest record's intended send time: what reports call latency.
    pub response: LatencyHistogram,
    /// From handing the batch's first attempt to the socket. Hides the driver's own delay: beside
    /// `response` it shows how much that was.
    pub service: LatencyHistogram,
}

impl EndPoint {
    /// Counts the records of a batch that got there at `at`.
    pub(super) fn record(&mut self, dues: &Dues, sent: MonotonicTime, at: MonotonicTime) {
        self.response.record_batch(dues.iter(), at);
        self.service.record_batch(std::iter::once((sent, u64::from(dues.records()))), at);
    }
}

/// Why an attempt to produce a batch failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The broker answered with this code.
    Broker(ErrorCode),
    /// The connection went away before the answer. The batch may be in the log.
    Disconnected,
    /// No answer within the request timeout. The batch may be in the log.
    TimedOut,
    /// An answer that cannot be understood.
    Malformed,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Broker(code) => code.fmt(f),
            Failure::Disconnected => f.write_str("DISCONNECTED"),
            Failure::TimedOut => f.write_str("NO_ANSWER"),
            Failure::Malformed => f.write_str("MALFORMED_ANSWER"),
        }
    }
}

/// Failed attempts of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailureCount {
    /// Why.
    pub failure: Failure,
    /// Attempts that failed so.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
}

/// Records of the measured part, and what became of them.
///
/// Invariant at the end: `records_due = records_sent + records_unsent`, and unless `acks=0`
/// `records_sent = records_acknowledged + records_failed + records_unanswered`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Due by the schedule (open loop), or sent (else).
    pub records_due: u64,
    /// Sent at least once.
    pub records_sent: u64,
    /// Batches they were sent in.
    pub batches_sent: u64,
    /// Bytes of those batches as encoded.
    pub batch_bytes_sent: u64,
    /// Acknowledged.
    pub records_acknowledged: u64,
    /// Batches acknowledged.
    pub batches_acknowledged: u64,
    /// Bytes of the acknowledged records' values.
    pub value_bytes_acknowledged: u64,
    /// Given up after an error.
    pub records_failed: u64,
    /// Sent, and neither acknowledged nor failed when the drain ended: their latency is longer
    /// than any sample tells.
    pub records_unanswered: u64,
    /// Due and never sent when the drain ended: the load was more than the cluster took.
    pub records_unsent: u64,
    /// Batches sent again after a failure.
    pub batches_resent: u64,
    /// Received by the consumer.
    pub records_consumed: u64,
}

/// What one second of the measured part saw, by the time of the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Seconds since the measured part began; the drain continues the count.
    pub second: u64,
    /// Batches acknowledged.
    pub batches: u64,
    /// Records acknowledged.
    pub records: u64,
    /// Of the response time; `None` where the sample is too small.
    pub p50_ns: Option<u64>,
    /// Of the response time; `None` where the sample is too small.
    pub p99_ns: Option<u64>,
    /// Of the response time.
    pub max_ns: Option<u64>,
}

/// An acknowledged batch. Its records have the sequences `first_sequence`, plus the partition
/// count, plus twice that, and so on, at consecutive offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Where it is.
    pub partition: PartitionId,
    /// Its first record's sequence.
    pub first_sequence: u64,
    /// How many records.
    pub records: u32,
    /// Its first record's offset, as acknowledged.
    pub base_offset: Offset,
    /// Whether it was sent more than once, so that it may be in the log more than once.
    pub resent: bool,
}

/// What one cell measured.
#[derive(Clone, Debug)]
pub struct CellOutcome {
    /// Records per second asked for; `None` where the load mode names no rate.
    pub asked_records_per_s: Option<f64>,
    /// Records acknowledged (`acks=0`: sent) per second within the measured part's wall time.
    pub achieved_records_per_s: f64,
    /// Produce → ack: the acknowledgement was read by the driver. Empty under `acks=0`.
    pub acknowledged_latency: EndPoint,
    /// Produce → committed: the leader's high watermark passed the batch, by the leader's own
    /// reading. Empty where that is on another host's clock.
    pub committed_latency: EndPoint,
    /// Produce → consumed: the driver had read the fetch answer with the batch. Empty without a
    /// consumer.
    pub consumed_latency: EndPoint,
    /// Intended → sent, of first attempts.
    pub schedule_lag: LatencyHistogram,
    /// What the acknowledgement latency was made of.
    pub stages: StageHistograms,
    /// Failed attempts of measured batches by reason.
    pub failures: Vec<FailureCount>,
    /// Intended → failure was known, of the attempts in `failures`.
    pub failed_latency: LatencyHistogram,
    /// What became of the measured records.
    pub counts: Counts,
    /// Failed attempts of warm-up batches.
    pub warmup_failures: u64,
    /// Fetch answers with an error, whenever they came.
    pub fetch_errors: u64,
    /// By the second, for the steady-state test.
    pub intervals: Vec<Interval>,
    /// When the measured part began.
    pub measured_from: MonotonicTime,
    /// Begin of the measured part to the end of the drain.
    pub wall: Duration,
    /// Whether the run was stopped before its time.
    pub interrupted: bool,
    /// Every acknowledged batch, warm-up included, if asked for.
    pub acknowledged: Vec<Acknowledged>,
    /// What was sent, told and seen, warm-up included, if asked for.
    pub history: Option<History>,
    /// When each measured batch was due and got there, where `history` is kept.
    pub spans: Spans,
    /// When the first partition was seen to change hands; empty without a history.
    pub leaders: Marks,
}

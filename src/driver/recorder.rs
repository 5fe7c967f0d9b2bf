//! Gathers what one cell measures.
//!
//! Owns the rule which samples belong to the measured part: those whose **intended** send time lies
//! in it, whenever they end (spec/measurement.md M10). A sample is a record: a batch that straddles
//! a boundary counts with those of its records that were due in the measured part.
//!
//! Hot path: recording does not allocate, but for the lists that a verified cell keeps and the
//! batches that straddle a boundary.

use std::time::Duration;

use crate::checker::history::History;
use crate::driver::leaders::LeaderWatch;
use crate::driver::outcome::{
    Acknowledged, CellOutcome, Counts, EndPoint, Failure, FailureCount, Interval,
};
use crate::measure::around::{Span, Spans};
use crate::measure::dues::Dues;
use crate::measure::failover::Marks;
use crate::measure::histogram::{LatencyHistogram, PERCENTILES, Percentile};
use crate::measure::stage::{self, StageHistograms, Trace};
use crate::types::{Acks, BrokerStamps, ClockId, MonotonicTime, Offset, PartitionId};

/// The percentiles of an [`Interval`], named in its fields.
const P50: &Percentile = &PERCENTILES[0];
const P99: &Percentile = &PERCENTILES[3];
const INTERVAL: Duration = Duration::from_secs(1);

/// One batch on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchFacts {
    /// Where it goes.
    pub partition: PartitionId,
    /// Its first record's sequence.
    pub first_sequence: u64,
    /// Bytes of each record's value.
    pub value_bytes_each: u64,
    /// When its records should have been sent.
    pub dues: Dues,
    /// When its first attempt was sent.
    pub first_sent: MonotonicTime,
    /// When its latest attempt was sent.
    pub sent: MonotonicTime,
    /// Attempts so far.
    pub attempts: u32,
}

/// What a [`Recorder`] has to know of its cell.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The measured part's length.
    pub duration: Duration,
    /// What the producer waits for.
    pub acks: Acks,
    /// The clock of the driver's instants.
    pub clock: ClockId,
    /// Whether a consumer reports commits; otherwise the produce answers do.
    pub consume: bool,
    /// Whether acknowledged batches are listed.
    pub keep_acknowledgements: bool,
}

/// Gathers a [`CellOutcome`].
pub struct Recorder {
    measured: Measured,
    from: MonotonicTime,
    until: MonotonicTime,
    outcome: CellOutcome,
    interval: LatencyHistogram,
    interval_second: u64,
    interval_records: u64,
    interval_batches: u64,
    /// Records acknowledged (`acks=0`: sent) by wall time within the measured part.
    records_in_time: u64,
    leaders: Option<LeaderWatch>,
}

impl Recorder {
    /// An empty one, which measures nothing until [`Recorder::begin`].
    pub fn new(measured: Measured) -> Recorder {
        let outcome = CellOutcome {
            asked_records_per_s: None,
            achieved_records_per_s: 0.0,
            acknowledged_latency: EndPoint::default(),
            committed_latency: EndPoint::default(),
            consumed_latency: EndPoint::default(),
            schedule_lag: LatencyHistogram::new(),
            stages: StageHistograms::new(),
            failures: Vec::with_capacity(16),
            failed_latency: LatencyHistogram::new(),
            counts: Counts::default(),
            warmup_failures: 0,
            fetch_errors: 0,
            intervals: Vec::with_capacity(measured.duration.as_secs() as usize + 64),
            measured_from: MonotonicTime::ZERO,
            wall: Duration::ZERO,
            interrupted: false,
            acknowledged: Vec::new(),
            history: None,
            spans: Spans::default(),
            leaders: Marks::default(),
        };
        Recorder {
            measured,
            from: MonotonicTime(u64::MAX),
            until: MonotonicTime(u64::MAX),
            outcome,
            interval: LatencyHistogram::new(),
            interval_second: 0,
            interval_records: 0,
            interval_batches: 0,
            records_in_time: 0,
            leaders: None,
        }
    }

    /// Keeps the checker's books from now on, for a cell with so many partitions.
    pub fn keep_history(&mut self, partitions: u32) {
        self.outcome.history = Some(History::new(partitions));
        self.leaders = Some(LeaderWatch::default());
    }

    /// Where sightings of the leaders of `partition` go, if they are kept: with the checker's books,
    /// those of the first partition.
    pub fn leaders(&mut self, partition: PartitionId) -> Option<&mut LeaderWatch> {
        self.leaders.as_mut().filter(|_| partition == PartitionId(0))
    }

    /// The measured part begins at `from`.
    pub fn begin(&mut self, from: MonotonicTime) {
        self.from = from;
        self.until = from.plus(self.measured.duration);
        self.outcome.measured_from = from;
    }

    /// Whether a record due at `intended` is measured.
    #[inline]
    pub fn is_measured(&self, intended: MonotonicTime) -> bool {
        self.from <= intended && intended < self.until
    }

    /// Those of a batch's records that are measured.
    fn measured(&self, dues: &Dues) -> Option<Dues> {
        dues.within(self.from, self.until)
    }

    /// The counts so far.
    pub fn counts(&self) -> &Counts {
        &self.outcome.counts
    }

    /// Intended send to acknowledgement, so far.
    pub fn acknowledged_latency(&self) -> &LatencyHistogram {
        &self.outcome.acknowledged_latency.response
    }

    /// A batch was handed to the socket.
    pub fn sent(&mut self, batch: &BatchFacts, batch_bytes: usize) {
        if let Some(history) = &mut self.outcome.history {
            let is_again = batch.attempts > 1;
            let records = batch.dues.records();
            history.sent(batch.partition, batch.first_sequence, records, is_again);
        }
        if self.measured.acks == Acks::None {
            self.count_in_time(batch.sent, batch.dues.records());
        }
        let Some(dues) = self.measured(&batch.dues) else { return };
        let counts = &mut self.outcome.counts;
        if batch.attempts > 1 {
            counts.batches_resent += 1;
            return;
        }
        counts.records_sent += u64::from(dues.records());
        counts.batches_sent += 1;
        counts.batch_bytes_sent += batch_bytes as u64;
        self.outcome.schedule_lag.record_batch(dues.iter(), batch.sent);
    }

    /// A batch's acknowledgement was read at `at`. `broker` is what the answer told of its way.
    pub fn acknowledged(
        &mut self,
        batch: &BatchFacts,
        base_offset: Offset,
        broker: Option<BrokerStamps>,
        at: MonotonicTime,
    ) {
        if self.measured.keep_acknowledgements {
            self.outcome.acknowledged.push(Acknowledged {
                partition: batch.partition,
                first_sequence: batch.first_sequence,
                records: batch.dues.records(),
                base_offset,
                resent: batch.attempts > 1,
            });
        }
        if let Some(history) = &mut self.outcome.history {
            let BatchFacts { partition, first_sequence, .. } = *batch;
            history.acknowledged(partition, first_sequence, batch.dues.records(), base_offset);
        }
        self.count_in_time(at, batch.dues.records());
        let Some(dues) = self.measured(&batch.dues) else { return };
        let records = u64::from(dues.records());
        let counts = &mut self.outcome.counts;
        counts.records_acknowledged += records;
        counts.batches_acknowledged += 1;
        counts.value_bytes_acknowledged += batch.value_bytes_each * records;
        self.outcome.acknowledged_latency.record(&dues, batch.first_sent, at);
        if self.outcome.history.is_some() {
            let dues = dues.clone();
            self.outcome.spans.acknowledged.push(Span { dues, until: at });
        }
        self.count_in_interval(&dues, at);
        self.record_stages(batch, &dues, broker, at);
    }

    /// An attempt failed at `at`; `given_up` says that no other follows.
    pub fn failed(
        &mut self,
        batch: &BatchFacts,
        failure: Failure,
        at: MonotonicTime,
        given_up: bool,
    ) {
        let Some(dues) = self.measured(&batch.dues) else {
            self.outcome.warmup_failures += 1;
            return;
        };
        let records = u64::from(dues.records());
        if given_up {
            self.outcome.counts.records_failed += records;
        }
        self.outcome.failed_latency.record_batch(dues.iter(), at);
        match self.outcome.failures.iter_mut().find(|count| count.failure == failure) {
            Some(count) => {
                count.batches += 1;
                count.records += records;
            }
            None => self.outcome.failures.push(FailureCount { failure, batches: 1, records }),
        }
    }

    /// A batch the consumer was waiting for was in a fetch answer read at `at`.
    pub fn consumed(&mut self, dues: &Dues, sent: MonotonicTime, at: MonotonicTime) {
        if let Some(dues) = self.measured(dues) {
            self.outcome.counts.records_consumed += u64::from(dues.records());
            self.outcome.consumed_latency.record(&dues, sent, at);
        }
    }

    /// The consumer received a batch of `partition` that begins at `offset`.
    pub fn seen(
        &mut self,
        partition: PartitionId,
        first_sequence: u64,
        records: u32,
        offset: Offset,
    ) {
        if let Some(history) = &mut self.outcome.history {
            history.seen(partition, first_sequence, records, offset);
        }
    }

    /// A fetch answer over the connection `source` told the high watermark of `partition`.
    pub fn high_watermark(&mut self, partition: PartitionId, source: u64, told: Offset) {
        if let Some(history) = &mut self.outcome.history
            && let Some(partition) = history.of(partition)
        {
            partition.high_watermark.told(source, told);
        }
    }

    /// The high watermark passed a batch at `at`, on the driver's own clock.
    pub fn committed(&mut self, dues: &Dues, sent: MonotonicTime, at: MonotonicTime) {
        if let Some(dues) = self.measured(dues) {
            self.outcome.committed_latency.record(&dues, sent, at);
            if self.outcome.history.is_some() {
                self.outcome.spans.committed.push(Span { dues, until: at });
            }
        }
    }

    /// So many fetches were answered with an error.
    pub fn fetches_failed(&mut self, count: u64) {
        self.outcome.fetch_errors += count;
    }

    /// A batch was still without an answer when the drain ended.
    pub fn unanswered(&mut self, batch: &BatchFacts) {
        if let Some(dues) = self.measured(&batch.dues) {
            self.outcome.counts.records_unanswered += u64::from(dues.records());
        }
    }

    /// Measured records were due and never sent.
    pub fn unsent(&mut self, records: u64) {
        self.outcome.counts.records_unsent += records;
    }

    /// Closes the books at `now`.
    pub fn finish(
        mut self,
        now: MonotonicTime,
        asked_records_per_s: Option<f64>,
        interrupted: bool,
    ) -> CellOutcome {
        self.close_interval();
        let elapsed = now.since(self.from);
        let measured = elapsed.min(self.measured.duration);
        let outcome = &mut self.outcome;
        outcome.leaders = self.leaders.map(LeaderWatch::into_marks).unwrap_or_default();
        outcome.counts.records_due = outcome.counts.records_sent + outcome.counts.records_unsent;
        outcome.asked_records_per_s = asked_records_per_s;
        outcome.wall = elapsed;
        outcome.interrupted = interrupted;
        if !measured.is_zero() {
            outcome.achieved_records_per_s = self.records_in_time as f64 / measured.as_secs_f64();
        }
        self.outcome
    }

    fn count_in_time(&mut self, at: MonotonicTime, records: u32) {
        if self.is_measured(at) {
            self.records_in_time += u64::from(records);
        }
    }

    fn count_in_interval(&mut self, dues: &Dues, at: MonotonicTime) {
        let second = at.since(self.from).as_nanos() / INTERVAL.as_nanos();
        let second = u64::try_from(second).unwrap_or(u64::MAX);
        if second > self.interval_second {
            self.close_interval();
            self.interval_second = second;
        }
        self.interval.record_batch(dues.iter(), at);
        self.interval_records += u64::from(dues.records());
        self.interval_batches += 1;
    }

    fn close_interval(&mut self) {
        if self.interval.is_empty() {
            return;
        }
        self.outcome.intervals.push(Interval {
            second: self.interval_second,
            batches: self.interval_batches,
            records: self.interval_records,
            p50_ns: self.interval.percentile_ns(P50),
            p99_ns: self.interval.percentile_ns(P99),
            max_ns: self.interval.max_ns(),
        });
        self.interval.clear();
        self.interval_records = 0;
        self.interval_batches = 0;
    }

    fn record_stages(
        &mut self,
        batch: &BatchFacts,
        dues: &Dues,
        broker: Option<BrokerStamps>,
        acked: MonotonicTime,
    ) {
        let Some(broker) = broker else {
            self.outcome.stages.untraced_count += 1;
            return;
        };
        let trace = Trace {
            clock: self.measured.clock,
            intended: batch.dues.oldest(),
            sent: batch.sent,
            broker,
            acked,
        };
        self.outcome.stages.record(stage::gaps(&trace, self.measured.acks), dues, batch.sent);
        let on_our_clock = broker.clock == self.measured.clock;
        if !self.measured.consume && on_our_clock && broker.committed != MonotonicTime::ZERO {
            self.committed(dues, batch.first_sent, broker.committed);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::ErrorCode;

    const S: u64 = 1_000_000_000;

    fn recorder() -> Recorder {
        let mut recorder = Recorder::new(Measured {
            duration: Duration::from_secs(2),
            acks: Acks::All,
            clock: ClockId(1),
            consume: true,
            keep_acknowledgements: true,
        });
        recorder.begin(MonotonicTime(10 * S));
        recorder
    }

    fn batch(intended_ns: u64) -> BatchFacts {
        let intended = MonotonicTime(intended_ns);
        let sent = intended.plus(Duration::from_millis(1));
        BatchFacts {
            partition: PartitionId(0),
            first_sequence: 0,
            value_bytes_each: 100,
            dues: Dues::together(intended, 3),
            first_sent: sent,
            sent,
            attempts: 1,
        }
    }

    fn run(recorder: &mut Recorder, intended_ns: u64, latency_ns: u64) {
        let batch = batch(intended_ns);
        recorder.sent(&batch, 400);
        let acked = MonotonicTime(intended_ns + latency_ns);
        recorder.acknowledged(&batch, Offset(0), None, acked);
        recorder.consumed(&batch.dues, batch.sent, acked);
        recorder.committed(&batch.dues, batch.sent, acked);
    }

    #[test]
    fn warm_up_batches_that_straddle_the_boundary_are_no_samples() {
        let mut recorder = recorder();
        for intended_ns in [8 * S, 9 * S, 10 * S - 1] {
            run(&mut recorder, intended_ns, 2 * S);
        }
        let outcome = recorder.finish(MonotonicTime(12 * S), None, false);
        assert!(outcome.acknowledged_latency.response.is_empty());
        assert!(outcome.acknowledged_latency.service.is_empty());
        assert!(outcome.committed_latency.response.is_empty());
        assert!(outcome.consumed_latency.response.is_empty());
        assert!(outcome.schedule_lag.is_empty());
        assert!(outcome.intervals.is_empty());
        assert_eq!(outcome.counts, Counts::default());
        assert_eq!(outcome.acknowledged.len(), 3, "verification covers the warm-up too");
    }

    #[test]
    fn a_measured_batch_counts_however_late_it_ends() {
        let mut recorder = recorder();
        run(&mut recorder, 10 * S, S / 2);
        run(&mut recorder, 12 * S - 1, 5 * S);
        run(&mut recorder, 12 * S, 1);
        let outcome = recorder.finish(MonotonicTime(17 * S), Some(5.0), false);
        assert_eq!(outcome.acknowledged_latency.response.count(), 6);
        assert_eq!(outcome.acknowledged_latency.response.event_count(), 2);
        assert_eq!(outcome.acknowledged_latency.response.max_ns(), Some(5 * S));
        assert_eq!(outcome.acknowledged_latency.service.max_ns(), Some(5 * S - 1_000_000));
        assert_eq!(outcome.counts.records_acknowledged, 6);
        assert_eq!(outcome.counts.records_due, 6);
        assert_eq!(outcome.achieved_records_per_s, 1.5, "by the time of the acknowledgement");
        assert_eq!(outcome.wall, Duration::from_secs(7));
        let seconds: Vec<u64> = outcome.intervals.iter().map(|interval| interval.second).collect();
        assert_eq!(seconds, [0, 6]);
        assert_eq!(outcome.intervals[0].p50_ns, None, "one batch supports no percentile");
        assert_eq!(outcome.intervals[0].max_ns, Some(S / 2));
    }

    #[test]
    fn failures_are_counted_by_reason_and_kept_out_of_the_latencies() {
        let mut recorder = recorder();
        let broker = Failure::Broker(ErrorCode::NotLeaderOrFollower);
        recorder.failed(&batch(9 * S), broker, MonotonicTime(11 * S), true);
        recorder.failed(&batch(10 * S), broker, MonotonicTime(11 * S), false);
        recorder.failed(&batch(10 * S), broker, MonotonicTime(12 * S), true);
        recorder.failed(&batch(10 * S), Failure::TimedOut, MonotonicTime(9 * S), true);
        let outcome = recorder.finish(MonotonicTime(12 * S), None, true);
        assert_eq!(
            outcome.failures,
            [
                FailureCount { failure: broker, batches: 2, records: 6 },
                FailureCount { failure: Failure::TimedOut, batches: 1, records: 3 },
            ]
        );
        assert_eq!(outcome.counts.records_failed, 6);
        assert_eq!(outcome.warmup_failures, 1);
        assert_eq!(outcome.failed_latency.max_ns(), Some(2 * S));
        assert_eq!(outcome.failed_latency.clock_anomaly_count(), 3);
        assert!(outcome.acknowledged_latency.response.is_empty());
        assert!(outcome.interrupted);
    }

    /// Batches of up to 300 records over four seconds, begun before the measured part and ended
    /// after it: gaps between records, sizes, and how long each answer took, stalls included.
    fn batches() -> impl Strategy<Value = Vec<(Vec<u64>, u64)>> {
        let latency_ns = prop_oneof![
            8 => 1_000..2_000_000_u64,
            1 => 100_000_000..3_000_000_000_u64,
        ];
        let batch = (proptest::collection::vec(0..4_000_000_u64, 1..300), latency_ns);
        proptest::collection::vec(batch, 1..40)
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_single_records(batches in batches()) {
            let mut recorder = recorder();
            let (mut due_ns, mut expected, mut events) = (9 * S, Vec::new(), 0);
            for (gaps_ns, latency_ns) in batches {
                let due = |gap_ns: &u64| {
                    due_ns += gap_ns;
                    MonotonicTime(due_ns)
                };
                let times: Vec<MonotonicTime> = gaps_ns.iter().map(due).collect();
                let acked = MonotonicTime(due_ns + latency_ns);
                let facts = BatchFacts {
                    dues: Dues::of(&times).unwrap(),
                    ..batch(due_ns)
                };
                recorder.sent(&facts, 1);
                recorder.acknowledged(&facts, Offset(0), None, acked);
                recorder.consumed(&facts.dues, facts.sent, acked);
                recorder.committed(&facts.dues, facts.sent, acked);
                let measured = times.iter().filter(|at| (10 * S..12 * S).contains(&at.0));
                let before = expected.len();
                expected.extend(measured.map(|at| acked.0 - at.0));
                events += u64::from(expected.len() > before);
            }
            expected.sort_unstable();
            let outcome = recorder.finish(MonotonicTime(12 * S), None, false);
            for latency in [
                &outcome.acknowledged_latency.response,
                &outcome.committed_latency.response,
                &outcome.consumed_latency.response,
            ] {
                prop_assert_eq!(latency.count(), expected.len() as u64);
                prop_assert_eq!(latency.event_count(), events);
                for quantile in [0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
                    let rank = ((quantile * expected.len() as f64).ceil() as usize).max(1);
                    let Some(exact_ns) = expected.get(rank - 1) else { continue };
                    let value_ns = latency.value_at_quantile(quantile).unwrap();
                    // Three significant digits.
                    let error = value_ns.abs_diff(*exact_ns) as f64 / *exact_ns as f64;
                    prop_assert!(error <= 2e-3, "{}: {} for {}", quantile, value_ns, exact_ns);
                }
            }
            prop_assert_eq!(outcome.counts.records_acknowledged, expected.len() as u64);
        }
    }
}

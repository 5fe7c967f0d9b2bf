//! What one measured cell does: every value present, nothing defaulted.

use std::time::Duration;

use crate::driver::load::{Batching, LoadMode};
use crate::driver::payload;
use crate::record::{self, varint};
use crate::types::Acks;

/// What to do with a batch whose produce request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Count it as failed.
    Never,
    /// Send it again if the answer says that nothing was appended; any other failure is final, and
    /// whether the batch is in the log is unknown. Makes no duplicates.
    IfRefused,
    /// Send it again until it is acknowledged or the drain ends. Its latency runs on from the
    /// intended time. A batch whose first answer was lost can be in the log twice: the producer is
    /// not idempotent. Verification tells such duplicates from those a broker made.
    UntilAcknowledged,
}

/// One measured cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// A new topic, created by the cell.
    pub topic: String,
    /// At least 1.
    pub partitions: u32,
    /// At least 1.
    pub replication_factor: i16,
    /// Topic configuration, by Kafka's names.
    pub topic_configs: Vec<(String, String)>,
    /// What the producer waits for.
    pub acks: Acks,
    /// How load is offered.
    pub load: LoadMode,
    /// Bytes of a record's value; there is no key. At least 32.
    pub record_bytes: usize,
    /// Largest encoded batch. A record that alone exceeds it makes a batch of its own.
    pub batch_bytes: usize,
    /// A batch is sent this long after its oldest record was due, if it did not fill up before.
    pub linger: Duration,
    /// Unanswered produce requests per connection; at least 1. Not used by the closed loop.
    pub in_flight_max: usize,
    /// Producer connections to each broker that leads a partition; at least 1.
    pub connections: usize,
    /// Fraction of each record that is zeros, 0 to 1.
    pub compressible: f64,
    /// Of the schedule and the payloads. Recorded, so that a run can be repeated.
    pub seed: u64,
    /// Load before the measured part. What was due in it is excluded, however late it ends.
    pub warmup: Duration,
    /// The measured part; follows the warm-up.
    pub duration: Duration,
    /// How long after the measured part answers are waited for; then they count as unanswered.
    pub drain_timeout: Duration,
    /// Whether a consumer fetches along.
    pub consume: bool,
    /// Whether [`crate::driver::outcome::CellOutcome::acknowledged`] is kept.
    pub keep_acknowledgements: bool,
    /// Whether [`crate::driver::outcome::CellOutcome::history`] is kept: the checker's books.
    pub keep_history: bool,
    /// What to do with failed batches.
    pub retry: Retry,
    /// A request unanswered for this long has failed, and its connection is closed.
    pub request_timeout: Duration,
    /// How long the topic's creation and its leaders' election may take.
    pub setup_timeout: Duration,
    /// Each acknowledgement is held back by this share of its latency, and the driver with it: a
    /// slowdown for tests of a gate. 0 otherwise.
    pub injected_slowdown: f64,
}

/// A cell that cannot be run. Names the field, its value, and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: must be {allowed}")]
pub struct SpecError {
    /// The field of [`CellSpec`].
    pub field: &'static str,
    /// As given.
    pub value: String,
    /// What would be accepted.
    pub allowed: &'static str,
}

/// Bytes of a record besides its value and the varint lengths: attributes, timestamp delta (always
/// 0), key length (no key), header count.
const RECORD_FIXED_BYTES: usize = 4;
/// Largest encoded offset delta: enough for 2^27 records, more than the largest batch holds.
const OFFSET_DELTA_BYTES_MAX: usize = 4;
/// Largest batch size accepted: 1 GiB keeps record counts and sizes within the format's 32 bits.
const BATCH_BYTES_MAX: usize = 1 << 30;

impl CellSpec {
    /// Checks all fields against each other.
    ///
    /// Errors: [`SpecError`] for the first field that is out of range.
    pub fn check(&self) -> Result<(), SpecError> {
        let fault = |field, value: String, allowed| Err(SpecError { field, value, allowed });
        if self.topic.is_empty() {
            return fault("topic", "\"\"".to_owned(), "a name");
        }
        if self.partitions == 0 || i32::try_from(self.partitions).is_err() {
            return fault("partitions", self.partitions.to_string(), "1 or more");
        }
        if self.replication_factor < 1 {
            let value = self.replication_factor.to_string();
            return fault("replication_factor", value, "1 or more");
        }
        if !(payload::HEADER_BYTES..=BATCH_BYTES_MAX).contains(&self.record_bytes) {
            return fault("record_bytes", self.record_bytes.to_string(), "32 to 1073741824");
        }
        if !(1..=BATCH_BYTES_MAX).contains(&self.batch_bytes) {
            return fault("batch_bytes", self.batch_bytes.to_string(), "1 to 1073741824");
        }
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), SpecError> {
        let fault = |field, value: String, allowed| Err(SpecError { field, value, allowed });
        if self.in_flight_max == 0 {
            return fault("in_flight_max", "0".to_owned(), "1 or more");
        }
        if let LoadMode::ClosedLoop { in_flight: 0 } = self.load {
            return fault("load.in_flight", "0".to_owned(), "1 or more");
        }
        if matches!(self.load, LoadMode::ClosedLoop { .. }) && self.acks == Acks::None {
            return fault(
                "acks",
                "0".to_owned(),
                "1 or all in the closed loop, which waits for answers",
            );
        }
        if self.connections == 0 {
            return fault("connections", "0".to_owned(), "1 or more");
        }
        if !(0.0..=1.0).contains(&self.compressible) {
            return fault("compressible", self.compressible.to_string(), "0 to 1");
        }
        if self.duration.is_zero() {
            return fault("duration", "0".to_owned(), "longer than 0");
        }
        if self.request_timeout.is_zero() {
            return fault("request_timeout", "0".to_owned(), "longer than 0");
        }
        Ok(())
    }

    /// When batches close: the most records that surely fit into `batch_bytes`, and the linger.
    pub fn batching(&self) -> Batching {
        let value_length_bytes = varint::size_of_i64(self.record_bytes as i64);
        let body_bytes =
            RECORD_FIXED_BYTES + OFFSET_DELTA_BYTES_MAX + value_length_bytes + self.record_bytes;
        let record_bytes = varint::size_of_i64(body_bytes as i64) + body_bytes;
        let fitting = self.batch_bytes.saturating_sub(record::HEADER_BYTES) / record_bytes;
        let records_max = match self.load {
            LoadMode::ClosedLoop { .. } => 1,
            LoadMode::OpenLoop { .. } | LoadMode::MaxThroughput => fitting.max(1) as u64,
        };
        Batching { records_max, linger: self.linger }
    }
}

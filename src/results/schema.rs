//! Schema version 2 of `result.json`. Keys carry their unit; a statistic the sample cannot support
//! is absent, with the reason beside it; unknown keys are tolerated when reading.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::isr::Isr;
use super::sweeps::Sweep;

/// Written into every result; a reader brings older ones up to it and refuses newer ones.
pub const SCHEMA_VERSION: u32 = 2;

/// The JSON Schema (draft 7) of a result of this version. It asks only for what a reader needs:
/// unknown keys are tolerated.
pub fn json_schema() -> Value {
    let generator = SchemaSettings::draft07().into_generator();
    let mut schema = generator.into_root_schema_for::<RunResult>();
    schema.insert("title".to_owned(), "ackmark result".into());
    schema.to_value()
}

/// [`RunResult::status_reason`] of a run that was told to stop.
pub const INTERRUPTED: &str = "interrupted";

/// Everything known about one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What made it.
    pub tool: Tool,
    /// A random UUID.
    pub run_id: String,
    /// UTC, RFC 3339, to the second.
    pub started_at: String,
    /// From start to the last cell's end.
    pub wall_time_s: f64,
    /// Whether all cells were measured, and the run was not told to stop before its end.
    pub status: Status,
    /// Why not, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// Host, kernel, device, limits, as `ackmark probe --json` prints them.
    pub environment: Value,
    /// The parts of the floors as they were measured in this run, one entry per pacing.
    #[serde(default)]
    pub floors: Vec<Value>,
    /// What was asked for, every default spelled out.
    pub workload: Workload,
    /// In matrix order.
    pub cells: Vec<Cell>,
    /// Cells that differ in their rate only, as curves.
    #[serde(default)]
    pub sweeps: Vec<Sweep>,
    /// What a reader must know before believing a figure.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl RunResult {
    /// Whether the run was told to stop before its end.
    pub fn is_interrupted(&self) -> bool {
        self.status_reason.as_deref() == Some(INTERRUPTED)
    }
}

/// The program that measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// `ackmark`.
    pub name: String,
    /// Package version.
    pub version: String,
    /// The commit it was built from, `-dirty` if sources had been changed; `unknown` where it was
    /// built without git, and in results from before this key.
    #[serde(default = "unknown")]
    pub commit: String,
    /// `release` or `debug`; figures of a debug build are not valid.
    pub build: String,
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// How far a run or a cell came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// As planned.
    Complete,
    /// Interrupted or failed; what was measured until then is kept.
    Partial,
}

/// The workload as meant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Names the folder.
    pub name: String,
    /// The cluster, by the workload file's keys.
    pub cluster: BTreeMap<String, Value>,
    /// `[election]`.
    #[serde(default)]
    pub election: BTreeMap<String, Value>,
    /// The load, by the workload file's keys.
    pub load: BTreeMap<String, Value>,
    /// The matrix, by the workload file's keys.
    pub matrix: BTreeMap<String, Value>,
    /// The `page-cache-flush` thresholds.
    pub flush: BTreeMap<String, Value>,
    /// The faults, by the workload file's keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fault: Vec<BTreeMap<String, Value>>,
}

/// One point of the matrix, all its repeats merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Position in the matrix.
    pub index: usize,
    /// Unique and stable within the workload: the factors that vary.
    pub name: String,
    /// All factors.
    pub factors: Factors,
    /// What an acknowledgement promises here, in words.
    pub guarantee: String,
    /// Why it is not shown that its syncs reach the medium; absent if that is shown, or the mode
    /// promises nothing of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_loss_doubt: Option<String>,
    /// Whether all repeats ran to their end.
    pub status: Status,
    /// Why not, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// Records of the measured part, all repeats.
    pub counts: Counts,
    /// Failed attempts by Kafka error name, or `DISCONNECTED`, `NO_ANSWER`, `MALFORMED_ANSWER`.
    pub errors: BTreeMap<String, ErrorCount>,
    /// Asked and achieved.
    pub rate: Rate,
    /// What a sample of the latencies is.
    pub samples: Samples,
    /// From the intended send time.
    pub latency: CellLatency,
    /// Where the time of acknowledged records went, in path order.
    pub stages: Vec<Stage>,
    /// Where the time of the records around a percentile went; unlike percentiles of stages, these
    /// add up. Absent in results of older releases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stage_bands: Vec<StageBand>,
    /// Whether the stages add up.
    pub reconciliation: Reconciliation,
    /// p50 over the p50 of the same cell under `page-cache`; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_p50_to_page_cache: Option<f64>,
    /// The least this machine allows; absent where its parts were not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// What became of the ISRs; absent where the brokers told nothing, as on a cluster started
    /// elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isr: Option<Isr>,
    /// What losses of the leader cost, over all of them; absent where none was lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failover: Vec<FailoverInterval>,
    /// Each repeat by itself, in running order.
    pub repeats: Vec<Repeat>,
    /// What a reader must know before believing this cell.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// What a sample of a cell's latencies is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Samples {
    /// A record, by its own intended send time.
    Records,
    /// A batch, by its oldest record's, as version 1 counted: a stall that holds many records back
    /// counts as the few batches they leave in. Not to be set against records.
    Batches,
}

/// The factors of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Factors {
    /// `0`, `1` or `all`.
    pub acks: String,
    /// Durability mode.
    pub durability: String,
    /// `uring` or `glommio`.
    pub engine: String,
    /// `open`, `closed` or `max`.
    pub load_mode: String,
    /// Records per second asked for; absent unless the loop is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u64>,
    /// The share of the saturation that is, if it was asked for as one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<u32>,
    /// Value size of a record.
    pub record_bytes: usize,
    /// Partitions of the topic.
    pub partitions: u32,
    /// `kip966`, `legacy`, `maximal-isr` or `soft`.
    pub hwm_gate: String,
    /// `controller` or `none`.
    pub isr_wait: String,
    /// `kafka` or `caught-up`; `unknown` in results written before it could be varied, where the
    /// rule followed from the election rules of the release.
    #[serde(default = "unvaried::isr_expand")]
    pub isr_expand: String,
    /// `classic` or `pipelined`.
    #[serde(default = "unvaried::fetch_pipeline")]
    pub fetch_pipeline: String,
    /// `before` or `after` the leader's own sync.
    #[serde(default = "unvaried::serve_followers")]
    pub serve_followers: String,
    /// Commit groups in flight per partition.
    #[serde(default = "unvaried::commit_pipeline_depth")]
    pub commit_pipeline_depth: usize,
    /// Injected before each commit of the controller, a duration.
    #[serde(default = "unvaried::commit_delay")]
    pub commit_delay: String,
    /// How a commit group reached the disk.
    pub commit_route: String,
}

/// What held in results written before the factor could be varied.
mod unvaried {
    pub(super) fn isr_expand() -> String {
        "unknown".to_owned()
    }

    pub(super) fn fetch_pipeline() -> String {
        "classic".to_owned()
    }

    pub(super) fn serve_followers() -> String {
        "before".to_owned()
    }

    pub(super) fn commit_pipeline_depth() -> usize {
        1
    }

    pub(super) fn commit_delay() -> String {
        "0s".to_owned()
    }
}

/// Records whose intended send time lies in the measured part, and what became of them.
/// `due = sent + unsent`; unless `acks=0`, `sent = acknowledged + failed + unanswered`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Due by the schedule (open loop), or sent (else).
    pub due_records: u64,
    /// Sent at least once.
    pub sent_records: u64,
    /// Batches they were sent in.
    pub sent_batches: u64,
    /// Bytes of those batches as encoded.
    pub sent_batch_bytes: u64,
    /// Acknowledged.
    pub acknowledged_records: u64,
    /// Batches acknowledged: the independent events behind the latencies.
    pub acknowledged_batches: u64,
    /// Bytes of the acknowledged records' values.
    pub acknowledged_value_bytes: u64,
    /// Given up after an error.
    pub failed_records: u64,
    /// Sent, not answered when the drain ended: their latency is longer than any sample tells.
    pub unanswered_records: u64,
    /// Due, never sent: the load was more than the cluster took.
    pub unsent_records: u64,
    /// Batches sent again after a failure.
    pub resent_batches: u64,
    /// Received by the consumer.
    pub consumed_records: u64,
}

/// Failed attempts of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorCount {
    /// Attempts.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
}

/// Asked and achieved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// Records per second; absent unless the loop is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_per_s: Option<f64>,
    /// Records acknowledged (`acks=0`: sent) per second within the measured part's wall time; over
    /// the repeats, weighted by their time.
    pub achieved_per_s: f64,
    /// `achieved_per_s` in bytes of values.
    pub achieved_value_bytes_per_s: f64,
    /// The same, all replicas together.
    pub replicated_value_bytes_per_s: f64,
}

/// The latencies of a cell, each from a record's own intended send time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellLatency {
    /// To the acknowledgement.
    pub acknowledged: Latency,
    /// To the high watermark having passed the record.
    pub committed: Latency,
    /// To a consumer having received it.
    pub consumed: Latency,
    /// From the actual send to the acknowledgement: beside `acknowledged` it shows the driver's own
    /// delay. Not a latency a user sees.
    pub acknowledged_service: Latency,
    /// From the intended to the actual send.
    pub schedule_lag: Latency,
    /// From the intended send to the error, of failed attempts.
    pub failed: Latency,
}

/// One distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Samples.
    pub count: u64,
    /// Independent events the samples come from, where that is another number: the records of one
    /// batch get there together. How deep percentiles go depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_count: Option<u64>,
    /// Samples above the histogram's range; they still move `max_ns` and `mean_ns`.
    pub overflow_count: u64,
    /// Samples left out because the clock ran backwards.
    pub clock_anomaly_count: u64,
    /// Why there are no statistics, if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_reason: Option<String>,
    /// Smallest sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// Mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// Largest sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// By name (`p50`, `p99.9`), only those the number of independent events supports.
    #[serde(default)]
    pub percentiles_ns: BTreeMap<String, u64>,
    /// The others, each with what it would need.
    #[serde(default)]
    pub percentiles_absent: BTreeMap<String, String>,
    /// HdrHistogram V2, compressed, base64, nanoseconds; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram_v2_deflate_base64: Option<String>,
}

impl Latency {
    /// Independent events the samples come from.
    pub fn events(&self) -> u64 {
        self.event_count.unwrap_or(self.count)
    }

    /// How many independent events percentile `name` would need; `None` if it is there.
    pub fn samples_needed(&self, name: &str) -> Option<u64> {
        let reason = self.percentiles_absent.get(name)?;
        reason.split_whitespace().find_map(|word| word.parse().ok())
    }
}

/// One stage on the way of an acknowledged batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// Stage name.
    pub name: String,
    /// What the time was spent on.
    pub meaning: String,
    /// Whether it adds to the latency; a leader's own sync under `acks=all` runs beside the path.
    pub on_path: bool,
    /// Its distribution.
    pub latency: Latency,
}

/// The batches whose latency lies around one percentile, and what they spent in each stage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StageBand {
    /// `p50` or `p99`.
    pub percentile: String,
    /// Least latency of the batches.
    pub from_ns: u64,
    /// First latency above them.
    pub to_ns: u64,
    /// Batches.
    pub count: u64,
    /// Mean per stage on the path, by stage name: adds up to the batches' mean latency.
    pub mean_ns: BTreeMap<String, u64>,
}

/// Whether the stages account for the latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reconciliation {
    /// p50 over the batches of the sum of each batch's stages, from the broker's instants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_sum_p50_ns: Option<u64>,
    /// The latency's p50, from the driver's instants alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged_p50_ns: Option<u64>,
    /// Largest difference called agreement, as a share of the latency's p50.
    pub tolerance: f64,
    /// Whether `stage_sum_p50_ns` and `acknowledged_p50_ns` agree; absent where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agrees: Option<bool>,
    /// Sum of the p50s of the stages on the path. Medians of parts need not add up to the median of
    /// the whole: this tells a reader of `stages` how far they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage_p50_sum_ns: Option<u64>,
    /// Batches whose instants were out of order.
    pub anomaly_count: u64,
    /// Batches without comparable instants.
    pub untraced_count: u64,
}

/// A lower bound of the time from the actual send to the acknowledgement, from parts measured in the
/// same run. The driver's own timer is no part of it, so it is set against `acknowledged_service`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// How the parts add up, in the parts' names.
    pub formula: String,
    /// Medians of the parts.
    pub parts_ns: BTreeMap<String, u64>,
    /// The bound.
    pub floor_ns: u64,
    /// p50 of `acknowledged_service` over the bound; absent where there is no p50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// One repeat of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Repeat {
    /// From 0.
    pub repeat: usize,
    /// Whether it ran to its end.
    pub status: Status,
    /// Why not, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_reason: Option<String>,
    /// When the measured part began, on the clock of the ISR events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_from_ns: Option<u64>,
    /// Length of the measured part as it turned out.
    pub measured_s: f64,
    /// Records acknowledged (`acks=0`: sent) per second within it.
    pub achieved_per_s: f64,
    /// Records of the measured part.
    pub counts: Counts,
    /// Failed attempts by Kafka error name, or `DISCONNECTED`, `NO_ANSWER`, `MALFORMED_ANSWER`.
    pub errors: BTreeMap<String, ErrorCount>,
    /// To the acknowledgement.
    pub acknowledged: Latency,
    /// To the high watermark having passed the record.
    pub committed: Latency,
    /// To a consumer having received it.
    pub consumed: Latency,
    /// By the second, for the steady state.
    pub intervals: Vec<Interval>,
    /// What happened to the cluster meanwhile, in order of `at_us`; faults and what they did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Event>,
    /// What followed each fault that took the first partition's leader away, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failovers: Vec<Failover>,
    /// What the checker found; absent without faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// The processes of the cluster at the end of this repeat; their use counts from their start.
    pub nodes: Vec<Node>,
    /// The data directory's device before and after, as the kernel counts.
    pub device: Value,
    /// Interference seen meanwhile: steal, pressure, throttling.
    pub contamination: Value,
}

/// One second of a repeat, by the time of the acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Seconds since the measured part began.
    pub second: u64,
    /// Records acknowledged.
    pub records: u64,
    /// Absent where the sample is too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// Absent where the sample is too small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// Absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
}

/// Something that was done to the cluster, or befell it, at a known time of a repeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When it began, since the measured part of the repeat began.
    pub at_us: u64,
    /// A stable short name for machines: a fault's kind as workloads write it, or `skipped`.
    pub kind: String,
    /// In words for a reader: `broker-2 (leader) paused (SIGSTOP)`.
    pub what: String,
    /// When it was over, on the same clock; absent for an instant and for what did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_us: Option<u64>,
}

/// One loss of the first partition's leader, and what followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failover {
    /// When the fault was injected, since the measured part of the repeat began.
    pub at_us: u64,
    /// Id of the broker that led.
    pub lost_broker: i32,
    /// Id of the next leader; absent if there was none before the next loss or the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_broker: Option<i32>,
    /// Where that one stood when it was elected: `isr`, `elr`, or `unclean` for neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// Lengths of the intervals whose ends were seen, by their names in `failover` of the cell.
    pub took_ns: BTreeMap<String, u64>,
}

/// One interval over all losses of a leader in a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailoverInterval {
    /// `detection`, `election`, `propagation`, `client`, `answer`, which add up to `acknowledged`;
    /// `leader_elected`, `high_watermark_moved`.
    pub name: String,
    /// From when to when.
    pub meaning: String,
    /// Its distribution.
    pub latency: Latency,
}

/// Whether promises were kept, after every replica was read back. Counts are of records, the
/// warm-up's included, unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What the mode promises under these faults, beyond what every mode does: `acknowledged` records
    /// are kept, what consumers saw stays (`visible`), and acknowledged records keep their `order`.
    pub promised: Vec<String>,
    /// One sentence for each promise that was broken, with partition and offsets; empty is sound.
    pub violations: Vec<String>,
    /// Acknowledged.
    pub acknowledged: u64,
    /// Acknowledged and not in the log.
    pub lost: u64,
    /// Acknowledged and in the log, but elsewhere than told.
    pub moved: u64,
    /// More than once in the log, sent once.
    pub duplicated: u64,
    /// More than once in the log, and sent more than once.
    pub duplicated_by_retries: u64,
    /// Acknowledged, sent once, and behind a record that was sent later.
    pub reordered: u64,
    /// Behind a record that was sent later, sent again or not acknowledged.
    pub reordered_by_retries: u64,
    /// Seen by a consumer at an offset that holds another record now, or none.
    pub visible_lost: u64,
    /// Times a broker told a lower high watermark than before.
    pub high_watermark_steps_back: u64,
    /// Times a new leader told a lower high watermark than the one before it.
    pub high_watermark_lower_at_next_leader: u64,
    /// In a log and never sent.
    pub phantom: u64,
    /// In a log and not as sent.
    pub damaged: u64,
    /// Partitions whose replicas differ below the high watermark.
    pub divergent_partitions: u64,
    /// Sent, outcome unknown, and in the log.
    pub unknown_kept: u64,
    /// Sent, outcome unknown, and not in the log.
    pub unknown_lost: u64,
}

/// One process of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// `controller`, `broker-1` …, `driver`.
    pub name: String,
    /// Use of memory, CPU and storage since the process started.
    pub process: Value,
}

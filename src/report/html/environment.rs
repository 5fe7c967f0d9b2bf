//! Where it was measured, and what was asked for.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::report::numbers;
use crate::results::schema::RunResult;

use super::figure::NONE;

/// Facts of the host that a reader asks for first: label, JSON pointer below `environment`.
const FACTS: [(&str, &str); 16] = [
    ("CPU", "/cpu/model"),
    ("CPUs allowed", "/cpu/allowed_count"),
    ("hypervisor", "/cpu/hypervisor"),
    ("governor", "/cpu/governor"),
    ("kernel", "/kernel/release"),
    ("file system", "/filesystem/kind"),
    ("mount options", "/filesystem/mount_options"),
    ("device", "/device/name"),
    ("device model", "/device/model"),
    ("driver", "/device/driver"),
    ("write cache", "/device/write_cache"),
    ("FUA", "/device/force_unit_access"),
    ("scheduler", "/device/scheduler"),
    ("O_DIRECT", "/direct_io/available"),
    ("io_uring", "/io_uring/available"),
    ("fingerprint", "/fingerprint"),
];

/// The end of the page.
pub struct EnvironmentView {
    /// Label and value.
    pub facts: Vec<(String, String)>,
    /// Key and value of cluster and load.
    pub workload: Vec<(String, String)>,
    /// Mode and what an acknowledgement promises under it.
    pub guarantees: Vec<(String, String)>,
    /// Process and its peak memory over all repeats.
    pub memory: Vec<(String, String)>,
    /// All of `environment`, as stored.
    pub json: String,
}

/// As above.
pub fn view(result: &RunResult) -> EnvironmentView {
    let fact = |(label, pointer): &(&str, &str)| {
        let value = result.environment.pointer(pointer)?;
        Some(((*label).to_owned(), shown(value)))
    };
    let workload = &result.workload;
    let keys = |prefix: &str, table: &BTreeMap<String, Value>| -> Vec<(String, String)> {
        table.iter().map(|(key, value)| (format!("{prefix}.{key}"), shown(value))).collect()
    };
    EnvironmentView {
        facts: FACTS.iter().filter_map(fact).collect(),
        workload: [keys("load", &workload.load), keys("cluster", &workload.cluster)].concat(),
        guarantees: guarantees(result),
        memory: memory(result),
        json: serde_json::to_string_pretty(&result.environment).unwrap_or_default(),
    }
}

/// What was run, in one line.
pub fn shape(result: &RunResult) -> String {
    let workload = &result.workload;
    let setting = |table: &BTreeMap<String, Value>, key: &str| {
        table.get(key).map_or("unknown".to_owned(), shown)
    };
    let cells = result.cells.len();
    let repeats = setting(&workload.load, "repeats");
    format!(
        "{cells} cell{}, {repeats} repeat{} of {} each; replication factor {}, min ISR {}",
        if cells == 1 { "" } else { "s" },
        if repeats == "1" { "" } else { "s" },
        setting(&workload.load, "duration"),
        setting(&workload.cluster, "replication_factor"),
        setting(&workload.cluster, "min_isr"),
    )
}

fn guarantees(result: &RunResult) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let doubted = result.cells.iter().filter(|cell| cell.power_loss_doubt.is_some());
    doubted
        .chain(&result.cells)
        .filter(|cell| seen.insert(cell.factors.durability.as_str()))
        .map(|cell| (cell.factors.durability.clone(), cell.guarantee.clone()))
        .collect()
}

fn memory(result: &RunResult) -> Vec<(String, String)> {
    let mut peaks: BTreeMap<&str, u64> = BTreeMap::new();
    let repeats = result.cells.iter().flat_map(|cell| &cell.repeats);
    for node in repeats.flat_map(|repeat| &repeat.nodes) {
        if let Some(bytes) = node.process.get("peak_memory_bytes").and_then(Value::as_u64) {
            let peak = peaks.entry(&node.name).or_default();
            *peak = bytes.max(*peak);
        }
    }
    peaks
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), numbers::mebibytes(*bytes as f64)))
        .collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => NONE.to_owned(),
        Value::Array(values) => values.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

//! Whether two results may be compared, and if not, what stands against it.
//!
//! What is compared of the environment is what the fingerprint is made of, but for ackmark's own
//! version: comparing two versions is what this is for (spec/measurement.md M38).

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use crate::results::schema::{Cell, RunResult, Samples};

/// Of the environment, what must be equal: tables as a whole, or single keys.
const ENVIRONMENT: [(&str, &[&str]); 5] = [
    ("cpu", &[]),
    (
        "kernel",
        &[
            "release",
            "preemption",
            "tick_hz",
            "command_line",
            "clocksource",
            "transparent_huge_pages",
            "memory_bytes",
        ],
    ),
    ("limits", &["cgroup_cpus", "cgroup_memory_bytes"]),
    ("filesystem", &["kind", "mount_options"]),
    ("device", &[]),
];

/// Settings of a load that change how much was measured, not what.
const LOAD_FREE: [&str; 2] = ["repeats", "seed"];

/// The setting that marks a run as slowed down on purpose.
pub const SLOWDOWN_KEY: &str = "injected_slowdown";

/// What can stand against a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Another machine, device, file system or kernel.
    Environment,
    /// Another version of the result schema.
    Schema,
    /// Another cluster or load, or no cell in common.
    Workload,
    /// A build whose figures are not valid.
    DebugBuild,
    /// A run that was slowed down on purpose.
    Slowdown,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::Environment, Kind::Schema, Kind::Workload, Kind::DebugBuild, Kind::Slowdown];

    /// As typed.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Environment => "environment",
            Kind::Schema => "schema",
            Kind::Workload => "workload",
            Kind::DebugBuild => "debug-build",
            Kind::Slowdown => "slowdown",
        }
    }
}

/// One thing that stands against a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// Of which kind.
    pub kind: Kind,
    /// The key, and both sides' values.
    pub what: String,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind.name(), self.what)
    }
}

/// Everything that stands against comparing `new` with `base`; empty if nothing does.
pub fn obstacles(base: &RunResult, new: &RunResult) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let mut add = |kind, what| found.push(Obstacle { kind, what });
    for (key, base, new) in differing(&machine(&base.environment), &machine(&new.environment)) {
        add(Kind::Environment, format!("{key} is {base} in BASE and {new} in NEW"));
    }
    for (side, cells) in [("BASE", by_batch(base, new)), ("NEW", by_batch(new, base))] {
        if cells > 0 {
            let other = if side == "BASE" { "NEW" } else { "BASE" };
            add(
                Kind::Schema,
                format!(
                    "in {cells} cells a sample is a batch in {side} and a record in {other}: \
                     {side} was written by version 1 of the schema"
                ),
            );
        }
    }
    for (key, base, new) in differing(&settings(base), &settings(new)) {
        add(Kind::Workload, format!("{key} is {base} in BASE and {new} in NEW"));
    }
    let known = |cell: &Cell| base.cells.iter().any(|other| other.factors == cell.factors);
    if !new.cells.iter().any(known) {
        add(Kind::Workload, "no cell is in both".to_owned());
    }
    for (side, result) in [("BASE", base), ("NEW", new)] {
        if result.tool.build != "release" {
            add(Kind::DebugBuild, format!("{side} was measured by a {} build", result.tool.build));
        }
        if let Some(share) = result.workload.load.get(SLOWDOWN_KEY) {
            add(Kind::Slowdown, format!("{side} was slowed down on purpose: {}", shown(share)));
        }
    }
    found
}

/// Cells of `result` that count batches where their twins in `other` count records.
fn by_batch(result: &RunResult, other: &RunResult) -> usize {
    let counts = |cell: &Cell, samples| cell.samples == samples;
    let differs = |cell: &&Cell| {
        counts(cell, Samples::Batches)
            && other
                .cells
                .iter()
                .any(|twin| twin.factors == cell.factors && counts(twin, Samples::Records))
    };
    result.cells.iter().filter(differs).count()
}

/// What makes figures of two machines differ, by key.
pub fn machine(environment: &Value) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    for (table, keys) in ENVIRONMENT {
        match &environment[table] {
            Value::Object(facts) => {
                for (key, value) in facts {
                    if keys.is_empty() || keys.contains(&key.as_str()) {
                        parts.insert(format!("{table}.{key}"), shown(value));
                    }
                }
            }
            Value::Null => {}
            whole => drop(parts.insert(table.to_owned(), shown(whole))),
        }
    }
    parts
}

/// The cluster, load and flush settings that must be equal, by key.
pub fn settings(result: &RunResult) -> BTreeMap<String, String> {
    let workload = &result.workload;
    let tables =
        [("cluster", &workload.cluster), ("load", &workload.load), ("flush", &workload.flush)];
    let entries = tables.into_iter().flat_map(|(table, entries)| {
        entries.iter().map(move |(key, value)| (table, key.as_str(), value))
    });
    entries
        .filter(|(table, key, _)| *table != "load" || !LOAD_FREE.contains(key))
        .map(|(table, key, value)| (format!("{table}.{key}"), shown(value)))
        .collect()
}

/// Keys whose values differ. A key that one side does not have says nothing: another release may
/// have added it, with a default that changes nothing.
fn differing(
    base: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Vec<(String, String, String)> {
    let differs = |(key, base): (&String, &String)| {
        let new = new.get(key).filter(|new| *new != base)?;
        Some((key.clone(), base.clone(), new.clone()))
    };
    base.iter().filter_map(differs).collect()
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

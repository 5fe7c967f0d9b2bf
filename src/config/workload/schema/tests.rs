use std::path::Path;

use super::*;
use crate::config::workload::Workload;

const TABLES: [&str; 5] = ["cluster", "load", "matrix", "flush", "election"];
const CLASHING: [&str; 7] = [
    "brokers",
    "replication_factor",
    "min_isr",
    "message_bytes_max",
    "segment_bytes",
    "batch_bytes",
    "record_bytes",
];

fn read(text: &str) -> Result<Workload, String> {
    Workload::from_text(Path::new("w.toml"), text).map_err(|error| error.to_string())
}

fn keys(schema: &Value) -> Vec<&String> {
    let mut keys: Vec<&String> =
        schema["properties"].as_object().expect("a table's schema").keys().collect();
    keys.sort();
    keys
}

/// The keys the reader names when it is asked for one it does not know.
fn known(prefix: &str) -> Vec<String> {
    let error = read(&format!("{prefix}no_such_key = 1\n")).expect_err("an unknown key");
    let (_, known) = error.split_once("allowed here: ").expect("it lists them");
    let mut known: Vec<String> = known.split(", ").map(str::to_owned).collect();
    known.sort();
    known
}

#[test]
fn the_schema_has_the_reader_s_keys() {
    let schema = json_schema();
    assert_eq!(keys(&schema), known("").iter().collect::<Vec<_>>());
    for table in TABLES {
        let known = known(&format!("name = \"n\"\n[{table}]\n"));
        assert_eq!(keys(&schema["properties"][table]), known.iter().collect::<Vec<_>>());
    }
    let known = known("name = \"n\"\n[[fault]]\n");
    assert_eq!(keys(&schema["properties"]["fault"]["items"]), known.iter().collect::<Vec<_>>());
}

#[test]
fn a_fault_needs_what_the_schema_requires_and_may_be_of_each_kind() {
    let schema = &json_schema()["properties"]["fault"]["items"];
    let fault = |leave_out: &str, kind: &str| {
        let amount = matches!(kind, "slow-sync" | "delay").then_some(("by", "1ms"));
        let target = match kind {
            "cut" | "delay" => "leader -> all",
            "cut-heartbeats" => "follower -> active-controller",
            _ => "leader",
        };
        let written = [("kind", kind), ("target", target), ("at", "0s")].into_iter().chain(amount);
        let lines = written.filter(|(key, _)| *key != leave_out);
        let mut table: String =
            lines.map(|(key, value)| format!("{key} = \"{value}\"\n")).collect();
        if kind == "min-isr" {
            table.push_str("to = 1\n");
        }
        read(&format!("name = \"n\"\n[[fault]]\n{table}"))
    };
    for kind in schema["properties"]["kind"]["enum"].as_array().expect("kinds") {
        let workload = fault("", kind.as_str().expect("text")).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(workload.faults[0].kind.name(), kind);
    }
    let required = schema["required"].as_array().expect("keys");
    for key in required {
        fault(key.as_str().expect("text"), "kill").expect_err("a key is missing");
    }
    assert_eq!(required.len(), 3);
}

/// The reader's judgement of one value, others left out but for those it would clash with.
fn verdict(table: &str, key: &str, value: &str) -> Result<Workload, String> {
    let (beside, before) = match (table, key) {
        ("cluster", "brokers") => ("replication_factor = 1\nmin_isr = 1\n", ""),
        ("cluster", "replication_factor") => ("brokers = 64\nmin_isr = 1\n", ""),
        ("cluster", "min_isr") => ("brokers = 64\nreplication_factor = 64\n", ""),
        ("cluster", "segment_bytes") => (
            "message_bytes_max = \"1KiB\"\n",
            "load.batch_bytes = 128\nmatrix.record_bytes = [32]\n",
        ),
        ("cluster", "message_bytes_max") => {
            ("segment_bytes = \"1GiB\"\n", "load.batch_bytes = 128\nmatrix.record_bytes = [32]\n")
        }
        ("load", "batch_bytes") | ("matrix", "record_bytes") => {
            ("", "cluster.message_bytes_max = \"64MiB\"\n")
        }
        _ => ("", ""),
    };
    read(&format!("name = \"n\"\n{before}[{table}]\n{beside}{key} = {value}\n"))
}

#[test]
fn the_bounds_are_the_reader_s() {
    let schema = json_schema();
    let mut bounds = 0;
    for table in TABLES {
        for (key, property) in
            schema["properties"][table]["properties"].as_object().expect("a table")
        {
            let is_list = property["type"] == "array";
            let item = if is_list { &property["items"] } else { property };
            let item = item.get("anyOf").map_or(item, |any| &any[0]);
            if item["type"] != "integer" {
                continue;
            }
            let bound = |name: &str| item[name].as_u64().expect("a bound");
            let (least, most) = (bound("minimum"), bound("maximum"));
            let judge = |value: i128| {
                let value = if is_list { format!("[{value}]") } else { value.to_string() };
                verdict(table, key, &value)
            };
            bounds += 2;
            // A record's true limit is that of its batch, less the batch's own bytes.
            let spare = if key == "record_bytes" { 128 } else { 0 };
            for good in [i128::from(least), i128::from(most) - spare] {
                judge(good).unwrap_or_else(|error| panic!("{good}: {error}"));
            }
            for bad in [i128::from(least) - 1, i128::from(most) + 1] {
                judge(bad).expect_err(&format!("{table}.{key} = {bad} was accepted"));
            }
        }
    }
    assert!(bounds >= 30, "{bounds} bounds were looked at");
}

#[test]
fn the_choices_and_defaults_are_the_reader_s() {
    let schema = json_schema();
    let default = read("name = \"n\"").expect("defaults are a good workload");
    for table in TABLES {
        for (key, property) in
            schema["properties"][table]["properties"].as_object().expect("a table")
        {
            let is_list = property["type"] == "array";
            let item = if is_list { &property["items"] } else { property };
            let wrap = |value: &Value| {
                if is_list { format!("[{value}]") } else { value.to_string() }
            };
            for name in item["enum"].as_array().into_iter().flatten() {
                if let Err(error) = verdict(table, key, &wrap(name)) {
                    let clashes = ["commit_route", "closed"].iter().any(|w| error.contains(w));
                    assert!(clashes, "{error}");
                }
            }
            // Keys that clash with others' defaults are tried beside other values.
            let spelled_out = verdict(table, key, &wrap(&item["default"]))
                .unwrap_or_else(|error| panic!("{error}"));
            if !CLASHING.contains(&key.as_str()) {
                assert_eq!(spelled_out, default, "{table}.{key}");
            }
        }
    }
}

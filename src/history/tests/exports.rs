//! Every export against the field list its reader publishes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::entry;
use crate::history::entry::Entry;
use crate::history::export::Format;

fn two_runs() -> [Entry; 2] {
    [entry(0, 100.0), entry(1, 120.0)]
}

fn object<'a>(value: &'a Value, keys: &[&str]) -> &'a Map<String, Value> {
    let object = value.as_object().expect("an object");
    let unknown = object.keys().find(|key| !keys.contains(&key.as_str()));
    assert_eq!(unknown, None, "not in the published list");
    object
}

/// benchmark-action/github-action-benchmark, `src/extract.ts`: an array of `BenchmarkResult`, with
/// `name: string`, `value: number`, `unit: string` and optionally `range: string`, `extra: string`.
/// Its README says which direction each `tool` takes; a file has one direction. `null` would be read
/// as 0, and names are what joins runs, so there is no `null` and no name twice.
#[test]
fn github_action_benchmark() {
    for (format, expected) in [(Format::GithubSmaller, 3), (Format::GithubBigger, 1)] {
        let value: Value = serde_json::from_str(&format.write(&two_runs())).unwrap();
        let benches = value.as_array().expect("an array");
        assert_eq!(benches.len(), expected);
        let mut names = BTreeSet::new();
        for bench in benches {
            let bench = object(bench, &["name", "value", "unit", "range", "extra"]);
            assert!(names.insert(bench["name"].as_str().unwrap()));
            assert!(bench["value"].is_f64() || bench["value"].is_u64());
            assert!(bench["unit"].is_string());
            assert!(bench.get("range").is_none_or(Value::is_string));
            assert!(bench.get("extra").is_none_or(Value::is_string));
        }
    }
    let smaller: Value = serde_json::from_str(&Format::GithubSmaller.write(&two_runs())).unwrap();
    assert_eq!(smaller[0]["name"], "nightly / acks=all \"fsync\" / acknowledged p50");
    assert_eq!((&smaller[0]["value"], &smaller[0]["unit"]), (&120.0.into(), &"us".into()));
    assert_eq!(smaller[0]["range"], "± 12");
    assert!(smaller[2].get("range").is_none());
    let bigger: Value = serde_json::from_str(&Format::GithubBigger.write(&two_runs())).unwrap();
    assert_eq!((&bigger[0]["value"], &bigger[0]["unit"]), (&2_000.0.into(), &"records/s".into()));
}

/// Bencher's reference "Bencher Metric Format (BMF)", JSON Schema `bmf.json`: object of objects of
/// objects with numbers `value` (required), `lower_value`, `upper_value`. A benchmark's name has at
/// most 1024 characters, a measure's 64; the suffix `-bencher-ignore` would mute alerts. Built-in
/// measures ("track custom benchmarks"): `latency` in nanoseconds, `throughput` in operations per
/// second.
#[test]
fn bencher_metric_format() {
    let value: Value = serde_json::from_str(&Format::Bencher.write(&two_runs())).unwrap();
    let benchmarks = value.as_object().expect("an object");
    assert_eq!(benchmarks.len(), 4);
    for (name, measures) in benchmarks {
        assert!(name.chars().count() <= 1024 && !name.ends_with("-bencher-ignore"));
        for metric in object(measures, &["latency", "throughput"]).values() {
            let metric = object(metric, &["value", "lower_value", "upper_value"]);
            assert!(metric.contains_key("value"));
            assert!(metric.values().all(Value::is_number));
            let bound = |key: &str| metric.get(key).and_then(Value::as_f64);
            assert!(bound("lower_value") <= bound("value"));
        }
    }
    let p50 = &benchmarks["nightly / acks=all \"fsync\" / acknowledged p50"]["latency"];
    assert_eq!(p50["value"], 120_000.0);
    let rate = &benchmarks["nightly / acks=all \"fsync\" / rate"]["throughput"];
    assert_eq!(rate["value"], 2_000.0);
}

/// Prometheus documentation, "Exposition formats", text format 0.0.4: `# HELP` and `# TYPE` once per
/// metric and before its samples, which stand in one group; label values escape backslash, double
/// quote and line feed; each name with its labels once; the last line ends with a line feed.
#[test]
fn prometheus_text() {
    let mut odd = entry(0, 100.0);
    odd.cells[0].name = "a\\b \"c\"\nd".to_owned();
    let text = Format::Prometheus.write(&[odd]);
    assert!(text.ends_with('\n'));
    let mut seen = BTreeSet::new();
    let mut closed: BTreeSet<String> = BTreeSet::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let name = rest.split(' ').next().unwrap().to_owned();
            assert!(closed.insert(name.clone()), "{name} stands in two groups");
            current = name;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            assert_eq!(rest, format!("{current} gauge"));
        } else {
            let (name, rest) = line.split_once('{').expect("labels");
            assert_eq!(name, current);
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
            let (labels, value) = rest.rsplit_once("} ").expect("a value");
            assert!(value.parse::<f64>().unwrap().is_finite());
            assert!(seen.insert((name.to_owned(), labels.to_owned())), "{line} stands twice");
        }
    }
    assert!(
        text.contains(
            "ackmark_latency_seconds{workload=\"nightly\",cell=\"a\\\\b \\\"c\\\"\\nd\",\
             endpoint=\"consumed\",percentile=\"99.9\"} 0.0009\n"
        ),
        "{text}"
    );
    assert!(text.contains("percentile=\"50\"} 0.0001\n"), "{text}");
    assert!(text.contains("ackmark_run_info{"), "{text}");
}

/// RFC 4180: a header, CRLF, fields with a quote in quotes and the quote doubled; every row with as
/// many fields as the header.
#[test]
fn csv() {
    let text = Format::Csv.write(&two_runs());
    let rows: Vec<&str> = text.strip_suffix("\r\n").unwrap().split("\r\n").collect();
    assert_eq!(rows.len(), 1 + 2 * 4, "all runs");
    assert_eq!(
        rows[0],
        "started_at,commit,run_id,version,fingerprint,machine,workload,cell,figure,unit,value,\
         lower,upper"
    );
    assert!(rows[1].starts_with("2026-01-01T00:00:00Z,"));
    assert!(
        rows[1].contains(",\"acks=all \"\"fsync\"\"\",acknowledged p50,ns,100000,"),
        "{}",
        rows[1]
    );
    assert!(rows[3].ends_with(",900000,,"), "no interval, no bounds: {}", rows[3]);
    let fields = |row: &str| row.replace("\"acks=all \"\"fsync\"\"\"", "cell").split(',').count();
    assert!(rows.iter().all(|row| fields(row) == 13));
}

#[test]
fn nothing_is_written_for_no_run() {
    assert!(Format::ALL.into_iter().all(|format| format.write(&[]).is_empty()));
}

//! Figures of a run in the formats of other tools, and a history as CSV.
//!
//! A figure that does not exist is left out, never written as zero (spec/measurement.md M20).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::entry::{Entry, EntryCell, Figure};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// github-action-benchmark, `customSmallerIsBetter`: the latencies.
    GithubSmaller,
    /// github-action-benchmark, `customBiggerIsBetter`: the rates.
    GithubBigger,
    /// Bencher Metric Format.
    Bencher,
    /// Prometheus text exposition format 0.0.4, for a textfile collector or a push gateway.
    Prometheus,
    /// One row a figure, the whole history.
    Csv,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 5] = [
        Format::GithubSmaller,
        Format::GithubBigger,
        Format::Bencher,
        Format::Prometheus,
        Format::Csv,
    ];

    /// As typed.
    pub fn name(self) -> &'static str {
        match self {
            Format::GithubSmaller => "github-smaller",
            Format::GithubBigger => "github-bigger",
            Format::Bencher => "bencher",
            Format::Prometheus => "prometheus",
            Format::Csv => "csv",
        }
    }

    /// `entries` by time in this format: the newest run, or all for CSV. Empty without a run.
    pub fn write(self, entries: &[Entry]) -> String {
        let Some(newest) = entries.last() else { return String::new() };
        match self {
            Format::GithubSmaller => github(newest, false),
            Format::GithubBigger => github(newest, true),
            Format::Bencher => bencher(newest),
            Format::Prometheus => prometheus(newest),
            Format::Csv => csv(entries),
        }
    }
}

fn figures(entry: &Entry) -> impl Iterator<Item = (&EntryCell, &Figure)> {
    entry.cells.iter().flat_map(|cell| cell.figures.iter().map(move |figure| (cell, figure)))
}

/// Unique within a run and the same in every run: the join key of both services.
fn full_name(entry: &Entry, cell: &EntryCell, figure: &Figure) -> String {
    format!("{} / {} / {}", entry.workload, cell.name, figure.name)
}

/// An array of `name`, `value`, `unit`, `range`, `extra`.
fn github(entry: &Entry, bigger_is_better: bool) -> String {
    let of_direction =
        figures(entry).filter(|(_, figure)| figure.bigger_is_better == bigger_is_better);
    let benches = of_direction.map(|(cell, figure)| {
        let (divisor, unit) = if figure.unit == "ns" { (1e3, "us") } else { (1.0, "records/s") };
        let mut bench = json!({
            "name": full_name(entry, cell, figure),
            "value": rounded(figure.value / divisor),
            "unit": unit,
            "extra": format!("{}\nackmark {}, run {}", entry.machine_name, entry.version, entry.run_id),
        });
        if let Some((low, high)) = figure.interval {
            bench["range"] = format!("± {}", rounded((high - low) / 2.0 / divisor)).into();
        }
        bench
    });
    pretty(&Value::Array(benches.collect()))
}

/// Benchmarks by name, each with one of the two built-in measures: `latency` is nanoseconds,
/// `throughput` operations per second.
fn bencher(entry: &Entry) -> String {
    let benchmark = |(cell, figure): (&EntryCell, &Figure)| {
        let measure = if figure.bigger_is_better { "throughput" } else { "latency" };
        let mut metric = json!({ "value": figure.value });
        if let Some((low, high)) = figure.interval {
            metric["lower_value"] = low.into();
            metric["upper_value"] = high.into();
        }
        (full_name(entry, cell, figure), json!({ measure: metric }))
    };
    pretty(&Value::Object(figures(entry).map(benchmark).collect::<Map<_, _>>()))
}

/// Gauges in base units, each metric in one group.
fn prometheus(entry: &Entry) -> String {
    let labels = |extra: &[(&str, &str)]| {
        let common = [("workload", entry.workload.as_str())];
        let pairs = common.iter().chain(extra);
        let pairs: Vec<String> =
            pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        pairs.join(",")
    };
    let mut metrics: BTreeMap<&str, (&str, Vec<String>)> = BTreeMap::new();
    let mut add = |name, help, labels: String, value: f64| {
        metrics
            .entry(name)
            .or_insert_with(|| (help, Vec::new()))
            .1
            .push(format!("{name}{{{labels}}} {value}\n"));
    };
    for (cell, figure) in figures(entry) {
        let Some((endpoint, percentile)) = figure.name.split_once(" p") else {
            let labels = labels(&[("cell", &cell.name)]);
            add("ackmark_records_per_second", "Records achieved per second.", labels, figure.value);
            continue;
        };
        let labels =
            labels(&[("cell", &cell.name), ("endpoint", endpoint), ("percentile", percentile)]);
        let help = "Latency from the intended send time, by percentile.";
        add("ackmark_latency_seconds", help, labels, figure.value / 1e9);
    }
    let run = labels(&[
        ("commit", &entry.commit),
        ("fingerprint", &entry.fingerprint),
        ("run_id", &entry.run_id),
        ("started_at", &entry.started_at),
        ("version", &entry.version),
    ]);
    add("ackmark_run_info", "The run these figures are from; always 1.", run, 1.0);
    let group = |(name, (help, lines)): (&str, (&str, Vec<String>))| {
        format!("# HELP {name} {help}\n# TYPE {name} gauge\n{}", lines.concat())
    };
    metrics.into_iter().map(group).collect()
}

/// Backslash, double quote and line feed, as the exposition format asks.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// RFC 4180, with a header row.
fn csv(entries: &[Entry]) -> String {
    const HEADER: [&str; 13] = [
        "started_at",
        "commit",
        "run_id",
        "version",
        "fingerprint",
        "machine",
        "workload",
        "cell",
        "figure",
        "unit",
        "value",
        "lower",
        "upper",
    ];
    let mut text = row(HEADER.map(str::to_owned));
    for entry in entries {
        for (cell, figure) in figures(entry) {
            let end = |pick: fn((f64, f64)) -> f64| {
                figure.interval.map_or(String::new(), |ends| pick(ends).to_string())
            };
            text.push_str(&row([
                entry.started_at.clone(),
                entry.commit.clone(),
                entry.run_id.clone(),
                entry.version.clone(),
                entry.fingerprint.clone(),
                entry.machine.clone(),
                entry.workload.clone(),
                cell.name.clone(),
                figure.name.clone(),
                figure.unit.clone(),
                figure.value.to_string(),
                end(|(low, _)| low),
                end(|(_, high)| high),
            ]));
        }
    }
    text
}

fn row<const N: usize>(fields: [String; N]) -> String {
    let quoted = |field: String| match field.contains(['"', ',', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    };
    fields.map(quoted).join(",") + "\r\n"
}

/// Three decimals: beyond them a figure here is noise.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

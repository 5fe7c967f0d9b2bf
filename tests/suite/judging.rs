//! `compare`, `gate` and `trend` as a user or a CI job meets them: output, exit status, files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ackmark::compare::comparable::SLOWDOWN_KEY;
use ackmark::measure::histogram::LatencyHistogram;
use ackmark::results::folder;
use ackmark::results::measured::latency;
use ackmark::results::schema::{Latency, RunResult};
use serde_json::{Value, json};

const PACED: &str = "fixtures/results/v1/paced.json";

fn ackmark(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ackmark"))
        .args(arguments)
        .output()
        .expect("the program starts")
}

fn status(arguments: &[&str], expected: i32) -> (String, String) {
    let output = ackmark(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(expected), "{out}\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

/// A stored result whose every repeat is `factor` times as slow as the first of the stored one, but
/// for the noise of `noise` from repeat to repeat.
fn scaled(factor: f64, noise: f64) -> RunResult {
    let mut result = folder::load(Path::new(PACED)).expect("a fixture");
    result.cells.truncate(1);
    let cell = &mut result.cells[0];
    let template = cell.repeats[0].clone();
    cell.repeats = (0..5)
        .map(|at| {
            let level = factor * (1.0 + noise * (f64::from(at) - 2.0));
            let mut repeat = template.clone();
            repeat.acknowledged = slower(&template.acknowledged, level);
            repeat
        })
        .collect();
    result
}

fn slower(stored: &Latency, factor: f64) -> Latency {
    let text = stored.histogram_v2_deflate_base64.as_ref().expect("samples");
    let mut histogram = LatencyHistogram::new();
    for (value_ns, count) in LatencyHistogram::from_base64(text).expect("our format").buckets() {
        histogram.record_n_ns((value_ns as f64 * factor) as u64, count);
    }
    latency(&histogram)
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Files {
        Files(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain path").to_owned()
    }

    fn store(&self, name: &str, result: &RunResult) -> String {
        let path = self.path(name);
        fs::write(&path, serde_json::to_string(result).expect("plain data")).expect("writable");
        path
    }
}

#[test]
fn the_gate_says_by_its_status_what_it_found() {
    let files = Files::new();
    let base = files.store("base.json", &scaled(1.0, 0.002));
    let noisy = files.store("noisy.json", &scaled(1.0, 0.2));
    let slow = files.store("slow.json", &scaled(1.15, 0.002));
    let gate = |new: &str, more: &[&str], expected| {
        let arguments = ["gate", "--baseline", &base, new, "--max-regression", "10%"];
        status(&[&arguments, more].concat(), expected).0
    };
    assert!(gate(&base, &[], 0).ends_with("gate: PASS\n"));
    let text = gate(&slow, &[], 1);
    assert!(text.contains("REGRESSION   acks=1 page-cache: acknowledged p50"), "{text}");
    let lenient = ["gate", "--baseline", &base, &slow, "--max-regression", "20%"];
    assert!(status(&lenient, 0).0.ends_with("gate: PASS\n"));
    assert!(gate(&noisy, &[], 0).contains("gate: INCONCLUSIVE"));
    gate(&noisy, &["--fail-on-inconclusive"], 5);
    let json: Value = serde_json::from_str(&gate(&slow, &["--json"], 1)).expect("JSON alone");
    assert_eq!(json["decision"], "regression");
}

#[test]
fn a_gate_that_cannot_judge_fails_as_invalid() {
    let files = Files::new();
    let mut once = scaled(1.0, 0.0);
    once.cells[0].repeats.truncate(1);
    let once = files.store("once.json", &once);
    let (text, _) = status(&["gate", "--baseline", &once, &once], 3);
    assert!(text.contains("one repeat tells nothing"), "{text}");
    let (_, error) =
        status(&["gate", "--baseline", PACED, "fixtures/results/v1/interrupted.json"], 3);
    assert!(error.contains("NEW cannot be judged by: it is partial"), "{error}");
    let (_, error) = status(&["gate", "--max-regression", "10"], 2);
    assert!(error.contains("must be a percentage"), "{error}");
    status(&["gate"], 2);
    status(&["gate", "--baseline", PACED, "--against", "x", PACED], 2);
}

#[test]
fn what_is_not_comparable_is_refused_by_name_unless_allowed() {
    let files = Files::new();
    let base = files.store("base.json", &scaled(1.0, 0.002));
    let changed = |name: &str, change: fn(&mut RunResult)| {
        let mut result = scaled(1.0, 0.002);
        change(&mut result);
        files.store(name, &result)
    };
    let device =
        changed("device.json", |result| result.environment["device"]["name"] = json!("nvme9"));
    for command in [&["compare", &base, &device][..], &["gate", "--baseline", &base, &device]] {
        let (out, error) = status(command, 4);
        assert!(out.is_empty(), "{out}");
        assert!(
            error.contains("environment: device.name is vda in BASE and nvme9 in NEW"),
            "{error}"
        );
        assert!(error.contains("--allow environment"), "{error}");
    }
    let (text, _) = status(&["compare", &base, &device, "--allow", "environment"], 0);
    assert!(text.contains("! allowed, environment: device.name"), "{text}");

    let debug = changed("debug.json", |result| result.tool.build = "debug".to_owned());
    let (_, error) = status(&["compare", &base, &debug], 2);
    assert!(error.contains("debug-build: NEW was measured by a debug build"), "{error}");
    let slowed = changed("slowed.json", |result| {
        drop(result.workload.load.insert(SLOWDOWN_KEY.to_owned(), json!(0.15)));
    });
    let (_, error) = status(&["compare", &base, &slowed], 2);
    assert!(error.contains("slowdown: NEW was slowed down on purpose: 0.15"), "{error}");
    let history = files.path("history");
    let (_, error) = status(&["trend", &slowed, "--history", &history], 3);
    assert!(error.contains("slowed down on purpose"), "{error}");
    let other = changed("other.json", |result| {
        drop(result.workload.load.insert("linger".to_owned(), json!("5ms")));
    });
    let (_, error) = status(&["compare", &base, &other], 2);
    assert!(error.contains("workload: load.linger is 0s in BASE and 5ms in NEW"), "{error}");
}

#[test]
fn a_comparison_is_a_table_or_json() {
    let files = Files::new();
    let base = files.store("base.json", &scaled(1.0, 0.002));
    let slow = files.store("slow.json", &scaled(1.15, 0.002));
    let (text, _) = status(&["compare", &base, &slow], 0);
    assert!(text.contains("WORSE"), "{text}");
    let (json, _) = status(&["compare", &base, &slow, "--json"], 0);
    let json: Value = serde_json::from_str(&json).expect("JSON alone");
    let row = &json["cells"][0]["rows"][0];
    assert_eq!((&row["name"], &row["verdict"]), (&json!("acknowledged p50"), &json!("worse")));
    assert_eq!(status(&["compare", &base, &slow], 0).0, text, "the same seed, the same text");
    status(&["compare", &base, "no-such"], 2);
}

#[test]
fn a_trend_keeps_runs_and_writes_every_export() {
    let files = Files::new();
    let history = files.path("history");
    let trend = |result: &str, more: &[&str]| {
        status(&[&["trend", result, "--history", &history, "--commit", "abc"], more].concat(), 0)
    };
    trend(PACED, &[]);
    assert!(trend(PACED, &[]).1.contains("is in the history already"));
    for at in 0..12 {
        let mut result = scaled(if at < 6 { 1.0 } else { 1.5 }, 0.002);
        result.run_id = format!("run-{at}");
        result.started_at = format!("2026-12-{:02}T00:00:00Z", at + 1);
        trend(&files.store(&format!("{at}.json"), &result), &[]);
    }
    let exports = ["github-smaller", "github-bigger", "bencher", "prometheus", "csv"];
    let page = files.path("page.html");
    let mut arguments = vec!["trend".to_owned(), "--history".to_owned(), history.clone()];
    arguments.extend(["--html".to_owned(), page.clone()]);
    for format in exports {
        arguments.extend(["--export".to_owned(), format!("{format}={}", files.path(format))]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (text, _) = status(&arguments, 0);
    assert!(text.contains("acks=1 page-cache: acknowledged p50"), "{text}");
    assert!(text.contains("worse by 50 %"), "{text}");
    assert!(fs::read_to_string(page).expect("written").contains("worse by 50 %"));
    assert!(
        exports.iter().all(|format| !fs::read(files.path(format)).expect("written").is_empty())
    );
    let lines = fs::read_dir(&history).expect("readable").count();
    assert_eq!(lines, 1, "one file a workload");
    status(&["trend", "--history", &files.path("none")], 2);
    status(&["trend", "--history", &history, "--export", "xml=x"], 2);
}

fn results_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(results_below(&path));
        } else if path.ends_with("result.json") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The limits are far beyond any noise, so what is measured does not matter here.
#[test]
fn two_programs_run_in_turns_and_an_injected_slowdown_is_marked() {
    let files = Files::new();
    let (data, out) = (files.path("data"), files.path("out"));
    fs::create_dir(&data).expect("writable");
    let (text, error) = status(
        &[
            "gate",
            "--against",
            env!("CARGO_BIN_EXE_ackmark"),
            "--rounds=2",
            "--max-regression=1000%",
            "--max-tail-regression=1000%",
            "--allow=debug-build",
            "--inject-slowdown=15%",
            "--data",
            &data,
            "--out",
            &out,
        ],
        0,
    );
    assert!(text.contains("! allowed, slowdown: NEW was slowed down on purpose: 0.15"), "{text}");
    assert!(text.contains("acknowledged p50"), "{text}");
    assert!(error.contains("round 2 of 2"), "{error}");
    let results = results_below(Path::new(&out));
    assert_eq!(results.len(), 4, "{results:?}");
    for path in results {
        let result = folder::load(&path).expect("a result");
        let is_new = path.to_string_lossy().contains("-new/");
        assert_eq!(result.workload.load.contains_key(SLOWDOWN_KEY), is_new);
        let is_marked =
            result.warnings.first().is_some_and(|text| text.contains("INJECTED SLOWDOWN"));
        assert_eq!(is_marked, is_new, "{:?}", result.warnings);
    }
    assert_eq!(fs::read_dir(&data).expect("ours").count(), 0, "no data is left");
}

#[test]
fn another_program_that_is_none_is_named() {
    let files = Files::new();
    let out = files.path("out");
    let (_, error) = status(&["gate", "--against", "/no/such", "--out", &out], 2);
    assert!(error.contains("cannot start /no/such"), "{error}");
    let (_, error) = status(&["gate", "--against", "/bin/false", "--out", &out], 3);
    assert!(error.contains("/bin/false run ended with status 1"), "{error}");
}

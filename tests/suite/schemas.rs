//! What `ackmark schema` prints is what workloads and results are, and is what `docs/schema` holds;
//! what else the program says of itself: completions, manual pages, its version.
//! `UPDATE_EXPECT=1` rewrites `docs/schema`.

use std::path::Path;
use std::process::Command;

use expect_test::expect_file;
use jsonschema::Validator;
use serde_json::Value;

fn ackmark(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_ackmark"))
        .args(arguments)
        .output()
        .expect("the program starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn validator(subject: &str) -> Validator {
    let schema = serde_json::from_str(&ackmark(&["schema", subject])).expect("JSON");
    jsonschema::draft7::meta::validate(&schema).unwrap_or_else(|error| panic!("{error}"));
    jsonschema::draft7::new(&schema).unwrap_or_else(|error| panic!("{error}"))
}

fn complaints(validator: &Validator, value: &Value) -> Vec<String> {
    let complaint =
        |error: jsonschema::ValidationError| format!("{}: {error}", error.instance_path());
    validator.iter_errors(value).map(complaint).collect()
}

/// What is in a file, whatever of the two it is written in; nothing if it is neither.
fn read(file: &Path) -> Option<Value> {
    let text = std::fs::read_to_string(file).expect("part of the repository");
    match file.extension().is_some_and(|extension| extension == "toml") {
        true => toml::from_str(&text).ok(),
        false => serde_json::from_str(&text).ok(),
    }
}

fn files(folder: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).expect("part of the repository");
    let files = entries.map(|entry| entry.expect("a readable folder").path());
    files.filter(|file| file.is_file()).collect()
}

#[test]
fn the_schemas_are_published_as_printed() {
    for subject in ["workload", "result"] {
        let published = format!("docs/schema/{subject}.schema.json");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(published);
        expect_file![file].assert_eq(&ackmark(&["schema", subject]));
    }
}

#[test]
fn workloads_fit_their_schema_and_name_it() {
    let validator = validator("workload");
    let experiments = files("fixtures/workloads/experiments");
    for file in files("fixtures/workloads").into_iter().chain(experiments) {
        let workload = read(&file).expect("TOML");
        let complaints = complaints(&validator, &workload);
        assert!(complaints.is_empty(), "{}: {complaints:#?}", file.display());
        let text = std::fs::read_to_string(&file).expect("read before");
        let first = text.lines().next().unwrap_or_default();
        let schema = first.strip_prefix("#:schema ").expect("an editor finds the schema by it");
        let schema = file.parent().expect("it has one").join(schema);
        assert!(schema.exists(), "{} is not there", schema.display());
    }
}

/// Bad only by what two keys say together, or by what text stands for: beyond a schema.
const BEYOND_A_SCHEMA: [&str; 27] = [
    "arrival-in-closed-mode",
    "batch-larger-than-message-max",
    "closed-loop-without-answers",
    "commit-delay-given-twice",
    "default-above-brokers",
    "default-record-above-message-max",
    "duration-above-max",
    "engine-given-twice",
    "fault-heartbeats-of-a-controller",
    "fault-after-the-end",
    "fault-amount-without-effect",
    "fault-delay-without-amount",
    "fault-link-without-ends",
    "fault-longer-than-its-period",
    "fault-repeated-without-length",
    "fault-storage-of-a-controller",
    "fault-target-unknown",
    "heartbeat-slower-than-session",
    "min-isr-above-replication-factor",
    "rate-above-max",
    "rate-in-max-mode",
    "record-larger-than-message-max",
    "replication-factor-above-brokers",
    "route-not-of-mode",
    "segment-smaller-than-batch",
    "share-without-answers",
    "warmup-longer-than-run",
];

#[test]
fn bad_workloads_do_not_fit() {
    let validator = validator("workload");
    for file in files("fixtures/workloads/bad") {
        let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("UTF-8").to_owned();
        let Some(workload) = read(&file) else { continue };
        let fits = validator.is_valid(&workload);
        assert_eq!(fits, BEYOND_A_SCHEMA.contains(&stem.as_str()), "{stem}");
    }
}

#[test]
fn results_fit_their_schema() {
    let validator = validator("result");
    let results = files("fixtures/results/v2");
    assert!(!results.is_empty());
    for file in results {
        let mut result = read(&file).expect("JSON");
        let complaints = complaints(&validator, &result);
        assert!(complaints.is_empty(), "{}: {complaints:#?}", file.display());
        result["from_the_future"] = Value::Bool(true);
        assert!(validator.is_valid(&result), "unknown keys are tolerated");
        result["cells"][0]["counts"]["due_records"] = Value::String("many".to_owned());
        assert!(!validator.is_valid(&result));
    }
}

#[test]
fn every_shell_completes_every_command() {
    let help = ackmark(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ackmark(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    ackmark(&["man", "--out", folder.path().to_str().expect("UTF-8")]);
    for command in commands.iter().filter(|command| **command != "help") {
        let page = folder.path().join(format!("ackmark-{command}.1"));
        assert!(page.exists(), "no page for {command}");
    }
    assert!(ackmark(&["man"]).contains(".SH SYNOPSIS"));
}

#[test]
fn the_version_names_the_commit() {
    let head = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let head = head.ok().filter(|output| output.status.success());
    let commit = head.map_or("unknown".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    });
    let version = ackmark(&["--version"]);
    let expected = format!("ackmark {} ({commit}", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(&expected), "{version} is not {expected})");
}

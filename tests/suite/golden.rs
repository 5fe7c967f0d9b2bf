//! What people see, whole: the report of a stored result. `UPDATE_EXPECT=1` rewrites the goldens.

use std::path::{Path, PathBuf};
use std::process::Command;

use ackmark::report::terminal;
use ackmark::results::folder;
use expect_test::expect_file;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden").join(name)
}

/// The files under `fixtures/results/v1` are never rewritten: a result of this schema version stays
/// readable.
#[test]
fn a_stored_result_renders_as_recorded() {
    for name in ["paced", "interrupted"] {
        let result = folder::load(Path::new(&format!("fixtures/results/v1/{name}.json")))
            .unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)));
        let report = terminal::render(&result);
        for line in report.lines() {
            assert!(line.chars().count() <= 120, "wider than 120 columns: {line}");
        }
        expect_file![golden(&format!("report-{name}.txt"))].assert_eq(&report);
    }
}

#[test]
fn help_reads_as_recorded() {
    for (name, arguments) in [
        ("help.txt", vec!["--help"]),
        ("help-run.txt", vec!["run", "--help"]),
        ("help-drive.txt", vec!["drive", "--help"]),
        ("help-compare.txt", vec!["compare", "--help"]),
        ("help-gate.txt", vec!["gate", "--help"]),
        ("help-trend.txt", vec!["trend", "--help"]),
        ("help-probe.txt", vec!["probe", "--help"]),
        ("help-report.txt", vec!["report", "--help"]),
        ("help-topics.txt", vec!["topics", "--help"]),
        ("help-elect-leaders.txt", vec!["elect-leaders", "--help"]),
        ("help-cluster.txt", vec!["cluster", "--help"]),
        ("help-brokers.txt", vec!["brokers", "--help"]),
        ("help-quorum.txt", vec!["quorum", "--help"]),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_ackmark"))
            .args(arguments)
            .output()
            .expect("the program starts");
        assert!(output.status.success());
        expect_file![golden(name)].assert_eq(&String::from_utf8_lossy(&output.stdout));
    }
}

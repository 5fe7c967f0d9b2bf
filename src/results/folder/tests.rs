use std::collections::BTreeMap;
use std::error::Error;

use crate::results::schema::{self, Status, Tool};

use super::*;

fn result() -> RunResult {
    RunResult {
        schema_version: SCHEMA_VERSION,
        tool: Tool {
            name: "ackmark".to_owned(),
            version: "0.1.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            build: "release".to_owned(),
        },
        run_id: "00000000-0000-4000-8000-000000000000".to_owned(),
        started_at: "2026-11-30T08:31:08Z".to_owned(),
        wall_time_s: 1.0,
        status: Status::Complete,
        status_reason: None,
        environment: Value::Null,
        floors: Vec::new(),
        workload: schema::Workload {
            name: "t".to_owned(),
            cluster: BTreeMap::new(),
            load: BTreeMap::new(),
            matrix: BTreeMap::new(),
            election: BTreeMap::new(),
            flush: BTreeMap::new(),
            fault: Vec::new(),
        },
        sweeps: Vec::new(),
        cells: Vec::new(),
        warnings: vec!["w".to_owned()],
    }
}

fn cause(error: &dyn Error) -> String {
    error.source().map_or(String::new(), ToString::to_string)
}

#[test]
fn what_is_written_is_read_back() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let folder = write(out.path(), "now", &result()).expect("a writable folder");
    assert_eq!(folder, out.path().join("t/now"));
    assert_eq!(load(&folder).expect("a result"), result());
    assert_eq!(load(&folder.join(RESULT_FILE)).expect("a result"), result());
}

#[test]
fn nothing_is_overwritten_or_left_behind() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<_> = (0..3)
        .map(|_| write(out.path(), "now", &result()).expect("a writable folder"))
        .map(|folder| folder.file_name().expect("a name").to_owned())
        .collect();
    assert_eq!(names, ["now", "now-2", "now-3"]);
    let entries = fs::read_dir(out.path().join("t")).expect("readable").count();
    assert_eq!(entries, 3, "no hidden folder remains");
}

#[test]
fn results_of_one_second_never_share_a_folder() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let barrier = std::sync::Barrier::new(16);
    let stored = |number: usize| {
        let result = RunResult { run_id: number.to_string(), ..result() };
        barrier.wait();
        let folder = write(out.path(), "now", &result).expect("a writable folder");
        (folder, number.to_string())
    };
    let folders: Vec<(PathBuf, String)> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..16).map(|number| scope.spawn(move || stored(number))).collect();
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
    });
    for (folder, run_id) in folders {
        assert_eq!(load(&folder).expect("a result").run_id, run_id, "{}", folder.display());
    }
    let entries = fs::read_dir(out.path().join("t")).expect("readable").count();
    assert_eq!(entries, 16);
}

/// What a version wrote is kept under `fixtures/results/vN` and never rewritten.
#[test]
fn results_of_every_schema_version_load() {
    for version in 1..=SCHEMA_VERSION {
        let folder = PathBuf::from(format!("fixtures/results/v{version}"));
        let files: Vec<PathBuf> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("a readable folder").path())
            .collect();
        assert!(!files.is_empty(), "{} holds no result", folder.display());
        for file in files {
            let written = fs::read_to_string(&file).expect("a fixture");
            let written: Value = serde_json::from_str(&written).expect("JSON");
            assert_eq!(written["schema_version"], version, "{}", file.display());
            let loaded = load(&file).unwrap_or_else(|error| panic!("{error}: {}", cause(&error)));
            assert!(!loaded.cells.is_empty());
        }
    }
    let before_commits = load(Path::new("fixtures/results/v1/paced.json")).expect("a result");
    assert_eq!(before_commits.tool.commit, "unknown");
}

#[test]
fn an_unwritable_place_is_named() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = out.path().join("file");
    fs::write(&file, "").expect("a writable folder");
    let error = write(&file, "now", &result()).expect_err("a file is no folder");
    assert_eq!(error.to_string(), format!("cannot create {}/t", file.display()));
}

#[test]
fn unknown_fields_are_tolerated_and_missing_ones_named() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = out.path().join("result.json");
    let mut json = serde_json::to_value(result()).expect("plain data");
    json["from_the_future"] = Value::Bool(true);
    fs::write(&file, json.to_string()).expect("a writable folder");
    assert_eq!(load(&file).expect("a result"), result());

    json.as_object_mut().expect("an object").remove("run_id");
    fs::write(&file, json.to_string()).expect("a writable folder");
    let error = load(&file).expect_err("no run id");
    assert_eq!(error.to_string(), format!("{}: not a result", file.display()));
    assert!(cause(&error).contains("missing field `run_id`"), "{}", cause(&error));
}

#[test]
fn another_schema_version_is_refused() {
    let out = tempfile::tempdir().expect("a temporary folder");
    let file = out.path().join("result.json");
    fs::write(&file, r#"{"schema_version": 3}"#).expect("a writable folder");
    let error = load(&file).expect_err("version 3").to_string();
    assert!(error.contains("schema_version = 3: must be 1 to 2"), "{error}");
    fs::write(&file, "{}").expect("a writable folder");
    let error = load(&file).expect_err("no version").to_string();
    assert!(error.contains("schema_version = null"), "{error}");
}

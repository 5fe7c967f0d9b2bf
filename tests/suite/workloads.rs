//! Every workload in `fixtures/workloads` loads; every one in `bad/` is refused with the text in
//! `fixtures/golden/errors`. `UPDATE_EXPECT=1` rewrites the goldens.

use std::path::{Path, PathBuf};

use ackmark::config::workload::Workload;
use ackmark::protocol::metadata::topic_config::TopicConfig;
use ackmark::types::Compat;
use expect_test::expect_file;

fn toml_files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is part of the repository")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{folder} holds no workload");
    files
}

#[test]
fn good_workloads_load() {
    let experiments = toml_files("fixtures/workloads/experiments");
    for file in toml_files("fixtures/workloads").into_iter().chain(experiments) {
        let workload = Workload::from_file(&file).unwrap_or_else(|error| panic!("{error}"));
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        assert_eq!(stem, Some(workload.name.as_str()), "a workload is named like its file");
    }
}

#[test]
fn bad_workloads_are_refused_in_words() {
    for file in toml_files("fixtures/workloads/bad") {
        let error = Workload::from_file(&file).expect_err("a bad workload was accepted");
        let name = Path::new(file.file_name().expect("a file")).with_extension("txt");
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden/errors").join(name);
        let place =
            format!("{error}").strip_prefix(&format!("{}:", file.display())).and_then(|rest| {
                let mut numbers = rest.split(':').map(str::parse::<usize>);
                Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
            });
        let (line, column) = place.unwrap_or_else(|| panic!("no line and column: {error}"));
        let text = std::fs::read_to_string(&file).expect("read before");
        let length = text.lines().nth(line - 1).map_or(0, |line| line.chars().count());
        assert!((1..=length + 1).contains(&column), "{error}: beyond the line's end");
        expect_file![golden].assert_eq(&format!("{error}\n"));
    }
}

/// The reader's own list of keys against `docs/workloads.md`.
#[test]
fn every_key_is_in_the_reference() {
    let reference = std::fs::read_to_string("docs/workloads.md").expect("the reference");
    for table in ["[cluster]", "[load]", "[matrix]", "[flush]", "[election]", "[[fault]]"] {
        let text = format!("name = \"t\"\n{table}\nno_such_key = 1\n");
        let error = Workload::from_text(Path::new("t.toml"), &text).expect_err("an unknown key");
        let error = error.to_string();
        let (_, keys) = error.split_once("allowed here: ").expect("it lists the keys");
        let (_, section) = reference
            .split_once(&format!("## `{table}`"))
            .unwrap_or_else(|| panic!("no section on {table}"));
        let section = section.split("\n## ").next().unwrap_or_default();
        for key in keys.trim().split(", ") {
            assert!(section.contains(&format!("| `{key}` |")), "{table} {key} is not described");
        }
    }
}

/// A topic gets its `isr.expand` from its cell, so the default must be the controller's own.
#[test]
fn isr_expand_is_by_default_what_the_controller_gives_a_topic() {
    let cases = Compat::ALL.iter().flat_map(|&(name, compat)| {
        let levels = if compat == Compat::Kip { 0..=2 } else { 0..=1 };
        levels.map(move |level| (name, compat, level))
    });
    for (name, compat, level) in cases {
        let text = format!("name = \"t\"\n[election]\ncompat = \"{name}\"\nelr_level = {level}\n");
        let workload = Workload::from_text(Path::new("t.toml"), &text)
            .unwrap_or_else(|error| panic!("{error}"));
        let unset = TopicConfig::unset(Some(compat), level);
        assert_eq!(workload.matrix.isr_expands, [unset.isr_expand], "{name} at level {level}");
    }
}

#[test]
fn no_golden_error_is_left_over() {
    for entry in std::fs::read_dir("fixtures/golden/errors").expect("the folder exists") {
        let golden = entry.expect("a readable folder").path();
        let stem = golden.file_stem().expect("a file").to_owned();
        let workload = Path::new("fixtures/workloads/bad").join(stem).with_extension("toml");
        assert!(workload.exists(), "{} has no workload", golden.display());
    }
}

#[test]
fn the_default_workload_is_the_issue_s() {
    let workload =
        Workload::from_file(Path::new("fixtures/workloads/default.toml")).expect("it loads");
    assert_eq!(workload.cells().len(), 12, "acks 1 and all under six durability modes");
    assert!(workload.load.repeats >= 2);
    let per_cell = workload.load.warmup + workload.load.duration;
    let measured = per_cell * u32::try_from(12 * workload.load.repeats).expect("small");
    assert!(measured.as_secs() < 75, "no room is left for starting clusters: {measured:?}");
}

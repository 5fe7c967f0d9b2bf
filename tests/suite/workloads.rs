//! Every workload in `fixtures/workloads` loads; every one in `bad/` is refused with the text in
//! `fixtures/golden/errors`. `UPDATE_EXPECT=1` rewrites the goldens.

use std::path::{Path, PathBuf};

use ackmark::config::workload::Workload;
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

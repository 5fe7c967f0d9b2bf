use std::fs;
use std::path::Path;

use serde_json::json;

use super::entry;
use crate::history::entry::{Entry, EntryError};
use crate::history::file::{append, load, path, workloads};
use crate::results::folder;
use crate::results::schema::{RunResult, Status};

#[test]
fn runs_are_appended_once_and_read_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("history");
    assert!(append(&folder, &entry(3, 100.0)).unwrap());
    let file = path(&folder, "nightly");
    let before = fs::read(&file).unwrap();
    assert!(append(&folder, &entry(1, 100.0)).unwrap());
    assert!(!append(&folder, &entry(3, 100.0)).unwrap(), "it is there already");
    let after = fs::read(&file).unwrap();
    assert!(after.starts_with(&before), "only ever appended to");
    assert_eq!(after.iter().filter(|byte| **byte == b'\n').count(), 2);
    let history = load(&file).unwrap();
    assert_eq!(history.entries, [entry(1, 100.0), entry(3, 100.0)]);
    assert!(history.complaints.is_empty());
    assert_eq!(workloads(&folder).unwrap(), ["nightly"]);
}

#[test]
fn a_torn_line_is_complained_about_and_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    append(folder.path(), &entry(0, 100.0)).unwrap();
    let file = path(folder.path(), "nightly");
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    append(folder.path(), &entry(1, 100.0)).unwrap();
    let mut old = serde_json::to_value(entry(2, 100.0)).unwrap();
    old["history_version"] = json!(0);
    fs::write(&file, format!("{}{old}\n", fs::read_to_string(&file).unwrap())).unwrap();
    let history = load(&file).unwrap();
    assert_eq!(history.entries, [entry(0, 100.0), entry(1, 100.0)]);
    assert_eq!(history.complaints.len(), 2);
    assert!(history.complaints[0].contains("nightly.jsonl:2: not a line of history"));
    assert!(history.complaints[1].contains(":4: history_version = 0"));
}

#[test]
fn a_byte_that_is_no_text_damages_its_own_line_only() {
    let folder = tempfile::tempdir().unwrap();
    (0..3).for_each(|day| assert!(append(folder.path(), &entry(day, 100.0)).unwrap()));
    let file = path(folder.path(), "nightly");
    let mut bytes = fs::read(&file).unwrap();
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 3] = 0xff;
    fs::write(&file, bytes).unwrap();
    let history = load(&file).unwrap();
    assert_eq!(history.entries, [entry(0, 100.0), entry(2, 100.0)]);
    assert_eq!(history.complaints.len(), 1);
    assert!(history.complaints[0].contains("nightly.jsonl:2: not a line of history"));
}

#[test]
fn no_file_is_an_empty_history() {
    let folder = tempfile::tempdir().unwrap();
    assert!(load(&path(folder.path(), "none")).unwrap().entries.is_empty());
    assert!(workloads(&folder.path().join("none")).unwrap().is_empty());
}

fn stored() -> RunResult {
    folder::load(Path::new("fixtures/results/v1/paced.json")).unwrap()
}

#[test]
fn a_result_gives_its_figures_with_intervals() {
    let result = stored();
    let entry = Entry::new(&result, "abc").unwrap();
    assert_eq!((entry.commit.as_str(), entry.cells.len()), ("abc", result.cells.len()));
    let p50 = &entry.cells[0].figures[0];
    assert_eq!((p50.name.as_str(), p50.unit.as_str()), ("acknowledged p50", "ns"));
    let stored_p50 = result.cells[0].latency.acknowledged.percentiles_ns["p50"] as f64;
    assert!((p50.value / stored_p50 - 1.0).abs() < 0.002, "{p50:?} for {stored_p50}");
    let (low, high) = p50.interval.unwrap();
    assert!(low < p50.value && p50.value < high);
    let rate = entry.cells[0].figures.last().unwrap();
    assert_eq!((rate.name.as_str(), rate.bigger_is_better), ("rate", true));
}

#[test]
fn a_new_version_continues_the_series_and_a_new_device_begins_one() {
    let base = Entry::new(&stored(), "a").unwrap();
    let mut newer = stored();
    newer.environment["version"] = json!("99.0.0");
    newer.environment["fingerprint"] = json!("ffffffffffffffff");
    assert_eq!(Entry::new(&newer, "b").unwrap().machine, base.machine);
    let mut moved = stored();
    moved.environment["device"]["name"] = json!("nvme9");
    assert_ne!(Entry::new(&moved, "b").unwrap().machine, base.machine);
    let mut other = stored();
    other.cells[0].factors.rate_per_s = Some(1);
    let other = Entry::new(&other, "b").unwrap();
    assert_ne!(other.cells[0].settings, base.cells[0].settings);
    assert_eq!(other.cells[1].settings, base.cells[1].settings);
}

#[test]
fn what_was_slowed_down_or_never_ended_has_no_place() {
    let mut slowed = stored();
    slowed.workload.load.insert("injected_slowdown".to_owned(), json!(0.15));
    assert!(matches!(Entry::new(&slowed, "a"), Err(EntryError::SlowedDown)));
    let mut partial = stored();
    partial.cells.iter_mut().for_each(|cell| cell.status = Status::Partial);
    assert!(matches!(Entry::new(&partial, "a"), Err(EntryError::Empty)));
    let mut half = stored();
    half.cells[0].status = Status::Partial;
    assert_eq!(Entry::new(&half, "a").unwrap().cells.len(), half.cells.len() - 1);
}

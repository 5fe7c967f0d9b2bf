//! The HTML report: whole, self-contained, and true to result.json. `make report-check` looks at the
//! same pages in a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use ackmark::report::html::{self, Source};
use ackmark::report::terminal;
use ackmark::results::folder;
use ackmark::results::isr::{AroundStalls, Interval, Isr, Partition, Stalls};
use ackmark::results::schema::{Cell, RunResult};
use expect_test::expect_file;
use serde_json::Value;

use crate::synthetic;

/// Of a page with 200 cells.
const BYTES_MAX: usize = 3_000_000;

/// Elements without an end tag.
const VOID: [&str; 2] = ["meta", "link"];

fn paced() -> RunResult {
    folder::load(Path::new("fixtures/results/v1/paced.json")).unwrap()
}

fn page_of(result: &RunResult) -> String {
    html::render(&[Source { name: "result.json", result }])
}

/// A start tag or the text after it, in document order.
enum Piece<'a> {
    Start { name: &'a str, attributes: Vec<(&'a str, &'a str)>, open: Vec<Option<&'a str>> },
    Text(&'a str),
}

/// Walks the page and checks that every element is closed where it should be. `open` holds the
/// `data-at` of each element that is open, if it has one.
fn pieces(page: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut open: Vec<(&str, Option<&str>)> = Vec::new();
    for part in page.split('<').skip(2) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("unclosed tag: {part}"));
        let name = tag.split([' ', '/', '\n']).find(|word| !word.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop().map(|(name, _)| name), Some(name), "closed by </{name}>");
        } else {
            let attributes = attributes(tag);
            let at = attributes.iter().find(|(key, _)| *key == "data-at").map(|(_, value)| *value);
            if !tag.ends_with('/') && !VOID.contains(&name) {
                open.push((name, at));
            }
            let open = open.iter().map(|(_, at)| *at).collect();
            pieces.push(Piece::Start { name, attributes, open });
        }
        if !text.trim().is_empty() {
            pieces.push(Piece::Text(text.trim()));
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    pieces
}

fn attributes(tag: &str) -> Vec<(&str, &str)> {
    tag.split("=\"")
        .zip(tag.split("=\"").skip(1))
        .map(|(before, after)| {
            let key = before.rsplit([' ', '"']).next().unwrap();
            (key, after.split('"').next().unwrap())
        })
        .collect()
}

/// Follows every figure to its number in the result; returns how many there are.
fn follow_all_figures(result: &RunResult) -> usize {
    let json = serde_json::to_value(result).unwrap();
    let page = page_of(result);
    let mut count = 0;
    for piece in pieces(&page) {
        let Piece::Start { attributes, open, .. } = piece else { continue };
        let get =
            |key: &str| attributes.iter().find(|(own, _)| *own == key).map(|(_, value)| *value);
        let Some(of) = get("data-of") else { continue };
        let at = open.iter().rev().find_map(|at| *at).expect("a data-at around it");
        let pointer = format!("{at}/{of}");
        let stored = json.pointer(&pointer).and_then(Value::as_f64);
        assert_eq!(get("data-value").and_then(|value| value.parse().ok()), stored, "{pointer}");
        assert!(stored.is_some(), "{pointer} is not a number of the result");
        count += 1;
    }
    count
}

#[test]
fn every_figure_is_where_it_says_in_the_result() {
    let result = paced();
    let count = follow_all_figures(&result);
    assert!(count > 50 * result.cells.len(), "{count}");
    follow_all_figures(&folder::load(Path::new("fixtures/results/v1/interrupted.json")).unwrap());
    follow_all_figures(&synthetic::with_events());
}

/// The page as a reader without eyes for charts gets it.
#[test]
fn a_stored_result_reads_as_recorded() {
    let page = page_of(&paced());
    let mut outline = String::new();
    let mut within = "";
    for piece in pieces(&page) {
        match piece {
            Piece::Start { name, attributes, .. } => {
                within = name;
                let spoken = attributes.iter().find(|(key, _)| *key == "aria-label");
                if let Some((_, label)) = spoken {
                    outline.push_str(&format!("{name} [{label}]\n"));
                }
            }
            Piece::Text(_) if within == "style" => {}
            Piece::Text(text) => outline.push_str(&format!("{within}: {text}\n")),
        }
    }
    let golden =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden/report-paced-html.txt");
    expect_file![golden].assert_eq(&outline);
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page_of(&synthetic::with_events());
    for forbidden in
        ["<script", "http://", "https://", "src=", "url(", "@import", "<link rel=\"style"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn what_a_result_says_cannot_become_markup() {
    let mut result = paced();
    let hostile = "<script>alert(1)</script>\" onload=\"x";
    result.workload.name = hostile.to_owned();
    result.warnings.push(hostile.to_owned());
    result.cells[0].name = hostile.to_owned();
    result.cells[0].factors.durability = hostile.to_owned();
    result.cells[0].guarantee = hostile.to_owned();
    let page = html::render(&[Source { name: hostile, result: &result }]);
    assert!(!page.contains("<script"));
    for piece in pieces(&page) {
        let Piece::Start { attributes, .. } = piece else { continue };
        assert!(attributes.iter().all(|(key, _)| *key != "onload"));
    }
}

#[test]
fn two_hundred_cells_stay_small() {
    let result = synthetic::cells_200();
    assert_eq!(result.cells.len(), 200);
    let page = page_of(&result);
    assert!(page.len() < BYTES_MAX, "{} bytes", page.len());
    assert!(follow_all_figures(&result) > 200 * 50);
}

#[test]
fn faults_are_marked_and_named() {
    let page = page_of(&synthetic::with_events());
    assert_eq!(page.matches("class=\"mark\"").count(), 3, "a line each");
    assert_eq!(page.matches("class=\"span\"").count(), 1, "one of them lasts");
    assert!(page.contains("broker-3 stopped (SIGSTOP)"));
    assert!(page.contains("data-kind=\"isr_shrink\""));
    assert!(page.contains("8.000 to 10.500 s of repeat 0"));
    assert!(page.contains("CPU time was stolen by the hypervisor"));
}

/// What the brokers told of a cell: its own latency stands in for every distribution.
fn told(cell: &Cell, stall_p50_ns: u64) -> Isr {
    let with_p50 = |p50_ns: u64| {
        let mut latency = cell.latency.acknowledged.clone();
        latency.percentiles_ns.insert("p50".to_owned(), p50_ns);
        latency
    };
    let interval = |name: &str, p50_ns: u64| Interval {
        name: name.to_owned(),
        symbol: Some("xC".to_owned()),
        meaning: format!("what {name} means"),
        latency: with_p50(p50_ns),
    };
    Isr {
        intervals: vec![interval("alter_commit", 500_000), interval("expand_stall", stall_p50_ns)],
        partitions: vec![Partition { partition: 0, expands: 7, shrinks: 8, dropped: 0, flaps: 6 }],
        stalls: vec![Stalls {
            reason: "under_min_isr".to_owned(),
            count: 7,
            records: 70,
            held_record_s: 4.25,
        }],
        around_stalls: vec![AroundStalls {
            latency: "committed".to_owned(),
            met: with_p50(900_000),
            outside: with_p50(90_000),
        }],
        events: Vec::new(),
        left_out_events: 0,
        lost_events: 0,
    }
}

#[test]
fn isr_changes_and_stalls_are_shown_with_their_ratio_to_the_least() {
    let mut result = paced();
    let all = result.cells.iter().position(|cell| cell.factors.acks == "all");
    let all = all.expect("a cell whose followers are traced");
    let cell = &mut result.cells[all];
    cell.factors.isr_wait = "controller".to_owned();
    cell.factors.hwm_gate = "kip966".to_owned();
    for stage in &mut cell.stages {
        stage.latency.percentiles_ns.insert("p50".to_owned(), 100_000);
    }
    cell.isr = Some(told(cell, 1_200_000));
    follow_all_figures(&result);
    let page = page_of(&result);
    for words in ["7 expansions, 8 shrinks, 6 flaps", "xC: what alter_commit means", "4.25"] {
        assert!(page.contains(words), "{words}");
    }
    let text = terminal::render(&result);
    let title = "ISR changes and stalls of the high watermark\n";
    let table = text.split_once(title).expect("a section").1;
    let row = table.lines().find(|line| line.contains("7/8")).expect("the cell's row");
    // 1200 us over 500 us and three parts of a fetch of 100 us each.
    let expected = ["7/8", "6", "500 us", "-", "1.20 ms"];
    assert!(expected.iter().all(|figure| row.contains(figure)), "{row}");
    assert!(row.contains("1.50") && row.contains("4.2"), "{row}");
    result.cells[all].factors.hwm_gate = "legacy".to_owned();
    assert!(!terminal::render(&result).contains("1.50"), "it does not wait for the controller");
    result.cells[all].isr = None;
    assert!(!terminal::render(&result).contains(title));
}

#[test]
fn load_curves_show_the_knee() {
    let page = page_of(&synthetic::with_events());
    assert_eq!(page.matches("Latency against offered rate").count(), 1);
    assert!(page.contains("records per second there: 16.0k for page-cache"), "no knee in words");
    assert!(
        page.contains("/knee/rate_per_s") || page.contains("\"knee/rate_per_s\""),
        "nor as a figure"
    );
    assert!(!page_of(&paced()).contains("Latency against offered rate"), "one rate is no curve");
}

#[test]
fn the_stages_of_the_tail_add_up() {
    let result = synthetic::with_events();
    for cell in &result.cells {
        for (band, name) in cell.stage_bands.iter().zip(["p50", "p99"]) {
            assert_eq!(band.percentile, name);
            let sum: u64 = band.mean_ns.values().sum();
            let percentile = cell.latency.acknowledged.percentiles_ns[name];
            let share = sum as f64 / percentile as f64;
            assert!((0.93..1.07).contains(&share), "{}: {name} is {share} of it", cell.name);
        }
        assert_eq!(cell.stage_bands.len(), 2);
    }
    let page = page_of(&result);
    assert!(page.contains("Around p99: mean of the "));
    assert!(page_of(&paced()).contains("these do not add up"), "results without bands say so");
}

fn report(arguments: &[&Path]) -> std::process::Output {
    Command::new(env!("CARGO_BIN_EXE_ackmark"))
        .arg("report")
        .args(arguments)
        .output()
        .expect("the program starts")
}

#[test]
fn the_command_writes_the_page_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    let paced = Path::new("fixtures/results/v1/paced.json");
    let interrupted = Path::new("fixtures/results/v1/interrupted.json");
    let html = Path::new("--html");
    let output = report(&[paced, interrupted, html, &file]);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.is_empty());
    let page = std::fs::read_to_string(&file).unwrap();
    assert_eq!(page.matches("<article").count(), 2, "both results");
    let entries: Vec<PathBuf> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(entries, [file], "no half-written file is left");

    let output = report(&[paced, html, Path::new("-")]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("<!doctype html>"));
}

#[test]
fn a_result_is_not_overwritten_by_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("result.json");
    std::fs::write(&precious, "precious").unwrap();
    let output =
        report(&[Path::new("fixtures/results/v1/paced.json"), Path::new("--html"), &precious]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("must end in .html"), "{message}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
}

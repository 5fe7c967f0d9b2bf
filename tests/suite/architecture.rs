//! The rooms keep their walls: who may import whom, where `unsafe` may stand, who may end the
//! process.

use std::path::{Path, PathBuf};

/// A room and the rooms it may import. Think hard before adding a word here.
const IMPORTS: [(&str, &str); 21] = [
    ("types", ""),
    ("record", "types"),
    ("protocol", "types"),
    // A shell for the machines on virtual time; it builds and stamps real batches.
    ("sim", "types record protocol"),
    ("wire", "types record protocol"),
    ("measure", "types"),
    ("engine", "types measure"),
    ("storage", "types record engine measure config"),
    ("config", "types"),
    ("environment", "types measure storage engine config"),
    ("node", "types protocol record wire storage engine measure config"),
    ("checker", "types"),
    ("driver", "types record wire engine measure config checker"),
    ("faults", "types measure config"),
    ("results", "types measure config"),
    ("report", "types results"),
    // `report` for how numbers are shown.
    ("compare", "types measure results report"),
    ("history", "types measure results report compare"),
    // `record` and `storage` are for `bench_floor`, which sets the log writer itself against fio.
    // `wire` is for asking a cluster about itself.
    (
        "scenario",
        "types record wire storage config environment node driver checker faults measure results \
         engine",
    ),
    // `node` is for its HTTP exporter.
    ("live", "types node driver scenario"),
    (
        "cli",
        "types record protocol wire measure engine storage config environment node driver checker \
         faults results report compare history scenario live sim",
    ),
];

/// Files and folders under `src` that may say `unsafe`; each is small and says why it is sound.
const UNSAFE: [&str; 6] = [
    "engine/",
    "storage/aligned.rs",
    "environment/",
    "measure/clock.rs",
    "scenario/child.rs",
    // unshare(2) and the file system's shutdown ioctl.
    "faults/loop_disk.rs",
];

fn source_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            source_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Every file below `src` as (path from `src`, text without line comments).
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    source_files(Path::new("src"), &mut files);
    let code = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).expect("UTF-8 source");
        let name = file.strip_prefix("src").expect("below src").display().to_string();
        let lines: Vec<&str> =
            text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
        (name, lines.join("\n"))
    };
    files.into_iter().map(code).collect()
}

/// Every line of [`sources`] as (path from `src`, line number, text).
fn code_lines() -> Vec<(String, usize, String)> {
    let lines = |(name, code): (String, String)| -> Vec<(String, usize, String)> {
        code.lines()
            .enumerate()
            .map(|(index, line)| (name.clone(), index + 1, line.to_owned()))
            .collect()
    };
    sources().into_iter().flat_map(lines).collect()
}

fn room_of(file: &str) -> Option<&str> {
    file.split_once('/').map(|(room, _)| room)
}

/// The rooms named after each `crate::` in `code`, with the byte position of the `crate::`. Groups
/// may span lines; only their outermost names count.
fn imported_rooms(code: &str) -> Vec<(usize, String)> {
    let mut rooms = Vec::new();
    for (position, prefix) in code.match_indices("crate::") {
        let rest = &code[position + prefix.len()..];
        let names = match rest.strip_prefix('{') {
            Some(group) => outermost_names(group),
            None => vec![leading_name(rest)],
        };
        let known = |name: &String| IMPORTS.iter().any(|(room, _)| room == name);
        rooms.extend(names.into_iter().filter(known).map(|name| (position, name)));
    }
    rooms
}

fn leading_name(text: &str) -> String {
    text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

fn outermost_names(group: &str) -> Vec<String> {
    let mut depth = 0;
    let mut names = vec![leading_name(group)];
    for (position, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(leading_name(&group[position + 1..])),
            _ => {}
        }
    }
    names
}

fn none(violations: Vec<String>) {
    assert!(violations.is_empty(), "\n{}", violations.join("\n"));
}

#[test]
fn rooms_import_only_what_the_table_allows() {
    let mut violations = Vec::new();
    for (file, code) in sources() {
        let Some(room) = room_of(&file) else { continue };
        let Some((_, allowed)) = IMPORTS.iter().find(|(name, _)| *name == room) else {
            violations.push(format!("src/{file}:1: {room} is not in the import table"));
            continue;
        };
        for (position, import) in imported_rooms(&code) {
            if import != room && !allowed.split_whitespace().any(|name| name == import) {
                let line = code[..position].matches('\n').count() + 1;
                violations.push(format!("src/{file}:{line}: {room} may not import {import}"));
            }
        }
    }
    none(violations);
}

#[test]
fn unsafe_stands_only_where_it_is_kept_small() {
    let says_unsafe = |code: &str| {
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe")
    };
    let allowed = |file: &str| UNSAFE.iter().any(|place| file.starts_with(place));
    none(
        code_lines()
            .into_iter()
            .filter(|(file, _, code)| says_unsafe(code) && !allowed(file))
            .map(|(file, line, _)| format!("src/{file}:{line}: unsafe is not kept here"))
            .collect(),
    );
}

#[test]
fn only_the_command_line_ends_the_process() {
    let allowed = |file: &str| file == "main.rs" || file.starts_with("cli/");
    none(
        code_lines()
            .into_iter()
            .filter(|(file, _, code)| {
                (code.contains("process::exit") || code.contains("process::abort"))
                    && !allowed(file)
            })
            .map(|(file, line, _)| format!("src/{file}:{line}: only cli ends the process"))
            .collect(),
    );
}

#[test]
fn a_thread_that_cannot_start_is_an_error_and_no_panic() {
    // Tests may panic; one stands in a file of the product.
    let is_test = |file: &str| file.contains("tests") || file == "storage/aligned.rs";
    let panics = ["thread::spawn(", "scope.spawn(", "spawn_blocking(", "new_multi_thread("];
    none(
        code_lines()
            .into_iter()
            .filter(|(file, _, code)| !is_test(file) && panics.iter().any(|it| code.contains(it)))
            .map(|(file, line, _)| format!("src/{file}:{line}: use measure::threads"))
            .collect(),
    );
}

#[test]
fn the_scan_sees_grouped_and_nested_imports() {
    let rooms =
        |code| -> Vec<String> { imported_rooms(code).into_iter().map(|(_, room)| room).collect() };
    let group = "use crate::{\n    node::{shard, types},\n    wire,\n};";
    assert_eq!(rooms(group), ["node", "wire"]);
    assert_eq!(rooms("crate::wire::parse(crate::record::Batch)"), ["wire", "record"]);
    assert!(rooms("use std::process;").is_empty());
}

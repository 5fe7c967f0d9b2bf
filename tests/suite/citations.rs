//! Comments and documents cite rules in `docs/spec` (as `spec/FILE.md`): each citation resolves.

use std::path::{Path, PathBuf};

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "md") {
            found.push(path);
        }
    }
}

/// What the document says, or `None` where there is no such document.
fn spec(file: &str) -> Option<String> {
    std::fs::read_to_string(format!("docs/spec/{file}")).ok()
}

/// Whether a heading of `text` has this number or name.
fn has_heading(text: &str, number: &str) -> bool {
    text.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| line.trim_start_matches('#').split_whitespace().next() == Some(number))
}

/// Whether the section `number` has the item `item`, in a list or as a table's row.
fn has_item(text: &str, number: &str, item: &str) -> bool {
    text.lines()
        .skip_while(|line| !line.starts_with('#') || !has_heading(line, number))
        .skip(1)
        .take_while(|line| !line.starts_with('#'))
        .any(|line| {
            line.starts_with(&format!("{item}. ")) || line.starts_with(&format!("| {item} |"))
        })
}

/// Words of `text` without the marks around them.
fn words(text: &str) -> Vec<&str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|mark: char| !mark.is_ascii_alphanumeric()))
        .collect()
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.split('.').all(|part| part.parse::<u32>().is_ok())
}

/// The citations of one line, `next` being the line after it: what each says, and whether it
/// resolves.
fn citations(line: &str, next: &str, vectors: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices("spec/") {
        let tail =
            format!("{} {}", &line[at + 5..], next.trim_start().trim_start_matches(['/', '!']));
        let Some((name, rest)) = tail.split_once(".md") else { continue };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            continue;
        }
        let file = format!("{name}.md");
        let Some(text) = spec(&file) else {
            found.push((file, false));
            continue;
        };
        found.push((file.clone(), true));
        let mut section = String::new();
        // Another document, or a sentence's end, ends the citation.
        let rest = rest.split("spec/").next().unwrap_or_default();
        let rest = rest.split(". ").next().unwrap_or_default();
        let words = words(rest);
        for (before, word) in
            std::iter::once("").chain(words.iter().copied()).zip(words.iter().copied())
        {
            let resolves = match before {
                "item" | "step" | "row" => has_item(&text, &section, word),
                "finding" => has_item(&text, "0", word),
                "MUST" => text.contains(&format!("**MUST {word}**")),
                "departure" | "departures" => has_item(&text, "Departures", word),
                _ if is_number(word) && (word.contains('.') || before == "section") => {
                    section = word.to_owned();
                    has_heading(&text, word)
                }
                _ => continue,
            };
            found.push((format!("{file} {before} {word}"), resolves));
        }
    }
    for word in line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
        let digits = |prefix: &str| {
            word.strip_prefix(prefix).is_some_and(|rest| {
                rest.len() < 6 && !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())
            })
        };
        if digits("M") && !line.contains('"') {
            let rule = format!("**{word}**");
            found
                .push((word.to_owned(), spec("measurement.md").is_some_and(|t| t.contains(&rule))));
        } else if digits("KAFKA-") {
            let known = spec("kip966.md").is_some_and(|t| words(&t).contains(&word));
            found.push((word.to_owned(), known));
        } else if word.len() >= 3 && ["B", "C", "D", "F", "H", "L"].iter().any(|p| digits(p)) {
            found.push((word.to_owned(), vectors.contains(&format!("\"id\": \"{word}\""))));
        }
    }
    found
}

fn vectors() -> String {
    ["kip966", "kip966-own"]
        .map(|name| std::fs::read_to_string(format!("fixtures/vectors/{name}.json")).expect("it"))
        .concat()
}

#[test]
fn every_cited_rule_stands_in_the_specification() {
    let mut paths = vec![PathBuf::from("README.md"), PathBuf::from("ARCHITECTURE.md")];
    for folder in ["src", "tests", "benches", "docs"] {
        files(Path::new(folder), &mut paths);
    }
    let vectors = vectors();
    let (mut seen, mut dead) = (0, Vec::new());
    for path in paths {
        if path.ends_with("tests/suite/citations.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        let is_source = path.extension().is_some_and(|kind| kind == "rs");
        let lines: Vec<&str> = text
            .lines()
            .map(|line| if is_source { line.find("//").map_or("", |at| &line[at..]) } else { line })
            .collect();
        for (index, line) in lines.iter().enumerate() {
            let next = lines.get(index + 1).copied().unwrap_or_default();
            for (cited, resolves) in citations(line, next, &vectors) {
                seen += 1;
                if !resolves {
                    dead.push(format!("{}:{}: {cited}", path.display(), index + 1));
                }
            }
        }
    }
    assert!(dead.is_empty(), "cited, but nowhere to be found:\n{}", dead.join("\n"));
    assert!(seen >= 200, "only {seen} citations found: does the scan still see them?");
}

#[test]
fn a_citation_of_nothing_is_found() {
    let vectors = vectors();
    for bad in [
        "spec/nowhere.md 1.2",
        "spec/kip966.md 9.9",
        "spec/kip966.md 1.2 item 77",
        "spec/kip966.md 2.3 row 12",
        "spec/kip966.md, departure 11",
        "spec/io.md finding 99",
        "spec/io.md section 9",
        "spec/kafka-wire.md MUST 5",
        "as measured (M999)",
        "not a report: KAFKA-1",
        "no vector (L99)",
    ] {
        let found = citations(bad, "", &vectors);
        assert!(found.iter().any(|(_, resolves)| !resolves), "{bad}: {found:?}");
    }
    let wrapped = citations("/// by spec/io.md finding 3,", "/// section 9).", &vectors);
    assert!(wrapped.iter().any(|(_, resolves)| !resolves), "{wrapped:?}");
}

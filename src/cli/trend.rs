//! `ackmark trend`: the history of a workload.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::compare::comparable::Kind;
use crate::history::entry::Entry;
use crate::history::export::Format;
use crate::history::{file, page, series, text};
use crate::results::schema::RunResult;

use super::compare::{self, Common};
use super::exit::{Exit, Failure};

/// What a run is filed under when nobody says and there is no git.
const UNKNOWN_COMMIT: &str = "unknown";

/// Keep results in a history, and show where its level changed
///
/// Results that are named are added to HISTORY/NAME.jsonl first, one line each, each once. Runs on
/// different machines or with different settings are different series.
#[derive(Debug, Args)]
pub struct TrendArguments {
    /// Results to add: run folders (results/NAME/TIME) or their result.json
    #[arg(value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// Holds the histories
    #[arg(long, value_name = "DIR", default_value = "results/history")]
    history: PathBuf,
    /// The workload to show; needed if there are several and no result is named
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// What was measured; without it what `git describe` says here
    #[arg(long, value_name = "COMMIT")]
    commit: Option<String>,
    /// Write a page with all charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write figures for another tool: github-smaller, github-bigger, bencher, prometheus (the
    /// newest run) or csv (all runs); may be given several times
    #[arg(long, value_name = "FORMAT=FILE", value_parser = parse_export)]
    export: Vec<(Format, PathBuf)>,
    #[command(flatten)]
    common: Common,
}

fn parse_export(text: &str) -> Result<(Format, PathBuf), String> {
    let names = Format::ALL.map(Format::name).join(", ");
    let (name, file) = text
        .split_once('=')
        .filter(|(_, file)| !file.is_empty())
        .ok_or_else(|| format!("must be FORMAT=FILE with a format of {names}"))?;
    let format = Format::ALL.into_iter().find(|format| format.name() == name);
    Ok((format.ok_or_else(|| format!("{name}: must be one of {names}"))?, PathBuf::from(file)))
}

/// `ackmark trend`
pub fn run(arguments: &TrendArguments) -> Result<Exit, Failure> {
    let added = add_results(arguments)?;
    let workload = workload(arguments, added)?;
    let path = file::path(&arguments.history, &workload);
    let history = file::load(&path).map_err(|error| Failure::usage(&error))?;
    history.complaints.iter().for_each(|complaint| super::say(&format!("ackmark: {complaint}")));
    if history.entries.is_empty() {
        let message = format!("{}: holds no run", path.display());
        return Err(Failure { exit: Exit::Usage, message });
    }
    let common = &arguments.common;
    let series = series::of(&history.entries, common.same_within, common.seed);
    for (format, target) in &arguments.export {
        write(target, &format.write(&history.entries))?;
    }
    if let Some(target) = &arguments.html {
        write(target, &page::render(&workload, &series))?;
    }
    match common.json {
        true => compare::print_json(&series)?,
        false => super::print(&text::render(&workload, &series))?,
    }
    Ok(Exit::Done)
}

/// Adds what was named; returns the workload of the last.
fn add_results(arguments: &TrendArguments) -> Result<Option<String>, Failure> {
    let mut workload = None;
    for path in &arguments.results {
        let result = compare::load(path)?;
        check(path, &result, &arguments.common.allow)?;
        let commit = arguments.commit.clone().unwrap_or_else(commit_here);
        let entry = Entry::new(&result, &commit).map_err(|error| Failure {
            exit: Exit::Invalid,
            message: format!("{}: {error}", path.display()),
        })?;
        let is_new =
            file::append(&arguments.history, &entry).map_err(|error| Failure::failed(&error))?;
        if !is_new {
            super::say(&format!("{}: is in the history already", path.display()));
        }
        workload = Some(entry.workload);
    }
    Ok(workload)
}

fn check(path: &Path, result: &RunResult, allow: &[Kind]) -> Result<(), Failure> {
    if result.tool.build == "release" || allow.contains(&Kind::DebugBuild) {
        return Ok(());
    }
    let message = format!(
        "{}: was measured by a {} build, whose figures are not valid; to keep it all the same: \
         --allow debug-build",
        path.display(),
        result.tool.build
    );
    Err(Failure { exit: Exit::Usage, message })
}

fn workload(arguments: &TrendArguments, added: Option<String>) -> Result<String, Failure> {
    if let Some(name) = arguments.workload.clone().or(added) {
        return Ok(name);
    }
    let folder = &arguments.history;
    let mut known = file::workloads(folder).map_err(|error| Failure::usage(&error))?;
    let message = match known.len() {
        1 => return Ok(known.remove(0)),
        0 => format!("{}: holds no history; name a result to begin one", folder.display()),
        _ => format!("--workload is needed: {} holds {}", folder.display(), known.join(", ")),
    };
    Err(Failure { exit: Exit::Usage, message })
}

/// The commit checked out here, `-dirty` if files differ from it.
fn commit_here() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"])
        .output();
    let text = output.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
    let text = text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    text.unwrap_or_else(|| UNKNOWN_COMMIT.to_owned())
}

fn write(file: &Path, text: &str) -> Result<(), Failure> {
    fs::write(file, text).map_err(|error| Failure {
        exit: Exit::Usage,
        message: format!("cannot write {}: {error}", file.display()),
    })
}

//! `ackmark report`: stored runs as tables on the terminal, or as one HTML file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::compare::within;
use crate::report::html::{self, Source};
use crate::report::terminal;
use crate::results::folder;
use crate::results::schema::RunResult;

use super::exit::{Exit, Failure};

/// Show stored runs: as tables, or as an HTML file that needs nothing else
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// Runs' folders (results/NAME/TIME) or their result.json
    #[arg(value_name = "RESULT", required = true)]
    results: Vec<PathBuf>,

    /// Write one self-contained HTML file instead; - is standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// `ackmark report`
pub fn run(arguments: &ReportArguments) -> Result<Exit, Failure> {
    let load = |path: &PathBuf| folder::load(path).map_err(|error| Failure::usage(&error));
    let results: Vec<RunResult> =
        arguments.results.iter().map(load).collect::<Result<_, Failure>>()?;
    let Some(file) = &arguments.html else {
        let tables: Vec<String> = results.iter().map(on_terminal).collect();
        super::print(&tables.join("\n"))?;
        return Ok(Exit::Done);
    };
    let names: Vec<String> =
        arguments.results.iter().map(|path| path.display().to_string()).collect();
    let sources: Vec<Source<'_>> =
        names.iter().zip(&results).map(|(name, result)| Source { name, result }).collect();
    let page = html::render(&sources);
    if file.as_os_str() == "-" {
        super::print(&page)?;
    } else {
        write(file, page.as_bytes())?;
        super::say(&format!("report in {}", file.display()));
    }
    Ok(Exit::Done)
}

/// Of the draws behind the bounds of null results.
const BOUNDS_SEED: u64 = 1;

/// The tables, and the bounds of null results.
pub fn on_terminal(result: &RunResult) -> String {
    let bounds = within::text(result, BOUNDS_SEED);
    let gap = if bounds.is_empty() { "" } else { "\n" };
    format!("{}{gap}{bounds}", terminal::render(result))
}

/// Why the page was not written.
#[derive(Debug, thiserror::Error)]
enum PageError {
    /// A mistyped command must not cost a result.
    #[error("--html {}: must end in .html or .htm, or be -", file.display())]
    Name { file: PathBuf },
    #[error("cannot {operation} {}", path.display())]
    Write {
        operation: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Writes the page beside its name, then renames it there: whole, or not at all.
fn write(file: &Path, page: &[u8]) -> Result<(), Failure> {
    let extension = file.extension().map(|extension| extension.to_string_lossy().to_lowercase());
    if !matches!(extension.as_deref(), Some("html" | "htm")) {
        return Err(Failure::usage(&PageError::Name { file: file.to_owned() }));
    }
    let mut hidden_name = file.file_name().unwrap_or_default().to_owned();
    hidden_name.push(format!(".{}.part", std::process::id()));
    let hidden = file.with_file_name(hidden_name);
    let outcome = fill(&hidden, page)
        .and_then(|()| fs::rename(&hidden, file).map_err(|source| failed("write", file, source)));
    if outcome.is_err() {
        // The first error is the one to report.
        let _ = fs::remove_file(&hidden);
    }
    outcome.map_err(|error| Failure::usage(&error))
}

fn fill(hidden: &Path, page: &[u8]) -> Result<(), PageError> {
    let mut handle = File::create(hidden).map_err(|source| failed("create", hidden, source))?;
    handle
        .write_all(page)
        .and_then(|()| handle.sync_all())
        .map_err(|source| failed("write", hidden, source))
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> PageError {
    PageError::Write { operation, path: path.to_owned(), source }
}

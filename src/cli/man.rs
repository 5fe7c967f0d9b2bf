//! `ackmark man`: manual pages, from the same definitions as `--help`.

use std::io;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use super::exit::{Exit, Failure};

/// Print the manual page, or write one for every command
#[derive(Debug, Args)]
#[command(after_help = "Read it at once with: ackmark man | man -l -")]
pub struct ManArguments {
    /// Write ackmark.1, ackmark-run.1 ... into this directory instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// `ackmark man`
pub fn run(arguments: &ManArguments) -> Result<Exit, Failure> {
    let command = super::Arguments::command();
    if let Some(folder) = &arguments.out {
        let written = clap_mangen::generate_to(command, folder);
        written.map_err(|error| failed(&format!("write pages to {}", folder.display()), &error))?;
        return Ok(Exit::Done);
    }
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|error| failed("render the page", &error))?;
    super::print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Done)
}

fn failed(what: &str, error: &io::Error) -> Failure {
    Failure { exit: Exit::Usage, message: format!("cannot {what}: {error}") }
}

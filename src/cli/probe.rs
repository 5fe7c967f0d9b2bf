//! `ackmark probe`: what a directory is, what it allows, and the least a durable write takes on it.

use std::path::PathBuf;

use clap::Args;

use crate::environment;

use super::exit::{Exit, Failure};

/// Capture the environment of a directory and measure its own speed under each durability mode
#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// The directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Run the same patterns through fio, in turns, and print the ratios
    #[arg(long)]
    with_fio: bool,
}

/// `ackmark probe`
pub fn run(arguments: &ProbeArguments) -> Result<Exit, Failure> {
    let probe = environment::probe(&arguments.directory, arguments.with_fio)
        .map_err(|error| Failure::usage(&error))?;
    let text = if arguments.json { format!("{:#}\n", probe.to_json()) } else { probe.to_text() };
    super::print(&text)?;
    Ok(Exit::Done)
}

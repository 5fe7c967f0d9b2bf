//! `ackmark report`: the table of a stored run.

use std::path::PathBuf;

use clap::Args;

use crate::report::terminal;
use crate::results::folder;

use super::exit::{Exit, Failure};

/// Print the report of a stored run again
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// A run's folder (results/NAME/TIME) or its result.json
    #[arg(value_name = "RESULT")]
    result: PathBuf,
}

/// `ackmark report`
pub fn run(arguments: &ReportArguments) -> Result<Exit, Failure> {
    let result = folder::load(&arguments.result).map_err(|error| Failure::usage(&error))?;
    super::print(&terminal::render(&result))?;
    Ok(Exit::Done)
}

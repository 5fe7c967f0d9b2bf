//! `ackmark schema`: what a workload and a result look like, for editors and other programs.

use clap::{Args, ValueEnum};

use crate::config::workload;
use crate::results::schema;

use super::exit::{Exit, Failure};

/// Print the JSON Schema of workload files or of results
///
/// An editor with a TOML language server (taplo, Even Better TOML) checks and completes a workload
/// whose first line is "#:schema PATH", PATH being where the printed schema was saved.
#[derive(Debug, Args)]
pub struct SchemaArguments {
    /// Of what
    #[arg(value_name = "WHAT")]
    what: Subject,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Subject {
    /// A workload file
    Workload,
    /// result.json
    Result,
}

/// `ackmark schema`
pub fn run(arguments: &SchemaArguments) -> Result<Exit, Failure> {
    let schema = match arguments.what {
        Subject::Workload => workload::json_schema(),
        Subject::Result => schema::json_schema(),
    };
    super::print(&format!("{schema:#}\n"))?;
    Ok(Exit::Done)
}

//! `ackmark bench-controller`: the controller path against this machine's own limits.

use std::path::PathBuf;

use clap::Args;

use crate::scenario::bench_controller;

use super::exit::{Exit, Failure};

/// Compare AlterPartition, and a controller's start, with the disk and loopback alone; ends with
/// `controller: PASS` or `controller: SHORT (…)`
#[derive(Debug, Args)]
pub struct BenchControllerArguments {
    /// Where the files are made and removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    /// Interleaved rounds
    #[arg(long, value_name = "N", default_value_t = 25)]
    rounds: usize,
}

/// `ackmark bench-controller`
pub fn run(arguments: &BenchControllerArguments) -> Result<Exit, Failure> {
    let executable = std::env::current_exe()
        .map_err(|error| Failure::invalid(format!("cannot find this program: {error}")))?;
    let bench = bench_controller::run(&executable, &arguments.data, arguments.rounds)
        .map_err(|error| Failure::usage(&error))?;
    super::print(&bench_controller::render(&bench))?;
    Ok(if bench.shortfalls().is_empty() { Exit::Done } else { Exit::Short })
}

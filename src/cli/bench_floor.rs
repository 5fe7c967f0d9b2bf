//! `ackmark bench-floor`: the log writer against fio.

use std::path::PathBuf;

use clap::Args;

use crate::scenario::bench_floor;

use super::exit::{Exit, Failure};

/// Compare the log writer with fio on the same file pattern; ends with `floor: PASS` or
/// `floor: SHORT (…)`
#[derive(Debug, Args)]
pub struct BenchFloorArguments {
    /// Where the files are made and removed again
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    /// Rounds of ours and fio's in each cell; at least 5 for the bar to count
    #[arg(long, value_name = "N", default_value_t = 5)]
    pairs: usize,
}

/// `ackmark bench-floor`
pub fn run(arguments: &BenchFloorArguments) -> Result<Exit, Failure> {
    let bench = bench_floor::run(&arguments.data, arguments.pairs)
        .map_err(|error| Failure::usage(&error))?;
    super::print(&bench_floor::render(&bench))?;
    Ok(if bench.shortfalls().is_empty() { Exit::Done } else { Exit::Short })
}

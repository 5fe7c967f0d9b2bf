//! `ackmark compare`: two stored results set against each other.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::compare::comparable::{self, Kind, Obstacle};
use crate::compare::report::{self, Options};
use crate::compare::text;
use crate::results::folder;
use crate::results::schema::RunResult;

use super::exit::{Exit, Failure};
use super::share;

/// Compare two stored results: the ratio of each percentile, and how far it can be trusted
///
/// The repeats of a run are what its noise is judged by: two tell little, five or more a lot.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// What was there before: a run's folder (results/NAME/TIME) or its result.json
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// What is set against it
    #[arg(value_name = "NEW")]
    new: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// What `compare` and `gate` share.
#[derive(Debug, Args)]
pub struct Common {
    /// Changes up to this do not matter
    #[arg(long, value_name = "PERCENT", value_parser = share::parse, default_value = "3%")]
    pub same_within: f64,
    /// Compare although these differ; several with commas
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = kind_parser())]
    pub allow: Vec<Kind>,
    /// Of the draws behind the intervals; the same seed gives the same output
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn kind_parser() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).map(|name| {
        Kind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or(Kind::Environment)
    })
}

/// `ackmark compare`
pub fn run(arguments: &CompareArguments) -> Result<Exit, Failure> {
    let base = load(&arguments.base)?;
    let new = load(&arguments.new)?;
    let common = &arguments.common;
    let allowed = allowed(&base, &new, &common.allow)?;
    let options = Options::everything(common.same_within, common.seed);
    let mut report =
        report::compare(&base, &new, &options).map_err(|error| Failure::usage(&error))?;
    report.allowed = allowed;
    match common.json {
        true => print_json(&report)?,
        false => super::print(&text::report(&report))?,
    }
    Ok(Exit::Done)
}

/// A stored result; what cannot be read cannot be used.
pub fn load(path: &Path) -> Result<RunResult, Failure> {
    folder::load(path).map_err(|error| Failure::usage(&error))
}

/// What stands against the comparison and is allowed to.
///
/// Errors: with the first obstacle of each kind that is not; another environment has an exit status
/// of its own.
pub fn allowed(
    base: &RunResult,
    new: &RunResult,
    allow: &[Kind],
) -> Result<Vec<Obstacle>, Failure> {
    let (allowed, refused): (Vec<Obstacle>, Vec<Obstacle>) = comparable::obstacles(base, new)
        .into_iter()
        .partition(|obstacle| allow.contains(&obstacle.kind));
    let Some(first) = refused.first() else { return Ok(allowed) };
    let mut kinds: Vec<&str> = refused.iter().map(|obstacle| obstacle.kind.name()).collect();
    kinds.dedup();
    let lines: Vec<String> = refused.iter().map(|obstacle| format!("  {obstacle}\n")).collect();
    let message = format!(
        "these cannot be compared:\n{}to compare all the same: --allow {}",
        lines.concat(),
        kinds.join(",")
    );
    let exit = match first.kind {
        Kind::Environment => Exit::OtherEnvironment,
        Kind::Schema | Kind::Workload | Kind::DebugBuild | Kind::Slowdown => Exit::Usage,
    };
    Err(Failure { exit, message })
}

/// One JSON document on standard output.
pub fn print_json<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::invalid(format!("cannot write JSON: {error}")))?;
    super::print(&format!("{json}\n"))
}

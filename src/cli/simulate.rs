//! `ackmark simulate`: the replication rules under seeded faults, on virtual time.

use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::sim::{self, Profile, invariants};

use super::exit::{Exit, Failure};

/// A line of progress after so many seeds.
const PROGRESS_SEEDS: u64 = 1000;

/// Run whole clusters under seeded faults on virtual time and check the replication rules after
/// every step; ends with the counts, or with the seed that broke a property and how to replay it
#[derive(Debug, Args)]
pub struct SimulateArguments {
    /// Seeds to run, from 0
    #[arg(long, value_name = "N", default_value_t = 1000, conflicts_with = "seed")]
    seeds: u64,
    /// Run this seed alone and print everything that happens in it
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Which part of all settings each run is drawn from
    #[arg(long, default_value = "kip966", value_parser = profile_names())]
    profile: String,
    /// Look at this property alone
    #[arg(long, value_name = "PROPERTY", requires = "seed", value_parser = property_names())]
    only: Option<String>,
}

fn profile_names() -> PossibleValuesParser {
    PossibleValuesParser::new(Profile::ALL.map(|(name, _)| name))
}

fn property_names() -> PossibleValuesParser {
    PossibleValuesParser::new(invariants::ALL.map(|invariant| invariant.name))
}

/// `ackmark simulate`
pub fn run(arguments: &SimulateArguments) -> Result<Exit, Failure> {
    let profile = Profile::ALL.iter().find(|(name, _)| *name == arguments.profile);
    let profile = profile.map_or(Profile::Kip966, |&(_, profile)| profile);
    match arguments.seed {
        Some(seed) => replay(seed, profile, arguments.only.as_deref()),
        None => run_many(arguments.seeds, profile),
    }
}

fn replay(seed: u64, profile: Profile, only: Option<&str>) -> Result<Exit, Failure> {
    let replay = sim::replay(seed, profile, only);
    super::print(&replay.trace)?;
    let stats = replay.result.map_err(|failure| Failure::failed(&failure))?;
    super::print(&format!("seed {seed} holds: {}\n", stats))?;
    Ok(Exit::Done)
}

fn run_many(count: u64, profile: Profile) -> Result<Exit, Failure> {
    let started = Instant::now();
    let progress = |seed: u64| {
        if (seed + 1).is_multiple_of(PROGRESS_SEEDS) {
            super::say(&format!("{} seeds …", seed + 1));
        }
    };
    let stats = sim::run_seeds(0..count, profile, progress);
    let stats = stats.map_err(|failure| Failure::failed(&failure))?;
    let seconds = started.elapsed().as_secs_f64();
    super::print(&format!(
        "{}: {count} seeds hold in {seconds:.0} s, {:.0} a second: {}\n",
        profile.name(),
        count as f64 / seconds,
        stats,
    ))?;
    Ok(Exit::Done)
}

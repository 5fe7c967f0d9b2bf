//! The cluster's machines under a seed: leaders, followers, brokers' lives and the controller run
//! together on virtual time, with lost, late, reordered and repeated messages, power failures,
//! kills, cut links and controller restarts. After every event the [`invariants`] look; in the end
//! faults stop and the cluster must heal.
//!
//! The machines are `protocol`'s own. This room is a shell: it holds no rule of replication.
//!
//! In reading order: `options`, `world`, `broker`, `controller`, `replica`, `disk`, `network`,
//! `faults`, `clients`, `history`, `invariants`.
//!
//! Everything in a run follows from its seed and its [`Profile`]: the same two give the same trace,
//! byte for byte.

pub mod broker;
mod clients;
pub mod controller;
pub mod disk;
mod faults;
pub mod history;
pub mod invariants;
mod message;
mod network;
mod options;
mod queue;
mod random;
pub mod replica;
mod stats;
mod trace;
mod world;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

pub use options::{Options, Profile};
pub use stats::Stats;

use invariants::Violation;
use random::Streams;
use trace::Trace;
use world::World;

/// A run that found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its profile.
    pub profile: Profile,
    /// The one property that was looked at, if not all were.
    pub only: Option<String>,
    /// Number of the event at which it ended, from 1.
    pub event: u64,
    /// Name of the broken property; `machine_asserts` for an assertion of a machine.
    pub invariant: &'static str,
    /// How it is broken.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, profile, only, event, invariant, what } = self;
        writeln!(f, "{invariant} is broken at event {event}: {what}")?;
        write!(
            f,
            "replay: cargo run --release -- simulate --seed {seed} --profile {}",
            profile.name()
        )?;
        only.iter().try_for_each(|only| write!(f, " --only {only}"))
    }
}

impl std::error::Error for Failure {}

/// One run with everything that happened in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// One line an event, with the state it led to.
    pub trace: String,
    /// What the run came to.
    pub result: Result<Stats, Failure>,
}

/// Runs one seed.
///
/// # Errors
/// What the run found.
pub fn run_seed(seed: u64, profile: Profile) -> Result<Stats, Failure> {
    run(seed, profile, None, &mut Trace::default())
}

/// Runs one seed and keeps its trace; with `only`, looks at that property alone.
pub fn replay(seed: u64, profile: Profile, only: Option<&str>) -> Replay {
    let mut trace = Trace::recording();
    let result = run(seed, profile, only, &mut trace);
    Replay { trace: trace.into_lines(), result }
}

/// Runs seeds on every core up to the first that finds something; `progress` hears of every good
/// one, in no order.
///
/// # Errors
/// What the run of the lowest failing seed found.
pub fn run_seeds(
    seeds: Range<u64>,
    profile: Profile,
    progress: impl Fn(u64) + Sync,
) -> Result<Stats, Failure> {
    let next = AtomicU64::new(seeds.start);
    let end = AtomicU64::new(seeds.end);
    let work = || {
        let mut total = Stats::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            // Seeds below a failing one are run to the end: the lowest is reported.
            if seed >= end.load(Ordering::Relaxed) {
                return Ok(total);
            }
            match run_seed(seed, profile) {
                Ok(stats) => total = total.plus(stats),
                Err(failure) => {
                    end.fetch_min(seed, Ordering::Relaxed);
                    return Err(failure);
                }
            }
            progress(seed);
        }
    };
    let outcomes: Vec<Result<Stats, Failure>> = thread::scope(|scope| {
        // This thread works too, and alone where the system gives no other.
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (1..core_count()).filter_map(start).collect();
        let own = work();
        // A thread catches what its runs panic with.
        threads.into_iter().filter_map(|thread| thread.join().ok()).chain([own]).collect()
    });
    let (good, failures): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    match failures.into_iter().filter_map(Result::err).min_by_key(|failure| failure.seed) {
        Some(failure) => Err(failure),
        None => Ok(good.into_iter().flatten().fold(Stats::default(), Stats::plus)),
    }
}

fn core_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Runs seeds in order, looking at the property `invariant` only, up to the first that breaks it:
/// what settings that promise nothing may cost.
pub fn find(mut seeds: Range<u64>, profile: Profile, invariant: &str) -> Option<Failure> {
    seeds.find_map(|seed| {
        let failure = run(seed, profile, Some(invariant), &mut Trace::default()).err();
        failure.filter(|failure| failure.invariant == invariant)
    })
}

fn run(
    seed: u64,
    profile: Profile,
    only: Option<&str>,
    trace: &mut Trace,
) -> Result<Stats, Failure> {
    let mut random = Streams::of(seed);
    let options = Options::draw(&mut random.options, profile);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(options, random, only, trace);
        world.run().map(|()| world.stats())
    }));
    let outcome = outcome.unwrap_or_else(|panic| {
        Err(Violation { invariant: "machine_asserts", what: panic_message(panic.as_ref()) })
    });
    outcome.map_err(|Violation { invariant, what }| {
        trace.detail(|| format!("{invariant} is broken: {what}"));
        let only = only.map(str::to_owned);
        Failure { seed, profile, only, event: trace.events(), invariant, what }
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

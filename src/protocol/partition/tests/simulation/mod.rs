//! Three replicas and a small controller in memory under a seed: messages are lost and reordered,
//! brokers die with their unsynced tail, leaders change. Leaders are chosen from the ISR only.
//!
//! After every step: no record acknowledged under `acks=all`, and none below the high watermark of
//! any leader so far, is missing from the durable log of an ISR member, and the committed prefix
//! never changes. Half of the seeds fetch pipelined, some serve followers after the leader's sync. In the end faults stop and it must heal.

mod broker;
mod controller;
mod oracle;
mod world;

use super::*;
use world::{Faults, World};

const SEEDS: u64 = 400;
const STEPS: u32 = 5_000;

/// A stream of numbers that is the same on every platform and for ever (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Uniform enough in `0..bound`; `bound` is small and not zero.
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// Runs one seed: faults, then healing. The error says what broke, and at which step.
fn simulate(seed: u64, isr_wait: IsrWait) -> Result<World, String> {
    let mut random = Random(seed);
    let isr_expand = if random.percent(50) { IsrExpand::Kafka } else { IsrExpand::CaughtUp };
    let fails = random.percent(50);
    let produce_under_min_isr =
        if fails { ProduceUnderMinIsr::Fail } else { ProduceUnderMinIsr::Wait };
    let pipelined = random.percent(50);
    let fetch_pipeline = if pipelined { FetchPipeline::Pipelined } else { FetchPipeline::Classic };
    let after = random.percent(30);
    let serve_followers =
        if after { ServeFollowers::AfterSync } else { ServeFollowers::BeforeSync };
    let settings = Settings {
        produce_under_min_isr,
        min_isr: 2,
        hwm_gate: HwmGate::Kip966,
        isr_wait,
        isr_expand,
        fetch_pipeline,
        serve_followers,
        lag_time_max: Duration::from_millis(400),
        fetch_backoff: Duration::from_millis(50),
    };
    let faults = Faults {
        lost_percent: random.below(15),
        kill_percent: random.below(4),
        election_percent: random.below(5),
    };
    let mut world = World::new(settings, random);
    for step in 0..STEPS {
        world.random_action(&faults);
        world.check().map_err(|what| format!("step {step}: {what}"))?;
    }
    world.heal()?;
    Ok(world)
}

#[test]
fn no_acknowledged_record_is_lost_and_the_replicas_heal() {
    let (mut acknowledged, mut elections, mut expands, mut shrinks, mut truncations) =
        (0, 0, 0, 0, 0);
    let mut acknowledgements = 0;
    for seed in 0..SEEDS {
        let result = std::panic::catch_unwind(|| simulate(seed, IsrWait::Controller));
        let world = match result {
            Ok(Ok(world)) => world,
            Ok(Err(what)) => panic!("seed {seed}: {what}"),
            Err(panic) => {
                eprintln!("seed {seed}: the machine panicked");
                std::panic::resume_unwind(panic);
            }
        };
        acknowledged += world.acknowledged();
        elections += world.elections();
        expands += world.isr_counters().expands;
        shrinks += world.isr_counters().shrinks;
        truncations += world.truncations();
        acknowledgements += world.acknowledgements;
    }
    // The faults did happen.
    assert!(acknowledged > 10 * usize::try_from(SEEDS).unwrap(), "{acknowledged} acknowledged");
    assert!(elections > SEEDS && truncations > SEEDS, "{elections}, {truncations} truncations");
    assert!(acknowledgements > SEEDS, "{acknowledgements} beside a fetch");
    assert!(expands > SEEDS && shrinks > SEEDS, "{expands} expands, {shrinks} shrinks");
}

/// The oracle has teeth: a leader that does not wait for the controller loses records.
#[test]
fn without_waiting_for_the_controller_acknowledged_records_are_lost() {
    let lost = |seed| {
        simulate(seed, IsrWait::None).is_err_and(|what| what.contains("acknowledged record"))
    };
    assert!((0..SEEDS).any(lost));
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = |seed| simulate(seed, IsrWait::Controller).map(|world| world.fingerprint());
    assert_eq!(trace(7), trace(7));
}

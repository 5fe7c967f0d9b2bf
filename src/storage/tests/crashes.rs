//! Whatever happens before a crash, recovery gives a contiguous prefix that holds everything that
//! was durable, byte for byte.
//!
//! The syncing modes lose power: every sector not synced holds any of its contents since the last
//! sync. The others lose the process only; their promise goes no further.

use proptest::prelude::*;

use crate::config::node::LogConfig;
use crate::types::{DurabilityMode, LeaderEpoch, Offset};

use super::bench::{Batch, Bench, FLUSH, config};

#[derive(Clone, Copy, Debug)]
enum Step {
    Append {
        records: usize,
        record_bytes: usize,
    },
    Start,
    /// Completes one pending operation, chosen by the number.
    Complete(usize),
    NewEpoch,
    /// Cuts at a batch, chosen by the number counted from the end.
    Truncate(usize),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..4usize, 1..6000usize)
            .prop_map(|(records, record_bytes)| Step::Append { records, record_bytes }),
        1 => (20_000..60_000usize)
            .prop_map(|record_bytes| Step::Append { records: 1, record_bytes }),
        6 => Just(Step::Start),
        6 => any::<usize>().prop_map(Step::Complete),
        1 => Just(Step::NewEpoch),
        1 => (0..12usize).prop_map(Step::Truncate),
        1 => Just(Step::Reopen),
    ]
}

/// Crashes, recovers, and compares with the model.
fn crash(bench: &mut Bench, uncut: &mut Vec<Batch>) {
    let durable = bench.log.durable_offset();
    if bench.log.pending_cut.is_some() {
        // The disk still holds what a truncation dropped, and nothing that came after it.
        bench.batches = std::mem::take(uncut);
    }
    let mut random = bench.random.clone();
    if bench.config.durability.is_synced() {
        bench.disk.lose_power(&mut random);
    } else {
        bench.disk.kill(&mut random);
    }
    bench.random = random;
    let config = bench.config;
    let recovery = bench.reopen(config);
    let end = recovery.log_end_offset;
    assert!(end >= durable, "durable to {durable}, recovered to {end}: {recovery:?}");
    let appended = bench.batches.last().map_or(bench.log.log_start_offset(), |b| b.end_offset);
    assert!(end <= appended, "appended to {appended}, recovered to {end}");
    bench.cut_model(end);
    bench.check_content();
}

fn run(bench: &mut Bench, steps: &[Step]) {
    let mut uncut = Vec::new();
    for step in steps {
        match *step {
            Step::Append { records, record_bytes } => bench.append(records, record_bytes),
            Step::Start => drop(bench.start()),
            Step::Complete(number) => {
                if let Some(at) = number.checked_rem(bench.disk.pending.len()) {
                    bench.complete(at);
                }
            }
            Step::NewEpoch => bench.epoch = LeaderEpoch(bench.epoch.0 + 1),
            Step::Truncate(back) => truncate(bench, back, &mut uncut),
            Step::Reopen => crash(bench, &mut uncut),
        }
    }
    bench.check_content();
    crash(bench, &mut uncut);
    bench.append_some(2);
    bench.commit();
    bench.check_content();
}

/// `uncut` becomes what the disk may hold until the cut reaches it.
fn truncate(bench: &mut Bench, back: usize, uncut: &mut Vec<Batch>) {
    if bench.log.pending_cut.is_none() {
        uncut.clone_from(&bench.batches);
    }
    let at = bench.batches.len().checked_sub(back + 1);
    let to = at.map_or(Offset::ZERO, |at| bench.batches[at].base_offset);
    bench.log.truncate(&mut bench.disk, to).expect("cut");
    bench.log.check_invariants();
    bench.cut_model(to);
    bench.check_content();
}

fn mode() -> impl Strategy<Value = DurabilityMode> {
    prop_oneof![
        2 => Just(DurabilityMode::PageCache),
        2 => Just(DurabilityMode::PageCacheFlush(FLUSH)),
        4 => Just(DurabilityMode::Fsync),
        // On a real disk, where every prepared segment costs milliseconds.
        1 => Just(DurabilityMode::Direct),
        1 => Just(DurabilityMode::DirectFsync),
        1 => Just(DurabilityMode::DirectDsync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn recovery_gives_a_prefix_that_holds_what_was_durable(
        mode in mode(),
        commit_pipeline_depth in 1..4usize,
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let config = LogConfig { commit_pipeline_depth, ..config(mode) };
        if let Some(mut bench) = Bench::new(config, seed) {
            run(&mut bench, &steps);
        }
    }
}

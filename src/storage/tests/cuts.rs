//! Truncation and restart.

use crate::config::node::LogConfig;
use crate::types::{DurabilityMode, LeaderEpoch, Offset};

use super::bench::{Bench, MODES, config};

/// Cuts the log and its model; checks content, goes on, and checks again after a restart.
fn cut_and_check(bench: &mut Bench, to: Offset) {
    let end = bench.log.truncate(&mut bench.disk, to).expect("cut");
    bench.log.check_invariants();
    assert_eq!(end, bench.log.log_end_offset());
    bench.cut_model(end);
    bench.check_content();
    bench.append_some(3);
    bench.check_content();
    while !bench.disk.pending.is_empty() {
        bench.complete(0);
    }
    bench.commit();
    bench.check_content();
    let config = bench.config;
    let recovery = bench.reopen(config);
    assert!(!recovery.hole, "nothing that was cut comes back: {recovery:?}");
    bench.check_content();
}

/// Every mode, one and two groups in flight.
fn for_each(check: impl Fn(&mut Bench)) {
    for mode in MODES {
        for commit_pipeline_depth in [1, 2] {
            let config = LogConfig { commit_pipeline_depth, ..config(mode) };
            if let Some(mut bench) = Bench::new(config, 11) {
                check(&mut bench);
            }
        }
    }
}

#[test]
fn durable_batches_are_cut() {
    for_each(|bench| {
        for _ in 0..5 {
            bench.append_some(4);
            bench.commit();
        }
        let to = bench.batches[9].base_offset;
        cut_and_check(bench, to);
    });
}

#[test]
fn batches_in_flight_and_waiting_are_cut() {
    for_each(|bench| {
        for _ in 0..4 {
            bench.append_some(4);
            bench.start();
        }
        for kept in [14, 10, 6, 2] {
            let to = bench.batches[kept].base_offset;
            bench.log.truncate(&mut bench.disk, to).expect("cut");
            bench.cut_model(to);
            bench.check_content();
            assert_eq!(bench.start(), None, "held until the disk is cut, if anything is in flight");
            bench.append_some(1);
        }
        let to = bench.batches[1].base_offset;
        cut_and_check(bench, to);
    });
}

#[test]
fn batches_that_left_memory_are_cut_over_several_segments() {
    for_each(|bench| {
        while bench.log.stats().segments < 4 {
            bench.append_some(5);
            bench.commit();
        }
        let to = bench.batches[20].base_offset;
        assert!(to < bench.log.memory_start_offset());
        cut_and_check(bench, to);
        assert_eq!(bench.segment_paths().len(), 1);
    });
}

#[test]
fn a_cut_at_a_segments_start_keeps_the_segment_empty() {
    for_each(|bench| {
        while bench.log.stats().segments < 3 {
            bench.append_some(5);
            bench.commit();
        }
        let to = bench.log.segments[1].base_offset;
        cut_and_check(bench, to);
        cut_and_check(bench, Offset::ZERO);
    });
}

#[test]
fn a_cut_inside_a_batch_drops_the_batch() {
    for_each(|bench| {
        bench.append(3, 100);
        bench.append(3, 100);
        bench.commit();
        assert_eq!(bench.log.truncate(&mut bench.disk, Offset(5)).expect("cut"), Offset(3));
        assert_eq!(bench.log.truncate(&mut bench.disk, Offset(9)).expect("nothing"), Offset(3));
        bench.cut_model(Offset(3));
        bench.check_content();
    });
}

#[test]
fn epochs_are_cut_with_their_batches() {
    let mut bench = Bench::of(DurabilityMode::Fsync).expect("any directory");
    for epoch in [1, 3, 4] {
        bench.epoch = LeaderEpoch(epoch);
        bench.append(2, 100);
    }
    bench.commit();
    let two = [(LeaderEpoch(1), Offset(0)), (LeaderEpoch(3), Offset(2))];
    bench.log.truncate(&mut bench.disk, Offset(4)).expect("cut");
    assert_eq!(bench.log.leader_epochs(), two);
    bench.reopen(config(DurabilityMode::Fsync));
    assert_eq!(bench.log.leader_epochs(), two);
}

#[test]
fn a_restart_begins_an_empty_log_at_another_offset() {
    for_each(|bench| {
        while bench.log.stats().segments < 3 {
            bench.append_some(5);
            bench.start();
            if bench.disk.pending.len() == bench.config.commit_pipeline_depth {
                bench.complete(0);
            }
        }
        bench.append_some(5);
        bench.start();
        let at = bench.log.segments[1].base_offset;
        for at in [Offset(1_000_000), at] {
            bench.log.restart(&mut bench.disk, at).expect("restarted");
            bench.log.check_invariants();
            bench.batches.clear();
            assert_eq!((bench.log.log_start_offset(), bench.log.log_end_offset()), (at, at));
            assert_eq!(bench.log.leader_epochs(), []);
            bench.append_some(3);
            bench.start();
        }
        while !bench.disk.pending.is_empty() {
            bench.complete(0);
            bench.start();
        }
        bench.commit();
        bench.check_content();
        assert_eq!(bench.segment_paths().len(), 1);
        let config = bench.config;
        bench.reopen(config);
        bench.check_content();
    });
}

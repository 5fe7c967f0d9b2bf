//! Records through a real cluster: every mode on both engines, and what kill -9 leaves.

use std::thread;
use std::time::Duration;

use ackmark::driver::spec::{CellSpec, Retry};
use ackmark::types::{Acks, DurabilityMode, EngineKind, Flush};

use crate::cluster::{Cluster, Shape, small_cell, wait};

const MODES: [DurabilityMode; 6] = [
    DurabilityMode::PageCache,
    DurabilityMode::PageCacheFlush(Flush { messages: 10, interval: Duration::from_millis(100) }),
    DurabilityMode::Fsync,
    DurabilityMode::Direct,
    DurabilityMode::DirectFsync,
    DurabilityMode::DirectDsync,
];

fn every_mode_keeps_what_it_acknowledged(engine: EngineKind) {
    for durability in MODES {
        let cluster = Cluster::start(Shape { engine, ..Shape::plain(durability) });
        for acks in [Acks::Leader, Acks::All] {
            let spec = small_cell(&format!("acks-{acks}"), acks);
            let outcome = cluster.run(&spec);
            assert!(outcome.failures.is_empty(), "{durability} {acks}: {:?}", outcome.failures);
            assert_eq!(outcome.counts.records_acknowledged, outcome.counts.records_due);
            assert_eq!(outcome.counts.records_consumed, outcome.counts.records_due);
            assert_eq!(outcome.stages.anomaly_count, 0, "{durability} {acks}");
            assert!(!outcome.committed_latency.response.is_empty(), "{durability} {acks}");
            cluster.assert_nothing_lost(1, &spec, &outcome);
        }
    }
}

#[test]
fn every_mode_keeps_what_it_acknowledged_on_uring() {
    every_mode_keeps_what_it_acknowledged(EngineKind::Uring);
}

#[test]
fn every_mode_keeps_what_it_acknowledged_on_glommio() {
    every_mode_keeps_what_it_acknowledged(EngineKind::Glommio);
}

#[test]
fn partitions_spread_over_shards() {
    let shape = Shape { shards: 3, ..Shape::plain(DurabilityMode::PageCache) };
    let cluster = Cluster::start(shape);
    let spec = CellSpec { partitions: 7, connections: 2, ..small_cell("spread", Acks::All) };
    let outcome = cluster.run(&spec);
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    cluster.assert_nothing_lost(2, &spec, &outcome);
}

/// Runs a long acks=all cell with retries, and kills broker `victim` in its middle.
fn survives_the_death_of(victim: i32, engine: EngineKind) {
    let mut cluster = Cluster::start(Shape { engine, ..Shape::plain(DurabilityMode::DirectDsync) });
    let spec = CellSpec {
        retry: Retry::UntilAcknowledged,
        duration: Duration::from_secs(4),
        request_timeout: Duration::from_secs(2),
        ..small_cell("survives", Acks::All)
    };
    let bootstrap = if victim == 2 { 3 } else { 2 };
    let address = cluster.address(bootstrap);
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let stop = std::sync::atomic::AtomicBool::new(false);
            ackmark::driver::run::run_cell(address, &spec, &stop, &mut |_| {})
        });
        // With a broker dead the topic could not be created.
        wait("the topic", || {
            !cluster.ask(bootstrap, &["topics", "--describe"])["topics"][0].is_null()
        });
        thread::sleep(Duration::from_millis(1000));
        cluster.kill_broker(victim);
        thread::sleep(Duration::from_millis(1000));
        cluster.restart_broker(victim);
        running.join().unwrap().unwrap_or_else(|error| panic!("{error}"))
    });
    assert_eq!(outcome.counts.records_unanswered, 0, "{:?}", outcome.counts);
    assert_eq!(outcome.counts.records_acknowledged, outcome.counts.records_due);
    cluster.assert_nothing_lost(bootstrap, &spec, &outcome);
    assert!(cluster.is_running(victim));
}

#[test]
fn survives_the_death_of_any_one_broker() {
    // The topic's leader is one of the three: one of these kills hits it, the others hit followers.
    for victim in 1..=3 {
        survives_the_death_of(victim, EngineKind::Uring);
    }
}

#[test]
fn survives_the_death_of_a_broker_on_glommio() {
    survives_the_death_of(1, EngineKind::Glommio);
}

//! Snapshots: taken, restarted from, sent to a voter that was away, read by brokers.

use std::fs;

use super::process::{CLUSTER, Process, config};
use super::trio::{Trio, wait};
use crate::config::node::ControllerConfig;
use crate::node::controller::raft::Quorum;
use crate::node::controller::{describe_quorum, on_event_loop, seed};
use crate::record::batches;
use crate::types::{BrokerId, ErrorCode, Offset};

const INTERVAL: u64 = 20;

fn patience() -> std::time::Duration {
    std::time::Duration::from_secs(60)
}

#[test]
fn a_lone_voter_purges_its_log_and_restarts_from_the_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let lone = || ControllerConfig { snapshot_interval_entries: INTERVAL, ..config(dir.path()) };
    let process = Process::start(lone());
    let mut client = process.connect();
    let log_start = |process: &Process| {
        describe_quorum(process.address, super::process::CLUSTER, patience()).unwrap().log_start
    };
    let mut brokers = 0;
    wait("two purges", || {
        brokers += 1;
        client.register(brokers, 1).unwrap();
        let files = dir.path().join("__cluster_metadata-0");
        log_start(&process) > 0 && !files.join(format!("{:020}.log", 0)).exists()
    });
    let before = client.metadata();
    assert_eq!(before.brokers().count(), usize::try_from(brokers).unwrap());
    // Some records have been in the log only before the snapshot: nobody can go on from there.
    let answer = client.fetch(Offset(1), 0, None);
    assert_eq!(answer.error, ErrorCode::OffsetOutOfRange);
    process.stop();

    let process = Process::start(lone());
    let mut client = process.connect();
    assert_eq!(client.metadata(), before);
    assert!(log_start(&process) > 0);
    client.register(brokers + 1, 1).unwrap();
    assert_eq!(client.metadata().end_offset(), before.end_offset().plus(1));
    process.crash();
    assert_eq!(super::trio::stored(dir.path()).end_offset(), before.end_offset().plus(1));
}

#[test]
fn a_voter_that_was_away_gets_the_snapshot() {
    let mut trio = Trio::start(INTERVAL);
    let active = trio.active();
    let away = (active + 1) % 3;
    trio.connect(active).register(1, 1).unwrap();
    trio.settle();
    trio.crash(away);
    let mut client = trio.connect(active);
    for broker in 2..=120 {
        client.register(broker, 1).unwrap();
    }
    assert!(trio.view(active).log_start > 0);
    trio.restart(away);
    trio.settle();
    assert!(trio.view(away).log_start > 0);
    let seen = trio.connect(trio.active()).metadata();
    for stored in trio.into_stored() {
        assert_eq!(stored, seen);
    }
}

/// A snapshot is decoded while it is read, batch by batch; errors still name the place in the file.
#[test]
fn damage_is_found_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = seed(dir.path(), CLUSTER, BrokerId(100), 30_000).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let batches: Vec<_> = batches(&bytes).map(|found| found.unwrap().1).collect();
    assert!(batches.len() > 3, "{}", batches.len());
    let damaged = batches.last().unwrap().clone();
    bytes[damaged.end - 1] ^= 1;
    fs::write(&path, bytes).unwrap();
    let config = config(dir.path());
    let refused = on_event_loop(async { Ok(Quorum::start(&config).await.map(drop)?) }).unwrap_err();
    let place = format!("batch at byte {} is damaged", damaged.start);
    assert!(refused.to_string().contains(&place), "{refused}");
}

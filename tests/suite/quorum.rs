//! Three controllers as processes: kill -9 of the active one in the middle of ISR changes, under load.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use ackmark::driver::spec::{CellSpec, Retry};
use ackmark::protocol::metadata::{ClusterMetadata, Record};
use ackmark::record::{batches, check_crc, records};
use ackmark::types::{Acks, DurabilityMode};
use ackmark::wire::decode_metadata_record;
use bytes::Bytes;
use serde_json::Value;

use crate::cluster::{Cluster, Shape, small_cell, wait};

const TOPIC: &str = "survives";
const KILLS: usize = 2;

/// Broker 3 stops for a moment, so that the leaders take it out of every ISR and later back in. The
/// active controller is killed as soon as the first of those changes is seen.
#[test]
fn no_isr_change_is_lost_or_made_twice_when_the_active_controller_is_killed() {
    let mut cluster = Cluster::start(Shape {
        controllers: 3,
        election_timeout: Duration::from_millis(250),
        session_timeout: Duration::from_secs(6),
        replica_lag_time_max: Duration::from_millis(400),
        metrics: true,
        ..Shape::plain(DurabilityMode::PageCache)
    });
    let spec = CellSpec {
        partitions: 12,
        retry: Retry::UntilAcknowledged,
        duration: Duration::from_secs(6),
        request_timeout: Duration::from_secs(2),
        ..small_cell(TOPIC, Acks::All)
    };
    let address = cluster.address(1);
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let stop = AtomicBool::new(false);
            ackmark::driver::run::run_cell(address, &spec, &stop, &mut |_| {})
        });
        wait("the topic", || {
            let described = cluster.ask(1, &["topics", "--describe"]);
            described["topics"].as_array().unwrap().iter().any(|topic| topic["name"] == TOPIC)
        });
        for _ in 0..KILLS {
            kill_in_the_middle(&mut cluster);
        }
        running.join().expect("the driver").unwrap_or_else(|error| panic!("{error}"))
    });
    for broker in 1..=3 {
        assert!(cluster.is_running(broker), "broker {broker} ended");
    }
    cluster.assert_nothing_lost(2, &spec, &outcome);
    // What was registered before the kills is known to the new controller: a new topic gets all
    // three brokers. On a slow machine its short lag limit may shrink an ISR, so that refusals are
    // tried again.
    let after = CellSpec { retry: Retry::UntilAcknowledged, ..small_cell("after", Acks::All) };
    let outcome = cluster.run(&after);
    let [created] = &cluster.partitions(1, "after")[..] else { panic!("one partition") };
    assert_eq!(created["replicas"].as_array().unwrap().len(), 3);
    cluster.assert_nothing_lost(1, &after, &outcome);
    wait("the voters to agree", || cluster.is_settled());
    check_views(&mut cluster);
}

fn kill_in_the_middle(cluster: &mut Cluster) {
    let isr_sizes = |cluster: &Cluster| {
        let partitions = cluster.partitions(1, TOPIC);
        partitions.iter().map(|one| one["isr"].as_array().unwrap().len()).collect::<Vec<_>>()
    };
    cluster.pause_broker(3, true);
    wait("the first ISR without broker 3", || isr_sizes(cluster).contains(&2));
    let killed = cluster.kill_active_controller();
    cluster.pause_broker(3, false);
    let active = cluster.active_controller();
    assert_ne!(active, killed);
    // Brokers find it by themselves: the changes go on.
    wait("full ISRs", || isr_sizes(cluster).iter().all(|&size| size == 3));
    cluster.restart_controller(killed);
}

/// Brokers and voters agree on the partitions, voters on every byte; each committed change is one
/// change, and no more were confirmed to leaders than are committed.
fn check_views(cluster: &mut Cluster) {
    let seen: Vec<Vec<Value>> = (1..=3).map(|broker| cluster.partitions(broker, TOPIC)).collect();
    assert_eq!((&seen[0], &seen[0]), (&seen[1], &seen[2]));
    let of = |broker: i32, name: &str| {
        cluster.broker_metrics(broker).value(&format!("ackmark_broker_{name}_total"))
    };
    let confirmed = |name: &str| (1..=3).map(|broker| of(broker, name)).sum::<f64>();
    let confirmed = [confirmed("isr_shrinks"), confirmed("isr_expands")];

    let logs: Vec<Vec<u8>> = cluster.kill_controllers().iter().map(|dir| log(dir)).collect();
    assert!(logs[0] == logs[1] && logs[0] == logs[2], "the voters' logs differ");
    let (metadata, [shrinks, expands]) = replay(&Bytes::from(logs[0].clone()));
    for (name, logged, confirmed) in
        [("shrinks", shrinks, confirmed[0]), ("expands", expands, confirmed[1])]
    {
        assert!(logged > 0 && confirmed > 0.0, "no {name} at all");
        assert!(confirmed <= logged as f64, "{confirmed} {name} confirmed, {logged} committed");
    }
    let topic = metadata.topic(metadata.topic_id(TOPIC).unwrap()).unwrap();
    for described in &seen[0] {
        let partition = described["partition"].as_i64().unwrap();
        let (_, stored) =
            topic.partitions.iter().find(|(id, _)| i64::from(id.0) == partition).unwrap();
        let ids = |ids: &[ackmark::types::BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!(described["isr"], Value::from(ids(&stored.isr)));
        assert_eq!(described["elr"], Value::from(ids(&stored.elr)));
        assert_eq!(described["leader"], Value::from(stored.leader.map(|leader| leader.0)));
        assert_eq!(described["leader_epoch"], Value::from(stored.leader_epoch.0));
    }
}

fn log(data_dir: &Path) -> Vec<u8> {
    let files = std::fs::read_dir(data_dir.join("__cluster_metadata-0")).unwrap();
    let paths = files.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    paths.sort_unstable();
    paths.iter().flat_map(|path| std::fs::read(path).unwrap()).collect()
}

/// What the log adds up to, and how many shrinks and expansions of ISRs are in it. Every change of a
/// partition raises its epoch by one, and no change of an ISR is one that the partition already has.
fn replay(bytes: &Bytes) -> (ClusterMetadata, [u64; 2]) {
    let mut metadata = ClusterMetadata::default();
    let mut changes = [0; 2];
    let mut epochs = BTreeMap::new();
    for found in batches(bytes) {
        let (header, range) = found.unwrap();
        let batch = bytes.slice(range);
        check_crc(&batch, &header).unwrap();
        if header.is_control() {
            continue;
        }
        for record in records(&batch).unwrap() {
            let record = record.unwrap();
            let offset = header.base_offset.plus(i64::from(record.offset_delta));
            assert_eq!(offset, metadata.end_offset(), "a record is missing or there twice");
            let value = batch.slice_ref(record.value.unwrap());
            let record = decode_metadata_record(&value).unwrap();
            if let Record::PartitionChange(change) = &record
                && let Some(isr) = &change.isr
            {
                let before = &metadata.partition(change.id).unwrap().isr;
                assert_ne!(isr, before, "a change of {:?} was made twice", change.id);
                changes[0] += u64::from(isr.len() < before.len());
                changes[1] += u64::from(isr.len() > before.len());
            }
            metadata.apply(offset, &record).unwrap();
            if let Record::PartitionChange(change) = &record {
                let epoch = metadata.partition(change.id).unwrap().partition_epoch.0;
                let before = epochs.insert(change.id, epoch).unwrap_or(0);
                assert_eq!(epoch, before + 1, "{:?}", change.id);
            }
        }
    }
    (metadata, changes)
}

#[test]
fn every_node_tells_of_the_quorum() {
    let cluster = Cluster::start(Shape {
        controllers: 3,
        election_timeout: Duration::from_millis(400),
        ..Shape::plain(DurabilityMode::PageCache)
    });
    let active = cluster.active_controller();
    wait("all voters to be caught up", || {
        cluster.ask(1, &["quorum"])["max_follower_lag"].as_i64() == Some(0)
    });
    let answers = (1..=3)
        .map(|broker| cluster.ask(broker, &["quorum"]))
        .chain((0..3).map(|index| cluster.ask_controller(index, &["quorum"])));
    for answer in answers {
        assert_eq!(answer["leader"], 100 + active as i64);
        assert!(answer["leader_epoch"].as_i64().unwrap() >= 1, "{answer}");
        assert_eq!(answer["high_watermark"], answer["log_end_offset"]);
        let ids = |members: &Value| {
            let members = members.as_array().unwrap().iter();
            members.map(|member| member["id"].as_i64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(ids(&answer["voters"]), [100, 101, 102]);
        assert_eq!(ids(&answer["observers"]), [1, 2, 3]);
        let voters = answer["voters"].as_array().unwrap();
        assert!(voters.iter().all(|voter| voter["lag"] == 0), "{answer}");
    }
}

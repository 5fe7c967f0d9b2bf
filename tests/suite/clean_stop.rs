//! A clean stop is trusted only for what still lies on disk as it was left: real processes.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use ackmark::types::{Acks, DurabilityMode};

use crate::client::{ackmark, command, committed_values, produce, try_command_json, wait_for};
use crate::cluster::{Cluster, Shape};

const SEGMENT: &str = "00000000000000000000.log";

fn shorten(segment: &Path) {
    OpenOptions::new().write(true).open(segment).unwrap().set_len(16).unwrap();
}

fn zero(segment: &Path) {
    let length = fs::metadata(segment).unwrap().len();
    let file = OpenOptions::new().write(true).open(segment).unwrap();
    file.set_len(0).unwrap();
    file.set_len(length).unwrap();
}

fn remove(segment: &Path) {
    fs::remove_file(segment).unwrap();
}

/// The last to stop is damaged and comes back alone: it may not lead, and the others keep theirs.
#[test]
fn a_damaged_replica_that_comes_first_costs_no_record_the_others_hold() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 3] =
        [("shortened", shorten), ("zeroed", zero), ("missing", remove)];
    let mut cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let settings = ["--replica-assignment", "1:2:3", "--config", "min.insync.replicas=2"];
    for (topic, _) in damages {
        let create = ["topics", "--create", "--topic", topic];
        command(cluster.address(1), &[&create[..], &settings].concat());
        for value in ["one", "two"] {
            produce(cluster.address(1), topic, Acks::All, value).unwrap();
        }
    }
    for id in [3, 2, 1] {
        cluster.stop_broker(id);
    }
    for (topic, damage) in damages {
        damage(&segment(&cluster, topic));
    }
    cluster.restart_broker(1);
    let said = fs::read_to_string(cluster.data_dir(1).with_extension("log")).unwrap();
    for (topic, _) in damages {
        let named = |line: &str| line.contains(&format!("{topic}-0: ")) && line.contains(SEGMENT);
        assert!(said.lines().any(named), "{topic}: {said}");
    }
    cluster.restart_broker(2);
    cluster.restart_broker(3);
    for (topic, _) in damages {
        let leader = wait_for("a leader", || leader(&cluster, topic));
        let values = wait_for("its records", || committed_values(cluster.address(leader), topic));
        assert_eq!(values, ["one", "two"], "{topic}");
    }
}

/// It is in the ISR again only with all it lost: once the others are gone, it serves that.
#[test]
fn a_damaged_replica_that_comes_last_fetches_what_it_lost_before_it_joins() {
    let mut cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let create = ["topics", "--create", "--topic", "t", "--replica-assignment", "1:2:3"];
    let settings = ["--config", "min.insync.replicas=2"];
    command(cluster.address(1), &[&create[..], &settings].concat());
    for value in ["one", "two"] {
        produce(cluster.address(1), "t", Acks::All, value).unwrap();
    }
    for id in [1, 2, 3] {
        cluster.stop_broker(id);
    }
    zero(&segment(&cluster, "t"));
    for id in [3, 2, 1] {
        cluster.restart_broker(id);
    }
    wait_for("a complete ISR", || leader(&cluster, "t"));
    cluster.stop_broker(2);
    cluster.stop_broker(3);
    let values = wait_for("its records", || committed_values(cluster.address(1), "t"));
    assert_eq!(values, ["one", "two"]);
}

fn segment(cluster: &Cluster, topic: &str) -> PathBuf {
    cluster.data_dir(1).join(format!("{topic}-0")).join(SEGMENT)
}

/// Once all three are in the ISR again.
fn leader(cluster: &Cluster, topic: &str) -> Option<i32> {
    let all = try_command_json(cluster.address(2), &["topics", "--describe", "--topic", topic])?;
    let partition = &all["topics"][0]["partitions"][0];
    let complete = partition["isr"].as_array()?.len() == 3;
    i32::try_from(partition["leader"].as_i64()?).ok().filter(|_| complete)
}

/// Whichever shard's log it is that did not close.
#[test]
fn a_last_sync_that_fails_leaves_no_mark() {
    let shape = Shape { shards: 2, ..Shape::plain(DurabilityMode::PageCache) };
    for assignment in ["2", "1,2"] {
        let mut cluster = Cluster::start(shape);
        cluster.stop_broker(2);
        cluster.allow_disk_faults(2);
        cluster.restart_broker(2);
        wait_for("broker 2", || {
            let replicas =
                ["topics", "--create", "--topic", "t", "--replica-assignment", assignment];
            try_command_json(cluster.address(1), &replicas)
        });
        let log = cluster.data_dir(2).join(if assignment == "2" { "t-0" } else { "t-1" });
        wait_for("the replica", || log.join(SEGMENT).exists().then_some(()));
        assert!(!cluster.stop_broker_on_a_failing_disk(2), "it cannot say that it stopped well");
        assert!(!cluster.data_dir(2).join(".kafka_cleanshutdown").exists());
    }
}

#[test]
fn a_directory_of_another_cluster_and_a_reserved_name_are_refused() {
    let mut cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    cluster.stop_broker(1);
    let data_dir = cluster.data_dir(1);
    let meta = data_dir.join("meta.properties");
    let text = fs::read_to_string(&meta).unwrap();
    fs::write(&meta, text.replace("cluster.id=test", "cluster.id=other")).unwrap();
    let config = data_dir.with_extension("toml");
    let refused = ackmark(&["broker", "--config", config.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(said.contains(meta.to_str().unwrap()), "{said}");
    assert!(said.contains("cluster.id is `other`, this node needs `test`"), "{said}");

    let bootstrap = cluster.address(2).to_string();
    let name = ["--topic", "__cluster_metadata", "--bootstrap", &bootstrap];
    let refused = ackmark(&[&["topics", "--create"], &name[..]].concat());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(said.contains("reserved for an internal topic"), "{said}");
}

//! What an operator sees, and does, while replicas are lost: real processes, the program's own
//! commands, KIP-966 at feature level 2.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use ackmark::protocol::metadata::Record;
use ackmark::types::{Acks, BrokerId, DurabilityMode, ErrorCode};
use serde_json::{Value, json};

use crate::client::{
    command, command_json, committed_values, high_watermark, metadata_records, produce,
    try_command_json, wait_for,
};
use crate::cluster::{Cluster, Shape};

/// Topics of one partition on brokers 1, 2, 3, by the way they are recovered.
const TOPICS: [(&str, &str); 5] = [
    ("unclean", "Manual"),
    ("longest", "Manual"),
    ("designated", "Manual"),
    ("balanced", "Balanced"),
    ("proactive", "Proactive"),
];
const MANUAL: usize = 3;

fn create_topics(bootstrap: SocketAddr) {
    for (topic, strategy) in TOPICS {
        let strategy = format!("unclean.recovery.strategy={strategy}");
        let create = ["topics", "--create", "--topic", topic, "--replica-assignment", "1:2:3"];
        let settings = ["--config", "min.insync.replicas=2", "--config", &strategy];
        command(bootstrap, &[&create[..], &settings].concat());
    }
}

/// Partition 0 of a topic as `topics --describe --json` shows it.
fn described(bootstrap: SocketAddr, topic: &str) -> Value {
    let described = try_command_json(bootstrap, &["topics", "--describe", "--topic", topic]);
    described.map_or(Value::Null, |all| all["topics"][0]["partitions"][0].clone())
}

/// Waits until a topic's partition has these values.
fn wait_until(bootstrap: SocketAddr, topic: &str, wanted: &Value) {
    let mut last = Value::Null;
    let wanted = wanted.as_object().unwrap();
    let holds = |found: &Value| wanted.iter().all(|(key, value)| sorted(&found[key]) == *value);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wait_for("the partition", || {
            last = described(bootstrap, topic);
            holds(&last).then_some(())
        });
    }));
    assert!(outcome.is_ok(), "{topic}: {last}, wanted {wanted:?}");
}

/// ISR and ELR are sets.
fn sorted(value: &Value) -> Value {
    match value.as_array() {
        Some(ids) => {
            let mut ids: Vec<i64> = ids.iter().map(|id| id.as_i64().unwrap()).collect();
            ids.sort_unstable();
            json!(ids)
        }
        None => value.clone(),
    }
}

/// The value of one of the controller's metrics.
fn metric(address: SocketAddr, name: &str) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no metric {name}: {text}"));
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

fn elect(bootstrap: SocketAddr, arguments: &[&str]) -> Value {
    let answer = command_json(bootstrap, &[&["elect-leaders"], arguments].concat());
    answer["elections"][0].clone()
}

/// Cleanly stopped: 3, then 2 (so that it is in the ELR). Killed: 1, the leader. Then 3 comes back
/// alone, 2 with the mark of another life, 1 with none.
#[test]
fn an_operator_sees_and_ends_what_the_loss_of_every_electable_replica_left() {
    let mut cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    create_topics(cluster.address(1));

    cluster.stop_broker(3);
    let leader = cluster.address(1);
    for (topic, _) in TOPICS {
        wait_until(leader, topic, &json!({ "leader": 1, "isr": [1, 2], "elr": [] }));
        produce(leader, topic, Acks::All, "acknowledged").unwrap();
    }
    cluster.stop_broker(2);
    the_gate_holds_and_the_elr_shows(leader);

    cluster.kill_broker(1);
    cluster.restart_broker(3);
    let bystander = cluster.address(3);
    for (topic, _) in &TOPICS[..=MANUAL] {
        let electable = json!({ "leader": null, "isr": [], "elr": [1, 2], "last_known_elr": [] });
        wait_until(bystander, topic, &electable);
    }

    let marker = cluster.data_dir(2).join(".kafka_cleanshutdown");
    assert!(marker.exists(), "a clean stop leaves its mark");
    std::fs::write(&marker, r#"{"version":0,"brokerEpoch":123456}"#).unwrap();
    cluster.restart_broker(2);
    for (topic, _) in &TOPICS[..=MANUAL] {
        let half = json!({ "leader": null, "isr": [], "elr": [1], "last_known_elr": [2] });
        wait_until(bystander, topic, &half);
    }
    assert!(!marker.exists(), "the mark is used once");
    the_elr_was_left_before_the_registration(cluster.controller_address(), BrokerId(2));

    cluster.restart_broker(1);
    everybody_comes_back(&cluster, bystander);
}

fn the_gate_holds_and_the_elr_shows(leader: SocketAddr) {
    for (topic, _) in TOPICS {
        let shrunk = json!({
            "leader": 1, "isr": [1], "elr": [2], "last_known_elr": [], "offline_replicas": [2, 3],
        });
        wait_until(leader, topic, &shrunk);
        let before = high_watermark(leader, topic);
        let refused = produce(leader, topic, Acks::All, "refused");
        assert_eq!(refused, Err(ErrorCode::NotEnoughReplicas));
        let accepted = produce(leader, topic, Acks::Leader, "invisible").unwrap();
        assert_eq!(high_watermark(leader, topic), before, "{topic}: the gate is closed");
        assert_eq!(accepted, before, "and the record lies right behind it");
        assert_eq!(committed_values(leader, topic).unwrap(), ["acknowledged"]);
    }
    let table = command(leader, &["topics", "--describe", "--topic", "longest"]);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let header = ["partition", "leader", "leader epoch", "replicas", "ISR", "ELR"];
    assert!(rows.iter().any(|row| row.starts_with(&header)), "{table}");
    assert!(rows.iter().any(|row| row.starts_with(&["0", "1", "0", "1,2,3", "1", "2"])), "{table}");
}

/// spec/kip966.md 2.1: a crash in between must only repeat the clean-up.
fn the_elr_was_left_before_the_registration(controller: SocketAddr, broker: BrokerId) {
    let records = metadata_records(controller);
    let registered =
        |record: &Record| matches!(record, Record::RegisterBroker(r) if r.broker == broker);
    let last = records.iter().rposition(registered).expect("it registered");
    let leaves = |record: &&Record| {
        matches!(record, Record::PartitionChange(change)
            if change.elr.as_ref().is_some_and(|elr| !elr.contains(&broker)))
    };
    let before = records[..last].iter().rev().take_while(leaves).count();
    assert!(before > MANUAL, "{before} partitions were left: {:?}", &records[last - 5..=last]);
}

fn everybody_comes_back(cluster: &Cluster, bystander: SocketAddr) {
    for (topic, _) in &TOPICS[..MANUAL] {
        let paused = json!({ "leader": null, "isr": [], "elr": [], "last_known_elr": [1, 2] });
        wait_until(bystander, topic, &paused);
    }
    let paused = || metric(cluster.metrics_address(), "kafka_replication_paused_partitions");
    wait_for("the paused partitions in the metric", || (paused() == MANUAL as u64).then_some(()));
    let led = |topic: &str| wait_for("a leader", || described(bystander, topic)["leader"].as_i64());
    let balanced = led("balanced");
    assert!([1, 2].contains(&balanced), "led by {balanced}, whose log is not the best");
    led("proactive");

    // Brokers 1 and 2 must be unfenced before they can be elected; the recovery of `balanced` above
    // waited for both of them to register, not for that.
    wait_for("all brokers unfenced", || {
        let brokers = command_json(bystander, &["brokers"]);
        let fenced = |broker: &Value| broker["fenced"] == true;
        (!brokers["brokers"].as_array()?.iter().any(fenced)).then_some(())
    });
    let on = |topic| ["--topic", topic, "--partition", "0", "--election-type"];
    let outcome = elect(bystander, &[&on("unclean")[..], &["unclean"]].concat());
    assert_eq!((&outcome["error"], &outcome["leader"]), (&json!("NONE"), &json!(1)), "{outcome}");
    let outcome = elect(bystander, &[&on("longest")[..], &["longest-log-balanced"]].concat());
    assert_eq!((&outcome["error"], &outcome["leader"]), (&json!("NONE"), &json!(1)), "{outcome}");
    let designate = ["designated", "--leader", "2"];
    let outcome = elect(bystander, &[&on("designated")[..], &designate].concat());
    assert_eq!((&outcome["error"], &outcome["leader"]), (&json!("NONE"), &json!(2)), "{outcome}");
    wait_for("no partition paused", || (paused() == 0).then_some(()));

    for (topic, values) in [
        // The first live replica happens to be the one with the longest log.
        ("unclean", &["acknowledged", "invisible"][..]),
        ("longest", &["acknowledged", "invisible"]),
        // This leader was named although it lacks what only the old one had acknowledged by itself.
        ("designated", &["acknowledged"]),
        ("balanced", &["acknowledged", "invisible"]),
    ] {
        let (leader, found) = wait_for("the committed records", || {
            let leader = described(bystander, topic)["leader"].as_i64()?;
            let leader = cluster.address(i32::try_from(leader).unwrap());
            let found = committed_values(leader, topic)?;
            (found.len() >= values.len()).then_some((leader, found))
        });
        assert_eq!(found, values, "{topic}");
        produce(leader, topic, Acks::All, "after").unwrap();
    }
}

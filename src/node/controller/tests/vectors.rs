//! The conformance scenarios whose start a cluster can be brought to, through real requests to a
//! running controller: brokers register, a topic is created, its ISR changes, then the events.
//! Epochs are compared by how far they moved, because a real start has its own.

use std::collections::BTreeMap;

use serde_json::Value;

use super::operator::{Proposal, TOPIC};
use super::process::{Client, Process, config, registration};
use crate::config::node::{ControllerConfig, ElectionConfig};
use crate::protocol::metadata::{PartitionRegistration, topic_config};
use crate::types::{BrokerId, Compat, ErrorCode, TopicId};

const SHARED: &str = include_str!("../../../../fixtures/vectors/kip966.json");
const OWN: &str = include_str!("../../../../fixtures/vectors/kip966-own.json");
/// Fewer would mean that the way to their starts broke.
const RUN_MIN: usize = 40;
/// Added to an epoch that a scenario wants to be wrong.
const WRONG: i64 = 1_000_000;

#[test]
fn scenarios_hold_through_real_requests() {
    let (mut run, mut failures) = (Vec::new(), Vec::new());
    for text in [SHARED, OWN] {
        let vectors: Vec<Value> = serde_json::from_str(text).unwrap();
        for vector in vectors.iter().filter(|vector| vector["scope"] == "controller") {
            let compat = match vector["compat"].as_str() {
                Some("kafka-4.2") => Compat::Kafka42,
                _ => Compat::Kip,
            };
            if let Some(outcome) = scenario(vector, compat) {
                run.push(vector["id"].to_string());
                failures.extend(outcome.err().map(|why| format!("{}: {why}", vector["id"])));
            }
        }
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(run.len() >= RUN_MIN, "{} run: {run:?}", run.len());
}

/// A cluster at the start of a scenario.
struct Cluster {
    client: Client,
    topic: TopicId,
    /// Of registered brokers.
    epochs: BTreeMap<i32, i64>,
    incarnations: u8,
    start: PartitionRegistration,
}

/// `None` if the scenario cannot be played by requests.
fn scenario(vector: &Value, compat: Compat) -> Option<Result<(), String>> {
    let (given, event) = (&vector["given"], &vector["event"]);
    let steps = match event["type"].as_str() {
        Some("sequence") => event["steps"].as_array().unwrap().clone(),
        _ => vec![event.clone()],
    };
    if !is_reachable(given) || !steps.iter().all(|step| is_playable(given, step)) {
        return None;
    }
    // Only an expired session fences a broker in controlled shutdown: too long to wait for.
    let leaves_and_is_fenced = steps.iter().any(|step| {
        let leaves =
            |other: &Value| other["type"] == "controlled_shutdown" && other["b"] == step["b"];
        step["type"] == "fence" && steps.iter().any(leaves)
    });
    if leaves_and_is_fenced {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(ControllerConfig {
        election: ElectionConfig {
            compat,
            elr_level: match (&given["elrEnabled"], given["lastKnownMode"].as_str()) {
                (Value::Bool(false), _) => 0,
                (_, Some("full_set")) => 2,
                (_, _) => 1,
            },
            unclean_recovery_manager: false,
        },
        ..config(dir.path())
    });
    let outcome = bring_about(process.connect(), given).map(|mut cluster| {
        let errors: Vec<ErrorCode> = steps.iter().map(|step| cluster.play(step, given)).collect();
        cluster.compare(given, *errors.last().unwrap(), &vector["expect"])
    });
    process.stop();
    outcome
}

/// Starts with a leader in an ISR of live brokers, and without memories of earlier ones.
fn is_reachable(given: &Value) -> bool {
    let plain = ["adding", "removing", "recovery", "metadataVersion", "lastKnownLivenessCheck"];
    let isr = ids(&given["isr"]);
    plain.iter().chain(&["shuttingDown"]).all(|key| given[*key].is_null())
        && ids(&given["lastKnownElr"]).is_empty()
        && isr.contains(&number(&given["leader"]))
        && ids(&given["fenced"]).iter().all(|fenced| !isr.contains(fenced))
}

fn is_playable(given: &Value, step: &Value) -> bool {
    match step["type"].as_str().unwrap() {
        // A live broker's id cannot be taken by another process.
        "register" => {
            let fenced = ids(&given["fenced"]).contains(&number(&step["b"]));
            fenced && step["version"].is_null()
        }
        "elect" => ["PREFERRED", "UNCLEAN"].contains(&step["kind"].as_str().unwrap_or_default()),
        "set_min_isr" => step["value"].is_i64(),
        "alter_partition" | "fence" | "unfence" | "controlled_shutdown" | "set_unclean" => true,
        _ => false,
    }
}

/// Only members of ISR and ELR are live when the topic is created, so that they are its first ISR;
/// then the leader reports the ELR's members gone.
fn bring_about(mut client: Client, given: &Value) -> Option<Cluster> {
    let (replicas, isr, elr) = (ids(&given["replicas"]), ids(&given["isr"]), ids(&given["elr"]));
    let mut epochs = BTreeMap::new();
    for broker in replicas.iter().copied().chain(ids(&given["otherBrokers"])) {
        epochs.insert(broker, client.register(broker, 1).unwrap());
    }
    let is_first = |broker: &i32| isr.contains(broker) || elr.contains(broker);
    for (&broker, &epoch) in epochs.iter().filter(|(broker, _)| is_first(broker)) {
        client.beat(broker, epoch, false, false);
    }
    let min_isr = given["minISR"].to_string();
    let mut configs = vec![(topic_config::MIN_ISR, min_isr.as_str())];
    if given["uncleanElection"] == true {
        configs.push((topic_config::UNCLEAN_ELECTION, "true"));
    }
    let topic = client.create(&replicas, &configs);
    let leader = number(&given["leader"]);
    if client.partition(topic).leader != Some(BrokerId(leader)) {
        return None;
    }
    if !elr.is_empty() {
        let members = isr.iter().map(|id| (*id, epochs[id])).collect();
        let proposal = Proposal {
            broker: leader,
            broker_epoch: epochs[&leader],
            leader_epoch: 0,
            partition_epoch: 0,
            isr: members,
            recovering: false,
        };
        assert_eq!(client.propose(topic, &proposal), ErrorCode::None);
    }
    let fenced = ids(&given["fenced"]);
    for (&broker, &epoch) in &epochs {
        client.beat(broker, epoch, fenced.contains(&broker), false);
    }
    let start = client.partition(topic);
    let is_there = same(&start.isr, &given["isr"])
        && same(&start.elr, &given["elr"])
        && start.last_known_elr.is_empty();
    is_there.then_some(Cluster { client, topic, epochs, incarnations: 1, start })
}

impl Cluster {
    fn play(&mut self, step: &Value, given: &Value) -> ErrorCode {
        let broker = || number(&step["b"]);
        match step["type"].as_str().unwrap() {
            "alter_partition" => self.alter_partition(step, given),
            "fence" => self.client.beat(broker(), self.epochs[&broker()], true, false),
            "unfence" => self.client.beat(broker(), self.epochs[&broker()], false, false),
            "controlled_shutdown" => {
                self.client.beat(broker(), self.epochs[&broker()], false, true)
            }
            "register" => self.register(step),
            "elect" => {
                let election_type = i8::from(step["kind"] == "UNCLEAN");
                self.client.elect(election_type, None).0
            }
            "set_min_isr" => {
                let topic = (step["scope"] != "cluster").then_some(TOPIC);
                self.client.set(topic, topic_config::MIN_ISR, &step["value"].to_string())
            }
            "set_unclean" => {
                let value = step["value"].as_bool().unwrap_or(true).to_string();
                self.client.set(Some(TOPIC), topic_config::UNCLEAN_ELECTION, &value)
            }
            other => panic!("{other}"),
        }
    }

    fn alter_partition(&mut self, step: &Value, given: &Value) -> ErrorCode {
        let stored = self.client.partition(self.topic);
        let broker = number(&step["broker"]);
        let epoch = |broker: i32, wanted: &Value| match wanted.as_i64() {
            Some(-1) => -1,
            Some(epoch) if epoch != 100 + i64::from(broker) => epoch + WRONG,
            Some(_) | None => self.epochs.get(&broker).copied().unwrap_or(-1),
        };
        let moved = |key: &str, stored: i32| match step[key].as_i64() {
            Some(_) => stored + number(&step[key]) - number(&given[key]),
            None => stored,
        };
        let isr = ids(&step["newIsr"]).into_iter();
        let proposal = Proposal {
            broker,
            broker_epoch: epoch(broker, &step["brokerEpoch"]),
            leader_epoch: moved("leaderEpoch", stored.leader_epoch.0),
            partition_epoch: moved("partitionEpoch", stored.partition_epoch.0),
            isr: isr.map(|id| (id, epoch(id, &step["isrEpochs"][id.to_string()]))).collect(),
            recovering: step["recovery"] == "RECOVERING",
        };
        self.client.propose(self.topic, &proposal)
    }

    fn register(&mut self, step: &Value) -> ErrorCode {
        let broker = number(&step["b"]);
        self.incarnations += u8::from(step["new_incarnation"] != false);
        let clean = step["previous_epoch"].as_i64() == Some(100 + i64::from(broker));
        let previous = if clean { self.epochs[&broker] } else { -1 };
        let request = registration(broker, self.incarnations);
        match self.client.register_as(request.with_previous_broker_epoch(previous)) {
            Ok(epoch) => {
                self.epochs.insert(broker, epoch);
                ErrorCode::None
            }
            Err(error) => error,
        }
    }

    fn compare(&mut self, given: &Value, error: ErrorCode, expect: &Value) -> Result<(), String> {
        let now = self.client.partition(self.topic);
        let moved = |key: &str, wanted: &Value, start: i32, now: i32| {
            now - start == number(wanted) - number(&given[key])
        };
        for (field, wanted) in expect.as_object().unwrap() {
            let holds = match field.as_str() {
                "isr" => same(&now.isr, wanted),
                "elr" => same(&now.elr, wanted),
                "lastKnownElr" => same(&now.last_known_elr, wanted),
                "leader" => now.leader.map_or(-1, |leader| leader.0) == number(wanted),
                "leaderEpoch" => {
                    let start = self.start.leader_epoch.0;
                    moved("leaderEpoch", wanted, start, now.leader_epoch.0)
                }
                "partitionEpoch" => {
                    let start = self.start.partition_epoch.0;
                    moved("partitionEpoch", wanted, start, now.partition_epoch.0)
                }
                "recovery" => now.recovering == (*wanted == "RECOVERING"),
                "error" => *wanted == error.name(),
                "recordEmitted" => *wanted == (now != self.start),
                other => return Err(format!("unknown expectation {other}")),
            };
            if !holds {
                return Err(format!("{field} should be {wanted}: {error}, {now:?}"));
            }
        }
        Ok(())
    }
}

fn number(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap()).unwrap()
}

fn ids(value: &Value) -> Vec<i32> {
    value.as_array().into_iter().flatten().map(number).collect()
}

fn same(members: &[BrokerId], wanted: &Value) -> bool {
    let mut members: Vec<i32> = members.iter().map(|member| member.0).collect();
    let mut wanted = ids(wanted);
    members.sort_unstable();
    wanted.sort_unstable();
    members == wanted
}

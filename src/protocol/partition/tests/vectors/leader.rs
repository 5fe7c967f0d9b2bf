//! Vectors with scope leader.

use std::collections::BTreeMap;

use super::*;
use crate::protocol::partition::leader::Leader;
use crate::protocol::partition::replica_progress::{FetchEpoch, ReplicaProgress};

fn leader(machine: &mut Machine) -> &mut Leader {
    match &mut machine.partition.role {
        Role::Leader(leader) => leader,
        role => panic!("not a leader: {role:?}"),
    }
}

pub(super) fn progress(machine: &mut Machine, id: &str) -> ReplicaProgress {
    let id = BrokerId(id.parse().unwrap());
    let followers = &leader(machine).followers;
    followers.iter().find(|follower| follower.id == id).expect("an assigned follower").clone()
}

/// The leader a vector's `given` describes, with the parts no input can bring about set directly.
fn given_leader(given: &Value, isr_expand: IsrExpand) -> Machine {
    refuse_unknown(
        given,
        &[
            "local",
            "replicas",
            "isr",
            "minISR",
            "leo",
            "hwm",
            "epochStart",
            "followers",
            "partitionEpoch",
            "aliveEpochs",
        ],
    );
    assert_eq!(given["local"], 1);
    let end = int(&given["leo"]).unwrap();
    let epoch_start = int(&given["epochStart"]).unwrap_or(end);
    let min_isr = usize::try_from(int(&given["minISR"]).unwrap()).unwrap();
    let log = log(&[(LEADER_EPOCH.0, epoch_start)], 0, end, int(&given["hwm"]).unwrap_or(0));
    let mut machine = Machine::new(Settings { isr_expand, ..settings(min_isr) }, log);
    let mut brokers = peers(&[]);
    for (id, epoch) in given["aliveEpochs"].as_object().into_iter().flatten() {
        let id = BrokerId(id.parse().unwrap());
        let broker = brokers.iter_mut().find(|broker| broker.id == id).unwrap();
        broker.epoch = int(epoch).map(BrokerEpoch);
    }
    machine.step(Input::Peers(brokers));
    let (replicas, isr) = (list(&given["replicas"]).unwrap(), list(&given["isr"]).unwrap());
    machine.step(Input::Metadata(PartitionMetadata {
        partition_epoch: PartitionEpoch(
            i32::try_from(int(&given["partitionEpoch"]).unwrap_or(1)).unwrap(),
        ),
        ..metadata(1, &replicas, &isr)
    }));
    leader(&mut machine).epoch_start_offset = Offset(epoch_start);
    for (id, known) in given["followers"].as_object().into_iter().flatten() {
        refuse_unknown(known, &["leo", "brokerEpoch", "lastCaughtUpMs"]);
        let id = BrokerId(id.parse().unwrap());
        let followers = &mut leader(&mut machine).followers;
        let follower = followers.iter_mut().find(|follower| follower.id == id).unwrap();
        follower.log_end_offset = int(&known["leo"]).map(Offset);
        follower.fetch_epoch = FetchEpoch::Given(BrokerEpoch(int(&known["brokerEpoch"]).unwrap()));
        if let Some(ms) = int(&known["lastCaughtUpMs"]) {
            follower.last_caught_up_time = (ms > 0).then(|| at_ms(ms.unsigned_abs()));
        }
    }
    machine.out.clear();
    machine
}

/// What a run leaves besides the machine.
#[derive(Default)]
struct Trace {
    requests: BTreeMap<String, RequestId>,
    refused_by_shell: BTreeMap<String, &'static str>,
    last_fetch: Option<RequestId>,
    metadata: Option<PartitionMetadata>,
}

pub(super) fn run_leader(vector: &Value, isr_expand: IsrExpand) -> Vec<String> {
    let mut machine = given_leader(&vector["given"], isr_expand);
    let given = &vector["given"];
    let (replicas, isr) = (list(&given["replicas"]).unwrap(), list(&given["isr"]).unwrap());
    let mut trace = Trace { metadata: Some(metadata(1, &replicas, &isr)), ..Trace::default() };
    for step in steps(vector) {
        if let Some(ms) = int(&step["atMs"]) {
            machine.now_ms = ms.unsigned_abs();
        }
        leader_step(&mut machine, &mut trace, step);
    }
    let machine = std::cell::RefCell::new(machine);
    differences(&vector["expect"], |key| {
        observed(&mut machine.borrow_mut(), &trace, key, &vector["expect"][key])
    })
}

fn leader_step(machine: &mut Machine, trace: &mut Trace, step: &Value) {
    match step["type"].as_str().unwrap() {
        "produce" => produce(machine, trace, step),
        "fetch" => fetch(machine, trace, step),
        "metadata" => change_metadata(machine, trace, step),
        "produce_timeout" => {
            machine.now_ms += PRODUCE_TIMEOUT_MS;
            machine.step(Input::Tick);
        }
        "shrink_tick" => {
            machine.step(Input::Tick);
        }
        "alter_ok" => {
            let proposal = machine.last_proposal().expect("a proposal was sent").clone();
            let committed = IsrCommitted {
                leader: Some(LOCAL),
                leader_epoch: LEADER_EPOCH,
                partition_epoch: PartitionEpoch(
                    i32::try_from(int(&step["partitionEpoch"]).unwrap()).unwrap(),
                ),
                isr: ids(&list(&step["isr"]).unwrap()),
            };
            machine.step(Input::IsrCommitted { proposal, committed });
        }
        "alter_error" => {
            machine.refuse_proposal(error_named(step["error"].as_str().unwrap()));
        }
        other => panic!("unknown step {other}"),
    }
}

fn produce(machine: &mut Machine, trace: &mut Trace, step: &Value) {
    refuse_unknown(step, &["type", "id", "acks", "records"]);
    let id = step["id"].as_str().unwrap().to_owned();
    let acks = i16::try_from(int(&step["acks"]).unwrap()).unwrap();
    let Some(acks) = Acks::from_wire(acks) else {
        trace.refused_by_shell.insert(id, ErrorCode::InvalidRequiredAcks.name());
        return;
    };
    let records = u32::try_from(int(&step["records"]).unwrap()).unwrap();
    let (request, _) = machine.produce(acks, records);
    trace.requests.insert(id, request);
    machine.durable(machine.partition.log_end_offset().0);
}

fn fetch(machine: &mut Machine, trace: &mut Trace, step: &Value) {
    refuse_unknown(step, &["type", "replica", "offset", "atMs", "brokerEpoch", "leaderEpoch"]);
    let id = i32::try_from(int(&step["replica"]).unwrap()).unwrap();
    let fetcher = Fetcher::Follower {
        id: BrokerId(id),
        epoch: Some(int(&step["brokerEpoch"]).map_or(broker_epoch(id), BrokerEpoch)),
        log_start_offset: Offset::ZERO,
    };
    let claimed = int(&step["leaderEpoch"]).map(|epoch| LeaderEpoch(epoch.try_into().unwrap()));
    let (request, _) = machine.fetch_as(fetcher, int(&step["offset"]).unwrap(), claimed, None);
    trace.last_fetch = Some(request);
}

/// One metadata batch: brokers, then the partition, then settings (spec/kip966.md 1.2).
fn change_metadata(machine: &mut Machine, trace: &mut Trace, step: &Value) {
    refuse_unknown(step, &["type", "isr", "partitionEpoch", "replicas", "fenced", "minISR"]);
    if let Some(fenced) = list(&step["fenced"]) {
        machine.step(Input::Peers(peers(&fenced)));
    }
    if let Some(isr) = list(&step["isr"]) {
        let known = trace.metadata.as_mut().unwrap();
        known.isr = ids(&isr);
        known.partition_epoch =
            PartitionEpoch(i32::try_from(int(&step["partitionEpoch"]).unwrap()).unwrap());
        if let Some(replicas) = list(&step["replicas"]) {
            known.replicas = ids(&replicas);
        }
        machine.step(Input::Metadata(known.clone()));
    }
    if let Some(min_isr) = int(&step["minISR"]) {
        machine.step(Input::Settings(settings(usize::try_from(min_isr).unwrap())));
    }
}

fn observed(machine: &mut Machine, trace: &Trace, key: &str, want: &Value) -> Value {
    let numbers = |ids: &[BrokerId]| json!(ids.iter().map(|id| id.0).collect::<Vec<_>>());
    let counters = machine.partition.isr_counters();
    match key {
        "hwm" => json!(machine.high_watermark()),
        "leo" => json!(machine.partition.log_end_offset().0),
        "isr" => numbers(machine.partition.committed_isr()),
        "maximalIsr" => numbers(&machine.partition.maximal_isr()),
        "inflight" => json!(machine.partition.is_isr_pending()),
        "underMinIsr" => json!(machine.partition.is_under_min_isr()),
        "leaderEpoch" => json!(machine.partition.leader_epoch().unwrap().0),
        "partitionEpoch" => json!(leader(machine).term.partition_epoch.0),
        "expands" => json!(counters.expands),
        "shrinks" => json!(counters.shrinks),
        "failedIsrUpdates" => json!(counters.failed_updates),
        "alterSent" => {
            let sent = machine.out.iter().filter(|out| matches!(out, Output::ProposeIsr(_)));
            json!(sent.count())
        }
        "proposal" => machine.last_proposal().map_or(Value::Null, |proposal| {
            numbers(&proposal.isr.iter().map(|&(id, _)| id).collect::<Vec<_>>())
        }),
        "error" => trace
            .last_fetch
            .and_then(|request| fetch_answer(&machine.out, request))
            .filter(|answer| answer.error != ErrorCode::None)
            .map_or(Value::Null, |answer| json!(answer.error.name())),
        "produce" => produce_results(machine, trace),
        "waiting" => {
            let answered = |request| produce_answer(&machine.out, request).is_some();
            let waiting = trace.requests.iter().filter(|&(_, &request)| !answered(request));
            json!(waiting.map(|(id, _)| id).collect::<Vec<_>>())
        }
        "followerLeo" => per_follower(machine, want, |follower| {
            follower.log_end_offset.map_or(-1, |offset| offset.0)
        }),
        "followerLastCaughtUpMs" => per_follower(machine, want, |follower| {
            follower.last_caught_up_time.map_or(0, |at| (at.0 / 1_000_000).cast_signed())
        }),
        other => panic!("the test does not know the expectation {other}"),
    }
}

fn produce_results(machine: &Machine, trace: &Trace) -> Value {
    let mut results: BTreeMap<&str, &str> =
        trace.refused_by_shell.iter().map(|(id, name)| (id.as_str(), *name)).collect();
    for (id, &request) in &trace.requests {
        if let Some(result) = produce_answer(&machine.out, request) {
            results.insert(id, result.map_or_else(ErrorCode::name, |_| ErrorCode::None.name()));
        }
    }
    json!(results)
}

fn per_follower(
    machine: &mut Machine,
    want: &Value,
    value: impl Fn(&ReplicaProgress) -> i64,
) -> Value {
    let wanted = want.as_object().unwrap().keys();
    wanted
        .map(|id| (id.clone(), json!(value(&progress(machine, id)))))
        .collect::<Map<_, _>>()
        .into()
}

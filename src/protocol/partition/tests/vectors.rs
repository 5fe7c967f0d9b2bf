//! Every vector of `fixtures/vectors/kip966.json` with scope leader, divergence or follower.
//!
//! The vectors model a page cache, so each append is made durable right after it. `acks` other than
//! 0, 1 and -1 never reaches the machine: that answer is `Acks::from_wire`'s and the shell's.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::*;
use crate::protocol::partition::follower::Waits;
use crate::protocol::partition::leader::Leader;
use crate::protocol::partition::leader_epochs::truncation;
use crate::protocol::partition::replica_progress::{FetchEpoch, ReplicaProgress};

#[test]
fn leader_vectors_hold() {
    assert_eq!(check_scope("leader", |vector| run_leader(vector, IsrExpand::Kafka)), 41);
}

#[test]
fn divergence_vectors_hold() {
    assert_eq!(check_scope("divergence", run_divergence), 10);
}

#[test]
fn follower_vectors_hold() {
    assert_eq!(check_scope("follower", run_follower), 10);
}

/// L13 is Kafka's shipped behaviour; `isr.expand = caught-up` is what keeps the far-behind follower
/// out (spec/kip966.md 1.5, KAFKA-19996).
#[test]
fn l13_under_isr_expand_caught_up_proposes_nothing() {
    let mut vector = all().into_iter().find(|vector| vector["id"] == "L13").expect("L13 exists");
    vector["expect"] = json!({
        "inflight": false, "alterSent": 0, "isr": [1], "maximalIsr": [1], "hwm": 10,
    });
    assert_eq!(run_leader(&vector, IsrExpand::CaughtUp), Vec::<String>::new());
}

fn all() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../../fixtures/vectors/kip966.json"))
        .expect("the vectors are JSON")
}

/// Runs every vector of `scope`, panics with all that failed, returns how many ran.
fn check_scope(scope: &str, run: impl Fn(&Value) -> Vec<String>) -> usize {
    let vectors = all().into_iter().filter(|vector| vector["scope"] == scope);
    let mut failures = Vec::new();
    let mut count = 0;
    for vector in vectors {
        count += 1;
        failures.extend(run(&vector).into_iter().map(|what| format!("{}: {what}", vector["id"])));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    count
}

/// Compares the expected fields with what `actual` says of each.
fn differences(expect: &Value, actual: impl Fn(&str) -> Value) -> Vec<String> {
    let fields = expect.as_object().expect("expect is an object");
    fields
        .iter()
        .filter(|(key, want)| sorted(actual(key)) != sorted((*want).clone()))
        .map(|(key, want)| format!("{key} is {}, expected {want}", actual(key)))
        .collect()
}

/// ISRs are sets.
fn sorted(mut value: Value) -> Value {
    if let Value::Array(items) = &mut value
        && items.iter().all(Value::is_i64)
    {
        items.sort_by_key(Value::as_i64);
    }
    value
}

fn steps(vector: &Value) -> Vec<&Value> {
    match vector["event"]["steps"].as_array() {
        Some(steps) => steps.iter().collect(),
        None => vec![&vector["event"]],
    }
}

fn refuse_unknown(object: &Value, known: &[&str]) {
    for key in object.as_object().into_iter().flat_map(Map::keys) {
        assert!(known.contains(&key.as_str()), "the test does not know the field {key}: {object}");
    }
}

fn int(value: &Value) -> Option<i64> {
    value.as_i64()
}

fn list(value: &Value) -> Option<Vec<i32>> {
    let items = value.as_array()?.iter();
    Some(items.map(|item| i32::try_from(item.as_i64().unwrap()).unwrap()).collect())
}

fn epoch_cache(value: &Value) -> Vec<(i32, i64)> {
    let entry = |entry: &Value| {
        (i32::try_from(entry[0].as_i64().unwrap()).unwrap(), entry[1].as_i64().unwrap())
    };
    value.as_array().expect("epochCache is a list").iter().map(entry).collect()
}

fn error_named(name: &str) -> ErrorCode {
    let mut codes = (-1..200).map(ErrorCode::from_code);
    codes.find(|error| error.name() == name).unwrap_or_else(|| panic!("unknown error {name}"))
}

fn leader(machine: &mut Machine) -> &mut Leader {
    match &mut machine.partition.role {
        Role::Leader(leader) => leader,
        role => panic!("not a leader: {role:?}"),
    }
}

fn progress(machine: &mut Machine, id: &str) -> ReplicaProgress {
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

fn run_leader(vector: &Value, isr_expand: IsrExpand) -> Vec<String> {
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

fn run_divergence(vector: &Value) -> Vec<String> {
    let given = &vector["given"];
    refuse_unknown(given, &["epochCache", "leo", "leaderEpoch", "logStart"]);
    let epochs = epoch_cache(&given["epochCache"]);
    let log_start = int(&given["logStart"]).unwrap_or(0);
    let mut machine =
        Machine::new(settings(1), log(&epochs, log_start, int(&given["leo"]).unwrap(), log_start));
    let newest = epochs.last().unwrap().0;
    let leader_epoch = int(&given["leaderEpoch"]).map_or(newest, |epoch| epoch.try_into().unwrap());
    machine.step(Input::Metadata(PartitionMetadata {
        leader_epoch: LeaderEpoch(leader_epoch),
        ..metadata(1, &[1, 2], &[1, 2])
    }));
    let fetcher = Fetcher::Follower {
        id: BrokerId(2),
        epoch: Some(broker_epoch(2)),
        log_start_offset: Offset::ZERO,
    };
    let event = &vector["event"];
    let epoch = LeaderEpoch(int(&event["lastFetchedEpoch"]).unwrap().try_into().unwrap());
    let offset = int(&event["fetchOffset"]).unwrap();
    let (request, out) = machine.fetch_as(fetcher, offset, None, Some(epoch));
    let answer = fetch_answer(&out, request);
    let acknowledged = progress(&mut machine, "2").log_end_offset.is_some();
    differences(&vector["expect"], |key| match key {
        "divergingEpoch" => json!(answer.and_then(|a| a.diverging).map(|(epoch, _)| epoch.0)),
        "divergingEndOffset" => json!(answer.and_then(|a| a.diverging).map(|(_, end)| end.0)),
        "error" => json!(answer.map(|a| a.error.name())),
        "ok" => json!(
            acknowledged
                && answer.is_none_or(|a| a.error == ErrorCode::None && a.diverging.is_none())
        ),
        other => panic!("the test does not know the expectation {other}"),
    })
}

fn run_follower(vector: &Value) -> Vec<String> {
    let (given, mut machine) = (&vector["given"], given_follower(vector));
    let leader_epoch = LeaderEpoch(int(&given["leaderEpoch"]).unwrap().try_into().unwrap());
    let mut complete = None;
    for step in steps(vector) {
        machine.out.clear();
        follower_step(&mut machine, leader_epoch, step, &mut complete);
    }
    let log = machine.partition.local.log.clone();
    let waits = match &machine.partition.role {
        Role::Follower(follower) => follower.waits,
        role => panic!("not a follower: {role:?}"),
    };
    let backs_off = next_fetch(&machine.out).is_some_and(|next| next.not_before > machine.now());
    differences(&vector["expect"], |key| match key {
        "leo" => json!(log.log_end_offset.0),
        "hwm" => json!(log.high_watermark.0),
        "logStart" => json!(log.log_start_offset.0),
        "epochCache" => {
            json!(
                log.epochs.entries().iter().map(|e| [i64::from(e.0.0), e.1.0]).collect::<Vec<_>>()
            )
        }
        "truncationComplete" => json!(complete),
        "failed" => json!(waits == Waits::NewEpoch),
        "backoff" => json!(backs_off),
        other => panic!("the test does not know the expectation {other}"),
    })
}

/// A follower of broker 2. Where the vector answers a request of an older leader epoch, it has sent
/// one in that epoch before the current one began.
fn given_follower(vector: &Value) -> Machine {
    let given = &vector["given"];
    refuse_unknown(given, &["epochCache", "leo", "hwm", "leaderEpoch"]);
    let (end, high_watermark) = (int(&given["leo"]).unwrap(), int(&given["hwm"]).unwrap());
    let epochs = epoch_cache(&given["epochCache"]);
    let mut machine = Machine::new(settings(1), log(&epochs, 0, end, high_watermark));
    let current = int(&given["leaderEpoch"]).unwrap();
    let requests = steps(vector).into_iter().filter_map(|step| int(&step["requestEpoch"]));
    for epoch in requests.chain([current]) {
        machine.step(Input::Metadata(PartitionMetadata {
            leader_epoch: LeaderEpoch(epoch.try_into().unwrap()),
            ..metadata(2, &[1, 2], &[1, 2])
        }));
    }
    machine
}

fn follower_step(
    machine: &mut Machine,
    leader_epoch: LeaderEpoch,
    step: &Value,
    complete: &mut Option<bool>,
) {
    let end = machine.partition.log_end_offset();
    let claimed = int(&step["requestEpoch"])
        .map_or(leader_epoch, |epoch| LeaderEpoch(epoch.try_into().unwrap()));
    match step["type"].as_str().unwrap() {
        "diverging" => {
            let epoch = LeaderEpoch(int(&step["epoch"]).unwrap().try_into().unwrap());
            let diverging = (epoch, Offset(int(&step["endOffset"]).unwrap()));
            *complete = Some(truncation(&machine.partition.local.log, diverging).complete);
            // The watermark and log start here must not be adopted.
            machine.step(fetched(end, claimed, vec![], (end, end), Some(diverging)));
        }
        "append" => {
            let records = int(&step["records"]).unwrap();
            let batches = if records == 0 {
                vec![]
            } else {
                let epoch = LeaderEpoch(int(&step["batchEpoch"]).unwrap().try_into().unwrap());
                let end_offset = end.plus(records);
                vec![BatchSpan { base_offset: end, end_offset, leader_epoch: epoch }]
            };
            let leader = (Offset::ZERO, Offset(int(&step["leaderHwm"]).unwrap()));
            machine.step(fetched(end, claimed, batches, leader, None));
            machine.durable(machine.partition.log_end_offset().0);
        }
        "out_of_range" => {
            let error = ErrorCode::OffsetOutOfRange;
            let out = machine.step(Input::FetchFailed { request_leader_epoch: claimed, error });
            assert_eq!(out, [Output::AskLeaderOffsets]);
            machine.step(Input::LeaderOffsets {
                log_start_offset: Offset(int(&step["leaderStart"]).unwrap()),
                log_end_offset: Offset(int(&step["leaderLeo"]).unwrap()),
            });
        }
        "fenced_epoch" => {
            let error = ErrorCode::FencedLeaderEpoch;
            machine.step(Input::FetchFailed { request_leader_epoch: claimed, error });
        }
        other => panic!("unknown step {other}"),
    }
}

fn fetched(
    request_offset: Offset,
    request_leader_epoch: LeaderEpoch,
    batches: Vec<BatchSpan>,
    (log_start_offset, high_watermark): (Offset, Offset),
    diverging: Option<(LeaderEpoch, Offset)>,
) -> Input {
    Input::FetchedFromLeader {
        request_offset,
        request_leader_epoch,
        batches,
        high_watermark,
        log_start_offset,
        diverging,
    }
}

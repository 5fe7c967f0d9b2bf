//! The conformance scenarios of spec/kip966.md for controller, heartbeats and broker start.

use serde_json::Value;

use super::world::{TOPIC, World, brokers, directory, partition_id, registered, settings};
use crate::protocol::broker::{LogDirectory, previous_broker_epoch};
use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, ELR_FEATURE, METADATA_VERSION_FEATURE, Partition, Record,
    topic_config,
};
use crate::protocol::partition::IsrProposal;
use crate::types::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionEpoch, PartitionId,
};

const SHARED: &str = include_str!("../../../../fixtures/vectors/kip966.json");
const OWN: &str = include_str!("../../../../fixtures/vectors/kip966-own.json");

#[test]
fn every_scenario_of_the_specification_holds() {
    let mut failures = Vec::new();
    let mut run = [0; 3];
    for vector in parse(SHARED).iter().chain(&parse(OWN)) {
        let outcome = match vector["scope"].as_str().unwrap() {
            "controller" => {
                run[0] += 1;
                controller_scenario(vector)
            }
            "heartbeat" => {
                run[1] += 1;
                heartbeat_scenario(vector)
            }
            "broker-start" => {
                run[2] += 1;
                broker_start_scenario(vector)
            }
            _ => continue,
        };
        failures.extend(outcome.err().map(|why| format!("{}: {why}", vector["id"])));
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    let shared = parse(SHARED).len();
    assert!(shared > 0 && run.iter().all(|&count| count > 0), "{run:?} of {shared}");
}

/// Each departure has the KIP's outcome beside it, from the same start and with its paragraph.
#[test]
fn departures_have_the_kips_own_outcome_beside_them() {
    let shared = parse(SHARED);
    let own = parse(OWN);
    let beside: Vec<_> = own.iter().filter(|own| own["beside"].is_string()).collect();
    assert!(!beside.is_empty());
    for own in beside {
        let departure = shared.iter().find(|vector| vector["id"] == own["beside"]);
        let departure = departure.unwrap_or_else(|| panic!("{} stands alone", own["id"]));
        assert_eq!((&departure["compat"], &own["compat"]), (&"kafka-4.2".into(), &"kip".into()));
        assert_eq!((&own["given"], &own["event"]), (&departure["given"], &departure["event"]));
        assert!(own["paragraph"].is_string(), "{}", own["id"]);
    }
}

fn parse(text: &str) -> Vec<Value> {
    serde_json::from_str(text).unwrap()
}

fn controller_scenario(vector: &Value) -> Result<(), String> {
    let modes: &[Compat] = match vector["compat"].as_str() {
        Some("kip") => &[Compat::Kip],
        Some("kafka-4.2") => &[Compat::Kafka42],
        _ => &[Compat::Kip, Compat::Kafka42],
    };
    for &compat in modes {
        run_controller(vector, compat).map_err(|why| format!("under {compat:?}: {why}"))?;
    }
    Ok(())
}

fn run_controller(vector: &Value, compat: Compat) -> Result<(), String> {
    let steps = match vector["event"]["type"].as_str() {
        Some("sequence") => vector["event"]["steps"].as_array().unwrap().clone(),
        _ => vec![vector["event"].clone()],
    };
    let mut world = given(&vector["given"], &steps, compat);
    let mut error = ErrorCode::None;
    for step in &steps {
        error = take_step(&mut world, step)?;
    }
    expect(&world, error, &vector["expect"])
}

fn given(given: &Value, steps: &[Value], compat: Compat) -> World {
    let full_set = given["lastKnownMode"] == "full_set";
    let elr_on = given["elrEnabled"] != false;
    let mut settings = settings(compat);
    settings.last_known_when_off = if full_set { LastKnown::FullSet } else { LastKnown::Leader };
    settings.quirks.last_known_leader_may_be_fenced = given["lastKnownLivenessCheck"] == false;
    settings.quirks.isr_shrink_raises_leader_epoch = given["metadataVersion"] == "3.5";
    // In C91 the flag that C90 forgets is passed.
    settings.quirks.directory_assignment_wipes_elr &=
        steps.iter().all(|step| step["elrFlagPassed"] != true);

    let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
    let mut records = vec![feature(METADATA_VERSION_FEATURE, 27)];
    if elr_on {
        records.push(feature(ELR_FEATURE, if full_set { 2 } else { 1 }));
    }
    let replicas = ids(&given["replicas"]);
    for broker in replicas.iter().copied().chain(ids(&given["otherBrokers"])) {
        let fenced = ids(&given["fenced"]).contains(&broker);
        let leaving = ids(&given["shuttingDown"]).contains(&broker);
        records.push(registered(broker, fenced, leaving));
    }
    records.push(Record::Topic { name: "topic".to_owned(), id: TOPIC });
    let by_cluster = steps.iter().any(|step| step["scope"] == "cluster");
    let resource = if by_cluster { ConfigResource::Cluster } else { topic() };
    records.push(config(resource, topic_config::MIN_ISR, &given["minISR"].to_string()));
    if given["uncleanElection"] == true {
        records.push(config(topic(), topic_config::UNCLEAN_ELECTION, "true"));
    }
    records.push(Record::Partition(Partition {
        id: partition_id(0),
        isr: ids(&given["isr"]),
        elr: ids(&given["elr"]),
        last_known_elr: ids(&given["lastKnownElr"]),
        removing: ids(&given["removing"]),
        adding: ids(&given["adding"]),
        leader: leader(&given["leader"]),
        recovering: given["recovery"] == "RECOVERING",
        leader_epoch: LeaderEpoch(number(&given["leaderEpoch"])),
        partition_epoch: PartitionEpoch(number(&given["partitionEpoch"])),
        directories: vec![DirectoryId::UNASSIGNED; replicas.len()],
        replicas,
    }));
    let mut world = World::of(settings, &records);
    world.written.clear();
    world
}

fn take_step(world: &mut World, step: &Value) -> Result<ErrorCode, String> {
    let broker = || BrokerId(number(&step["b"]));
    let refused = |result: Result<(), Refusal>| result.err().map_or(ErrorCode::None, |r| r.error);
    Ok(match step["type"].as_str().unwrap() {
        "alter_partition" => alter_partition(world, step),
        "fence" => error_of_heartbeat(world.heartbeat(broker(), true, false)),
        "unfence" => error_of_heartbeat(world.heartbeat(broker(), false, false)),
        "controlled_shutdown" => error_of_heartbeat(world.heartbeat(broker(), false, true)),
        "register" => register(world, step),
        "unregister" => match world.ask(Request::UnregisterBroker(broker())) {
            Response::UnregisterBroker(result) => result.err().unwrap_or(ErrorCode::None),
            other => return Err(format!("{other:?}")),
        },
        "elect" => elect(world, step),
        "periodic_unclean" => {
            world.keep_alive();
            world.pass(std::time::Duration::from_millis(1));
            world.tick();
            ErrorCode::None
        }
        "set_unclean" => {
            let allowed = step["value"].as_bool().unwrap_or(true).to_string();
            set_config(world, topic(), topic_config::UNCLEAN_ELECTION, &allowed)
        }
        "set_min_isr" => {
            let cluster = step["scope"] == "cluster";
            let resource = if cluster { ConfigResource::Cluster } else { topic() };
            set_config(world, resource, topic_config::MIN_ISR, &step["value"].to_string())
        }
        "assign_dirs" => assign_directory(world),
        "reassign" => {
            let request = Reassignment { id: partition_id(0), target: ids(&step["target"]) };
            match world.ask(Request::Reassign(request)) {
                Response::Reassign(result) => refused(result),
                other => return Err(format!("{other:?}")),
            }
        }
        "disable_elr" => {
            let off = FeatureUpdate { name: ELR_FEATURE.to_owned(), level: 0 };
            match world.ask(Request::UpdateFeature(off)) {
                Response::UpdateFeature(result) => refused(result),
                other => return Err(format!("{other:?}")),
            }
        }
        other => return Err(format!("unknown event {other}")),
    })
}

fn alter_partition(world: &mut World, step: &Value) -> ErrorCode {
    let broker = BrokerId(number(&step["broker"]));
    let stored = world.partition(0).clone();
    let epoch_of = |member: BrokerId| match step["isrEpochs"][member.to_string()].as_i64() {
        Some(-1) => None,
        Some(epoch) => Some(BrokerEpoch(epoch)),
        None => Some(world.epoch(member)),
    };
    let isr = ids(&step["newIsr"]).into_iter().map(|member| (member, epoch_of(member))).collect();
    let or = |value: &Value, stored| value.as_i64().map_or(stored, |v| i32::try_from(v).unwrap());
    let proposal = IsrProposal {
        leader_epoch: LeaderEpoch(or(&step["leaderEpoch"], stored.leader_epoch.0)),
        partition_epoch: PartitionEpoch(or(&step["partitionEpoch"], stored.partition_epoch.0)),
        isr,
        recovering: step["recovery"] == "RECOVERING",
    };
    let epoch = step["brokerEpoch"].as_i64().map_or(world.epoch(broker), BrokerEpoch);
    let request = AlterPartition { broker, epoch, proposals: vec![(partition_id(0), proposal)] };
    let Response::AlterPartition(answer) = world.ask(Request::AlterPartition(request)) else {
        return ErrorCode::UnknownServerError;
    };
    let stored = world.partition(0);
    match answer.map(|mut partitions| partitions.remove(0).1) {
        Ok(Ok(altered)) => {
            assert_eq!(altered.committed.isr, stored.isr);
            assert_eq!(altered.committed.leader, stored.leader);
            assert_eq!(altered.committed.leader_epoch, stored.leader_epoch);
            assert_eq!(altered.committed.partition_epoch, stored.partition_epoch);
            assert_eq!(altered.recovering, stored.recovering);
            ErrorCode::None
        }
        Ok(Err(error)) | Err(error) => error,
    }
}

fn register(world: &mut World, step: &Value) -> ErrorCode {
    // Versions below 3 have no field for the previous epoch.
    let knows_previous = step["version"].as_i64().is_none_or(|version| version >= 3);
    let previous = step["previous_epoch"].as_i64().filter(|&e| e >= 0 && knows_previous);
    let new_incarnation = step["new_incarnation"] != false;
    match world.register(BrokerId(number(&step["b"])), previous, new_incarnation) {
        Response::RegisterBroker(result) => result.err().unwrap_or(ErrorCode::None),
        _ => ErrorCode::UnknownServerError,
    }
}

fn elect(world: &mut World, step: &Value) -> ErrorCode {
    let kind = match step["kind"].as_str().unwrap() {
        "PREFERRED" => ElectionKind::Preferred,
        _ => ElectionKind::Unclean,
    };
    let name = PartitionName { topic: "topic".to_owned(), partition: PartitionId(0) };
    let request = ElectLeaders { kind, partitions: Some(vec![name]) };
    match world.ask(Request::ElectLeaders(request)) {
        Response::ElectLeaders(answers) => {
            answers[0].1.as_ref().err().map_or(ErrorCode::None, |refusal| refusal.error)
        }
        _ => ErrorCode::UnknownServerError,
    }
}

fn set_config(world: &mut World, resource: ConfigResource, key: &str, value: &str) -> ErrorCode {
    let changes = vec![(key.to_owned(), Some(value.to_owned()))];
    let resources = vec![ResourceChanges { resource, changes }];
    match world.ask(Request::AlterConfigs(AlterConfigs { resources, validate_only: false })) {
        Response::AlterConfigs(answers) => {
            answers[0].1.as_ref().err().map_or(ErrorCode::None, |refusal| refusal.error)
        }
        _ => ErrorCode::UnknownServerError,
    }
}

fn assign_directory(world: &mut World) -> ErrorCode {
    let broker = world.partition(0).leader.unwrap();
    let request = DirectoryAssignment {
        broker,
        epoch: world.epoch(broker),
        id: partition_id(0),
        directory: directory(broker),
    };
    match world.ask(Request::AssignDirectory(request)) {
        Response::AssignDirectory(result) => result.err().unwrap_or(ErrorCode::None),
        _ => ErrorCode::UnknownServerError,
    }
}

fn error_of_heartbeat(response: Response) -> ErrorCode {
    match response {
        Response::Heartbeat(result) => result.err().unwrap_or(ErrorCode::None),
        _ => ErrorCode::UnknownServerError,
    }
}

fn expect(world: &World, error: ErrorCode, expect: &Value) -> Result<(), String> {
    let partition = world.partition(0);
    let touched = world
        .written
        .iter()
        .any(|record| matches!(record, Record::PartitionChange(_) | Record::ClearElr { .. }));
    for (field, wanted) in expect.as_object().unwrap() {
        let holds = match field.as_str() {
            "isr" => same(&partition.isr, wanted),
            "elr" => same(&partition.elr, wanted),
            "lastKnownElr" => same(&partition.last_known_elr, wanted),
            "replicas" => partition.replicas == ids(wanted),
            "adding" => same(&partition.adding, wanted),
            "removing" => same(&partition.removing, wanted),
            "leader" => partition.leader == leader(wanted),
            "leaderEpoch" => partition.leader_epoch.0 == number(wanted),
            "partitionEpoch" => partition.partition_epoch.0 == number(wanted),
            "recovery" => partition.recovering == (*wanted == "RECOVERING"),
            "error" => *wanted == error.name(),
            "recordEmitted" => *wanted == touched,
            other => return Err(format!("unknown expectation {other}")),
        };
        if !holds {
            return Err(format!("{field} should be {wanted}: {error}, {partition:?}"));
        }
    }
    Ok(())
}

fn heartbeat_scenario(vector: &Value) -> Result<(), String> {
    let (given, event) = (&vector["given"], &vector["event"]);
    let offset = |value: &Value| value.as_i64().filter(|&offset| offset >= 0).map(Offset);
    let view = BrokerView {
        state: match given["state"].as_str().unwrap() {
            "FENCED" => BrokerState::Fenced,
            "UNFENCED" => BrokerState::Unfenced,
            "CONTROLLED_SHUTDOWN" => BrokerState::ControlledShutdown,
            other => return Err(format!("unknown state {other}")),
        },
        registration_offset: offset(&given["registrationOffset"]).unwrap(),
        leads_any: given["hasLeaderships"] == true,
        controlled_shutdown_offset: offset(&given["controlledShutdownOffset"]),
        // The vectors give last applied offsets, the machine takes ends.
        lowest_active_end: offset(&given["lowestActiveOffset"]).map(|last| last.plus(1)),
    };
    let heartbeat = Heartbeat {
        broker: BrokerId(1),
        epoch: BrokerEpoch(1),
        metadata_end: offset(&event["metadataOffset"]).map_or(Offset::ZERO, |last| last.plus(1)),
        want_fence: event["wantFence"] == true,
        want_shut_down: event["wantShutDown"] == true,
        offline_log_dirs: vec![],
    };
    let next = match next_state(&view, &heartbeat) {
        BrokerState::Fenced => "FENCED",
        BrokerState::Unfenced => "UNFENCED",
        BrokerState::ControlledShutdown => "CONTROLLED_SHUTDOWN",
        BrokerState::ShutdownNow => "SHUTDOWN_NOW",
    };
    if vector["expect"]["next"] == next { Ok(()) } else { Err(format!("goes to {next}")) }
}

fn broker_start_scenario(vector: &Value) -> Result<(), String> {
    let directory = |dir: &Value| LogDirectory {
        online: dir["online"] != false,
        marker: dir["brokerEpoch"].as_i64().map(BrokerEpoch),
    };
    let dirs: Vec<_> = vector["given"]["dirs"].as_array().unwrap().iter().map(directory).collect();
    let epoch = previous_broker_epoch(&dirs).map_or(-1, |epoch| epoch.0);
    if vector["expect"]["previousBrokerEpoch"] == epoch {
        Ok(())
    } else {
        Err(format!("is {epoch}"))
    }
}

fn topic() -> ConfigResource {
    ConfigResource::Topic("topic".to_owned())
}

fn config(resource: ConfigResource, key: &str, value: &str) -> Record {
    Record::Config { resource, name: key.to_owned(), value: Some(value.to_owned()) }
}

fn number(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap()).unwrap()
}

fn leader(value: &Value) -> Option<BrokerId> {
    Some(number(value)).filter(|&id| id >= 0).map(BrokerId)
}

fn ids(value: &Value) -> Vec<BrokerId> {
    let ids: Vec<i32> = value.as_array().into_iter().flatten().map(number).collect();
    brokers(&ids)
}

fn same(members: &[BrokerId], wanted: &Value) -> bool {
    let (mut members, mut wanted) = (members.to_vec(), ids(wanted));
    members.sort();
    wanted.sort();
    members == wanted
}

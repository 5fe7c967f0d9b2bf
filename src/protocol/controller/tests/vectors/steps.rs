//! What each step of a vector with scope controller asks of the controller.

use super::given::topic;
use super::*;
use crate::protocol::controller::tests::world::{directory, partition_id};
use crate::protocol::metadata::{ConfigResource, ELR_FEATURE, topic_config};
use crate::protocol::partition::IsrProposal;
use crate::types::{BrokerEpoch, LeaderEpoch, PartitionEpoch, PartitionId};

/// Takes one step and says how the controller answered.
pub(super) fn take(world: &mut World, step: &Value) -> ErrorCode {
    let knows = |fields: &[&str]| refuse_unknown(step, &[&["type"], fields].concat());
    let broker = || BrokerId(int32(&step["b"]).expect("a broker b"));
    match kind(step) {
        "alter_partition" => alter_partition(world, step),
        "fence" => {
            knows(&["b"]);
            fence(world, broker())
        }
        "unfence" => {
            knows(&["b"]);
            error_of(world.heartbeat(broker(), false, false))
        }
        "controlled_shutdown" => {
            knows(&["b"]);
            error_of(world.heartbeat(broker(), false, true))
        }
        "register" => register(world, step),
        "unregister" => {
            knows(&["b"]);
            error_of(world.ask(Request::UnregisterBroker(broker())))
        }
        "elect" => elect(world, step),
        "periodic_unclean" => {
            knows(&[]);
            world.keep_alive();
            world.pass(std::time::Duration::from_millis(1));
            world.tick();
            ErrorCode::None
        }
        "set_unclean" => {
            let allowed = flag(&step["value"], true).to_string();
            set_config(world, step, topic_config::UNCLEAN_ELECTION, Some(allowed))
        }
        "set_min_isr" => {
            let value = int(&step["value"]).map(|value| value.to_string());
            set_config(world, step, topic_config::MIN_ISR, value)
        }
        "assign_dirs" => assign_directory(world, step),
        "reassign" => {
            knows(&["target"]);
            let request = Reassignment { id: partition_id(0), target: ids(&step["target"]) };
            error_of(world.ask(Request::Reassign(request)))
        }
        "disable_elr" => {
            knows(&[]);
            let off = FeatureUpdate { name: ELR_FEATURE.to_owned(), level: 0 };
            error_of(world.ask(Request::UpdateFeature(off)))
        }
        other => panic!("unknown event {other}"),
    }
}

fn error_of(response: Response) -> ErrorCode {
    let error = match response {
        Response::Heartbeat(result) => result.err(),
        Response::RegisterBroker(result) => result.err(),
        Response::UnregisterBroker(result) => result.err(),
        Response::AssignDirectory(result) => result.err(),
        Response::Reassign(result) | Response::UpdateFeature(result) => {
            result.err().map(|refusal| refusal.error)
        }
        Response::AlterConfigs(answers) => first_refused(answers),
        Response::ElectLeaders(answers) => first_refused(answers),
        other => panic!("{other:?}"),
    };
    error.unwrap_or(ErrorCode::None)
}

fn first_refused<T>(answers: Vec<(T, Result<(), Refusal>)>) -> Option<ErrorCode> {
    answers.into_iter().find_map(|(_, outcome)| outcome.err()).map(|refusal| refusal.error)
}

/// A broker in controlled shutdown is past asking for it: its session expires.
fn fence(world: &mut World, broker: BrokerId) -> ErrorCode {
    let error = error_of(world.heartbeat(broker, true, false));
    let is_unfenced =
        |world: &World| world.metadata().broker(broker).is_some_and(|known| !known.fenced);
    if is_unfenced(world) {
        world.expire(broker);
    }
    assert!(!is_unfenced(world), "broker {broker} is not fenced");
    error
}

fn alter_partition(world: &mut World, step: &Value) -> ErrorCode {
    let epochs = ["brokerEpoch", "leaderEpoch", "partitionEpoch", "isrEpochs"];
    refuse_unknown(step, &[&["type", "broker", "newIsr", "recovery"][..], &epochs].concat());
    let broker = BrokerId(int32(&step["broker"]).unwrap());
    let stored = world.partition(0).clone();
    let epoch_of = |member: BrokerId| match int(&step["isrEpochs"][member.to_string()]) {
        Some(-1) => None,
        Some(epoch) => Some(BrokerEpoch(epoch)),
        None => Some(world.epoch(member)),
    };
    let isr = ids(&step["newIsr"]).into_iter().map(|member| (member, epoch_of(member))).collect();
    let proposal = IsrProposal {
        leader_epoch: int32(&step["leaderEpoch"]).map_or(stored.leader_epoch, LeaderEpoch),
        partition_epoch: int32(&step["partitionEpoch"])
            .map_or(stored.partition_epoch, PartitionEpoch),
        isr,
        recovering: is_recovering(&step["recovery"]),
    };
    let epoch = int(&step["brokerEpoch"]).map_or(world.epoch(broker), BrokerEpoch);
    let request = AlterPartition { broker, epoch, proposals: vec![(partition_id(0), proposal)] };
    let Response::AlterPartition(answer) = world.ask(Request::AlterPartition(request)) else {
        panic!("another answer to AlterPartition")
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
    refuse_unknown(step, &["type", "b", "previous_epoch", "version", "new_incarnation"]);
    // Versions below 3 have no field for the previous epoch.
    let knows_previous = int(&step["version"]).is_none_or(|version| version >= 3);
    let previous = int(&step["previous_epoch"]).filter(|&e| e >= 0 && knows_previous);
    let broker = BrokerId(int32(&step["b"]).unwrap());
    error_of(world.register(broker, previous, flag(&step["new_incarnation"], true)))
}

/// The kinds of the wire, by name or number; another one is refused before it is an election.
fn elect(world: &mut World, step: &Value) -> ErrorCode {
    refuse_unknown(step, &["type", "kind", "leader"]);
    let kind = &step["kind"];
    let kind = match kind.as_str().map_or_else(|| kind.to_string(), str::to_owned).as_str() {
        "PREFERRED" | "0" => ElectionKind::Preferred,
        "UNCLEAN" | "1" => ElectionKind::Unclean,
        "LONGEST_LOG_BALANCED" | "2" => ElectionKind::LongestLogBalanced,
        "LONGEST_LOG_PROACTIVE" | "3" => ElectionKind::LongestLogProactive,
        "DESIGNATED" | "4" => {
            ElectionKind::Designated(int32(&step["leader"]).map(BrokerId).into_iter().collect())
        }
        _ => return ErrorCode::InvalidRequest,
    };
    let name = PartitionName { topic: "topic".to_owned(), partition: PartitionId(0) };
    let request = ElectLeaders { kind, partitions: Some(vec![name]) };
    error_of(world.ask(Request::ElectLeaders(request)))
}

/// `None` deletes the value.
fn set_config(world: &mut World, step: &Value, key: &str, value: Option<String>) -> ErrorCode {
    refuse_unknown(step, &["type", "value", "scope"]);
    let resource = match step["scope"].as_str() {
        Some("cluster") => ConfigResource::Cluster,
        Some("topic") | None => topic(),
        Some(other) => panic!("unknown scope {other}"),
    };
    let changes = vec![(key.to_owned(), value)];
    let resources = vec![ResourceChanges { resource, changes }];
    error_of(world.ask(Request::AlterConfigs(AlterConfigs { resources, validate_only: false })))
}

/// Of the broker named, else of the leader, else of the first replica.
fn assign_directory(world: &mut World, step: &Value) -> ErrorCode {
    refuse_unknown(step, &["type", "b", "elrFlagPassed"]);
    let partition = world.partition(0);
    let named = int32(&step["b"]).map(BrokerId).or(partition.leader);
    let broker = named.unwrap_or(partition.replicas[0]);
    let request = DirectoryAssignment {
        broker,
        epoch: world.epoch(broker),
        id: partition_id(0),
        directory: directory(broker),
    };
    error_of(world.ask(Request::AssignDirectory(request)))
}

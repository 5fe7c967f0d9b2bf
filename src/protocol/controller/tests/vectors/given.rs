//! The start that a vector's `given` describes.

use super::*;
use crate::protocol::controller::tests::world::{TOPIC, partition_id, registered, settings};
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, ELR_FEATURE, METADATA_VERSION_FEATURE, Partition, topic_config,
};
use crate::types::{LeaderEpoch, PartitionEpoch};

/// Feature level of metadata.version 3.6-IV0.
const V3_6_IV0: i64 = 12;
/// Highest feature level of metadata.version that there was when the vectors were written.
const NEWEST: i64 = 29;

pub(super) fn world(vector: &Value, compat: Compat) -> World {
    let given = &vector["given"];
    let members = ["replicas", "isr", "elr", "lastKnownElr", "removing", "adding"];
    let epochs = ["leader", "leaderEpoch", "partitionEpoch", "recovery"];
    let brokers = ["otherBrokers", "fenced", "shuttingDown"];
    let rules = ["minISR", "uncleanElection", "elrEnabled", "lastKnownMode"];
    let quirks = ["lastKnownLivenessCheck", "metadataVersion"];
    refuse_unknown(given, &[&members[..], &epochs, &brokers, &rules, &quirks].concat());
    let full_set = match given["lastKnownMode"].as_str() {
        Some("full_set") => true,
        Some("last_leader") | None => false,
        Some(other) => panic!("unknown lastKnownMode {other}"),
    };
    let steps = crate::protocol::conformance::steps(vector);
    let mut settings = settings(compat);
    settings.last_known_when_off = if full_set { LastKnown::FullSet } else { LastKnown::Leader };
    settings.quirks.last_known_leader_may_be_fenced = !flag(&given["lastKnownLivenessCheck"], true);
    settings.quirks.isr_shrink_raises_leader_epoch = is_before_3_6(&given["metadataVersion"]);
    // In C91 the flag that C90 forgets is passed.
    settings.quirks.directory_assignment_wipes_elr &=
        !steps.iter().any(|step| flag(&step["elrFlagPassed"], false));

    let feature = |name: &str, level| Record::FeatureLevel { name: name.to_owned(), level };
    let mut records = vec![feature(METADATA_VERSION_FEATURE, 27)];
    if flag(&given["elrEnabled"], true) {
        records.push(feature(ELR_FEATURE, if full_set { 2 } else { 1 }));
    }
    records.extend(registrations(given));
    records.push(Record::Topic { name: "topic".to_owned(), id: TOPIC });
    let by_cluster = steps.iter().any(|step| step["scope"] == "cluster");
    let resource = if by_cluster { ConfigResource::Cluster } else { topic() };
    records.push(config(resource, topic_config::MIN_ISR, &int(&given["minISR"]).unwrap()));
    if flag(&given["uncleanElection"], false) {
        records.push(config(topic(), topic_config::UNCLEAN_ELECTION, &true));
    }
    records.push(Record::Partition(partition(given)));
    let mut world = World::of(settings, &records);
    world.written.clear();
    world
}

pub(super) fn topic() -> ConfigResource {
    ConfigResource::Topic("topic".to_owned())
}

fn registrations(given: &Value) -> Vec<Record> {
    let (fenced, leaving) = (ids(&given["fenced"]), ids(&given["shuttingDown"]));
    let all = ids(&given["replicas"]).into_iter().chain(ids(&given["otherBrokers"]));
    all.map(|broker| registered(broker, fenced.contains(&broker), leaving.contains(&broker)))
        .collect()
}

fn partition(given: &Value) -> Partition {
    let replicas = ids(&given["replicas"]);
    Partition {
        id: partition_id(0),
        isr: ids(&given["isr"]),
        elr: ids(&given["elr"]),
        last_known_elr: ids(&given["lastKnownElr"]),
        removing: ids(&given["removing"]),
        adding: ids(&given["adding"]),
        leader: int32(&given["leader"]).filter(|&id| id >= 0).map(BrokerId),
        recovering: is_recovering(&given["recovery"]),
        leader_epoch: LeaderEpoch(int32(&given["leaderEpoch"]).unwrap()),
        partition_epoch: PartitionEpoch(int32(&given["partitionEpoch"]).unwrap()),
        directories: vec![DirectoryId::UNASSIGNED; replicas.len()],
        replicas,
    }
}

fn config(resource: ConfigResource, key: &str, value: &dyn std::fmt::Display) -> Record {
    Record::Config { resource, name: key.to_owned(), value: Some(value.to_string()) }
}

/// Whether a metadata.version, as a feature level or as a name like 3.5 or 3.5-IV2, is below 3.6-IV0.
fn is_before_3_6(version: &Value) -> bool {
    let Some(name) = version.as_str() else {
        let level = int(version).unwrap_or(NEWEST);
        assert!((1..=NEWEST).contains(&level), "unknown metadataVersion {level}");
        return level < V3_6_IV0;
    };
    let number = name.split_once("-IV").map_or(name, |(number, step)| {
        assert!(step.parse::<u8>().is_ok(), "unknown metadataVersion {name}");
        number
    });
    let parts: Option<Vec<u8>> = number.split('.').map(|part| part.parse().ok()).collect();
    match parts.as_deref() {
        Some(&[major @ 3..=4, minor]) => (major, minor) < (3, 6),
        _ => panic!("unknown metadataVersion {name}"),
    }
}

#[test]
fn old_metadata_versions_are_known_by_name_and_by_level() {
    let is_old = |version: Value| is_before_3_6(&version);
    for old in [json!("3.5"), json!("3.0-IV1"), json!("3.5-IV2"), json!(11), json!(1)] {
        assert!(is_old(old.clone()), "{old}");
    }
    for new in [json!("3.6-IV0"), json!("3.6"), json!("4.2-IV1"), json!(12), json!(null)] {
        assert!(!is_old(new.clone()), "{new}");
    }
    for unknown in [json!("3"), json!("2.8"), json!("3.5-IVx"), json!("old"), json!(0), json!(99)] {
        assert!(std::panic::catch_unwind(|| is_old(unknown.clone())).is_err(), "{unknown}");
    }
}

//! The conformance vectors with scope controller, heartbeat or broker-start.

mod brokers;
mod given;
mod steps;

use serde_json::{Value, json};

use super::world::World;
use crate::protocol::conformance::{
    check_scope, compat, differences, flag, int, int32, kind, list, own, refuse_unknown, shared,
    unknown_expectation,
};
use crate::protocol::controller::*;
use crate::protocol::metadata::Record;
use crate::types::{BrokerId, ErrorCode};

#[test]
fn controller_vectors_hold() {
    check_scope("controller", |vector| match compat(vector) {
        Some(compat) => run(vector, compat),
        None => [Compat::Kip, Compat::Kafka42].into_iter().try_for_each(|compat| {
            run(vector, compat).map_err(|why| format!("under {compat:?}: {why}"))
        }),
    });
}

#[test]
fn heartbeat_vectors_hold() {
    check_scope("heartbeat", brokers::run_heartbeat);
}

#[test]
fn broker_start_vectors_hold() {
    check_scope("broker-start", brokers::run_start);
}

/// Each departure has the KIP's outcome beside it, from the same start and with its paragraph.
#[test]
fn departures_have_the_kips_own_outcome_beside_them() {
    let (shared, own) = (shared(), own());
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

fn run(vector: &Value, compat: Compat) -> Result<(), String> {
    let mut world = given::world(vector, compat);
    let mut error = ErrorCode::None;
    for step in crate::protocol::conformance::steps(vector) {
        error = steps::take(&mut world, step);
    }
    let touches =
        |record: &Record| matches!(record, Record::PartitionChange(_) | Record::ClearElr { .. });
    let partition = world.partition(0);
    differences(&vector["expect"], |field| match field {
        "isr" => numbers(&partition.isr),
        "elr" => numbers(&partition.elr),
        "lastKnownElr" => numbers(&partition.last_known_elr),
        "replicas" => numbers(&partition.replicas),
        "adding" => numbers(&partition.adding),
        "removing" => numbers(&partition.removing),
        "leader" => json!(partition.leader.map_or(-1, |leader| leader.0)),
        "leaderEpoch" => json!(partition.leader_epoch.0),
        "partitionEpoch" => json!(partition.partition_epoch.0),
        "recovery" => json!(if partition.recovering { "RECOVERING" } else { "RECOVERED" }),
        "error" => json!(error.name()),
        "recordEmitted" => json!(world.written.iter().any(touches)),
        other => unknown_expectation(other),
    })
}

fn numbers(brokers: &[BrokerId]) -> Value {
    json!(brokers.iter().map(|broker| broker.0).collect::<Vec<_>>())
}

fn ids(value: &Value) -> Vec<BrokerId> {
    super::world::brokers(&list(value).unwrap_or_default())
}

/// Whether a state is RECOVERING; without a word it is not.
fn is_recovering(state: &Value) -> bool {
    match state.as_str() {
        Some("RECOVERING") => true,
        Some("RECOVERED") | None => false,
        Some(other) => panic!("unknown recovery state {other}"),
    }
}

//! The conformance vectors with scope leader, divergence or follower.
//!
//! The vectors model a page cache, so each append is made durable right after it. `acks` other than
//! 0, 1 and -1 never reaches the machine: that answer is `Acks::from_wire`'s and the shell's.

mod expectations;
mod leader;
mod replica;

use serde_json::{Map, Value, json};

use super::*;
use crate::protocol::conformance::{
    check_scope, compat, differences, int, int32, kind, list, refuse_unknown, shared, steps,
    unknown_expectation,
};
use leader::run_leader;
use replica::{run_divergence, run_follower};

#[test]
fn leader_vectors_hold() {
    check_scope("leader", run_leader);
}

#[test]
fn divergence_vectors_hold() {
    check_scope("divergence", run_divergence);
}

#[test]
fn follower_vectors_hold() {
    check_scope("follower", run_follower);
}

/// L13 is Kafka's shipped behaviour; `isr.expand = caught-up` is what keeps the far-behind follower
/// out (spec/kip966.md 1.5, KAFKA-19996).
#[test]
fn l13_under_the_kip_proposes_nothing() {
    let mut vector = shared().into_iter().find(|vector| vector["id"] == "L13").expect("L13 exists");
    vector["compat"] = "kip".into();
    vector["expect"] = json!({
        "inflight": false, "alterSent": 0, "isr": [1], "maximalIsr": [1], "hwm": 10,
    });
    assert_eq!(run_leader(&vector), Ok(()));
}

/// The rules a vector asks for. Vectors for both assume the two of shipped Kafka that differ.
fn settings_of(vector: &Value, min_isr: usize) -> Settings {
    match compat(vector) {
        Some(Compat::Kip) => Settings {
            isr_expand: IsrExpand::CaughtUp,
            produce_under_min_isr: ProduceUnderMinIsr::Fail,
            ..settings(min_isr)
        },
        Some(Compat::Kafka42) | None => settings(min_isr),
    }
}

fn epoch_cache(value: &Value) -> Vec<(i32, i64)> {
    let entry = |entry: &Value| (int32(&entry[0]).unwrap(), int(&entry[1]).unwrap());
    value.as_array().expect("epochCache is a list").iter().map(entry).collect()
}

/// -1 is the wire's "not given".
fn given_epoch(value: &Value) -> Option<LeaderEpoch> {
    int32(value).filter(|&epoch| epoch >= 0).map(LeaderEpoch)
}

fn error_named(name: &str) -> ErrorCode {
    let mut codes = (-1..200).map(ErrorCode::from_code);
    codes.find(|error| error.name() == name).unwrap_or_else(|| panic!("unknown error {name}"))
}

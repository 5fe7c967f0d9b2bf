//! Every vector of `fixtures/vectors/kip966.json` with scope leader, divergence or follower.
//!
//! The vectors model a page cache, so each append is made durable right after it. `acks` other than
//! 0, 1 and -1 never reaches the machine: that answer is `Acks::from_wire`'s and the shell's.

mod leader;
mod replica;

use serde_json::{Map, Value, json};

use super::*;
use leader::run_leader;
use replica::{run_divergence, run_follower};

#[test]
fn leader_vectors_hold() {
    check_scope("leader", |vector| run_leader(vector, IsrExpand::Kafka));
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
fn l13_under_isr_expand_caught_up_proposes_nothing() {
    let mut vector = all().into_iter().find(|vector| vector["id"] == "L13").expect("L13 exists");
    vector["expect"] = json!({
        "inflight": false, "alterSent": 0, "isr": [1], "maximalIsr": [1], "hwm": 10,
    });
    assert_eq!(run_leader(&vector, IsrExpand::CaughtUp), Vec::<String>::new());
}

fn all() -> Vec<Value> {
    serde_json::from_str(include_str!(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/vectors/kip966.json"
    )))
    .expect("the vectors are JSON")
}

/// Runs every vector of `scope`, panics with all that failed, or if there is none.
fn check_scope(scope: &str, run: impl Fn(&Value) -> Vec<String>) {
    let vectors = all().into_iter().filter(|vector| vector["scope"] == scope);
    let mut failures = Vec::new();
    let mut count = 0;
    for vector in vectors {
        count += 1;
        failures.extend(run(&vector).into_iter().map(|what| format!("{}: {what}", vector["id"])));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 0, "no vector is of scope {scope}");
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

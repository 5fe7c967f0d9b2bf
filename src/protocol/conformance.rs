//! The conformance vectors (`fixtures/vectors`) as JSON: reading, running and comparing them. What a
//! vector means to a machine is said in that machine's tests.
//!
//! Nothing a vector says is passed over: a field that is not understood fails the vector, by name.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Map, Value};

use crate::types::{Compat, ErrorCode};

const SHARED: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors/kip966.json"));
const OWN: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors/kip966-own.json"));

/// Those of the specification.
pub(super) fn shared() -> Vec<Value> {
    serde_json::from_str(SHARED).expect("the vectors are JSON")
}

/// Those of this project, in the same format.
pub(super) fn own() -> Vec<Value> {
    serde_json::from_str(OWN).expect("the vectors are JSON")
}

/// Runs every vector of `scope`, panics with all that failed, or if there is none.
pub(super) fn check_scope(scope: &str, run: impl Fn(&Value) -> Result<(), String>) {
    let mut failures = Vec::new();
    let mut count = 0;
    for vector in shared().iter().chain(&own()).filter(|vector| vector["scope"] == scope) {
        count += 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| run(vector)));
        let outcome = outcome.unwrap_or_else(|panic| Err(said(panic.as_ref())));
        failures.extend(outcome.err().map(|why| format!("{}: {why}", vector["id"])));
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 0, "no vector is of scope {scope}");
}

fn said(panic: &dyn Any) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// Whose rules a vector asks for; `None` is both.
pub(super) fn compat(vector: &Value) -> Option<Compat> {
    match vector["compat"].as_str() {
        Some("kip") => Some(Compat::Kip),
        Some("kafka-4.2") => Some(Compat::Kafka42),
        Some("both") | None => None,
        Some(other) => panic!("unknown compat {other}"),
    }
}

/// What happens, in order.
pub(super) fn steps(vector: &Value) -> Vec<&Value> {
    match vector["event"]["steps"].as_array() {
        Some(steps) => {
            refuse_unknown(&vector["event"], &["type", "steps"]);
            steps.iter().collect()
        }
        None => vec![&vector["event"]],
    }
}

pub(super) fn kind(step: &Value) -> &str {
    step["type"].as_str().expect("a step has a type")
}

pub(super) fn refuse_unknown(object: &Value, known: &[&str]) {
    for key in object.as_object().into_iter().flat_map(Map::keys) {
        assert!(known.contains(&key.as_str()), "the test does not know the field {key}: {object}");
    }
}

/// Panics on an expectation that the test cannot check.
pub(super) fn unknown_expectation(key: &str) -> ! {
    panic!("the test does not know the expectation {key}")
}

/// Compares the expected fields with what `actual` says of each.
pub(super) fn differences(
    expect: &Value,
    mut actual: impl FnMut(&str) -> Value,
) -> Result<(), String> {
    let mut found = Vec::new();
    for (key, want) in expect.as_object().expect("expect is an object") {
        let is = actual(key);
        if comparable(key, is.clone()) != comparable(key, want.clone()) {
            found.push(format!("{key} is {is}, expected {want}"));
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("; ")) }
}

/// Members are sets, and no error is the error NONE; replicas alone have an order.
fn comparable(key: &str, value: Value) -> Value {
    match value {
        Value::Array(mut items) if key != "replicas" && !items.iter().any(Value::is_array) => {
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Null if key == "error" => ErrorCode::None.name().into(),
        value => value,
    }
}

/// A whole number, if one is given.
pub(super) fn int(value: &Value) -> Option<i64> {
    assert!(value.is_null() || value.is_i64(), "not a whole number: {value}");
    value.as_i64()
}

/// As [`int`], of 32 bits.
pub(super) fn int32(value: &Value) -> Option<i32> {
    int(value).map(|value| i32::try_from(value).expect("fits 32 bits"))
}

/// A list of whole numbers, if one is given.
pub(super) fn list(value: &Value) -> Option<Vec<i32>> {
    assert!(value.is_null() || value.is_array(), "not a list: {value}");
    Some(value.as_array()?.iter().map(|item| int32(item).expect("a member")).collect())
}

/// Whether a switch is on; `default` if it is not given.
pub(super) fn flag(value: &Value, default: bool) -> bool {
    assert!(value.is_null() || value.is_boolean(), "neither true nor false: {value}");
    value.as_bool().unwrap_or(default)
}

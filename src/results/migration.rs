//! From older versions of the schema to [`SCHEMA_VERSION`], on the parsed file.

use serde_json::{Value, json};

use super::schema::SCHEMA_VERSION;

/// A warning of cells whose samples are batches.
pub const BY_BATCH: &str = "counted by batch, as version 1 of the schema did: records that a stall \
                            held back count as the few batches they left in, so that its \
                            percentiles are too low; not to be set against newer figures";

/// Brings a result of an older version up to date; `false` if it is of none that is known.
pub(super) fn bring_up_to_date(result: &mut Value) -> bool {
    if result["schema_version"] != 1 {
        return false;
    }
    for cell in result["cells"].as_array_mut().into_iter().flatten() {
        let is_by_batch = !has_lone_records(cell);
        cell["samples"] = json!(if is_by_batch { "batches" } else { "records" });
        if !is_by_batch {
            continue;
        }
        match cell["warnings"].as_array_mut() {
            Some(warnings) => warnings.push(json!(BY_BATCH)),
            None => cell["warnings"] = json!([BY_BATCH]),
        }
    }
    result["schema_version"] = json!(SCHEMA_VERSION);
    true
}

/// Whether each batch held one record: then a batch's sample is a record's.
fn has_lone_records(cell: &Value) -> bool {
    let counts = &cell["counts"];
    ["sent", "acknowledged"].iter().all(|what| {
        let count = |of: &str| counts[format!("{what}_{of}")].as_u64();
        count("records").is_some() && count("records") == count("batches")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn migrated(counts: Value) -> Value {
        let mut result = json!({ "schema_version": 1, "cells": [{ "counts": counts }] });
        assert!(bring_up_to_date(&mut result));
        assert_eq!(result["schema_version"], SCHEMA_VERSION);
        result["cells"][0].clone()
    }

    #[test]
    fn only_where_each_batch_held_one_record_are_old_samples_records() {
        let lone = json!({
            "sent_records": 9, "sent_batches": 9,
            "acknowledged_records": 8, "acknowledged_batches": 8,
        });
        let cell = migrated(lone.clone());
        assert_eq!((&cell["samples"], &cell["warnings"]), (&json!("records"), &Value::Null));
        for (key, value) in [("sent_batches", json!(8)), ("acknowledged_records", Value::Null)] {
            let mut counts = lone.clone();
            counts[key] = value;
            let cell = migrated(counts);
            assert_eq!(cell["samples"], "batches", "{key}");
            assert_eq!(cell["warnings"], json!([BY_BATCH]), "{key}");
        }
    }

    #[test]
    fn unknown_versions_are_left_alone() {
        for version in [json!(0), json!(SCHEMA_VERSION + 1), Value::Null] {
            let mut result = json!({ "schema_version": version });
            assert!(!bring_up_to_date(&mut result));
            assert_eq!(result["schema_version"], version);
        }
    }
}

//! Where a result was measured, in one line.

use serde_json::Value;

use crate::results::schema::RunResult;

/// Processor, kernel, file system, device and build; `unknown` where the result does not say.
pub fn host(result: &RunResult) -> String {
    let fact = |pointer: &str| match result.environment.pointer(pointer) {
        None | Some(Value::Null) => "unknown".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    format!(
        "{}, {} CPUs, Linux {}, {} on {}, ackmark {} ({})",
        fact("/cpu/model"),
        fact("/cpu/allowed_count"),
        fact("/kernel/release"),
        fact("/filesystem/kind"),
        fact("/device/name"),
        result.tool.version,
        result.tool.build,
    )
}

//! Disk faults by word: the harness writes a line to standard input, the broker makes its disk behave
//! so and says the line back on standard output. Only with `fault_control`.
//!
//! Lines: `disk none`, `disk full`, `disk write-error`, `disk sync-error`, `disk slow-sync MICROS`.

use std::io::{self, Write as _};
use std::time::Duration;

use crate::storage::{DiskFault, DiskFaults};

/// Does what the line says and answers it.
pub(super) fn take_order(line: String, faults: &DiskFaults) {
    let answer = if obey(&line, faults) { line } else { format!("refused {line}") };
    let mut out = io::stdout().lock();
    // Whoever asked is gone then.
    let _ = writeln!(out, "{answer}").and_then(|()| out.flush());
}

/// Whether the line means something.
fn obey(line: &str, faults: &DiskFaults) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["disk", "none"] => {
            faults.set(DiskFault::None);
            faults.slow_down(Duration::ZERO);
        }
        ["disk", "full"] => faults.set(DiskFault::Full),
        ["disk", "write-error"] => faults.set(DiskFault::WriteError),
        ["disk", "sync-error"] => faults.set(DiskFault::SyncError),
        ["disk", "slow-sync", micros] => match micros.parse() {
            Ok(micros) => faults.slow_down(Duration::from_micros(micros)),
            Err(_) => return false,
        },
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_words_are_obeyed() {
        let faults = DiskFaults::default();
        assert!(obey("disk slow-sync 1500", &faults));
        assert_eq!(faults.sync_delay(), Some(Duration::from_micros(1500)));
        assert!(obey("disk none", &faults));
        assert_eq!(faults.sync_delay(), None);
        for line in ["", "disk", "disk explode", "disk slow-sync x", "full"] {
            assert!(!obey(line, &faults), "{line}");
        }
    }
}

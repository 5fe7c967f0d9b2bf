//! What a process has used so far: peak memory, CPU time, bytes it caused to be written.

use std::time::Duration;

use serde_json::{Value, json};

use super::system_calls;
use super::text::{self, field};

/// Use of resources by one process up to now; `None` if the process is gone or hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    /// Largest resident set.
    pub peak_memory_bytes: Option<u64>,
    /// User and kernel CPU time. Kernel worker threads that finish I/O for the process are not in.
    pub cpu_time: Option<Duration>,
    /// Bytes the process caused to be sent to storage, counted when pages are dirtied.
    pub written_bytes: Option<u64>,
    /// Switches forced on the process's main thread by the scheduler.
    pub involuntary_switches: Option<u64>,
}

impl ProcessUse {
    /// Reads the use of process `pid`.
    pub fn of(pid: u32) -> ProcessUse {
        let read = |name: &str| text::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        ProcessUse::from_texts(&read("status"), &read("stat"), &read("io"))
    }

    pub(super) fn from_texts(status: &str, stat: &str, io: &str) -> ProcessUse {
        ProcessUse {
            peak_memory_bytes: kibibytes(status, "VmHWM"),
            cpu_time: cpu_time(stat),
            written_bytes: field(io, "write_bytes").and_then(|value| value.parse().ok()),
            involuntary_switches: field(status, "nonvoluntary_ctxt_switches")
                .and_then(|value| value.parse().ok()),
        }
    }

    /// The same figures as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "peak_memory_bytes": text::json(self.peak_memory_bytes),
            "cpu_seconds": text::json(self.cpu_time.map(|time| time.as_secs_f64())),
            "written_bytes": text::json(self.written_bytes),
            "involuntary_switches": text::json(self.involuntary_switches),
        })
    }
}

fn kibibytes(status: &str, key: &str) -> Option<u64> {
    let amount: u64 = field(status, key)?.split_whitespace().next()?.parse().ok()?;
    Some(amount * 1024)
}

/// Fields 14 and 15 of /proc/PID/stat, counted after the name, which may hold blanks and brackets.
fn cpu_time(stat: &str) -> Option<Duration> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    let seconds = (user + kernel) as f64 / system_calls::cpu_time_hz()? as f64;
    Some(Duration::from_secs_f64(seconds))
}

//! The kernel: version, preemption, tick, clock, memory policy and write-back settings.

use serde_json::{Value, json};

use super::system_calls;
use super::text::{self, chosen, field};

/// Facts about the kernel; `None` means the host does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelFacts {
    /// Release, such as `6.18.1`.
    pub release: Option<String>,
    /// Build line, which names the preemption model compiled in.
    pub version: Option<String>,
    /// Preemption model in force where readable, else the one compiled in.
    pub preemption: Option<String>,
    /// Scheduler ticks a second.
    pub tick_hz: Option<u64>,
    /// Command-line words that move latency (isolation, mitigations, polling).
    pub command_line: Option<String>,
    /// What the monotonic clock counts by.
    pub clocksource: Option<String>,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// RAM.
    pub memory_bytes: Option<u64>,
    /// `vm.dirty_background_ratio`, percent.
    pub dirty_background_ratio: Option<u64>,
    /// `vm.dirty_ratio`, percent.
    pub dirty_ratio: Option<u64>,
    /// `vm.dirty_background_bytes`; 0 means the ratio counts.
    pub dirty_background_bytes: Option<u64>,
    /// `vm.dirty_bytes`; 0 means the ratio counts.
    pub dirty_bytes: Option<u64>,
    /// `vm.dirty_expire_centisecs`.
    pub dirty_expire_centisecs: Option<u64>,
    /// `vm.dirty_writeback_centisecs`.
    pub dirty_writeback_centisecs: Option<u64>,
}

impl KernelFacts {
    /// Reads the facts of this host.
    pub fn capture() -> KernelFacts {
        let version = text::read("/proc/sys/kernel/version");
        let command_line = text::read("/proc/cmdline");
        let vm = |name: &str| text::read_number(format!("/proc/sys/vm/{name}"));
        KernelFacts {
            release: text::read("/proc/sys/kernel/osrelease"),
            preemption: preemption(
                text::read("/sys/kernel/debug/sched/preempt").as_deref(),
                command_line.as_deref(),
                version.as_deref(),
            ),
            version,
            tick_hz: system_calls::tick_hz(),
            command_line: command_line.as_deref().map(latency_words),
            clocksource: text::read(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            transparent_huge_pages: text::read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text).map(str::to_owned)),
            memory_bytes: text::read("/proc/meminfo").as_deref().and_then(memory_bytes),
            dirty_background_ratio: vm("dirty_background_ratio"),
            dirty_ratio: vm("dirty_ratio"),
            dirty_background_bytes: vm("dirty_background_bytes"),
            dirty_bytes: vm("dirty_bytes"),
            dirty_expire_centisecs: vm("dirty_expire_centisecs"),
            dirty_writeback_centisecs: vm("dirty_writeback_centisecs"),
        }
    }

    /// The same facts as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "release": text::json(self.release.clone()),
            "version": text::json(self.version.clone()),
            "preemption": text::json(self.preemption.clone()),
            "tick_hz": text::json(self.tick_hz),
            "command_line": text::json(self.command_line.clone()),
            "clocksource": text::json(self.clocksource.clone()),
            "transparent_huge_pages": text::json(self.transparent_huge_pages.clone()),
            "memory_bytes": text::json(self.memory_bytes),
            "dirty_background_ratio": text::json(self.dirty_background_ratio),
            "dirty_ratio": text::json(self.dirty_ratio),
            "dirty_background_bytes": text::json(self.dirty_background_bytes),
            "dirty_bytes": text::json(self.dirty_bytes),
            "dirty_expire_centisecs": text::json(self.dirty_expire_centisecs),
            "dirty_writeback_centisecs": text::json(self.dirty_writeback_centisecs),
        })
    }
}

/// The model in force from debugfs, else the one asked for at boot, else the one compiled in (which
/// for a dynamic kernel leaves the choice open, and the answer says so).
pub(super) fn preemption(
    debugfs: Option<&str>,
    command_line: Option<&str>,
    version: Option<&str>,
) -> Option<String> {
    if let Some(model) = debugfs.and_then(in_parentheses) {
        return Some(model.to_owned());
    }
    let asked = command_line
        .and_then(|line| line.split_whitespace().find_map(|word| word.strip_prefix("preempt=")));
    if let Some(model) = asked {
        return Some(model.to_owned());
    }
    let compiled = version?.split_whitespace().find(|word| word.starts_with("PREEMPT"));
    Some(match compiled {
        Some("PREEMPT_DYNAMIC") => "dynamic (model in force not readable)".to_owned(),
        Some(word) => word.trim_start_matches("PREEMPT").trim_start_matches('_').to_lowercase(),
        None => "none or voluntary".to_owned(),
    })
    .map(|model| if model.is_empty() { "full".to_owned() } else { model })
}

/// debugfs marks the model in force as in `none voluntary (full) lazy`.
fn in_parentheses(text: &str) -> Option<&str> {
    text.split_once('(')?.1.split_once(')').map(|(word, _)| word)
}

/// Boot options known to move latency; the rest of the line is nobody's business in a report.
fn latency_words(command_line: &str) -> String {
    const PREFIXES: [&str; 11] = [
        "isolcpus",
        "nohz",
        "rcu_nocbs",
        "mitigations",
        "preempt",
        "idle",
        "processor.max_cstate",
        "intel_idle",
        "intel_pstate",
        "amd_pstate",
        "nvme",
    ];
    let kept = |word: &&str| PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    command_line.split_whitespace().filter(kept).collect::<Vec<_>>().join(" ")
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes: u64 = field(meminfo, "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1024)
}

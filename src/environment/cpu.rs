//! The processors: what they are, which of them this process may use, and what hides below them.

use serde_json::{Value, json};

use super::text::{self, field, list_count};

/// Facts about the processors; `None` means the host does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuFacts {
    /// Model name of the first CPU.
    pub model: Option<String>,
    /// Microcode revision of the first CPU.
    pub microcode: Option<String>,
    /// CPUs online.
    pub online_count: Option<usize>,
    /// CPUs this process may run on, as a list such as `0-3,8`.
    pub allowed: Option<String>,
    /// How many CPUs this process may run on.
    pub allowed_count: Option<usize>,
    /// NUMA nodes online.
    pub numa_node_count: Option<usize>,
    /// Whether two CPUs share a core.
    pub smt_active: Option<bool>,
    /// Frequency governor of CPU 0.
    pub governor: Option<String>,
    /// Whether the CPU says that a hypervisor runs below.
    pub hypervisor: Option<bool>,
}

impl CpuFacts {
    /// Reads the facts of this host and process.
    pub fn capture() -> CpuFacts {
        CpuFacts::from_texts(
            &text::read("/proc/cpuinfo").unwrap_or_default(),
            &text::read("/proc/self/status").unwrap_or_default(),
        )
    }

    pub(super) fn from_texts(cpuinfo: &str, status: &str) -> CpuFacts {
        let allowed = field(status, "Cpus_allowed_list");
        let list = |path| text::read(path).and_then(|list| list_count(&list));
        CpuFacts {
            model: field(cpuinfo, "model name").map(str::to_owned),
            microcode: field(cpuinfo, "microcode").map(str::to_owned),
            online_count: list("/sys/devices/system/cpu/online"),
            allowed: allowed.map(str::to_owned),
            allowed_count: allowed.and_then(list_count),
            numa_node_count: list("/sys/devices/system/node/online"),
            smt_active: text::read_flag("/sys/devices/system/cpu/smt/active"),
            governor: text::read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            hypervisor: hypervisor(cpuinfo),
        }
    }

    /// The same facts as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "model": text::json(self.model.clone()),
            "microcode": text::json(self.microcode.clone()),
            "online_count": text::json(self.online_count),
            "allowed": text::json(self.allowed.clone()),
            "allowed_count": text::json(self.allowed_count),
            "numa_node_count": text::json(self.numa_node_count),
            "smt_active": text::json(self.smt_active),
            "governor": text::json(self.governor.clone()),
            "hypervisor": text::json(self.hypervisor),
        })
    }
}

/// Only x86 lists its flags under this name; elsewhere the answer stays unknown.
fn hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = field(cpuinfo, "flags")?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

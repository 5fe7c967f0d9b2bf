//! What this process may use: locked memory, files, control group memory and CPU.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::text::{self, field};

/// Limits of this process; `None` means unlimited where the field says so, else not told.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitFacts {
    /// Lockable memory, soft limit.
    pub locked_memory: Option<Limit>,
    /// Whether the process holds CAP_IPC_LOCK and so ignores `locked_memory`.
    pub cap_ipc_lock: Option<bool>,
    /// Open files, soft limit.
    pub open_files: Option<Limit>,
    /// Lowest memory limit of this process's control group and its ancestors.
    pub cgroup_memory: Option<Limit>,
    /// Lowest CPU quota of this process's control group and its ancestors, in CPUs.
    pub cgroup_cpus: Option<CpuQuota>,
}

/// A limit in the unit of its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// At most this much.
    At(u64),
    /// No limit; orders above every number.
    Unlimited,
}

/// A control group's CPU quota.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum CpuQuota {
    /// This many CPUs' worth of time.
    Cpus(f64),
    /// No quota; orders above every number.
    Unlimited,
}

impl LimitFacts {
    /// Reads the limits of this process.
    pub fn capture() -> LimitFacts {
        let limits = text::read("/proc/self/limits").unwrap_or_default();
        let status = text::read("/proc/self/status").unwrap_or_default();
        let groups = text::read("/proc/self/cgroup").unwrap_or_default();
        LimitFacts {
            locked_memory: soft_limit(&limits, "Max locked memory"),
            cap_ipc_lock: cap_ipc_lock(&status),
            open_files: soft_limit(&limits, "Max open files"),
            cgroup_memory: cgroup_memory(&groups),
            cgroup_cpus: cgroup_cpus(&groups),
        }
    }

    /// The same limits as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "locked_memory_bytes": text::json(self.locked_memory.map(Limit::to_json)),
            "cap_ipc_lock": text::json(self.cap_ipc_lock),
            "open_files": text::json(self.open_files.map(Limit::to_json)),
            "cgroup_memory_bytes": text::json(self.cgroup_memory.map(Limit::to_json)),
            "cgroup_cpus": text::json(self.cgroup_cpus.map(|quota| match quota {
                CpuQuota::Cpus(cpus) => Value::from(cpus),
                CpuQuota::Unlimited => Value::from("unlimited"),
            })),
        })
    }
}

impl Limit {
    fn to_json(self) -> Value {
        match self {
            Limit::At(amount) => Value::from(amount),
            Limit::Unlimited => Value::from("unlimited"),
        }
    }

    fn parse(word: &str) -> Option<Limit> {
        match word {
            "unlimited" | "max" | "-1" => Some(Limit::Unlimited),
            number => number.parse().ok().map(Limit::At),
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Limit::At(amount) => write!(f, "{amount}"),
            Limit::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// The soft limit of a row of /proc/self/limits.
pub(super) fn soft_limit(limits: &str, name: &str) -> Option<Limit> {
    let row = limits.lines().find_map(|line| line.strip_prefix(name))?;
    Limit::parse(row.split_whitespace().next()?)
}

/// Bit 14 of the effective capabilities.
pub(super) fn cap_ipc_lock(status: &str) -> Option<bool> {
    const CAP_IPC_LOCK: u32 = 14;
    let effective = u64::from_str_radix(field(status, "CapEff")?, 16).ok()?;
    Some(effective & (1 << CAP_IPC_LOCK) != 0)
}

fn cgroup_memory(groups: &str) -> Option<Limit> {
    let (v1, v2) = (cgroup_directories(groups, "memory"), cgroup_directories(groups, ""));
    let of = |directories: &[PathBuf], file: &str| {
        let limits = directories.iter().filter_map(|directory| text::read(directory.join(file)));
        limits.filter_map(|word| Limit::parse(&word)).map(without_v1_sentinel).min()
    };
    of(&v2, "memory.max").into_iter().chain(of(&v1, "memory.limit_in_bytes")).min()
}

/// Version 1 writes "no limit" as the largest page-aligned i64.
fn without_v1_sentinel(limit: Limit) -> Limit {
    match limit {
        Limit::At(bytes) if bytes >= 1 << 62 => Limit::Unlimited,
        other => other,
    }
}

fn cgroup_cpus(groups: &str) -> Option<CpuQuota> {
    let v2 = cgroup_directories(groups, "")
        .into_iter()
        .filter_map(|directory| parse_cpu_max(&text::read(directory.join("cpu.max"))?));
    let v1 = cgroup_directories(groups, "cpu").into_iter().filter_map(|directory| {
        let quota = text::read(directory.join("cpu.cfs_quota_us"))?;
        parse_cpu_max(&format!("{quota} {}", text::read(directory.join("cpu.cfs_period_us"))?))
    });
    v2.chain(v1).reduce(|least, quota| if quota < least { quota } else { least })
}

/// `max 100000` or `150000 100000`: quota and period in microseconds.
pub(super) fn parse_cpu_max(text: &str) -> Option<CpuQuota> {
    let (quota, period) = text.split_once(char::is_whitespace)?;
    match Limit::parse(quota)? {
        Limit::Unlimited => Some(CpuQuota::Unlimited),
        Limit::At(quota_us) => {
            let period_us: f64 = period.trim().parse().ok()?;
            (period_us > 0.0).then(|| CpuQuota::Cpus(quota_us as f64 / period_us))
        }
    }
}

/// The directories of the process's group and of its ancestors, for a version 1 controller, or for
/// version 2 if `controller` is empty.
pub(super) fn cgroup_directories(groups: &str, controller: &str) -> Vec<PathBuf> {
    let path = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    });
    let Some(path) = path else { return Vec::new() };
    let relative = Path::new(path.trim_start_matches('/'));
    let roots: &[&str] = if controller.is_empty() { &["", "unified"] } else { &[controller] };
    let under = |root: &&str| Path::new("/sys/fs/cgroup").join(root);
    roots
        .iter()
        .map(under)
        .flat_map(|root| relative.ancestors().map(move |group| root.join(group)))
        .collect()
}

//! What this host and directory are, what they allow, and the least an acknowledged write can take
//! on them.
//!
//! In reading order: [`Environment`] (facts, and what they mean for the figures), [`direct_io()`] and
//! [`uring_available`] (capabilities, checked and not hoped for), [`HostSample`] and
//! [`DeviceCounters`] (read before and after a run), [`Floors`] (the bound a report sets its
//! latencies against), [`probe`](mod@probe) and [`fio`] (the directory's own speed).

pub mod contamination;
pub mod cpu;
pub mod device;
pub mod direct_io;
pub mod filesystem;
pub mod fio;
pub mod floor;
pub mod flushes;
pub mod kernel;
pub mod limits;
pub mod oom;
mod pace;
mod pattern;
pub mod probe;
pub mod process;
pub mod samples;
pub mod scratch;
mod system_calls;
#[cfg(test)]
mod tests;
mod text;
pub mod uring;
pub mod warnings;

use std::path::Path;

use serde_json::{Value, json};

use limits::CpuQuota;

pub use contamination::{Contamination, HostSample, StealLevel};
pub use cpu::CpuFacts;
pub use device::{DeviceCounters, DeviceFacts};
pub use direct_io::{DirectIo, DirectIoReason, DirectIoUnavailable, direct_io};
pub use filesystem::{
    FilesystemFacts, NotEnoughSpace, StorageClass, require_free_space, write_back,
};
pub use floor::{FloorError, FloorSettings, Floors};
pub use flushes::{SyncPath, try_flushes};
pub use kernel::KernelFacts;
pub use limits::LimitFacts;
pub use oom::OomKills;
pub use probe::{Probe, ProbeError, probe};
pub use process::ProcessUse;
pub use samples::Samples;
pub use uring::{UringFacts, UringUnavailable, require_locked_memory, uring_available};
pub use warnings::Warning;

/// Everything a result says about where it was measured.
#[derive(Debug)]
pub struct Environment {
    /// The processors.
    pub cpu: CpuFacts,
    /// The kernel.
    pub kernel: KernelFacts,
    /// Limits of this process.
    pub limits: LimitFacts,
    /// The data directory's file system.
    pub filesystem: FilesystemFacts,
    /// The block device below it; `None` if there is none of its own or it is not known.
    pub device: Option<DeviceFacts>,
    /// Whether O_DIRECT there reaches a device.
    pub direct_io: Result<DirectIo, DirectIoUnavailable>,
    /// Libraries preloaded over the system's own calls.
    pub preloaded: Vec<String>,
    /// Whether io_uring may be used.
    pub uring: Result<UringFacts, UringUnavailable>,
}

impl Environment {
    /// Reads all facts for runs in `directory`. Never fails: what cannot be learned is unknown.
    pub fn capture(directory: &Path) -> Environment {
        Environment {
            cpu: CpuFacts::capture(),
            kernel: KernelFacts::capture(),
            limits: LimitFacts::capture(),
            filesystem: FilesystemFacts::capture(directory),
            device: DeviceFacts::capture(directory),
            direct_io: direct_io(directory),
            preloaded: flushes::preloaded_here(),
            uring: uring_available(1),
        }
    }

    /// CPUs this process may use: those it may run on, or fewer by the lowest quota of its control
    /// group and the groups above it.
    pub fn effective_cpus(&self) -> Option<f64> {
        let allowed = self.cpu.allowed_count.map(|count| count as f64);
        let quota = match self.limits.cgroup_cpus {
            Some(CpuQuota::Cpus(cpus)) => Some(cpus),
            Some(CpuQuota::Unlimited) | None => None,
        };
        allowed.into_iter().chain(quota).reduce(f64::min)
    }

    /// What limits the figures of a run of `process_count` processes here.
    pub fn warnings(&self, process_count: usize) -> Vec<Warning> {
        warnings::of(self, process_count)
    }

    /// Sixteen hex digits over the parts that stay the same between runs on one machine and
    /// directory. Figures of different fingerprints are not comparable.
    pub fn fingerprint(&self) -> String {
        let device = self.device.as_ref();
        let mount = self.filesystem.mount.as_ref();
        // Empty without a quota, so that fingerprints from before it counted stay what they are.
        let quota = match self.limits.cgroup_cpus {
            Some(CpuQuota::Cpus(cpus)) => format!(" cpus {cpus}"),
            Some(CpuQuota::Unlimited) | None => String::new(),
        };
        let parts = [
            text::shown(self.cpu.model.as_ref()),
            text::shown(self.cpu.microcode.as_ref()),
            text::shown(self.cpu.online_count),
            text::shown(self.cpu.allowed.as_ref()),
            text::shown(self.cpu.smt_active),
            text::shown(self.cpu.governor.as_ref()),
            text::shown(self.cpu.hypervisor),
            text::shown(self.kernel.release.as_ref()),
            text::shown(self.kernel.preemption.as_ref()),
            text::shown(self.kernel.tick_hz),
            text::shown(self.kernel.command_line.as_ref()),
            text::shown(self.kernel.clocksource.as_ref()),
            text::shown(self.kernel.transparent_huge_pages.as_ref()),
            text::shown(self.kernel.memory_bytes),
            format!("{}{quota}", text::shown(self.limits.cgroup_memory)),
            text::shown(self.filesystem.kind_name()),
            text::shown(mount.map(|mount| mount.options.as_str())),
            text::shown(device.map(DeviceFacts::to_json)),
            env!("CARGO_PKG_VERSION").to_owned(),
            build_profile().to_owned(),
        ];
        format!("{:016x}", fnv1a(&parts.join("\n")))
    }

    /// All facts as one JSON object. A fact this host does not tell is the string `unknown`.
    pub fn to_json(&self) -> Value {
        json!({
            "fingerprint": self.fingerprint(),
            "build_profile": build_profile(),
            "version": env!("CARGO_PKG_VERSION"),
            "cpu": self.cpu.to_json(),
            "kernel": self.kernel.to_json(),
            "effective_cpus": text::json(self.effective_cpus()),
            "preloaded": self.preloaded,
            "limits": self.limits.to_json(),
            "filesystem": self.filesystem.to_json(),
            "device": text::json(self.device.as_ref().map(DeviceFacts::to_json)),
            "direct_io": self.direct_io_json(),
            "io_uring": uring::to_json(&self.uring),
        })
    }

    fn direct_io_json(&self) -> Value {
        match &self.direct_io {
            Ok(direct) => json!({
                "available": true,
                "offset_align_bytes": direct.offset_align,
                "memory_align_bytes": direct.memory_align,
                "block_bytes": direct.block_bytes,
            }),
            Err(unavailable) => {
                json!({ "available": false, "reason": unavailable.reason.to_string() })
            }
        }
    }
}

fn build_profile() -> &'static str {
    if cfg!(debug_assertions) { "debug" } else { "release" }
}

/// FNV-1a, 64 bits: stable across builds, and nobody attacks a fingerprint.
fn fnv1a(text: &str) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    text.as_bytes().iter().fold(0xcbf2_9ce4_8422_2325, step)
}

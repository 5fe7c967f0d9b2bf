//! What a reader of the figures must know about the host before believing them.

use std::fmt;

use super::Environment;
use super::filesystem::StorageClass;

/// One thing that limits what the figures mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// More processes than CPUs.
    Oversubscribed {
        /// CPUs this process may use.
        cpu_count: usize,
        /// Nodes and the driver.
        process_count: usize,
    },
    /// A control group gives less CPU time than there are CPUs to run on.
    CpuQuota {
        /// CPUs' worth of time.
        cpus: String,
    },
    /// A library stands between the program and the system's own calls.
    Preloaded {
        /// Which.
        libraries: String,
    },
    /// The file system is told to send no flushes.
    NoBarrier {
        /// The mount option.
        option: String,
    },
    /// A hypervisor runs below.
    VirtualMachine,
    /// The device has a volatile cache.
    VolatileWriteCache {
        /// The device.
        device: String,
    },
    /// The device claims to have no volatile cache.
    WriteThrough {
        /// The device.
        device: String,
    },
    /// The disk is virtual or software.
    VirtualDisk {
        /// The device.
        device: String,
        /// Its driver, or `unknown`.
        driver: String,
    },
    /// The disk is real but no NVMe.
    NotNvme {
        /// The device.
        device: String,
    },
    /// No block device is known for the directory.
    DeviceUnknown {
        /// The kind of file system, or `unknown`.
        kind: String,
    },
    /// The directory is in memory.
    Memory {
        /// The kind of file system, or `unknown`.
        kind: String,
    },
    /// The directory is on an overlay.
    Overlay,
    /// The directory is behind a protocol.
    Remote {
        /// The kind of file system, or `unknown`.
        kind: String,
    },
    /// The CPU changes its frequency with load.
    Governor {
        /// The governor.
        governor: String,
    },
    /// This build is not optimised.
    DebugBuild,
}

impl Warning {
    /// A stable short name for machines.
    pub fn code(&self) -> &'static str {
        match self {
            Warning::Oversubscribed { .. } => "oversubscribed",
            Warning::CpuQuota { .. } => "cpu_quota",
            Warning::Preloaded { .. } => "preloaded",
            Warning::NoBarrier { .. } => "no_barrier",
            Warning::VirtualMachine => "virtual_machine",
            Warning::VolatileWriteCache { .. } => "volatile_write_cache",
            Warning::WriteThrough { .. } => "write_through",
            Warning::VirtualDisk { .. } => "virtual_disk",
            Warning::NotNvme { .. } => "not_nvme",
            Warning::DeviceUnknown { .. } => "device_unknown",
            Warning::Memory { .. } => "memory",
            Warning::Overlay => "overlay",
            Warning::Remote { .. } => "remote",
            Warning::Governor { .. } => "governor",
            Warning::DebugBuild => "debug_build",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Oversubscribed { cpu_count, process_count } => write!(
                f,
                "oversubscribed: {process_count} processes share {cpu_count} CPUs, so latencies \
                 include waiting for a CPU and are advisory"
            ),
            Warning::CpuQuota { cpus } => write!(
                f,
                "a control group's quota leaves {cpus} CPUs' worth of time: latencies hold the \
                 waits for it"
            ),
            Warning::Preloaded { libraries } => write!(
                f,
                "preloaded over the system's own calls: {libraries}: such a library may answer a \
                 sync without making it"
            ),
            Warning::NoBarrier { option } => {
                write!(f, "the file system is mounted with `{option}`: no sync flushes the device")
            }
            Warning::VirtualMachine => {
                f.write_str("virtual machine: the host may not flush when the guest asks for it")
            }
            Warning::VolatileWriteCache { device } => write!(
                f,
                "{device} has a volatile write cache: a write that is not flushed (durability \
                 direct) does not survive power loss"
            ),
            Warning::WriteThrough { device } => write!(
                f,
                "{device} is set to `write through`: the kernel drops flushes to it, so a sync \
                 proves nothing if the device does have a volatile cache"
            ),
            Warning::VirtualDisk { device, driver } => write!(
                f,
                "{device} is a virtual disk (driver {driver}): its latency and what its flush \
                 means are its host's"
            ),
            Warning::NotNvme { device } => write!(f, "{device} is no NVMe device"),
            Warning::DeviceUnknown { kind } => {
                write!(f, "no block device is known below this file system ({kind})")
            }
            Warning::Memory { kind } => {
                write!(f, "the directory is on {kind}: nothing in it survives power loss")
            }
            Warning::Overlay => f.write_str(
                "the directory is on an overlay: the device is that of its upper layer, which is \
                 not known here",
            ),
            Warning::Remote { kind } => {
                write!(f, "the directory is on {kind}: what a sync reaches is decided elsewhere")
            }
            Warning::Governor { governor } => write!(
                f,
                "CPU frequency governor `{governor}`: latencies depend on how busy the CPU was; \
                 `performance` is steadier"
            ),
            Warning::DebugBuild => {
                f.write_str("debug build: figures say nothing about the product; use --release")
            }
        }
    }
}

/// The warnings for a run of `process_count` processes in this environment.
pub(super) fn of(environment: &Environment, process_count: usize) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(option) = environment.filesystem.no_barrier() {
        warnings.push(Warning::NoBarrier { option: option.to_owned() });
    }
    if !environment.preloaded.is_empty() {
        warnings.push(Warning::Preloaded { libraries: environment.preloaded.join(", ") });
    }
    if cfg!(debug_assertions) {
        warnings.push(Warning::DebugBuild);
    }
    warnings.extend(cpu_warnings(environment, process_count));
    warnings.extend(filesystem_warnings(environment));
    warnings.extend(device_warnings(environment));
    warnings
}

fn cpu_warnings(environment: &Environment, process_count: usize) -> Vec<Warning> {
    let cpu = &environment.cpu;
    let mut warnings = Vec::new();
    let effective = environment.effective_cpus();
    if let Some(cpus) = effective.filter(|cpus| *cpus < process_count as f64) {
        warnings.push(Warning::Oversubscribed { cpu_count: cpus as usize, process_count });
    }
    if let Some(cpus) = effective.filter(|cpus| cpu.allowed_count.is_some_and(|n| *cpus < n as f64))
    {
        warnings.push(Warning::CpuQuota { cpus: format!("{cpus:.2}") });
    }
    if cpu.hypervisor == Some(true) {
        warnings.push(Warning::VirtualMachine);
    }
    if let Some(governor) = cpu.governor.clone().filter(|name| name != "performance") {
        warnings.push(Warning::Governor { governor });
    }
    warnings
}

fn filesystem_warnings(environment: &Environment) -> Vec<Warning> {
    let kind = || super::text::shown(environment.filesystem.kind_name());
    let mut warnings = Vec::new();
    match environment.filesystem.storage_class {
        StorageClass::Memory => warnings.push(Warning::Memory { kind: kind() }),
        StorageClass::Overlay => warnings.push(Warning::Overlay),
        StorageClass::Remote => warnings.push(Warning::Remote { kind: kind() }),
        StorageClass::Device | StorageClass::Unknown if environment.device.is_none() => {
            warnings.push(Warning::DeviceUnknown { kind: kind() });
        }
        StorageClass::Device | StorageClass::Unknown => {}
    }
    warnings
}

fn device_warnings(environment: &Environment) -> Vec<Warning> {
    let Some(device) = &environment.device else { return Vec::new() };
    let name = || device.name.clone();
    let mut warnings = Vec::new();
    match device.write_cache.as_deref() {
        Some("write back") => warnings.push(Warning::VolatileWriteCache { device: name() }),
        Some("write through") => warnings.push(Warning::WriteThrough { device: name() }),
        _ => {}
    }
    if device.is_virtual() {
        let driver = super::text::shown(device.driver.clone());
        warnings.push(Warning::VirtualDisk { device: name(), driver });
    } else if !device.is_nvme() {
        warnings.push(Warning::NotNvme { device: name() });
    }
    warnings
}

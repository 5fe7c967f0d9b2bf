//! The block device behind a directory: what it is, how the kernel drives it, what it was sent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::filesystem::{MOUNTS, device_number};
use super::text::{self, chosen};

/// Facts about a block device from /sys; `None` means not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Kernel name of the whole device, such as `nvme0n1`.
    pub name: String,
    /// Kernel name of the partition the file system is on, if it is one.
    pub partition: Option<String>,
    /// Kernel driver, such as `nvme` or `virtio_blk`.
    pub driver: Option<String>,
    /// Model, as the device says.
    pub model: Option<String>,
    /// Firmware revision, as the device says.
    pub firmware: Option<String>,
    /// Devices below a mapped or RAID device.
    pub below: Vec<String>,
    /// What the kernel calls rotational. Virtual disks say `true` whatever is below them.
    pub rotational: Option<bool>,
    /// I/O scheduler in force.
    pub scheduler: Option<String>,
    /// `write back` (a volatile cache, flushed on demand) or `write through` (flushes are dropped).
    pub write_cache: Option<String>,
    /// Whether a single write can force itself to the medium.
    pub force_unit_access: Option<bool>,
    /// Smallest addressable unit.
    pub logical_block_bytes: Option<u64>,
    /// Smallest unit written without a read first.
    pub physical_block_bytes: Option<u64>,
    /// Largest write that power loss cannot tear, by the device's word; 0 if it gives none.
    pub atomic_write_bytes_max: Option<u64>,
    /// Requests the queue takes.
    pub request_count_max: Option<u64>,
    /// Largest request.
    pub request_kibibytes_max: Option<u64>,
    /// Latency target of write-back throttling in microseconds; 0 is off.
    pub writeback_throttle_us: Option<u64>,
    /// Request merging: 0 all, 1 simple, 2 none.
    pub no_merges: Option<u64>,
    /// Where completions run: 0 anywhere, 1 the submitter's group, 2 its CPU.
    pub completion_affinity: Option<u64>,
    /// Whether completions are polled for.
    pub polled: Option<bool>,
}

impl DeviceFacts {
    /// The device under `directory`; `None` if its file system has none of its own (memory, overlay,
    /// network) or /sys does not know it.
    pub fn capture(directory: &Path) -> Option<DeviceFacts> {
        let node = device_node(directory)?;
        Some(DeviceFacts::from_node(&node))
    }

    fn from_node(node: &Path) -> DeviceFacts {
        let (whole, partition) = whole_device(node);
        let queue = |name: &str| text::read(whole.join("queue").join(name));
        let number = |name: &str| queue(name).and_then(|value| value.parse().ok());
        let flag = |name: &str| text::read_flag(whole.join("queue").join(name));
        DeviceFacts {
            name: file_name(&whole),
            partition,
            driver: driver(&whole),
            model: text::read(whole.join("device/model")),
            firmware: text::read(whole.join("device/firmware_rev")),
            below: devices_below(&whole),
            rotational: flag("rotational"),
            scheduler: queue("scheduler").and_then(|text| chosen(&text).map(str::to_owned)),
            write_cache: queue("write_cache"),
            force_unit_access: flag("fua"),
            logical_block_bytes: number("logical_block_size"),
            physical_block_bytes: number("physical_block_size"),
            atomic_write_bytes_max: number("atomic_write_unit_max_bytes"),
            request_count_max: number("nr_requests"),
            request_kibibytes_max: number("max_sectors_kb"),
            writeback_throttle_us: number("wbt_lat_usec"),
            no_merges: number("nomerges"),
            completion_affinity: number("rq_affinity"),
            polled: flag("io_poll"),
        }
    }

    /// The same facts as a JSON object.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "partition": text::json(self.partition.clone()),
            "driver": text::json(self.driver.clone()),
            "model": text::json(self.model.clone()),
            "firmware": text::json(self.firmware.clone()),
            "below": self.below,
            "rotational": text::json(self.rotational),
            "scheduler": text::json(self.scheduler.clone()),
            "write_cache": text::json(self.write_cache.clone()),
            "force_unit_access": text::json(self.force_unit_access),
            "logical_block_bytes": text::json(self.logical_block_bytes),
            "physical_block_bytes": text::json(self.physical_block_bytes),
            "atomic_write_bytes_max": text::json(self.atomic_write_bytes_max),
            "request_count_max": text::json(self.request_count_max),
            "request_kibibytes_max": text::json(self.request_kibibytes_max),
            "writeback_throttle_us": text::json(self.writeback_throttle_us),
            "no_merges": text::json(self.no_merges),
            "completion_affinity": text::json(self.completion_affinity),
            "polled": text::json(self.polled),
        })
    }

    /// Whether the kernel sends this device no flushes because it claims to have no volatile cache.
    pub fn drops_flushes(&self) -> bool {
        self.write_cache.as_deref() == Some("write through")
    }

    /// Whether a hypervisor or another layer of software stands for the medium.
    pub fn is_virtual(&self) -> bool {
        let virtual_driver = matches!(
            self.driver.as_deref(),
            Some("virtio_blk" | "xen_blkfront" | "vbd" | "hv_storvsc" | "vmw_pvscsi")
        );
        let software = ["loop", "zram", "nbd", "rbd", "ram"];
        virtual_driver || software.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// Whether it is an NVMe namespace.
    pub fn is_nvme(&self) -> bool {
        self.name.starts_with("nvme")
    }
}

/// What a device was sent since boot (/sys/block/NAME/stat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time all writes together took.
    pub write_time: Duration,
    /// Flushes completed; `None` on kernels before 5.5.
    pub flushes: Option<u64>,
    /// Time all flushes together took.
    pub flush_time: Option<Duration>,
}

impl DeviceCounters {
    /// Reads the counters of the whole device under `directory`; `None` as for
    /// [`DeviceFacts::capture`].
    pub fn sample(directory: &Path) -> Option<DeviceCounters> {
        let (whole, _) = whole_device(&device_node(directory)?);
        let counters = DeviceCounters::parse(&text::read(whole.join("stat"))?)?;
        Some(DeviceCounters { flushes: flushes_below(&whole), ..counters })
    }

    /// Fields as in the kernel's `block/stat.rst`: 5 writes, 7 sectors of 512 bytes, 8
    /// milliseconds; 16 flushes, 17 milliseconds.
    pub(super) fn parse(stat: &str) -> Option<DeviceCounters> {
        let fields: Vec<u64> =
            stat.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let at = |index: usize| fields.get(index).copied();
        Some(DeviceCounters {
            writes: at(4)?,
            written_bytes: at(6)? * 512,
            write_time: Duration::from_millis(at(7)?),
            flushes: at(15),
            flush_time: at(16).map(Duration::from_millis),
        })
    }

    /// What was sent between `earlier` and this sample.
    pub fn since(&self, earlier: &DeviceCounters) -> DeviceCounters {
        let both = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        DeviceCounters {
            writes: self.writes.saturating_sub(earlier.writes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            write_time: self.write_time.saturating_sub(earlier.write_time),
            flushes: both(self.flushes, earlier.flushes),
            flush_time: self
                .flush_time
                .zip(earlier.flush_time)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// The same counters as a JSON object.
    pub fn to_json(&self) -> Value {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        json!({
            "writes": self.writes,
            "written_bytes": self.written_bytes,
            "write_time_ms": milliseconds(self.write_time),
            "flushes": text::json(self.flushes),
            "flush_time_ms": text::json(self.flush_time.map(milliseconds)),
        })
    }
}

/// Flushes counted by a device; for a mapped or RAID one, which counts none, by all below it.
/// `None` where one of them keeps no statistics.
fn flushes_below(whole: &Path) -> Option<u64> {
    let below = devices_below(whole);
    if below.is_empty() {
        let counts = text::read_flag(whole.join("queue/iostats")) != Some(false);
        return DeviceCounters::parse(&text::read(whole.join("stat"))?)?.flushes.filter(|_| counts);
    }
    let node = |name: &String| Path::new("/sys/class/block").join(name).canonicalize().ok();
    below.iter().map(|name| flushes_below(&whole_device(&node(name)?).0)).sum()
}

/// The device's folder below /sys, with links resolved. Device numbers with major 0 are anonymous:
/// the file system has no block device of its own.
fn device_node(directory: &Path) -> Option<PathBuf> {
    let (major, minor) = device_number(directory)?;
    if major == 0 {
        return device_by_mount(directory);
    }
    Path::new("/sys/dev/block").join(format!("{major}:{minor}")).canonicalize().ok()
}

/// btrfs and others use anonymous numbers though the mount names a device.
fn device_by_mount(directory: &Path) -> Option<PathBuf> {
    let mounts = text::read(MOUNTS)?;
    let mount = super::filesystem::mount_of(&mounts, &directory.canonicalize().ok()?)?;
    let name = Path::new(&mount.source).strip_prefix("/dev").ok()?;
    Path::new("/sys/class/block").join(name).canonicalize().ok()
}

/// A partition's folder lies in the folder of its device.
fn whole_device(node: &Path) -> (PathBuf, Option<String>) {
    match node.parent() {
        Some(parent) if node.join("partition").exists() => {
            (parent.to_owned(), Some(file_name(node)))
        }
        _ => (node.to_owned(), None),
    }
}

/// An NVMe namespace's `device` is its controller, whose own `device` carries the driver.
fn driver(whole: &Path) -> Option<String> {
    let links = ["device/driver", "device/device/driver"];
    links.iter().find_map(|link| std::fs::read_link(whole.join(link)).ok()).map(|to| file_name(&to))
}

fn devices_below(whole: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(whole.join("slaves")) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

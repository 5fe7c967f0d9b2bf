//! Whether syncs reach the device: what was asked for, against what the kernel counted there.
//!
//! A sync that is answered without a flush (`nobarrier`, a library preloaded over `fsync`) looks
//! fast and promises nothing. A device that says it has no volatile cache is owed none.

use std::path::Path;

use crate::types::{DurabilityMode, FilePreparation};

use super::filesystem::StorageClass;
use super::pattern::{Pattern, PatternFile};
use super::{DeviceCounters, DeviceFacts, Environment, FilesystemFacts};

/// Syncs of a trial, one after the other: each needs a flush of its own.
const TRIAL_SYNCS: u64 = 16;
const TRIAL_WRITE_BYTES: usize = 4096;

/// What lies between a sync and the medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncPath {
    /// What holds the files.
    pub storage_class: StorageClass,
    /// The kind of file system, or `unknown`.
    pub kind: String,
    /// The mount option that turns flushes off, if one does.
    pub no_barrier: Option<String>,
    /// The device, if one is known.
    pub device: Option<CacheFacts>,
}

/// How a device keeps what it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheFacts {
    /// Kernel name.
    pub name: String,
    /// As [`DeviceFacts::write_cache`].
    pub write_cache: Option<String>,
    /// As [`DeviceFacts::force_unit_access`].
    pub force_unit_access: Option<bool>,
}

impl SyncPath {
    /// The path below `directory`.
    pub fn capture(directory: &Path) -> SyncPath {
        SyncPath::of(&FilesystemFacts::capture(directory), DeviceFacts::capture(directory))
    }

    fn of(filesystem: &FilesystemFacts, device: Option<DeviceFacts>) -> SyncPath {
        SyncPath {
            storage_class: filesystem.storage_class,
            kind: super::text::shown(filesystem.kind_name()),
            no_barrier: filesystem.no_barrier().map(str::to_owned),
            device: device.map(|device| CacheFacts {
                name: device.name,
                write_cache: device.write_cache,
                force_unit_access: device.force_unit_access,
            }),
        }
    }

    /// Why `mode` cannot be said to survive power loss, although its writes are synced: at least
    /// `needed` syncs had to reach the device one after the other, and `sent` is what it was sent
    /// meanwhile. `None` if nothing speaks against it.
    pub fn doubt(
        &self,
        mode: DurabilityMode,
        needed: u64,
        sent: Option<&DeviceCounters>,
    ) -> Option<String> {
        if let StorageClass::Memory | StorageClass::Overlay | StorageClass::Remote =
            self.storage_class
        {
            return Some(format!("no flush can be counted on {}", self.kind));
        }
        if let Some(option) = &self.no_barrier {
            return Some(format!("{} is mounted with `{option}`: it sends no flushes", self.kind));
        }
        let Some(device) = &self.device else {
            return Some(format!(
                "no flush can be counted: no device is known below {}",
                self.kind
            ));
        };
        let name = &device.name;
        if device.write_cache.as_deref() == Some("write through") {
            return None;
        }
        let counted = sent.and_then(|sent| Some((sent, sent.flushes?)));
        let Some((sent, flushes)) = counted else {
            return Some(format!("no flush can be counted: {name} keeps no count of them"));
        };
        // A write that forces itself to the medium is counted among the writes only.
        let forced = mode == DurabilityMode::DirectDsync && device.force_unit_access == Some(true);
        let (seen, what) = match forced {
            true => (flushes + sent.writes, "flushes and writes"),
            false => (flushes, "flushes"),
        };
        (seen < needed).then(|| {
            format!("{name} was sent {seen} {what} where the syncs need {needed} at the least")
        })
    }
}

impl FilesystemFacts {
    /// The mount option that turns flushes off, if one does.
    pub fn no_barrier(&self) -> Option<&str> {
        let options = self.mount.as_ref()?.options.split(',');
        options.into_iter().find(|it| matches!(*it, "nobarrier" | "barrier=0" | "barrier=none"))
    }
}

/// Syncs a small file in `folder`, which is on the file system in question, and gives the doubt that
/// leaves, as [`SyncPath::doubt`].
pub fn try_flushes(folder: &Path) -> Option<String> {
    let path = SyncPath::capture(folder);
    let before = DeviceCounters::sample(folder);
    if let Err(error) = sync_some(folder) {
        return Some(format!("a trial sync failed ({error})"));
    }
    let sent = DeviceCounters::sample(folder).zip(before).map(|(now, then)| now.since(&then));
    path.doubt(DurabilityMode::Fsync, TRIAL_SYNCS, sent.as_ref())
}

fn sync_some(folder: &Path) -> std::io::Result<()> {
    let trial = super::scratch::trial_path(folder);
    let file = PatternFile::create(Pattern {
        path: trial.clone(),
        mode: DurabilityMode::Fsync,
        preparation: FilePreparation::ZeroFilled,
        write_bytes: TRIAL_WRITE_BYTES,
        file_bytes: TRIAL_SYNCS * TRIAL_WRITE_BYTES as u64,
    });
    let removed = std::fs::remove_file(&trial);
    let mut file = file?;
    removed?;
    (0..TRIAL_SYNCS).try_for_each(|_| file.write_next().map(drop))
}

/// Libraries that stand between the program and the system's own calls: `LD_PRELOAD` and
/// /etc/ld.so.preload, in the order they are loaded.
pub(super) fn preloaded(variable: &str, file: &str) -> Vec<String> {
    let of_variable = variable.split([':', ' ']);
    let of_file = file
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().split([':', ' ', '\t']));
    of_variable.chain(of_file).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Those of this process, whose children inherit them.
pub(super) fn preloaded_here() -> Vec<String> {
    let variable = std::env::var("LD_PRELOAD").unwrap_or_default();
    preloaded(&variable, &super::text::read("/etc/ld.so.preload").unwrap_or_default())
}

impl Environment {
    /// What lies between a sync and the medium here.
    pub fn sync_path(&self) -> SyncPath {
        SyncPath::of(&self.filesystem, self.device.clone())
    }
}

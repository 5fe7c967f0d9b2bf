//! What this broker has for replicas and connections: its open files and its disk. Whether that is
//! enough is `protocol::controller`'s to say (`check_room`, `connections_max`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{stat, statvfs};
use rustix::process::{Resource, getrlimit};

use crate::config::node::BrokerConfig;
use crate::protocol::controller::Resources;

/// Replicas that the broker's shards have open, and whether there were some that they could not open.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenReplicas(Arc<AtomicU64>, Arc<AtomicBool>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenReplica(Arc<AtomicU64>);

impl OpenReplicas {
    /// One more.
    pub(super) fn one(&self) -> OpenReplica {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenReplica(self.0.clone())
    }

    /// One could not be opened.
    pub(super) fn miss(&self) {
        self.1.store(true, Ordering::Relaxed);
    }

    /// Whether every replica there should be was opened, by every shard.
    pub(super) fn are_complete(&self) -> bool {
        !self.1.load(Ordering::Relaxed)
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for OpenReplica {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Files this process may have open.
pub(super) fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What the broker has now; `None` if its data directory does not tell.
pub(super) fn resources(config: &BrokerConfig, open: &OpenReplicas) -> Option<Resources> {
    let replicas = open.count();
    let space = statvfs(&config.data_dir).ok()?;
    // Device numbers are a host's own, and a host's boots are told apart by this.
    let mut disk = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut disk);
    stat(&config.data_dir).ok()?.st_dev.hash(&mut disk);
    Some(Resources {
        open_files_max: open_files_max(),
        disk: disk.finish(),
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        replica_bytes: config.log.segment_bytes,
        replicas,
    })
}

/// What to do about an error that means that a limit is reached; `None` if it means something else.
pub(super) fn remedy(error: &io::Error) -> Option<String> {
    match error.raw_os_error()? {
        libc::EMFILE => Some(format!(
            "this process may have {} files open: raise the limit (`ulimit -n` or LimitNOFILE) and \
             restart the broker",
            open_files_max()
        )),
        libc::ENFILE => Some(
            "the host has no file to open left: raise fs.file-max and restart the broker"
                .to_owned(),
        ),
        libc::ENOSPC | libc::EDQUOT => Some(
            "the disk of data_dir is full: free space, or move data_dir to a larger disk, and \
             restart the broker"
                .to_owned(),
        ),
        _ => None,
    }
}

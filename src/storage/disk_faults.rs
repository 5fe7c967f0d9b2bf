//! Faults of a disk on demand: what the writes and syncs of all logs of a process are told instead of
//! going to the device, switched while the process runs. Absent unless asked for: then a commit
//! group costs one look at a pointer that is not there.

use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::Write;
use crate::types::Sync;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// Nothing.
    None,
    /// Writes fail with ENOSPC.
    Full,
    /// Writes fail with EIO.
    WriteError,
    /// Syncs fail with EIO; what was written stays in the page cache.
    SyncError,
}

const FAULTS: [DiskFault; 4] =
    [DiskFault::None, DiskFault::Full, DiskFault::WriteError, DiskFault::SyncError];

/// The switches.
#[derive(Debug, Default)]
pub struct DiskFaults {
    fault: AtomicU8,
    sync_delay_us: AtomicU64,
}

impl DiskFaults {
    /// From now on this goes wrong.
    pub fn set(&self, fault: DiskFault) {
        let index = FAULTS.iter().position(|known| *known == fault).unwrap_or(0);
        self.fault.store(index as u8, Ordering::Relaxed);
    }

    /// From now on every sync takes so much longer.
    pub fn slow_down(&self, by: Duration) {
        let us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.sync_delay_us.store(us, Ordering::Relaxed);
    }

    /// What every sync takes longer; `None` if nothing.
    pub fn sync_delay(&self) -> Option<Duration> {
        let us = self.sync_delay_us.load(Ordering::Relaxed);
        (us > 0).then(|| Duration::from_micros(us))
    }

    /// What the device would say to a sync of a whole file, if not what it says.
    pub(super) fn sync_refusal(&self) -> Option<io::Error> {
        let fault = FAULTS[usize::from(self.fault.load(Ordering::Relaxed)) % FAULTS.len()];
        (fault == DiskFault::SyncError).then(|| io::Error::from_raw_os_error(libc::EIO))
    }

    /// What the device would say to `write`, if not what it says.
    pub(super) fn refusal(&self, write: &Write) -> Option<io::Error> {
        let fault = FAULTS[usize::from(self.fault.load(Ordering::Relaxed)) % FAULTS.len()];
        let errno = match fault {
            DiskFault::None => return None,
            DiskFault::Full if !write.data.is_empty() => libc::ENOSPC,
            DiskFault::WriteError if !write.data.is_empty() => libc::EIO,
            DiskFault::SyncError if write.sync != Sync::None => libc::EIO,
            _ => return None,
        };
        Some(io::Error::from_raw_os_error(errno))
    }
}

//! What an acknowledgement promises about the disk, and how the promise is kept.

use std::fmt;
use std::time::Duration;

/// Which event loop hosts a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EngineKind {
    /// One io_uring per shard for disk, sockets, wake-ups and timers.
    Uring,
    /// A glommio executor per shard.
    Glommio,
}

/// When pages of the `page-cache-flush` mode are synced (Kafka `flush.messages`, `flush.ms`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flush {
    /// The append that brings the unsynced records to this count waits for a sync.
    pub messages: u64,
    /// A background sync starts this long after the oldest unsynced append.
    pub interval: Duration,
}

/// A named durability mode: what holds for a record once the broker calls it durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DurabilityMode {
    /// `page-cache`: written with pwrite(2). Survives a killed process; a lost page cache loses it.
    PageCache,
    /// `page-cache-flush`: as `page-cache`, synced every so many records or so often.
    PageCacheFlush(Flush),
    /// `fsync`: buffered write, then fdatasync(2). Survives power loss if the device honours a flush.
    Fsync,
    /// `direct`: O_DIRECT write. On the device, perhaps only in its volatile cache: not durable.
    Direct,
    /// `direct-fsync`: O_DIRECT write linked to fdatasync. Survives power loss as `fsync` does.
    DirectFsync,
    /// `direct-dsync`: O_DIRECT write with RWF_DSYNC (FUA where the device has it, else a flush).
    DirectDsync,
}

/// How file space is made ready before the first append reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilePreparation {
    /// fallocate(2) with the size kept: the file grows by its appends.
    Reserved,
    /// Written full of zeros and synced beforehand: a sync then carries no file metadata.
    ZeroFilled,
}

/// What follows the bytes of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sync {
    /// Nothing.
    None,
    /// The write itself carries RWF_DSYNC.
    Dsync,
    /// fdatasync(2) after the write.
    Fdatasync,
}

/// How a commit group reaches the disk from the shard (`commit.route`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitRoute {
    /// `async`: one asynchronous write without a sync; the `direct` mode only.
    Async,
    /// `async-dsync`: one asynchronous write that carries RWF_DSYNC.
    AsyncDsync,
    /// `linked-fsync`: an asynchronous write linked to an asynchronous fdatasync.
    LinkedFsync,
    /// `blocking-helper`: a helper thread makes the blocking calls.
    BlockingHelper,
    /// `inline`: the shard's own thread makes the blocking calls and stalls meanwhile.
    Inline,
}

impl DurabilityMode {
    /// The mode's name in workloads, reports and topic configs.
    pub fn name(self) -> &'static str {
        match self {
            DurabilityMode::PageCache => "page-cache",
            DurabilityMode::PageCacheFlush(_) => "page-cache-flush",
            DurabilityMode::Fsync => "fsync",
            DurabilityMode::Direct => "direct",
            DurabilityMode::DirectFsync => "direct-fsync",
            DurabilityMode::DirectDsync => "direct-dsync",
        }
    }

    /// The guarantee in words a report can print beside the name.
    pub fn guarantee(self) -> &'static str {
        match self {
            DurabilityMode::PageCache => "survives a killed process, not a lost page cache",
            DurabilityMode::PageCacheFlush(_) => {
                "as page-cache; at most flush.messages or flush.ms of records unsynced"
            }
            DurabilityMode::Fsync => "survives power loss if the device honours flushes",
            DurabilityMode::Direct => "past the page cache, perhaps in the device's volatile cache",
            DurabilityMode::DirectFsync => "survives power loss if the device honours flushes",
            DurabilityMode::DirectDsync => {
                "survives power loss if the device honours FUA or flushes"
            }
        }
    }

    /// Whether segments are opened with O_DIRECT.
    pub fn is_direct(self) -> bool {
        matches!(
            self,
            DurabilityMode::Direct | DurabilityMode::DirectFsync | DurabilityMode::DirectDsync
        )
    }

    /// Whether an acknowledged record has been through a device flush.
    pub fn is_synced(self) -> bool {
        matches!(
            self,
            DurabilityMode::Fsync | DurabilityMode::DirectFsync | DurabilityMode::DirectDsync
        )
    }

    /// How segments are prepared: zero-filled wherever a sync or O_DIRECT would otherwise pay for
    /// extent metadata (spec/io.md finding 2).
    pub fn preparation(self) -> FilePreparation {
        match self {
            DurabilityMode::PageCache | DurabilityMode::PageCacheFlush(_) => {
                FilePreparation::Reserved
            }
            _ => FilePreparation::ZeroFilled,
        }
    }
}

impl fmt::Display for DurabilityMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl CommitRoute {
    /// The route's name in configuration and reports.
    pub fn name(self) -> &'static str {
        match self {
            CommitRoute::Async => "async",
            CommitRoute::AsyncDsync => "async-dsync",
            CommitRoute::LinkedFsync => "linked-fsync",
            CommitRoute::BlockingHelper => "blocking-helper",
            CommitRoute::Inline => "inline",
        }
    }
}

impl EngineKind {
    /// The engine's name in configuration and reports.
    pub fn name(self) -> &'static str {
        match self {
            EngineKind::Uring => "uring",
            EngineKind::Glommio => "glommio",
        }
    }
}

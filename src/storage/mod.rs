//! Bytes on disk: the partition log.
//!
//! A [`PartitionLog`] plans and issues writes through [`crate::engine::Io`], holds the recent end of
//! the log in memory, and recovers what a disk holds. It knows the log format and the durability
//! modes; it knows no engine, no replication rule and no Kafka request.
//!
//! In reading order: `log` (the state and the append), `write` (commit groups out, completions in),
//! `read`, `roll` (segments and checkpoints), `cut` (truncate, restart), `open` and `recovery`.
//! Below them: `tail` (memory), `commit` (the durable prefix), `segment`, `index`, `checkpoint`,
//! `scan`, `rest`, `stored` (for those who only look), `preparer` (the background thread), `device` (O_DIRECT), `disk_faults` (on demand), `mode`, `aligned` (the unsafe).

mod aligned;
mod checkpoint;
mod commit;
mod cut;
mod delete;
mod device;
mod disk_faults;
mod error;
mod index;
mod log;
mod mode;
mod open;
mod preparer;
mod read;
mod recovery;
mod rest;
mod roll;
mod scan;
mod segment;
mod stored;
mod stored_files;
mod tail;
mod write;

#[cfg(test)]
mod tests;

pub use device::{DirectIo, direct_io};
pub use disk_faults::{DiskFault, DiskFaults};
pub use error::StorageError;
pub use log::{LogStats, PartitionLog};
pub use mode::{default_route, validate};
pub use preparer::Preparer;
pub use read::{DiskRead, Read};
pub use recovery::Recovery;
pub use roll::close_all;
pub use stored::{StoredBatch, StoredBatches};
pub use stored_files::{distrust, forget_close, is_log, look_again, topic_of};

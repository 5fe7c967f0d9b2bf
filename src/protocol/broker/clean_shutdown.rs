//! Whether a broker's last process stopped cleanly, from the markers it left, and which of its
//! replicas are still as that stop left them.
//!
//! Source: spec/kip966.md 2.1 (B01-B04); the check of what lies on disk is this product's.

use std::fmt;

use crate::types::{BrokerEpoch, LeaderEpoch, Offset, StoredFile, TopicPartition};

/// A configured log directory as found at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDirectory {
    /// It can be read and written.
    pub online: bool,
    /// The broker epoch in its clean shutdown marker; `None` if there is no readable marker.
    pub marker: Option<BrokerEpoch>,
}

/// The epoch of the life that ended cleanly; `None` unless every directory is online, has a marker,
/// and all markers agree.
pub fn previous_broker_epoch(directories: &[LogDirectory]) -> Option<BrokerEpoch> {
    let first = directories.first()?.marker?;
    let agrees = |dir: &LogDirectory| dir.online && dir.marker == Some(first);
    directories.iter().all(agrees).then_some(first)
}

/// What a clean stop vouches for of one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VouchedLog {
    /// Name of its directory.
    pub directory: String,
    /// Whose it is.
    pub id: TopicPartition,
    /// Where it ended.
    pub log_end_offset: Offset,
    /// The leader epoch of its last batch.
    pub last_epoch: Option<LeaderEpoch>,
    /// All its files.
    pub files: Vec<StoredFile>,
}

/// A log as found at start, before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLog {
    /// Name of its directory.
    pub directory: String,
    /// Whose it says it is.
    pub id: Option<TopicPartition>,
    /// All its files.
    pub files: Vec<StoredFile>,
}

/// A log that is not as the clean stop left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Name of its directory.
    pub directory: String,
    /// Whose it is; `None` if nothing tells.
    pub id: Option<TopicPartition>,
    /// Where it ended.
    pub log_end_offset: Option<Offset>,
    /// What is wrong with it: the first that is.
    pub problem: Problem,
}

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its directory is not there.
    NoDirectory,
    /// Nobody vouches for it.
    NotVouched,
    /// It says to be another partition's.
    OtherPartition,
    /// A file is not there.
    Missing(String),
    /// A file was not there at the stop.
    Extra(String),
    /// A file has another length.
    Length {
        /// Which.
        file: String,
        /// At the stop, in bytes.
        expected: u64,
        /// Now, in bytes.
        found: u64,
    },
    /// The last bytes of a file are others.
    Tail {
        /// Which.
        file: String,
        /// CRC-32C at the stop.
        expected: u32,
        /// CRC-32C now.
        found: u32,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.directory)?;
        match &self.problem {
            Problem::NoDirectory => write!(f, "its directory is missing")?,
            Problem::NotVouched => write!(f, "this log was not there at the last clean stop")?,
            Problem::OtherPartition => write!(f, "partition.metadata names another topic")?,
            Problem::Missing(file) => write!(f, "{file} is missing")?,
            Problem::Extra(file) => write!(f, "{file} was not there at the last clean stop")?,
            Problem::Length { file, expected, found } => {
                write!(f, "{file} has {found} bytes, {expected} expected")?;
            }
            Problem::Tail { file, expected, found } => {
                write!(f, "the end of {file} has CRC-32C {found:08x}, {expected:08x} expected")?;
            }
        }
        match self.log_end_offset {
            Some(end) => write!(f, "; its log end offset was {end}"),
            None => Ok(()),
        }
    }
}

/// All logs that are not as the clean stop left them: anything but the same files with the same
/// lengths and the same ends.
pub fn damages(vouched: &[VouchedLog], found: &[FoundLog]) -> Vec<Damage> {
    let was_there = |log: &FoundLog| vouched.iter().any(|known| known.directory == log.directory);
    let changed = vouched.iter().filter_map(|known| {
        let log = found.iter().find(|log| log.directory == known.directory);
        let problem = log.map_or(Some(Problem::NoDirectory), |log| problem_of(known, log))?;
        Some(Damage {
            directory: known.directory.clone(),
            id: Some(known.id),
            log_end_offset: Some(known.log_end_offset),
            problem,
        })
    });
    let extra = found.iter().filter(|log| !was_there(log)).map(|log| Damage {
        directory: log.directory.clone(),
        id: log.id,
        log_end_offset: None,
        problem: Problem::NotVouched,
    });
    changed.chain(extra).collect()
}

fn problem_of(known: &VouchedLog, log: &FoundLog) -> Option<Problem> {
    let in_files = known.files.iter().find_map(|expected| {
        let file = expected.name.clone();
        let Some(found) = log.files.iter().find(|found| found.name == file) else {
            return Some(Problem::Missing(file));
        };
        if found.bytes != expected.bytes {
            return Some(Problem::Length { file, expected: expected.bytes, found: found.bytes });
        }
        let (expected, found) = (expected.tail_crc, found.tail_crc);
        (found != expected).then_some(Problem::Tail { file, expected, found })
    });
    let is_new = |found: &&StoredFile| known.files.iter().all(|file| file.name != found.name);
    in_files
        .or_else(|| log.files.iter().find(is_new).map(|new| Problem::Extra(new.name.clone())))
        .or_else(|| (log.id != Some(known.id)).then_some(Problem::OtherPartition))
}

/// What a broker registers with: the epoch of its last life as far as that can be trusted, and the
/// replicas that are damaged. A damaged log of an unknown partition may be any: nothing is trusted.
pub fn clean_registration(
    epoch: Option<BrokerEpoch>,
    damages: &[Damage],
) -> (Option<BrokerEpoch>, Vec<TopicPartition>) {
    match damages.iter().map(|damage| damage.id).collect::<Option<Vec<_>>>() {
        Some(damaged) if epoch.is_some() => (epoch, damaged),
        Some(_) | None => (None, Vec::new()),
    }
}

//! The clean shutdown marker: a JSON file in each log directory that says which broker epoch ended
//! there in an orderly way, and how it left every log. What the markers mean together, and whether
//! what lies there now is the same, is [`crate::protocol::broker`]'s.
//!
//! Source: spec/kip966.md 2.12, CleanShutdownFile (version 0; version 1 adds `logs`).

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::protocol::broker::{
    Damage, FoundLog, LogDirectory, VouchedLog, clean_registration, damages, previous_broker_epoch,
};
use crate::storage::{self, StorageError};
use crate::types::{
    BrokerEpoch, LeaderEpoch, Offset, PartitionId, StoredFile, TopicId, TopicPartition,
};

const FILE_NAME: &str = ".kafka_cleanshutdown";
const VERSION: i32 = 1;

/// Why a data directory cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LastStopError {
    /// The directory or the marker.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A log.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// How the last process left a data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastStop {
    /// Its broker epoch, if its stop was clean.
    pub previous_epoch: Option<BrokerEpoch>,
    /// Replicas that are not as it left them.
    pub damaged: Vec<TopicPartition>,
    /// What is wrong with these.
    pub damages: Vec<Damage>,
    /// Why there is a marker but it says nothing: file and reason.
    pub unusable_marker: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Marker {
    version: i32,
    broker_epoch: i64,
    logs: Vec<MarkedLog>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkedLog {
    directory: String,
    topic_id: String,
    partition: i32,
    log_end_offset: i64,
    last_leader_epoch: Option<i32>,
    files: Vec<MarkedFile>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkedFile {
    name: String,
    bytes: u64,
    tail_start: u64,
    tail_end: u64,
    tail_crc32c: u32,
}

/// Writes the marker and syncs it and its directory. Called last, after every log in `log_dir` was
/// closed without an error.
///
/// # Errors
/// Any error of the file system; the directory then counts as not cleanly shut down.
pub fn write_marker(log_dir: &Path, epoch: BrokerEpoch, logs: &[VouchedLog]) -> io::Result<()> {
    let logs = logs.iter().map(MarkedLog::new).collect();
    let marker = Marker { version: VERSION, broker_epoch: epoch.0, logs };
    let mut file = File::create(log_dir.join(FILE_NAME))?;
    file.write_all(&serde_json::to_vec(&marker)?)?;
    file.sync_all()?;
    File::open(log_dir)?.sync_all()
}

/// Reads the marker, looks at every log whether it is as the marker says, and deletes the marker:
/// before any log is loaded, as a crash while loading must not look like a clean stop (KAFKA-10471).
/// What is not vouched for is not trusted when it is opened either; that is done before the marker
/// goes, so that a crash in between repeats it.
///
/// # Errors
/// [`LastStopError`]: the marker cannot be deleted, or a directory or log not be read.
pub fn take_marker(log_dir: &Path) -> Result<LastStop, LastStopError> {
    let path = log_dir.join(FILE_NAME);
    let marker = match fs::read(&path) {
        Ok(bytes) => Some(parse(&bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => Some(Err(error.to_string())),
    };
    let directories = log_directories(log_dir)?;
    let last_stop = match marker {
        Some(Ok((epoch, vouched))) => examine(log_dir, epoch, &vouched, &directories)?,
        unusable => {
            for name in &directories {
                storage::forget_close(&log_dir.join(name))?;
            }
            let why = unusable.and_then(Result::err);
            let unusable_marker = why.map(|why| format!("{}: {why}", path.display()));
            LastStop { unusable_marker, ..LastStop::default() }
        }
    };
    match fs::remove_file(&path) {
        Ok(()) => File::open(log_dir)?.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    Ok(last_stop)
}

fn examine(
    log_dir: &Path,
    epoch: BrokerEpoch,
    vouched: &[VouchedLog],
    directories: &[String],
) -> Result<LastStop, LastStopError> {
    let files_of = |name: &str| {
        let known = vouched.iter().find(|log| log.directory == name);
        known.map_or(&[][..], |log| log.files.as_slice())
    };
    let mut found = Vec::new();
    for name in directories {
        let directory = log_dir.join(name);
        let topic = storage::topic_of(&directory);
        let partition = name.rsplit_once('-').and_then(|(_, index)| index.parse().ok());
        let id = topic.zip(partition.map(PartitionId));
        found.push(FoundLog {
            directory: name.clone(),
            id: id.map(|(topic, partition)| TopicPartition { topic, partition }),
            files: storage::look_again(&directory, files_of(name))?,
        });
    }
    let damages = damages(vouched, &found);
    for damage in &damages {
        let name = &damage.directory;
        storage::distrust(&log_dir.join(name), files_of(name))?;
    }
    let epoch = previous_broker_epoch(&[LogDirectory { online: true, marker: Some(epoch) }]);
    let (previous_epoch, damaged) = clean_registration(epoch, &damages);
    Ok(LastStop { previous_epoch, damaged, damages, unusable_marker: None })
}

/// Names of the directories that hold a log.
fn log_directories(log_dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(log_dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() && storage::is_log(&entry.path()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Unknown keys are ignored. A marker of version 0 vouches for no log: it is none.
fn parse(bytes: &[u8]) -> Result<(BrokerEpoch, Vec<VouchedLog>), String> {
    let marker: Marker = serde_json::from_slice(bytes)
        .map_err(|error| format!("{error} (a marker of version {VERSION} is expected)"))?;
    let mut logs = Vec::with_capacity(marker.logs.len());
    for log in marker.logs {
        let (directory, topic_id) = (log.directory.clone(), log.topic_id.clone());
        logs.push(
            log.vouched()
                .ok_or_else(|| format!("topicId of {directory} is `{topic_id}`: must be a UUID"))?,
        );
    }
    Ok((BrokerEpoch(marker.broker_epoch), logs))
}

impl MarkedLog {
    fn new(log: &VouchedLog) -> MarkedLog {
        let file = |file: &StoredFile| MarkedFile {
            name: file.name.clone(),
            bytes: file.bytes,
            tail_start: file.tail.start,
            tail_end: file.tail.end,
            tail_crc32c: file.tail_crc,
        };
        MarkedLog {
            directory: log.directory.clone(),
            topic_id: Uuid::from_bytes(log.id.topic.0).to_string(),
            partition: log.id.partition.0,
            log_end_offset: log.log_end_offset.0,
            last_leader_epoch: log.last_epoch.map(|epoch| epoch.0),
            files: log.files.iter().map(file).collect(),
        }
    }

    fn vouched(self) -> Option<VouchedLog> {
        let file = |file: MarkedFile| StoredFile {
            name: file.name,
            bytes: file.bytes,
            tail: file.tail_start..file.tail_end,
            tail_crc: file.tail_crc32c,
        };
        let topic = TopicId(Uuid::parse_str(&self.topic_id).ok()?.into_bytes());
        Some(VouchedLog {
            directory: self.directory,
            id: TopicPartition { topic, partition: PartitionId(self.partition) },
            log_end_offset: Offset(self.log_end_offset),
            last_epoch: self.last_leader_epoch.map(LeaderEpoch),
            files: self.files.into_iter().map(file).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn previous_epoch(dir: &Path) -> Option<BrokerEpoch> {
        take_marker(dir).unwrap().previous_epoch
    }

    #[test]
    fn a_marker_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(take_marker(dir.path()).unwrap(), LastStop::default());
        write_marker(dir.path(), BrokerEpoch(57), &[]).unwrap();
        assert_eq!(previous_epoch(dir.path()), Some(BrokerEpoch(57)));
        assert_eq!(previous_epoch(dir.path()), None);
    }

    #[test]
    fn an_unreadable_marker_or_one_that_vouches_for_nothing_is_none_and_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let old = &b"{\"version\":0,\"brokerEpoch\":3}"[..];
        for bytes in [&b""[..], b"{", b"{\"version\":0}", b"{\"brokerEpoch\":\"x\"}", b"\xff", old]
        {
            fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
            let last_stop = take_marker(dir.path()).unwrap();
            assert_eq!(last_stop.previous_epoch, None);
            let said = last_stop.unusable_marker.expect("it is named");
            assert!(said.contains(FILE_NAME), "{said}");
            assert!(!dir.path().join(FILE_NAME).exists());
        }
        let newer = b"{\"brokerEpoch\":3,\"new\":1,\"version\":9,\"logs\":[]}";
        fs::write(dir.path().join(FILE_NAME), newer).unwrap();
        assert_eq!(previous_epoch(dir.path()), Some(BrokerEpoch(3)));
    }

    #[test]
    fn a_log_that_nobody_vouches_for_is_damaged_and_one_without_a_name_damages_all() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("t-3");
        fs::create_dir(&log).unwrap();
        fs::write(log.join("clean-shutdown"), "0\n7\n").unwrap();
        fs::write(log.join("partition.metadata"), "version: 0\ntopic_id: AQEBAQEBAQEBAQEBAQEBAQ\n")
            .unwrap();
        write_marker(dir.path(), BrokerEpoch(57), &[]).unwrap();
        let last_stop = take_marker(dir.path()).unwrap();
        let id = TopicPartition { topic: TopicId([1; 16]), partition: PartitionId(3) };
        assert_eq!(last_stop.previous_epoch, Some(BrokerEpoch(57)));
        assert_eq!(last_stop.damaged, [id]);
        assert!(!log.join("clean-shutdown").exists(), "it will be scanned");

        fs::remove_file(log.join("partition.metadata")).unwrap();
        fs::write(log.join("00000000000000000000.log"), "").unwrap();
        write_marker(dir.path(), BrokerEpoch(58), &[]).unwrap();
        let last_stop = take_marker(dir.path()).unwrap();
        assert_eq!((last_stop.previous_epoch, last_stop.damages.len()), (None, 1));
    }
}

//! The small text files beside the segments, in Kafka's style, replaced whole and durably.
//!
//! - `partition.metadata`: whose log this is (`version: 0`, `topic_id: <base64>`).
//! - `leader-epoch-checkpoint`: version, count, then one `epoch start-offset` per line. Complete
//!   below the recovery point only: newer epochs are read from the batches by the recovery scan.
//! - `recovery-point`: version, then the offset below which everything is on the device.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::types::{LeaderEpoch, Offset, TopicId};

use super::StorageError;
use super::device::sync_directory;
use super::segment::remove_if_there;

pub(super) const METADATA_FILE: &str = "partition.metadata";
const EPOCHS_FILE: &str = "leader-epoch-checkpoint";
const RECOVERY_POINT_FILE: &str = "recovery-point";
/// Suffix of a file that is not yet whole; removed when a log is opened.
pub(super) const TEMPORARY_SUFFIX: &str = ".tmp";

/// Puts `bytes` in place of the file at `path`: whole or not at all. Durable after the directory's
/// sync, which the caller may share among several files.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StorageError> {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY_SUFFIX);
    let temporary = PathBuf::from(name);
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(StorageError::io("write the checkpoint", &temporary))?;
    fs::rename(&temporary, path).map_err(StorageError::io("replace the checkpoint", path))
}

/// Checks that the log in `directory` is `topic_id`'s; a new directory becomes it.
pub(super) fn claim(directory: &Path, topic_id: TopicId) -> Result<(), StorageError> {
    let path = directory.join(METADATA_FILE);
    let Some(found) = load_topic(directory)? else {
        let id = URL_SAFE_NO_PAD.encode(topic_id.0);
        replace(&path, format!("version: 0\ntopic_id: {id}\n").as_bytes())?;
        return sync_directory(directory);
    };
    if found == topic_id {
        Ok(())
    } else {
        Err(StorageError::TopicId { path, found, expected: topic_id })
    }
}

/// Whose log is in `directory`; `None` if it does not say.
pub(super) fn load_topic(directory: &Path) -> Result<Option<TopicId>, StorageError> {
    let path = directory.join(METADATA_FILE);
    let Some(text) = read(&path)? else { return Ok(None) };
    let mut lines = Lines::new(&path, &text);
    lines.literal("version: 0")?;
    let found = lines.next_with("`topic_id: ` and 16 bytes in base64", |line| {
        let bytes = URL_SAFE_NO_PAD.decode(line.strip_prefix("topic_id: ")?).ok()?;
        bytes.try_into().ok().map(TopicId)
    })?;
    Ok(Some(found))
}

/// Writes `leader-epoch-checkpoint`.
pub(super) fn store_epochs(
    directory: &Path,
    epochs: &[(LeaderEpoch, Offset)],
) -> Result<(), StorageError> {
    let mut text = format!("0\n{}\n", epochs.len());
    for (epoch, start_offset) in epochs {
        text.push_str(&format!("{epoch} {start_offset}\n"));
    }
    replace(&directory.join(EPOCHS_FILE), text.as_bytes())
}

/// Reads `leader-epoch-checkpoint`; empty if there is none.
pub(super) fn load_epochs(directory: &Path) -> Result<Vec<(LeaderEpoch, Offset)>, StorageError> {
    let path = directory.join(EPOCHS_FILE);
    let Some(text) = read(&path)? else { return Ok(Vec::new()) };
    let mut lines = Lines::new(&path, &text);
    lines.literal("0")?;
    let count: usize = lines.next_with("the number of epochs", |line| line.parse().ok())?;
    let mut epochs: Vec<(LeaderEpoch, Offset)> = Vec::new();
    for _ in 0..count {
        let last = epochs.last().copied();
        epochs.push(lines.next_with("`epoch start-offset`, both growing", |line| {
            let (epoch, offset) = line.split_once(' ')?;
            let entry = (LeaderEpoch(number(epoch)?), Offset(number(offset)?));
            last.is_none_or(|last| last.0 < entry.0 && last.1 < entry.1).then_some(entry)
        })?);
    }
    Ok(epochs)
}

/// Writes `recovery-point`.
pub(super) fn store_recovery_point(directory: &Path, offset: Offset) -> Result<(), StorageError> {
    replace(&directory.join(RECOVERY_POINT_FILE), format!("0\n{offset}\n").as_bytes())
}

/// Reads `recovery-point`; zero, which trusts nothing, if there is none.
pub(super) fn load_recovery_point(directory: &Path) -> Result<Offset, StorageError> {
    let path = directory.join(RECOVERY_POINT_FILE);
    let Some(text) = read(&path)? else { return Ok(Offset::ZERO) };
    let mut lines = Lines::new(&path, &text);
    lines.literal("0")?;
    lines.next_with("an offset", number).map(Offset)
}

/// Trusts nothing any more.
pub(super) fn remove_recovery_point(directory: &Path) -> Result<(), StorageError> {
    remove_if_there(&directory.join(RECOVERY_POINT_FILE))
}

fn read(path: &Path) -> Result<Option<String>, StorageError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StorageError::io("read the checkpoint", path)(error)),
    }
}

/// A number that is not negative.
fn number<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Option<T> {
    text.parse().ok().filter(|number| *number >= T::from(0))
}

/// The lines of a checkpoint, with errors that name the line.
struct Lines<'a> {
    path: &'a Path,
    lines: std::str::Lines<'a>,
    /// Number of the line last taken, from 1.
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(path: &'a Path, text: &'a str) -> Lines<'a> {
        Lines { path, lines: text.lines(), line: 0 }
    }

    fn literal(&mut self, expected: &str) -> Result<(), StorageError> {
        self.next_with(&format!("`{expected}`"), |line| (line == expected).then_some(()))
    }

    fn next_with<T>(
        &mut self,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, StorageError> {
        self.line += 1;
        let found = self.lines.next();
        found.and_then(parse).ok_or_else(|| StorageError::Checkpoint {
            path: self.path.to_path_buf(),
            line: self.line,
            problem: match found {
                Some(found) => format!("`{found}` is not {expected}"),
                None => format!("the file ends where {expected} belongs"),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded_and_nothing_stored_is_empty() {
        let directory = tempfile::tempdir().expect("a directory");
        let directory = directory.path();
        assert_eq!(load_epochs(directory).expect("none"), []);
        assert_eq!(load_recovery_point(directory).expect("none"), Offset::ZERO);
        let epochs = [(LeaderEpoch(0), Offset(0)), (LeaderEpoch(7), Offset(12))];
        store_epochs(directory, &epochs).expect("stored");
        store_recovery_point(directory, Offset(12)).expect("stored");
        assert_eq!(load_epochs(directory).expect("two"), epochs);
        assert_eq!(load_recovery_point(directory).expect("one"), Offset(12));
        let text = fs::read_to_string(directory.join(EPOCHS_FILE)).expect("text");
        assert_eq!(text, "0\n2\n0 0\n7 12\n");
    }

    #[test]
    fn a_directory_belongs_to_the_topic_that_came_first() {
        let directory = tempfile::tempdir().expect("a directory");
        claim(directory.path(), TopicId([1; 16])).expect("new");
        claim(directory.path(), TopicId([1; 16])).expect("again");
        let error = claim(directory.path(), TopicId([2; 16])).expect_err("another topic");
        assert!(error.to_string().contains("topic id is 0101"), "{error}");
    }

    #[test]
    fn a_bad_file_is_named_with_its_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join(EPOCHS_FILE);
        for (text, line) in [
            ("", 1),
            ("0\n", 2),
            ("1\n0\n", 1),
            ("0\nx\n", 2),
            ("0\n1\n", 3),
            ("0\n2\n3 9\n2 10\n", 4),
            ("0\n1\n1 -4\n", 3),
        ] {
            fs::write(&path, text).expect("written");
            let error = load_epochs(directory.path()).expect_err(text).to_string();
            assert!(error.contains(&format!("{EPOCHS_FILE}: line {line}:")), "{text:?}: {error}");
            assert!(!error.contains("``"), "{text:?}: {error}");
        }
    }

    #[test]
    fn whatever_became_of_a_file_is_an_error_that_names_it() {
        type Load = fn(&Path) -> Result<(), StorageError>;
        let files: [(&str, Load); 3] = [
            (METADATA_FILE, |directory| claim(directory, TopicId([1; 16]))),
            (EPOCHS_FILE, |directory| load_epochs(directory).map(drop)),
            (RECOVERY_POINT_FILE, |directory| load_recovery_point(directory).map(drop)),
        ];
        for (name, load) in files {
            for bytes in [Some(&b""[..]), Some(b"0"), Some(b"0\n\xff\n"), None] {
                let directory = tempfile::tempdir().expect("a directory");
                let path = directory.path().join(name);
                match bytes {
                    Some(bytes) => fs::write(&path, bytes).expect("written"),
                    None => fs::create_dir(&path).expect("created"),
                }
                let error = load(directory.path()).expect_err(name).to_string();
                assert!(error.starts_with(&format!("{}: ", path.display())), "{error}");
            }
        }
    }
}

//! Who owns a data directory: one process at a time (a lock on `.lock`), and one node of one cluster
//! for good (`meta.properties`, as Kafka writes it, with the node's role beside). The controller finds
//! a broker's replicas by the directory's id.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use crate::protocol::metadata::DirectoryId;
use crate::types::BrokerId;

const LOCK_FILE: &str = ".lock";
const META_FILE: &str = "meta.properties";
const DIRECTORY_ID: &str = "directory.id";

/// Whose a directory is to be.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// `broker` or `controller`.
    pub role: &'static str,
    /// The node.
    pub node: BrokerId,
    /// Its cluster.
    pub cluster_id: &'a str,
}

/// A directory that is this process's until it is dropped.
#[derive(Debug)]
pub struct DataDirectory {
    _lock: File,
    /// The directory's own id.
    pub id: DirectoryId,
}

/// Why a directory is not this node's.
#[derive(Debug, thiserror::Error)]
pub enum DataDirectoryError {
    /// The system's reason.
    #[error("{}: {source}", path.display())]
    Io {
        /// What could not be read or written.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another process has it.
    #[error("{}: locked: another process uses this data directory", path.display())]
    InUse {
        /// The lock.
        path: PathBuf,
    },
    /// Another node has it, or this one in another cluster.
    #[error("{}: {key} is `{found}`, this node needs `{expected}`: the data directory belongs to \
             another node or cluster; set data_dir to a directory of its own", path.display())]
    Foreign {
        /// The file that says so.
        path: PathBuf,
        /// Which line.
        key: &'static str,
        /// What it says.
        found: String,
        /// What it should say.
        expected: String,
    },
    /// It holds a log, and nothing says whose.
    #[error("{}: not there, but {} holds a log: if that is this node's (an earlier version wrote \
             no such file), put these lines into it: {lines}", path.display(), log.display())]
    Unowned {
        /// The file that is missing.
        path: PathBuf,
        /// A directory with a log.
        log: PathBuf,
        /// What this node would write.
        lines: String,
    },
}

/// Makes `data_dir` if it is not there, locks it, and checks that it is `owner`'s; an empty one
/// becomes it.
///
/// # Errors
/// [`DataDirectoryError`]; nothing in the directory was changed but the lock.
pub fn claim(data_dir: &Path, owner: Owner<'_>) -> Result<DataDirectory, DataDirectoryError> {
    at(data_dir, fs::create_dir_all(data_dir))?;
    let path = data_dir.join(LOCK_FILE);
    let lock = at(&path, OpenOptions::new().create(true).append(true).open(&path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(DataDirectoryError::InUse { path }),
        Err(TryLockError::Error(source)) => return Err(DataDirectoryError::Io { path, source }),
    }
    let path = data_dir.join(META_FILE);
    let id = match fs::read_to_string(&path) {
        Ok(text) => check(&path, &text, owner)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => found(data_dir, path, owner)?,
        Err(source) => return Err(DataDirectoryError::Io { path, source }),
    };
    Ok(DataDirectory { _lock: lock, id })
}

fn wanted(owner: Owner<'_>) -> [(&'static str, String); 4] {
    [
        ("version", "1".to_owned()),
        ("cluster.id", owner.cluster_id.to_owned()),
        ("node.id", owner.node.to_string()),
        ("role", owner.role.to_owned()),
    ]
}

fn lines(owner: Owner<'_>, id: Uuid, separator: &str) -> String {
    let id = (DIRECTORY_ID, URL_SAFE_NO_PAD.encode(id.as_bytes()));
    let lines = wanted(owner).into_iter().chain([id]);
    lines.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(separator)
}

fn check(path: &Path, text: &str, owner: Owner<'_>) -> Result<DirectoryId, DataDirectoryError> {
    let found: BTreeMap<&str, &str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect();
    let foreign = |key, found: Option<&&str>, expected: String| DataDirectoryError::Foreign {
        path: path.to_owned(),
        key,
        found: found.map_or("", |found| found).to_owned(),
        expected,
    };
    for (key, expected) in wanted(owner) {
        let value = found.get(key);
        if value.is_none_or(|value| *value != expected) {
            return Err(foreign(key, value, expected));
        }
    }
    let id = found.get(DIRECTORY_ID);
    let decoded = id.and_then(|id| URL_SAFE_NO_PAD.decode(id).ok());
    match decoded.and_then(|bytes| bytes.try_into().ok()) {
        Some(bytes) => Ok(DirectoryId(bytes)),
        None => Err(foreign(DIRECTORY_ID, id, "16 bytes in base64".to_owned())),
    }
}

/// A directory without an owner: it may hold anything but a log.
fn found(
    data_dir: &Path,
    path: PathBuf,
    owner: Owner<'_>,
) -> Result<DirectoryId, DataDirectoryError> {
    let id = Uuid::new_v4();
    for entry in at(data_dir, fs::read_dir(data_dir))? {
        let log = at(data_dir, entry)?.path();
        if is_log(&log) {
            return Err(DataDirectoryError::Unowned { path, log, lines: lines(owner, id, ", ") });
        }
    }
    let temporary = data_dir.join(format!("{META_FILE}.tmp"));
    let written = File::create(&temporary).and_then(|mut file| {
        writeln!(file, "{}", lines(owner, id, "\n"))?;
        file.sync_all()
    });
    at(&temporary, written)?;
    at(&path, fs::rename(&temporary, &path))?;
    at(data_dir, File::open(data_dir).and_then(|directory| directory.sync_all()))?;
    Ok(DirectoryId(id.into_bytes()))
}

/// By its name, `topic-partition`.
fn is_log(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_partition = |index: &str| !index.is_empty() && index.bytes().all(|b| b.is_ascii_digit());
    path.is_dir() && name.rsplit_once('-').is_some_and(|(_, index)| is_partition(index))
}

fn at<T>(path: &Path, result: io::Result<T>) -> Result<T, DataDirectoryError> {
    result.map_err(|source| DataDirectoryError::Io { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner<'_> = Owner { role: "broker", node: BrokerId(1), cluster_id: "mine" };

    fn refusal(dir: &Path, owner: Owner<'_>) -> String {
        claim(dir, owner).unwrap_err().to_string()
    }

    #[test]
    fn a_directory_stays_its_first_owners() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let first = claim(dir, OWNER).unwrap();
        let said = refusal(dir, OWNER);
        assert!(said.contains(".lock") && said.contains("another process"), "{said}");
        let id = first.id;
        drop(first);
        for (owner, words) in [
            (
                Owner { role: "controller", ..OWNER },
                "role is `broker`, this node needs `controller`",
            ),
            (Owner { node: BrokerId(2), ..OWNER }, "node.id is `1`, this node needs `2`"),
            (Owner { cluster_id: "x", ..OWNER }, "cluster.id is `mine`, this node needs `x`"),
        ] {
            let said = refusal(dir, owner);
            assert!(said.contains(words) && said.contains(META_FILE), "{said}");
        }
        assert_eq!(claim(dir, OWNER).unwrap().id, id, "and its id is kept");
    }

    #[test]
    fn a_log_without_an_owner_is_refused_and_the_words_say_how_to_adopt_it() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("t-0")).unwrap();
        let said = refusal(dir.path(), OWNER);
        let (_, lines) = said.split_once("into it: ").unwrap();
        let text = lines.replace(", ", "\n");
        fs::write(dir.path().join(META_FILE), text).unwrap();
        claim(dir.path(), OWNER).unwrap();
    }

    #[test]
    fn an_unreadable_owner_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "version=1", "version=2\ncluster.id=mine\nnode.id=1\nrole=broker\n"] {
            fs::write(dir.path().join(META_FILE), text).unwrap();
            assert!(refusal(dir.path(), OWNER).contains(META_FILE), "{text}");
        }
        let text = "version=1\ncluster.id=mine\nnode.id=1\nrole=broker\ndirectory.id=x\n";
        fs::write(dir.path().join(META_FILE), text).unwrap();
        assert!(refusal(dir.path(), OWNER).contains("directory.id"));
    }
}

//! The clean shutdown marker: a small JSON file in each log directory that says which broker epoch
//! ended there in an orderly way. What the markers mean together is
//! [`crate::protocol::broker::previous_broker_epoch`]'s.
//!
//! Source: spec/kip966.md 2.12, CleanShutdownFile.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::types::BrokerEpoch;

const FILE_NAME: &str = ".kafka_cleanshutdown";

/// Writes the marker and syncs it and its directory. Called last, after the final flush of `log_dir`.
///
/// # Errors
/// Any error of the file system; the directory then counts as not cleanly shut down.
pub fn write_marker(log_dir: &Path, epoch: BrokerEpoch) -> io::Result<()> {
    let marker = serde_json::json!({ "version": 0, "brokerEpoch": epoch.0 });
    let mut file = File::create(log_dir.join(FILE_NAME))?;
    file.write_all(marker.to_string().as_bytes())?;
    file.sync_all()?;
    File::open(log_dir)?.sync_all()
}

/// Reads the marker and deletes it, before any log is loaded: a crash while loading must not look
/// like a clean stop (KAFKA-10471). `None` is any marker that is absent or cannot be read.
///
/// # Errors
/// The marker is there but cannot be deleted, or the directory cannot be synced.
pub fn take_marker(log_dir: &Path) -> io::Result<Option<BrokerEpoch>> {
    let path = log_dir.join(FILE_NAME);
    let epoch = fs::read(&path).ok().and_then(|bytes| parse(&bytes));
    match fs::remove_file(&path) {
        Ok(()) => File::open(log_dir)?.sync_all()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(epoch)
}

/// Unknown keys are ignored and the version is not looked at.
fn parse(bytes: &[u8]) -> Option<BrokerEpoch> {
    let marker: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    marker.get("brokerEpoch")?.as_i64().map(BrokerEpoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_read_once() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(take_marker(dir.path()).unwrap(), None);
        write_marker(dir.path(), BrokerEpoch(57)).unwrap();
        assert_eq!(take_marker(dir.path()).unwrap(), Some(BrokerEpoch(57)));
        assert_eq!(take_marker(dir.path()).unwrap(), None);
    }

    #[test]
    fn an_unreadable_marker_is_no_marker_and_is_deleted() {
        let dir = tempfile::tempdir().unwrap();
        for bytes in [&b""[..], b"{", b"{\"version\":0}", b"{\"brokerEpoch\":\"x\"}", b"\xff"] {
            fs::write(dir.path().join(FILE_NAME), bytes).unwrap();
            assert_eq!(take_marker(dir.path()).unwrap(), None);
            assert!(!dir.path().join(FILE_NAME).exists());
        }
        fs::write(dir.path().join(FILE_NAME), b"{\"brokerEpoch\":3,\"new\":1,\"version\":9}")
            .unwrap();
        assert_eq!(take_marker(dir.path()).unwrap(), Some(BrokerEpoch(3)));
    }
}

//! The id of a data directory, kept across restarts: the controller finds a broker's replicas by it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use uuid::Uuid;

use crate::protocol::metadata::DirectoryId;

const FILE_NAME: &str = "directory.id";

/// Reads the directory's id, or gives it one.
pub(super) fn directory_id(data_dir: &Path) -> io::Result<DirectoryId> {
    let path = data_dir.join(FILE_NAME);
    match fs::read_to_string(&path) {
        Ok(text) => {
            Uuid::parse_str(text.trim()).map(|id| DirectoryId(id.into_bytes())).map_err(|error| {
                io::Error::new(io::ErrorKind::InvalidData, format!("{FILE_NAME}: {error}"))
            })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let id = Uuid::new_v4();
            let mut file = File::create(&path)?;
            file.write_all(id.to_string().as_bytes())?;
            file.sync_all()?;
            File::open(data_dir)?.sync_all()?;
            Ok(DirectoryId(id.into_bytes()))
        }
        Err(error) => Err(error),
    }
}

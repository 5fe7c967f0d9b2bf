//! The end of a log whose topic was deleted.

use std::fs;
use std::sync::Arc;

use super::{PartitionLog, StorageError};
use crate::engine::Io;

impl PartitionLog {
    /// Deletes the log with its directory, whatever was not durable included. Called with nothing in
    /// flight.
    ///
    /// Errors: [`StorageError::Io`]; files may be left then.
    pub fn delete(mut self, io: &mut dyn Io) -> Result<(), StorageError> {
        let fence = Arc::clone(&self.fence);
        let _state = fence.void_seals();
        for segment in &mut self.segments {
            segment.close(io);
        }
        // A segment being prepared would be written into the directory again.
        self.order = None;
        fs::remove_dir_all(&self.directory).map_err(StorageError::io("delete", &self.directory))
    }
}

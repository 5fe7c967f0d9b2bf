//! Opening the log: what the files hold, what the snapshot makes of it.

use super::MetadataLog;
use super::error::MetadataLogError;
use super::segment::{Found, Segment, sync_directory};

impl MetadataLog {
    /// Reads the files that the snapshot does not cover. Gives the bytes that were cut off.
    pub(super) fn load(&mut self) -> Result<u64, MetadataLogError> {
        let mut indexes = Segment::list(&self.directory)?;
        self.remove_covered(&mut indexes)?;
        if indexes.is_empty() {
            indexes.push(self.next_index());
        }
        let last = indexes.len() - 1;
        let mut next_index = indexes[0];
        let mut torn_bytes = 0;
        for (number, first_index) in indexes.into_iter().enumerate() {
            let segment = Segment::open(&self.directory, first_index)?;
            if first_index != next_index {
                let (path, expected) = (segment.path, next_index);
                return Err(MetadataLogError::Missing { path, found: first_index, expected });
            }
            let found;
            (found, torn_bytes) = segment.scan(number == last)?;
            self.segments.push(segment);
            self.segment_bytes = 0;
            for batch in found {
                self.check_follows(&batch)?;
                self.keep(batch, next_index);
                next_index += 1;
            }
        }
        if torn_bytes > 0 {
            self.active().truncate(self.segment_bytes)?;
        }
        sync_directory(&self.directory)?;
        Ok(torn_bytes)
    }

    /// A process that ended while a snapshot took the place of older files left some of them. A log
    /// that was behind the snapshot does not reach up to the file after it.
    fn remove_covered(&self, indexes: &mut Vec<u64>) -> Result<(), MetadataLogError> {
        let next = self.next_index_after_snapshot();
        let covered = indexes.partition_point(|&first| first <= next).saturating_sub(1);
        for first_index in indexes.drain(..covered) {
            Segment::open(&self.directory, first_index)?.remove()?;
        }
        Ok(())
    }

    /// The base offset is not covered by the CRC.
    fn check_follows(&self, batch: &Found) -> Result<(), MetadataLogError> {
        let Some(before) = self.entries.back() else { return Ok(()) };
        let (found, expected) = (batch.header.base_offset, before.end_offset);
        if found == expected {
            return Ok(());
        }
        let (path, position) = (self.active().path.clone(), batch.position);
        Err(MetadataLogError::Gap { path, position, found, expected })
    }

    /// A restart keeps nothing that the snapshot has.
    pub(super) fn forget_snapshotted(&mut self) -> Result<(), MetadataLogError> {
        let first_index = self.segments[0].first_index;
        let expected = self.next_index_after_snapshot();
        if first_index > expected {
            let path = self.segments[0].path.clone();
            return Err(MetadataLogError::Missing { path, found: first_index, expected });
        }
        let Some(snapshot) = self.start else { return self.check_start() };
        let is_covered =
            self.entries.back().is_none_or(|entry| entry.id.index <= snapshot.last.index);
        let mut last = self.kept(snapshot.last.index..snapshot.last.index + 1);
        let contradicts = last.next().is_some_and(|entry| entry.id != snapshot.last);
        drop(last);
        if is_covered || contradicts {
            return self.restart_after(snapshot);
        }
        let dropped = self.entries.partition_point(|entry| entry.id.index <= snapshot.last.index);
        self.entries.drain(..dropped);
        self.check_start()
    }

    fn next_index_after_snapshot(&self) -> u64 {
        self.start.map_or(0, |start| start.last.index + 1)
    }

    fn check_start(&self) -> Result<(), MetadataLogError> {
        let Some(first) = self.entries.front() else { return Ok(()) };
        let (found, expected) = (first.base_offset, self.start_offset());
        if found == expected {
            return Ok(());
        }
        let (path, position) = (self.segments[0].path.clone(), first.position);
        Err(MetadataLogError::Gap { path, position, found, expected })
    }
}

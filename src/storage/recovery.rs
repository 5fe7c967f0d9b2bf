//! What a directory holds: trusts what a checkpoint vouches for, scans the rest, cuts a torn tail.
//!
//! A batch is taken iff its length is sane, its offset is the next one, its leader epoch is not
//! below the one before, and its CRC-32C is right. The scan stops at the first that is not; what
//! follows is made unreadable before anything is appended, so that it cannot come back.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::record::check_crc;
use crate::types::{LeaderEpoch, Offset};

use super::checkpoint::{self, TEMPORARY_SUFFIX};
use super::index::{Index, StoredIndex};
use super::preparer::{PREPARED_SUFFIX, SegmentSpec};
use super::rest::examine_rest;
use super::roll::CLEAN_SHUTDOWN_FILE;
use super::scan::{Step, Window, step};
use super::segment::{
    PIECE_BYTES, Segment, base_offset_of, index_path, remove_if_there, segment_path,
};
use super::{StorageError, device};

/// What opening a log found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of segments that were read and checked; 0 after a clean close.
    pub scanned_bytes: u64,
    /// Bytes cut off, to the last that was not zero.
    pub truncated_bytes: u64,
    /// Batches checked.
    pub batches: u64,
    /// A whole, valid batch lay behind the first bad bytes: not a torn tail but writes lost in the
    /// middle. Expected only of what was not durable.
    pub hole: bool,
    /// Where the log ends.
    pub log_end_offset: Offset,
}

/// A directory, read.
#[derive(Debug)]
pub(super) struct Recovered {
    /// In order, without a gap; may be empty.
    pub(super) segments: Vec<Segment>,
    pub(super) epochs: Vec<(LeaderEpoch, Offset)>,
    /// Everything below is on the device and has its index; not above the log's end.
    pub(super) recovery_point: Offset,
    /// Whether the log was closed cleanly and everything is as the checkpoints say.
    pub(super) is_clean: bool,
    pub(super) report: Recovery,
}

/// Reads the log in `directory`.
pub(super) fn recover(directory: &Path, spec: SegmentSpec) -> Result<Recovered, StorageError> {
    let files = Files::list(directory)?;
    let mut recoverer = Recoverer {
        directory,
        spec,
        recovery_point: checkpoint::load_recovery_point(directory)?,
        was_closed: files.was_closed,
        prepared: files.prepared,
        segments: Vec::new(),
        epochs: checkpoint::load_epochs(directory)?,
        has_scanned: false,
        is_torn: false,
        end_offset: files.base_offsets.first().copied().unwrap_or(Offset::ZERO),
        report: Recovery {
            scanned_bytes: 0,
            truncated_bytes: 0,
            batches: 0,
            hole: false,
            log_end_offset: Offset::ZERO,
        },
    };
    for (at, base_offset) in files.base_offsets.iter().enumerate() {
        if *base_offset != recoverer.end_offset {
            recoverer.adopt_prepared()?;
        }
        recoverer.take_segment(*base_offset, files.base_offsets.get(at + 1).copied())?;
    }
    recoverer.adopt_prepared()?;
    recoverer.drop_prepared()?;
    recoverer.finish()
}

/// The directory's files that matter.
#[derive(Default)]
struct Files {
    base_offsets: Vec<Offset>,
    prepared: Vec<PathBuf>,
    was_closed: bool,
}

impl Files {
    /// Lists them and removes what a crash left half done.
    fn list(directory: &Path) -> Result<Files, StorageError> {
        let fault = |error| StorageError::io("list the directory", directory)(error);
        let mut files = Files::default();
        for entry in fs::read_dir(directory).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if let Some(base_offset) = base_offset_of(&name) {
                files.base_offsets.push(base_offset);
            } else if name.ends_with(PREPARED_SUFFIX) {
                files.prepared.push(entry.path());
            } else if name.ends_with(TEMPORARY_SUFFIX) {
                remove_if_there(&entry.path())?;
            }
            files.was_closed |= name == CLEAN_SHUTDOWN_FILE;
        }
        files.base_offsets.sort_unstable();
        Ok(files)
    }
}

struct Recoverer<'d> {
    directory: &'d Path,
    spec: SegmentSpec,
    recovery_point: Offset,
    was_closed: bool,
    /// Files made ready for a roll, in no order.
    prepared: Vec<PathBuf>,
    segments: Vec<Segment>,
    epochs: Vec<(LeaderEpoch, Offset)>,
    has_scanned: bool,
    /// Nothing that follows belongs to the log.
    is_torn: bool,
    end_offset: Offset,
    report: Recovery,
}

impl Recoverer<'_> {
    fn take_segment(
        &mut self,
        base_offset: Offset,
        next: Option<Offset>,
    ) -> Result<(), StorageError> {
        let path = segment_path(self.directory, base_offset);
        if self.is_torn || base_offset != self.end_offset {
            self.is_torn = true;
            return self.discard(&path);
        }
        let file = device::open_segment(&path, false, self.spec.direct)?;
        let maintenance = device::open_segment(&path, false, false)?;
        let capacity_bytes = self.spec.capacity_bytes;
        let mut segment = Segment::new(
            base_offset,
            path,
            file,
            self.spec.direct,
            Some(maintenance),
            capacity_bytes,
        );
        let stored = Index::load(&segment.index_path(), base_offset);
        match stored.filter(|stored| self.is_trusted(stored, next)) {
            Some(stored) => self.trust(&mut segment, stored),
            None => self.scan(&mut segment)?,
        }
        self.segments.push(segment);
        Ok(())
    }

    /// A segment that is followed by another got its index when it was sealed; the last one when
    /// the log was closed.
    fn is_trusted(&self, stored: &StoredIndex, next: Option<Offset>) -> bool {
        let is_whole = next.map_or(self.was_closed, |next| stored.end_offset == next);
        is_whole && stored.end_offset <= self.recovery_point
    }

    fn trust(&mut self, segment: &mut Segment, stored: StoredIndex) {
        segment.end_position = stored.end_position;
        segment.issued_end = stored.end_position;
        segment.index = stored.index.into();
        self.end_offset = stored.end_offset;
    }

    fn scan(&mut self, segment: &mut Segment) -> Result<(), StorageError> {
        if !self.has_scanned {
            let start = self.end_offset;
            self.epochs.retain(|(_, epoch_start)| *epoch_start < start);
            self.has_scanned = true;
        }
        let path = segment.path.clone();
        let file = segment.take_maintenance()?;
        // Pages whose write or sync failed are clean to the kernel and still there: what is judged
        // must come from the device. A hint: dirty pages stay, and are synced before they count.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        let mut window = Window::new(&file, &path)?;
        let end_position = self.scan_batches(&mut window, segment)?;
        let rest = examine_rest(&mut window, end_position, self.end_offset)?;
        self.report.scanned_bytes += window.length();
        segment.end_position = end_position;
        segment.issued_end = end_position;
        if rest.nonzero_end > end_position {
            self.is_torn = true;
            self.report.truncated_bytes += rest.nonzero_end - end_position;
            self.report.hole |= rest.has_batch;
            segment.issued_end = rest.nonzero_end;
            segment.cut(end_position, self.spec.preparation)?;
        }
        remove_if_there(&segment.index_path())
    }

    /// Takes batches as long as they are good; gives the byte after the last.
    fn scan_batches(
        &mut self,
        window: &mut Window<'_>,
        segment: &mut Segment,
    ) -> Result<u64, StorageError> {
        let mut position = 0;
        let mut end_position = 0;
        let mut wanted = 0;
        loop {
            let bytes = window.bytes(position, wanted)?;
            wanted = 0;
            match step(bytes, position, self.end_offset) {
                Step::Batch(header) => {
                    let latest = self.epochs.last().map(|(epoch, _)| *epoch);
                    let is_older = latest.is_some_and(|latest| header.leader_epoch < latest);
                    if is_older || check_crc(bytes, &header).is_err() {
                        return Ok(end_position);
                    }
                    if latest != Some(header.leader_epoch) {
                        self.epochs.push((header.leader_epoch, header.base_offset));
                    }
                    segment.note(header.base_offset, position, header.size_bytes);
                    self.report.batches += 1;
                    self.end_offset = header.end_offset();
                    position += header.size_bytes as u64;
                    end_position = position;
                }
                Step::Padding(length) => position += length as u64,
                Step::Short(needed) if position + needed as u64 <= window.length() => {
                    wanted = needed;
                }
                Step::Short(_) | Step::Bad => return Ok(end_position),
            }
        }
    }

    /// Segments whose new name was lost with the power are found by their first batch.
    fn adopt_prepared(&mut self) -> Result<(), StorageError> {
        while !self.is_torn {
            let Some(at) = self.position_of_next()? else { break };
            let from = self.prepared.swap_remove(at);
            let base_offset = self.end_offset;
            let path = segment_path(self.directory, base_offset);
            self.segments.pop_if(|last| last.path == path);
            fs::rename(&from, &path).map_err(StorageError::io("name the segment", &path))?;
            device::sync_directory(self.directory)?;
            self.take_segment(base_offset, None)?;
        }
        Ok(())
    }

    /// Which of the prepared files begins with the batch that would come next.
    fn position_of_next(&self) -> Result<Option<usize>, StorageError> {
        for (at, path) in self.prepared.iter().enumerate() {
            if first_batch(path, self.end_offset)? {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Prepared files that were not rolled to are not part of the log.
    fn drop_prepared(&mut self) -> Result<(), StorageError> {
        for path in std::mem::take(&mut self.prepared) {
            if is_unused(&path)? {
                remove_if_there(&path)?;
            } else {
                self.discard(&path)?;
            }
        }
        Ok(())
    }

    /// Removes a file that is not part of the log, and notes what was in it.
    fn discard(&mut self, path: &Path) -> Result<(), StorageError> {
        let file = device::open_segment(path, false, false)?;
        let mut window = Window::new(&file, path)?;
        let rest = examine_rest(&mut window, 0, self.end_offset)?;
        self.report.truncated_bytes += rest.nonzero_end;
        self.report.hole |= rest.has_batch;
        remove_if_there(&index_path(path))?;
        fs::remove_file(path).map_err(StorageError::io("remove the segment", path))
    }

    fn finish(mut self) -> Result<Recovered, StorageError> {
        device::sync_directory(self.directory)?;
        let end_offset = self.end_offset;
        self.epochs.retain(|(_, start)| *start < end_offset);
        self.report.log_end_offset = end_offset;
        let is_clean = self.was_closed && !self.has_scanned && !self.is_torn;
        let recovery_point = self.recovery_point.min(end_offset);
        let Recoverer { segments, epochs, report, .. } = self;
        Ok(Recovered { segments, epochs, recovery_point, is_clean, report })
    }
}

/// Whether nothing was ever written to a prepared file (the usual case, seen without reading it
/// all), or it is only a second name of a segment.
fn is_unused(path: &Path) -> Result<bool, StorageError> {
    let Some(file) = open_if_there(path)? else { return Ok(true) };
    let links = file.metadata().map_err(StorageError::io("read the file's links", path))?.nlink();
    let mut window = Window::new(&file, path)?;
    Ok(links > 1 || window.piece(0, PIECE_BYTES)?.iter().all(|byte| *byte == 0))
}

/// A prepared file goes when the thread that fills it learns that nobody wants it any more.
fn open_if_there(path: &Path) -> Result<Option<File>, StorageError> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StorageError::io("open the segment", path)(error)),
    }
}

/// Whether the file begins with a valid batch at `expected`.
fn first_batch(path: &Path, expected: Offset) -> Result<bool, StorageError> {
    let Some(file) = open_if_there(path)? else { return Ok(false) };
    let mut window = Window::new(&file, path)?;
    let mut wanted = 0;
    loop {
        let bytes = window.bytes(0, wanted)?;
        match step(bytes, 0, expected) {
            Step::Batch(header) => return Ok(check_crc(bytes, &header).is_ok()),
            Step::Short(needed) if needed as u64 <= window.length() => wanted = needed,
            Step::Padding(_) | Step::Short(_) | Step::Bad => return Ok(false),
        }
    }
}

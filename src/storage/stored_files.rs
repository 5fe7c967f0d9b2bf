//! The files of a closed log: taken down when it is closed, looked at again before it is opened.
//!
//! Of a segment the check sum covers the end of what was appended and a little behind it, of any
//! other file all (or its last [`TAIL_BYTES`]): what is damaged further up is not seen here, nor what
//! lies in files made ready for a roll.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::types::{Offset, StoredFile, TopicId};

use super::checkpoint::{self, TEMPORARY_SUFFIX};
use super::preparer::PREPARED_SUFFIX;
use super::roll::CLEAN_SHUTDOWN_FILE;
use super::segment::{base_offset_of, remove_if_there};
use super::{StorageError, device};

/// Of what was appended to a segment, so much is in its check sum.
const TAIL_BYTES: u64 = 64 << 10;
/// And so much of what lies behind: zeros, unless somebody appended to it.
const BEHIND_BYTES: u64 = 4 << 10;
/// Suffix of a segment that does not continue the log any more.
const SET_ASIDE_SUFFIX: &str = ".set-aside";

/// The files of the log in `directory`; `ends` are the segments' appended bytes.
pub(super) fn take_down(
    directory: &Path,
    ends: &BTreeMap<Offset, u64>,
) -> Result<Vec<StoredFile>, StorageError> {
    read_all(directory, |name, bytes| {
        let end = base_offset_of(name).and_then(|base| ends.get(&base)).copied();
        let (end, behind) = end.map_or((bytes, 0), |end| (end, BEHIND_BYTES));
        end.saturating_sub(TAIL_BYTES)..(end + behind).min(bytes)
    })
}

/// The files of the log in `directory`, check sums over what those in `before` cover.
///
/// # Errors
/// [`StorageError::Io`]
pub fn look_again(
    directory: &Path,
    before: &[StoredFile],
) -> Result<Vec<StoredFile>, StorageError> {
    read_all(directory, |name, _| {
        before.iter().find(|file| file.name == name).map_or(0..0, |file| file.tail.clone())
    })
}

/// Whether `directory` holds a log: has its metadata, or a segment.
pub fn is_log(directory: &Path) -> bool {
    let of_log = |name: &str| name == checkpoint::METADATA_FILE || base_offset_of(name).is_some();
    fs::read_dir(directory).is_ok_and(|mut entries| {
        entries.any(|entry| entry.is_ok_and(|entry| of_log(&entry.file_name().to_string_lossy())))
    })
}

/// Whose log `directory` holds; `None` if it does not say.
pub fn topic_of(directory: &Path) -> Option<TopicId> {
    checkpoint::load_topic(directory).ok().flatten()
}

/// Takes away that the log in `directory` was closed: its last segment is scanned when it is opened.
///
/// # Errors
/// [`StorageError::Io`]
pub fn forget_close(directory: &Path) -> Result<(), StorageError> {
    remove_if_there(&directory.join(CLEAN_SHUTDOWN_FILE))?;
    device::sync_directory(directory)
}

/// Takes away all that spares the log in `directory` a scan. Segments behind the first of `before`
/// that is missing do not continue the log: they are set aside, under another name.
///
/// # Errors
/// [`StorageError::Io`]
pub fn distrust(directory: &Path, before: &[StoredFile]) -> Result<(), StorageError> {
    if !directory.is_dir() {
        return Ok(());
    }
    let there: BTreeSet<Offset> = segments(directory)?.into_iter().collect();
    let wanted: BTreeSet<Offset> =
        before.iter().filter_map(|file| base_offset_of(&file.name)).collect();
    if let Some(hole) = wanted.difference(&there).next() {
        for behind in there.range(hole..) {
            let path = super::segment::segment_path(directory, *behind);
            let mut aside = path.clone().into_os_string();
            aside.push(SET_ASIDE_SUFFIX);
            fs::rename(&path, aside).map_err(StorageError::io("set the segment aside", &path))?;
        }
    }
    checkpoint::remove_recovery_point(directory)?;
    forget_close(directory)
}

fn segments(directory: &Path) -> Result<Vec<Offset>, StorageError> {
    let fault = |error| StorageError::io("list the directory", directory)(error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(fault)? {
        found.extend(base_offset_of(&entry.map_err(fault)?.file_name().to_string_lossy()));
    }
    Ok(found)
}

fn read_all(
    directory: &Path,
    tail_of: impl Fn(&str, u64) -> Range<u64>,
) -> Result<Vec<StoredFile>, StorageError> {
    let fault = |error| StorageError::io("list the directory", directory)(error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_other = [PREPARED_SUFFIX, TEMPORARY_SUFFIX, SET_ASIDE_SUFFIX]
            .iter()
            .any(|suffix| name.ends_with(suffix));
        if is_other || !entry.file_type().map_err(fault)?.is_file() {
            continue;
        }
        let path = entry.path();
        let bytes = entry.metadata().map_err(StorageError::io("read the size", &path))?.len();
        let tail = tail_of(&name, bytes);
        let tail_crc = crc_of(&path, tail.start..tail.end.min(bytes))?;
        files.push(StoredFile { name, bytes, tail, tail_crc });
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn crc_of(path: &Path, range: Range<u64>) -> Result<u32, StorageError> {
    if range.is_empty() {
        return Ok(0);
    }
    let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, range.start));
    read.map_err(StorageError::io("read", path))?;
    Ok(crc32c::crc32c(&bytes))
}

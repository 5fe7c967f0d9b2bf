//! Snapshots: a control batch that says what is covered, then the state's records in ordinary
//! batches, in a file named as Kafka names it. What follows the header is a metadata log that a
//! broker can read.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use bytes::{Bytes, BytesMut};
use openraft::Membership;
use serde::{Deserialize, Serialize};

use super::entry::{SNAPSHOT_HEADER, control_batch, control_record, entry_id, log_id};
use super::replay::{restore, restore_while_reading};
use super::{LogId, SnapshotMeta, StoredMembership};
use crate::node::controller::metadata_log::{
    self, EntryId, MetadataLogError, SnapshotPoint, at, sync_directory,
};
use crate::protocol::metadata::{ClusterMetadata, Record};
use crate::record::{BatchBuilder, batches, check_crc, stamp};
use crate::types::{BrokerId, LeaderEpoch, Offset};
use crate::wire::encode_metadata_record;

const EXTENSION: &str = "checkpoint";
/// A batch is closed once it is this large.
const BATCH_BYTES: usize = 1 << 20;

/// What the header says.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Header {
    last: LogId,
    membership: StoredMembership,
    end_offset: i64,
}

/// A snapshot in memory.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) last: LogId,
    pub(super) membership: StoredMembership,
    pub(super) end_offset: Offset,
    /// The whole file.
    pub(super) bytes: Bytes,
    /// Where the records begin.
    records_at: usize,
}

impl Snapshot {
    /// The state `metadata`, which all entries up to `last` add up to.
    pub(super) fn of(
        metadata: &ClusterMetadata,
        last: LogId,
        membership: StoredMembership,
    ) -> Snapshot {
        let end_offset = metadata.end_offset();
        let epoch = entry_id(&last).epoch;
        let header = Header { last, membership: membership.clone(), end_offset: end_offset.0 };
        let header = postcard::to_stdvec(&header).unwrap_or_default();
        let header = control_batch(SNAPSHOT_HEADER, &header, Offset::ZERO, epoch);
        let records_at = header.len();
        let mut bytes = BytesMut::from(&header[..]);
        append_records(&mut bytes, &metadata.to_records(), epoch);
        Snapshot { last, membership, end_offset, bytes: bytes.freeze(), records_at }
    }

    /// Reads what [`Snapshot::of`] made; `path` is named in errors.
    pub(super) fn parse(bytes: Bytes, path: &Path) -> Result<Snapshot, MetadataLogError> {
        let what = "the snapshot's header";
        let foreign = || MetadataLogError::Foreign { path: path.to_owned(), what };
        let (batch, range) = batches(&bytes).next().and_then(Result::ok).ok_or_else(foreign)?;
        let records_at = range.end;
        let first = bytes.slice(range);
        let whole = batch.is_control() && check_crc(&first, &batch).is_ok();
        let (kind, value) = control_record(&first).filter(|_| whole).ok_or_else(foreign)?;
        let header: Option<Header> = postcard::from_bytes(&value).ok();
        let header = header.filter(|_| kind == SNAPSHOT_HEADER).ok_or_else(foreign)?;
        let Header { last, membership, end_offset } = header;
        Ok(Snapshot { last, membership, end_offset: Offset(end_offset), bytes, records_at })
    }

    /// The state.
    pub(super) fn metadata(&self, path: &Path) -> Result<ClusterMetadata, MetadataLogError> {
        restore(std::iter::once(self.records()), path)
    }

    /// The records, as batches with rising offsets below the end offset.
    pub(super) fn records(&self) -> Bytes {
        self.bytes.slice(self.records_at..)
    }

    /// What it covers.
    pub(super) fn point(&self) -> SnapshotPoint {
        SnapshotPoint { last: entry_id(&self.last), end_offset: self.end_offset }
    }

    /// As Raft describes it.
    pub(super) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: Some(self.last),
            last_membership: self.membership.clone(),
            snapshot_id: self.file_stem(),
        }
    }

    /// Kafka's name, with the index: it tells snapshots apart whose last entries were control ones.
    fn file_stem(&self) -> String {
        let SnapshotPoint { last, end_offset } = self.point();
        format!("{:020}-{:010}-{:020}", end_offset.0, last.epoch.0, last.index)
    }
}

/// The latest snapshot in `directory`, and the state in it.
pub(super) fn load(
    directory: &Path,
) -> Result<Option<(Snapshot, ClusterMetadata)>, MetadataLogError> {
    let Some(path) = files(directory)?.pop() else { return Ok(None) };
    let file = at(&path, "open", File::open(&path))?;
    let size_bytes = at(&path, "read", file.metadata())?.len();
    let mut bytes = vec![0; usize::try_from(size_bytes).unwrap_or(usize::MAX)];
    let restored = restore_while_reading(&file, &mut bytes, &path);
    // A header that makes no sense is the better reason.
    let snapshot = Snapshot::parse(Bytes::from(bytes), &path)?;
    Ok(Some((snapshot, restored?)))
}

/// Makes a snapshot durable, then removes the ones before it.
pub(super) fn store(directory: &Path, snapshot: &Snapshot) -> Result<(), MetadataLogError> {
    let path = directory.join(snapshot.file_stem()).with_extension(EXTENSION);
    let aside = path.with_extension("new");
    let written = File::create(&aside).and_then(|mut file| {
        file.write_all(&snapshot.bytes)?;
        file.sync_all()
    });
    at(&aside, "write", written)?;
    at(&path, "rename", fs::rename(&aside, &path))?;
    sync_directory(directory)?;
    for old in files(directory)? {
        if old < path {
            at(&old, "remove", fs::remove_file(&old))?;
        }
    }
    Ok(())
}

/// Snapshots in order. Names are of one length, so their order is that of offset, epoch, index.
fn files(directory: &Path) -> Result<Vec<PathBuf>, MetadataLogError> {
    let mut paths = Vec::new();
    for entry in at(directory, "read directory", fs::read_dir(directory))? {
        let path = at(directory, "read directory", entry)?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

/// Puts a snapshot of `metadata` into a controller's new data directory, as if its only voter, `node`,
/// had come that far by itself. Gives the file.
///
/// # Errors
/// [`MetadataLogError::Io`].
pub fn seed_snapshot(
    data_dir: &Path,
    node: BrokerId,
    metadata: &ClusterMetadata,
) -> Result<PathBuf, MetadataLogError> {
    let directory = metadata_log::directory(data_dir)?;
    let id = EntryId { epoch: LeaderEpoch(1), index: 1 };
    let voters = BTreeSet::from([u64::try_from(node.0).unwrap_or_default()]);
    let membership = Membership::new(vec![voters], ());
    let membership = StoredMembership::new(Some(LogId::default()), membership);
    let snapshot = Snapshot::of(metadata, log_id(id), membership);
    store(&directory, &snapshot)?;
    Ok(directory.join(snapshot.file_stem()).with_extension(EXTENSION))
}

/// What a stopped voter's snapshot holds and covers.
#[cfg(test)]
pub(in crate::node::controller) fn load_snapshot(
    directory: &Path,
) -> Option<(ClusterMetadata, SnapshotPoint)> {
    let (snapshot, metadata) = load(directory).expect("a whole snapshot")?;
    Some((metadata, snapshot.point()))
}

fn append_records(bytes: &mut BytesMut, all: &[(Offset, Record)], epoch: LeaderEpoch) {
    let mut builder = BatchBuilder::with_capacity(BATCH_BYTES);
    let mut base = None;
    let mut close = |builder: &mut BatchBuilder, base: &mut Option<Offset>| {
        if let Some(base) = base.take() {
            let at = bytes.len();
            bytes.extend_from_slice(&builder.finish());
            stamp(&mut bytes[at..], base, epoch);
        }
    };
    for (offset, record) in all {
        let continues = base.is_some_and(|base: Offset| {
            builder.size_bytes() < BATCH_BYTES
                && base.plus(i64::from(builder.record_count())) == *offset
        });
        if !continues {
            close(&mut builder, &mut base);
            builder.start(0);
            base = Some(*offset);
        }
        builder.push(0, None, &encode_metadata_record(record));
    }
    close(&mut builder, &mut base);
}

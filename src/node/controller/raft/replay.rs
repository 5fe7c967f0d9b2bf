//! Bytes to records to cluster metadata.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use bytes::Bytes;

use crate::node::controller::metadata_log::MetadataLogError;
use crate::protocol::metadata::{ApplyError, ClusterMetadata, Record};
use crate::record::{BatchError, batches, check_crc, records};
use crate::types::Offset;
use crate::wire::decode_metadata_record;

/// Records that go to the applying thread at once: their memory is used again and again.
const CHUNK_RECORDS: usize = 256;
/// Chunks under way: whichever thread is faster waits.
const CHUNKS: usize = 16;

/// What a snapshot's records add up to. A second thread decodes what this one applies: each half of
/// the work mostly waits for fresh memory.
pub(super) fn restore(bytes: &Bytes, path: &Path) -> Result<ClusterMetadata, MetadataLogError> {
    let mut metadata = ClusterMetadata::default();
    thread::scope(|scope| {
        let (decoded, chunks) = mpsc::sync_channel(CHUNKS);
        let decoder = scope.spawn(move || decode(bytes, path, &decoded));
        let applied = metadata.take_all(chunks.into_iter().flatten());
        applied.map_err(|source| misfit(path, source))?;
        // A panic of the decoder is this thread's too.
        decoder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(metadata)
}

type Chunk = Vec<(Offset, Record)>;

fn decode(
    bytes: &Bytes,
    path: &Path,
    decoded: &mpsc::SyncSender<Chunk>,
) -> Result<(), MetadataLogError> {
    let mut chunk = Chunk::with_capacity(CHUNK_RECORDS);
    for_each(bytes, path, |offset, record| {
        chunk.push((offset, record));
        if chunk.len() == CHUNK_RECORDS {
            let full = std::mem::replace(&mut chunk, Chunk::with_capacity(CHUNK_RECORDS));
            // Nobody listens any more once a record did not fit: that is the error then.
            let _ = decoded.send(full);
        }
        Ok(())
    })?;
    let _ = decoded.send(chunk);
    Ok(())
}

/// Gives every record of some data batches to `apply`; control batches are skipped.
pub(super) fn for_each_record(
    bytes: &Bytes,
    path: &Path,
    mut apply: impl FnMut(Offset, Record) -> Result<(), ApplyError>,
) -> Result<(), MetadataLogError> {
    for_each(bytes, path, |offset, record| {
        apply(offset, record).map_err(|source| misfit(path, source))
    })
}

fn misfit(path: &Path, source: ApplyError) -> MetadataLogError {
    MetadataLogError::Misfit { path: path.to_owned(), source }
}

fn for_each(
    bytes: &Bytes,
    path: &Path,
    mut take: impl FnMut(Offset, Record) -> Result<(), MetadataLogError>,
) -> Result<(), MetadataLogError> {
    let mut position = 0;
    for found in batches(bytes) {
        let damaged = |source: BatchError| {
            let path = path.to_owned();
            MetadataLogError::Damaged { path, position, source }
        };
        let (header, range) = found.map_err(damaged)?;
        let batch = bytes.slice(range.clone());
        check_crc(&batch, &header).map_err(damaged)?;
        if !header.is_control() {
            for found in records(&batch).map_err(damaged)? {
                let found = found.map_err(damaged)?;
                let offset = header.base_offset.plus(i64::from(found.offset_delta));
                let value = batch.slice_ref(found.value.unwrap_or_default());
                let record = decode_metadata_record(&value).map_err(|source| {
                    MetadataLogError::Record { path: path.to_owned(), offset, source }
                })?;
                take(offset, record)?;
            }
        }
        position = range.end as u64;
    }
    Ok(())
}

//! Bytes to records to cluster metadata.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use bytes::{Bytes, BytesMut};

use crate::measure::threads;
use crate::node::controller::metadata_log::{MetadataLogError, at};
use crate::protocol::metadata::{ApplyError, ClusterMetadata, Record};
use crate::record::{BatchError, HEADER_BYTES, batches, check_crc, declared_bytes, records};
use crate::types::Offset;
use crate::wire::decode_metadata_record;

/// Records that go to the applying thread at once: their memory is used again and again.
const CHUNK_RECORDS: usize = 256;
/// Chunks under way: whichever thread is faster waits.
const CHUNKS: usize = 16;

/// What a snapshot's records add up to, from whole batches in a row. A second thread decodes what
/// this one applies: each half of the work mostly waits for fresh memory.
pub(super) fn restore(
    pieces: impl Iterator<Item = Bytes> + Send,
    path: &Path,
) -> Result<ClusterMetadata, MetadataLogError> {
    let mut metadata = ClusterMetadata::default();
    thread::scope(|scope| {
        let (decoded, chunks) = mpsc::sync_channel(CHUNKS);
        let decode = move || decode(pieces, path, &decoded);
        let decoder = at(path, "decode", threads::start_in(scope, "decoder", decode))?;
        let applied = metadata.take_all(chunks.into_iter().flatten());
        applied.map_err(|source| misfit(path, source))?;
        join(decoder)
    })?;
    Ok(metadata)
}

/// As [`restore`] from `file`, which fills `bytes`: a batch is decoded while the next one is read.
pub(super) fn restore_while_reading(
    file: &File,
    bytes: &mut [u8],
    path: &Path,
) -> Result<ClusterMetadata, MetadataLogError> {
    thread::scope(|scope| {
        let (read, pieces) = mpsc::sync_channel(CHUNKS);
        let reader = threads::start_in(scope, "reader", move || read_batches(file, bytes, &read));
        let reader = at(path, "read", reader)?;
        let mut copies = BytesMut::new();
        let pieces = pieces.into_iter().map(move |piece: &[u8]| {
            // The same memory for all of them: each is gone before the next one comes.
            copies.extend_from_slice(piece);
            copies.split().freeze()
        });
        let restored = restore(pieces, path);
        at(path, "read", join(reader))?;
        restored
    })
}

fn read_batches<'a>(
    mut file: &File,
    mut rest: &'a mut [u8],
    read: &mpsc::SyncSender<&'a [u8]>,
) -> io::Result<()> {
    while !rest.is_empty() {
        let head_bytes = HEADER_BYTES.min(rest.len());
        file.read_exact(&mut rest[..head_bytes])?;
        // What is no batch, whoever decodes it says so.
        let size = batch_bytes(&rest[..head_bytes]).unwrap_or(rest.len()).min(rest.len());
        let (batch, after) = rest.split_at_mut(size);
        file.read_exact(&mut batch[head_bytes..])?;
        // Nobody listens any more once a batch made no sense: that is the error then.
        let _ = read.send(batch);
        rest = after;
    }
    Ok(())
}

/// Size of the batch that begins with `head`, by what that claims.
fn batch_bytes(head: &[u8]) -> Option<usize> {
    let claimed = (head.len() == HEADER_BYTES).then(|| declared_bytes(head))?;
    usize::try_from(claimed).ok().filter(|&size| size >= HEADER_BYTES)
}

/// A panic of the other thread is this one's too.
fn join<T>(other: thread::ScopedJoinHandle<'_, T>) -> T {
    other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

type Chunk = Vec<(Offset, Record)>;

fn decode(
    pieces: impl Iterator<Item = Bytes>,
    path: &Path,
    decoded: &mpsc::SyncSender<Chunk>,
) -> Result<(), MetadataLogError> {
    let mut chunk = Chunk::with_capacity(CHUNK_RECORDS);
    let mut position = 0;
    for piece in pieces {
        for_each(&piece, position, path, |offset, record| {
            chunk.push((offset, record));
            if chunk.len() == CHUNK_RECORDS {
                let full = std::mem::replace(&mut chunk, Chunk::with_capacity(CHUNK_RECORDS));
                // Nobody listens any more once a record did not fit: that is the error then.
                let _ = decoded.send(full);
            }
            Ok(())
        })?;
        position += piece.len() as u64;
    }
    let _ = decoded.send(chunk);
    Ok(())
}

/// Gives every record of some data batches to `apply`; control batches are skipped.
pub(super) fn for_each_record(
    bytes: &Bytes,
    path: &Path,
    mut apply: impl FnMut(Offset, Record) -> Result<(), ApplyError>,
) -> Result<(), MetadataLogError> {
    for_each(bytes, 0, path, |offset, record| {
        apply(offset, record).map_err(|source| misfit(path, source))
    })
}

fn misfit(path: &Path, source: ApplyError) -> MetadataLogError {
    MetadataLogError::Misfit { path: path.to_owned(), source }
}

/// `start` is where `bytes` begin, `position` where a damaged batch does.
fn for_each(
    bytes: &Bytes,
    start: u64,
    path: &Path,
    mut take: impl FnMut(Offset, Record) -> Result<(), MetadataLogError>,
) -> Result<(), MetadataLogError> {
    let mut position = start;
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
        position = start + range.end as u64;
    }
    Ok(())
}

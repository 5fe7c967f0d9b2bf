//! One batch: header, checks, stamps. Positions are those of Kafka's record batch version 2.

use crate::types::{LeaderEpoch, Offset};

use super::BatchError;

/// Size of a batch header, and so of the smallest batch.
pub const HEADER_BYTES: usize = 61;

/// Bytes in front of the part that the batch length counts.
pub(super) const LENGTH_PREFIX_BYTES: usize = 12;
pub(super) const BATCH_LENGTH_AT: usize = 8;
pub(super) const LEADER_EPOCH_AT: usize = 12;
pub(super) const MAGIC_AT: usize = 16;
pub(super) const CRC_AT: usize = 17;
/// The checksum covers everything from here on.
pub(super) const ATTRIBUTES_AT: usize = 21;
pub(super) const LAST_OFFSET_DELTA_AT: usize = 23;
pub(super) const BASE_TIMESTAMP_AT: usize = 27;
pub(super) const MAX_TIMESTAMP_AT: usize = 35;
pub(super) const PRODUCER_ID_AT: usize = 43;
pub(super) const PRODUCER_EPOCH_AT: usize = 51;
pub(super) const BASE_SEQUENCE_AT: usize = 53;
pub(super) const RECORD_COUNT_AT: usize = 57;

/// The one message format this product reads and writes.
pub(super) const MAGIC: i8 = 2;

/// An uncompressed record without key, value and headers: seven fields of a byte each.
const RECORD_BYTES_MIN: usize = 7;

const COMPRESSION_BITS: i16 = 0b111;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
pub(super) const CONTROL_BIT: i16 = 1 << 5;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip.
    Gzip,
    /// snappy, raw or framed.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

/// The header of a batch, as found. Only its size has been checked: see [`validate_produced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Whole size with header; at least [`HEADER_BYTES`], at most the bytes it was read from.
    pub size_bytes: usize,
    /// Epoch of the leader that appended it.
    pub leader_epoch: LeaderEpoch,
    /// Message format; 2.
    pub magic: i8,
    /// Stored CRC-32C over everything from the attributes on.
    pub crc: u32,
    /// Compression, timestamp type, transactional and control bits.
    pub attributes: i16,
    /// Offset of the last record minus the base offset; may exceed what the records show once a
    /// log was compacted.
    pub last_offset_delta: i32,
    /// Milliseconds of the Unix epoch that record timestamps are relative to.
    pub base_timestamp_ms: i64,
    /// Largest record timestamp, milliseconds of the Unix epoch.
    pub max_timestamp_ms: i64,
    /// Idempotent producer, or -1.
    pub producer_id: i64,
    /// Its epoch, or -1.
    pub producer_epoch: i16,
    /// Sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// How many records the batch claims to hold.
    pub record_count: i32,
}

impl BatchHeader {
    /// Offset after the last record (exclusive end). Saturates on absurd headers.
    pub fn end_offset(&self) -> Offset {
        let last = self.base_offset.0.saturating_add(i64::from(self.last_offset_delta));
        Offset(last.saturating_add(1))
    }

    /// How the records are compressed.
    pub fn compression(&self) -> Result<Compression, BatchError> {
        match self.attributes & COMPRESSION_BITS {
            0 => Ok(Compression::None),
            1 => Ok(Compression::Gzip),
            2 => Ok(Compression::Snappy),
            3 => Ok(Compression::Lz4),
            4 => Ok(Compression::Zstd),
            other => Err(BatchError::UnknownCompression { compression: other as u8 }),
        }
    }

    /// Whether it holds control records (transaction markers, quorum changes) and no data.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// Whether it belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }
}

/// Reads the header of the batch at the start of `bytes`; more may follow it. Checks that the
/// header and the bytes it claims are there and that the magic is 2, nothing else.
pub fn parse_batch(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    check_magic(bytes)?;
    if bytes.len() < HEADER_BYTES {
        return Err(BatchError::TooShort { size_bytes: bytes.len() });
    }
    let batch_bytes = declared_bytes(bytes);
    let size_bytes = match usize::try_from(batch_bytes) {
        Ok(size) if size < HEADER_BYTES => return Err(BatchError::TooShort { size_bytes: size }),
        Ok(size) if size <= bytes.len() => size,
        _ => {
            return Err(BatchError::SizeMismatch { batch_bytes, available_bytes: bytes.len() });
        }
    };
    Ok(BatchHeader {
        base_offset: Offset(i64::from_be_bytes(array(bytes, 0))),
        size_bytes,
        leader_epoch: LeaderEpoch(i32::from_be_bytes(array(bytes, LEADER_EPOCH_AT))),
        magic: MAGIC,
        crc: u32::from_be_bytes(array(bytes, CRC_AT)),
        attributes: i16::from_be_bytes(array(bytes, ATTRIBUTES_AT)),
        last_offset_delta: i32::from_be_bytes(array(bytes, LAST_OFFSET_DELTA_AT)),
        base_timestamp_ms: i64::from_be_bytes(array(bytes, BASE_TIMESTAMP_AT)),
        max_timestamp_ms: i64::from_be_bytes(array(bytes, MAX_TIMESTAMP_AT)),
        producer_id: i64::from_be_bytes(array(bytes, PRODUCER_ID_AT)),
        producer_epoch: i16::from_be_bytes(array(bytes, PRODUCER_EPOCH_AT)),
        base_sequence: i32::from_be_bytes(array(bytes, BASE_SEQUENCE_AT)),
        record_count: i32::from_be_bytes(array(bytes, RECORD_COUNT_AT)),
    })
}

/// Checks one produced partition's bytes as Kafka 4.1 does: exactly one whole batch of magic 2, not
/// above `batch_bytes_max` (`max.message.bytes`), with a good CRC and consistent counts, from a
/// client. Records are not walked: see `validate_records`.
///
/// Errors: [`BatchError`], whose code answers the partition.
pub fn validate_produced(bytes: &[u8], batch_bytes_max: usize) -> Result<BatchHeader, BatchError> {
    if bytes.is_empty() {
        return Err(BatchError::NoBatch);
    }
    let header = parse_batch(bytes)?;
    check_alone(bytes, &header)?;
    if header.size_bytes > batch_bytes_max {
        return Err(BatchError::TooLarge { batch_bytes: header.size_bytes, batch_bytes_max });
    }
    check_crc(bytes, &header)?;
    check_client_batch(&header)?;
    Ok(header)
}

/// Checks the CRC-32C of the batch at the start of `bytes`, whose header this is.
///
/// # Panics
/// If `bytes` is shorter than the header says; [`parse_batch`] has checked it for the bytes it saw.
pub fn check_crc(bytes: &[u8], header: &BatchHeader) -> Result<(), BatchError> {
    let computed = crc32c::crc32c(&bytes[ATTRIBUTES_AT..header.size_bytes]);
    if computed == header.crc {
        Ok(())
    } else {
        Err(BatchError::Crc { stored: header.crc, computed })
    }
}

/// Writes what the leader decides into the batch at the start of `bytes`. The CRC does not cover
/// these fields and stays right.
///
/// # Panics
/// If `bytes` is shorter than a header.
pub fn stamp(bytes: &mut [u8], base_offset: Offset, leader_epoch: LeaderEpoch) {
    assert!(bytes.len() >= HEADER_BYTES, "stamping {} bytes, not a batch", bytes.len());
    bytes[..BATCH_LENGTH_AT].copy_from_slice(&base_offset.0.to_be_bytes());
    bytes[LEADER_EPOCH_AT..MAGIC_AT].copy_from_slice(&leader_epoch.0.to_be_bytes());
}

/// Whole size by the length field; negative for a negative length. `bytes` holds at least the
/// length prefix.
pub fn declared_bytes(bytes: &[u8]) -> i64 {
    let length = i32::from_be_bytes(array(bytes, BATCH_LENGTH_AT));
    i64::from(length) + LENGTH_PREFIX_BYTES as i64
}

/// The `N` bytes at `at`, which the caller knows to be there.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// Old formats are shorter than a header, so the magic comes before the size.
fn check_magic(bytes: &[u8]) -> Result<(), BatchError> {
    match bytes.get(MAGIC_AT).map(|byte| byte.cast_signed()) {
        Some(magic) if magic != MAGIC => Err(BatchError::Magic { magic }),
        _ => Ok(()),
    }
}

/// Bytes after the batch are a second batch, or the length lies.
fn check_alone(bytes: &[u8], header: &BatchHeader) -> Result<(), BatchError> {
    let rest = &bytes[header.size_bytes..];
    if rest.is_empty() {
        return Ok(());
    }
    Err(match parse_batch(rest) {
        Ok(_) => BatchError::SecondBatch,
        Err(_) => BatchError::SizeMismatch {
            batch_bytes: declared_bytes(bytes),
            available_bytes: bytes.len(),
        },
    })
}

fn check_client_batch(header: &BatchHeader) -> Result<(), BatchError> {
    let BatchHeader { record_count, last_offset_delta, producer_id, base_sequence, .. } = *header;
    if record_count <= 0 || last_offset_delta != record_count - 1 {
        return Err(BatchError::RecordCount { record_count, last_offset_delta });
    }
    let records_bytes = header.size_bytes - HEADER_BYTES;
    let fits = record_count as usize <= records_bytes / RECORD_BYTES_MIN;
    if header.compression()? == Compression::None && !fits {
        return Err(BatchError::RecordCount { record_count, last_offset_delta });
    }
    if header.is_control() {
        return Err(BatchError::Control);
    }
    if producer_id >= 0 && base_sequence < 0 {
        return Err(BatchError::Sequence { producer_id, base_sequence });
    }
    Ok(())
}

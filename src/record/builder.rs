//! Builds batches in a reused buffer.
//!
//! Hot path: once the buffer has grown to the largest batch, and as long as earlier batches were
//! dropped before the next one starts, nothing is allocated.

use bytes::{BufMut, Bytes, BytesMut};

use super::batch::{
    ATTRIBUTES_AT, BASE_TIMESTAMP_AT, BATCH_LENGTH_AT, CONTROL_BIT, CRC_AT, HEADER_BYTES,
    LAST_OFFSET_DELTA_AT, LEADER_EPOCH_AT, LENGTH_PREFIX_BYTES, MAGIC, MAGIC_AT, MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT, PRODUCER_ID_AT, RECORD_COUNT_AT,
};
use super::varint;

/// Builds one uncompressed batch after the other, without producer id.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    /// The batch under construction from `start` on; empty before and after.
    buffer: BytesMut,
    /// Largest batch so far: what the next one reserves.
    largest_bytes: usize,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    record_count: i32,
}

impl BatchBuilder {
    /// A builder whose buffer will hold a batch of `batch_bytes` without growing.
    pub fn with_capacity(batch_bytes: usize) -> BatchBuilder {
        BatchBuilder { largest_bytes: batch_bytes, ..BatchBuilder::default() }
    }

    /// Begins a batch; what was pushed since the last `finish` is dropped. Record timestamps are
    /// relative to `base_timestamp_ms`, milliseconds of the Unix epoch.
    pub fn start(&mut self, base_timestamp_ms: i64) {
        self.buffer.clear();
        self.buffer.reserve(self.largest_bytes.max(HEADER_BYTES));
        self.buffer.put_bytes(0, HEADER_BYTES);
        self.base_timestamp_ms = base_timestamp_ms;
        self.max_timestamp_ms = base_timestamp_ms;
        self.record_count = 0;
    }

    /// Appends a record without headers, `timestamp_delta_ms` after the base timestamp.
    ///
    /// # Panics
    /// Without a `start` before it, or if the record is larger than a batch can be (2 GiB).
    pub fn push(&mut self, timestamp_delta_ms: i64, key: Option<&[u8]>, value: &[u8]) {
        assert!(self.buffer.len() >= HEADER_BYTES, "push before start");
        let offset_delta = i64::from(self.record_count);
        let key_length = key.map_or(-1, length_of);
        let value_length = length_of(value);
        let body_bytes = 1
            + varint::size_of_i64(timestamp_delta_ms)
            + varint::size_of_i64(offset_delta)
            + varint::size_of_i64(key_length)
            + key.map_or(0, <[u8]>::len)
            + varint::size_of_i64(value_length)
            + value.len()
            + 1;
        varint::write_i64(&mut self.buffer, body_bytes as i64);
        self.buffer.put_u8(0);
        varint::write_i64(&mut self.buffer, timestamp_delta_ms);
        varint::write_i64(&mut self.buffer, offset_delta);
        varint::write_i64(&mut self.buffer, key_length);
        self.buffer.put_slice(key.unwrap_or_default());
        varint::write_i64(&mut self.buffer, value_length);
        self.buffer.put_slice(value);
        varint::write_i64(&mut self.buffer, 0);
        self.record_count += 1;
        let timestamp_ms = self.base_timestamp_ms.saturating_add(timestamp_delta_ms);
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
    }

    /// Size the batch would have if finished now; 0 before `start`.
    pub fn size_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Records pushed since `start`.
    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Completes the batch: base offset 0, leader epoch -1 (none), CRC in place. The buffer is
    /// taken back for a later batch once the returned bytes are dropped.
    ///
    /// # Panics
    /// If nothing was pushed since `start`: Kafka has no empty batches.
    pub fn finish(&mut self) -> Bytes {
        self.finish_as(0)
    }

    /// As [`BatchBuilder::finish`], for control records: readers of data skip the batch.
    ///
    /// # Panics
    /// If nothing was pushed since `start`.
    pub fn finish_control(&mut self) -> Bytes {
        self.finish_as(CONTROL_BIT)
    }

    fn finish_as(&mut self, attributes: i16) -> Bytes {
        assert!(self.record_count > 0, "finish without a record");
        let mut batch = self.buffer.split();
        self.largest_bytes = self.largest_bytes.max(batch.len());
        self.write_header(&mut batch);
        put(&mut batch, ATTRIBUTES_AT, &attributes.to_be_bytes());
        let crc = crc32c::crc32c(&batch[ATTRIBUTES_AT..]);
        put(&mut batch, CRC_AT, &crc.to_be_bytes());
        self.record_count = 0;
        batch.freeze()
    }

    fn write_header(&self, batch: &mut [u8]) {
        let batch_length = length_of(&batch[LENGTH_PREFIX_BYTES..]) as i32;
        put(batch, BATCH_LENGTH_AT, &batch_length.to_be_bytes());
        put(batch, LEADER_EPOCH_AT, &(-1i32).to_be_bytes());
        put(batch, MAGIC_AT, &MAGIC.to_be_bytes());
        put(batch, LAST_OFFSET_DELTA_AT, &(self.record_count - 1).to_be_bytes());
        put(batch, BASE_TIMESTAMP_AT, &self.base_timestamp_ms.to_be_bytes());
        put(batch, MAX_TIMESTAMP_AT, &self.max_timestamp_ms.to_be_bytes());
        put(batch, PRODUCER_ID_AT, &(-1i64).to_be_bytes());
        // Producer epoch (2 bytes) and base sequence (4): both -1, "not idempotent".
        put(batch, PRODUCER_EPOCH_AT, &[0xff; RECORD_COUNT_AT - PRODUCER_EPOCH_AT]);
        put(batch, RECORD_COUNT_AT, &self.record_count.to_be_bytes());
    }
}

fn put(batch: &mut [u8], at: usize, value: &[u8]) {
    batch[at..at + value.len()].copy_from_slice(value);
}

/// A length as the format holds it; more than 31 bits is a bug of the caller.
fn length_of(bytes: &[u8]) -> i64 {
    assert!(i32::try_from(bytes.len()).is_ok(), "{} bytes do not fit a batch", bytes.len());
    bytes.len() as i64
}

//! Writes protocol primitives into one buffer, and lets payload through uncopied.

use bytes::{BufMut, Bytes, BytesMut};

use crate::record::varint;

/// A message under construction.
#[derive(Debug)]
pub(super) struct Writer {
    /// What was written since the last payload.
    buffer: BytesMut,
    /// Finished pieces of the frame, in order.
    pieces: Vec<Bytes>,
    /// Compact lengths and tagged fields.
    flexible: bool,
}

impl Writer {
    /// A writer for about `capacity_bytes` beside the payload, which comes in `payload_pieces`.
    pub(super) fn new(flexible: bool, capacity_bytes: usize, payload_pieces: usize) -> Writer {
        Writer {
            buffer: BytesMut::with_capacity(capacity_bytes),
            pieces: Vec::with_capacity(2 * payload_pieces + 1),
            flexible,
        }
    }

    pub(super) fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    pub(super) fn is_flexible(&self) -> bool {
        self.flexible
    }

    pub(super) fn i8(&mut self, value: i8) {
        self.buffer.put_i8(value);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.buffer.put_u8(u8::from(value));
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.buffer.put_i16(value);
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.buffer.put_u16(value);
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.buffer.put_i32(value);
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.buffer.put_i64(value);
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.buffer.put_u64(value);
    }

    pub(super) fn uuid(&mut self, value: &[u8; 16]) {
        self.buffer.put_slice(value);
    }

    pub(super) fn unsigned_varint(&mut self, value: u32) {
        varint::write_u64(&mut self.buffer, u64::from(value));
    }

    /// # Panics
    /// If the string is longer than 32 767 bytes in a version that is not flexible.
    pub(super) fn nullable_string(&mut self, value: Option<&str>) {
        let length = value.map(str::len);
        if self.flexible {
            self.compact_length(length);
        } else {
            self.buffer.put_i16(length.map_or(-1, in_15_bits));
        }
        self.buffer.put_slice(value.unwrap_or_default().as_bytes());
    }

    pub(super) fn string(&mut self, value: &str) {
        self.nullable_string(Some(value));
    }

    /// An array's length.
    pub(super) fn count(&mut self, count: usize) {
        self.length(Some(count));
    }

    /// The length of an array that may be null.
    pub(super) fn nullable_count(&mut self, count: Option<usize>) {
        self.length(count);
    }

    /// Bytes that arrive in chunks: their length here, the chunks themselves as pieces of the
    /// frame. Never null.
    pub(super) fn payload<'b>(&mut self, chunks: impl Iterator<Item = &'b Bytes> + Clone) {
        self.length(Some(chunks.clone().map(Bytes::len).sum()));
        for chunk in chunks.filter(|chunk| !chunk.is_empty()) {
            self.cut();
            self.pieces.push(chunk.clone());
        }
    }

    /// The head of a section of tagged fields; nothing in versions that have none.
    pub(super) fn tag_count(&mut self, count: usize) {
        if self.flexible {
            varint::write_u64(&mut self.buffer, count as u64);
        }
    }

    /// The head of one tagged field whose value takes `size_bytes`.
    pub(super) fn tag(&mut self, tag: u32, size_bytes: usize) {
        self.unsigned_varint(tag);
        varint::write_u64(&mut self.buffer, size_bytes as u64);
    }

    /// The buffer, for encoders of other crates.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The frame, in pieces: the head first.
    pub(super) fn into_pieces(mut self) -> Vec<Bytes> {
        self.cut();
        self.pieces
    }

    /// The frame in one piece: payload, if there is any, is copied.
    pub(super) fn into_bytes(self) -> Bytes {
        if self.pieces.is_empty() {
            return self.buffer.freeze();
        }
        Bytes::from(self.into_pieces().concat())
    }

    fn cut(&mut self) {
        if !self.buffer.is_empty() {
            self.pieces.push(self.buffer.split().freeze());
        }
    }

    /// # Panics
    /// If the length does not fit the protocol's 31 bits.
    fn length(&mut self, length: Option<usize>) {
        if self.flexible {
            self.compact_length(length);
        } else {
            self.buffer.put_i32(length.map_or(-1, in_31_bits));
        }
    }

    fn compact_length(&mut self, length: Option<usize>) {
        let length = length.map_or(0, |length| in_31_bits(length) as u64 + 1);
        varint::write_u64(&mut self.buffer, length);
    }
}

fn in_15_bits(length: usize) -> i16 {
    i16::try_from(length).unwrap_or_else(|_| panic!("a string of {length} bytes does not fit"))
}

fn in_31_bits(length: usize) -> i32 {
    i32::try_from(length).unwrap_or_else(|_| panic!("a length of {length} does not fit"))
}

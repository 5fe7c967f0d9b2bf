//! Walks the records of an uncompressed batch.

use super::batch::HEADER_BYTES;
use super::varint::{self, VarintError};
use super::{BatchError, BatchHeader, Compression, parse_batch};

/// One record, borrowed from its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta_ms: i64,
    /// The key, if there is one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, already checked.
    pub headers: Headers<'a>,
}

/// One record header. Keys may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its key (UTF-8 by convention, not checked).
    pub key: &'a [u8],
    /// Its value.
    pub value: Option<&'a [u8]>,
}

/// The headers of one record, in order; an iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

/// The records of the batch at the start of `batch`, in order. Ends after the first error:
/// [`BatchError::Record`] for bytes that break the format, a record that reaches beyond the batch,
/// fewer records than claimed, or bytes left after them; [`BatchError::Compressed`] for a
/// compressed batch. The CRC is not checked.
pub fn records(batch: &[u8]) -> Result<Records<'_>, BatchError> {
    let header = parse_batch(batch)?;
    if header.compression()? != Compression::None {
        return Err(BatchError::Compressed);
    }
    let count = usize::try_from(header.record_count).map_err(|_| BatchError::RecordCount {
        record_count: header.record_count,
        last_offset_delta: header.last_offset_delta,
    })?;
    let cursor = Cursor { rest: &batch[HEADER_BYTES..header.size_bytes] };
    Ok(Records { cursor, index: 0, count, failed: false })
}

/// Checks the records of an uncompressed produced batch: as many as claimed, offset deltas 0, 1, 2
/// …, no byte left over. Compressed batches pass unread.
pub fn validate_records(batch: &[u8], header: &BatchHeader) -> Result<(), BatchError> {
    if header.compression()? != Compression::None {
        return Ok(());
    }
    for (index, record) in records(batch)?.enumerate() {
        if record?.offset_delta as usize != index {
            return Err(BatchError::Record { index, problem: "its offset delta is out of order" });
        }
    }
    Ok(())
}

/// Iterator made by [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    cursor: Cursor<'a>,
    index: usize,
    count: usize,
    failed: bool,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let result = if self.index < self.count {
            self.cursor.record()
        } else if self.cursor.rest.is_empty() {
            return None;
        } else {
            Err("bytes are left after the last record")
        };
        let index = self.index;
        self.index += 1;
        self.failed = result.is_err();
        Some(result.map_err(|problem| BatchError::Record { index, problem }))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        // The record was walked when it was read, so this does not fail.
        self.cursor.header().ok()
    }
}

/// Bounds-checked reading; problems are told in words for [`BatchError::Record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn record(&mut self) -> Result<Record<'a>, &'static str> {
        let length = self.varint_i32()?;
        let length = usize::try_from(length).map_err(|_| "its length is negative")?;
        let body = self.take(length).ok_or("it reaches beyond the batch")?;
        let mut body = Cursor { rest: body };
        body.take(1).ok_or("it has no attributes")?;
        let timestamp_delta_ms = body.varint_i64()?;
        let offset_delta = body.varint_i32()?;
        if offset_delta < 0 {
            return Err("its offset delta is negative");
        }
        let key = body.nullable_bytes()?;
        let value = body.nullable_bytes()?;
        let headers = body.headers()?;
        if !body.rest.is_empty() {
            return Err("bytes are left inside it");
        }
        Ok(Record { offset_delta, timestamp_delta_ms, key, value, headers })
    }

    /// Walks the headers once to check them; they are read again when asked for.
    fn headers(&mut self) -> Result<Headers<'a>, &'static str> {
        let count = self.varint_i32()?;
        let left = usize::try_from(count).map_err(|_| "its header count is negative")?;
        let headers = Headers { cursor: *self, left };
        for _ in 0..left {
            self.header()?;
        }
        Ok(headers)
    }

    fn header(&mut self) -> Result<Header<'a>, &'static str> {
        let key = self.nullable_bytes()?.ok_or("a header has no key")?;
        let value = self.nullable_bytes()?;
        Ok(Header { key, value })
    }

    fn nullable_bytes(&mut self) -> Result<Option<&'a [u8]>, &'static str> {
        match self.varint_i32()? {
            -1 => Ok(None),
            length => {
                let length = usize::try_from(length).map_err(|_| "a length is negative")?;
                self.take(length).map(Some).ok_or("a length reaches beyond it")
            }
        }
    }

    fn varint_i32(&mut self) -> Result<i32, &'static str> {
        let (value, used) = varint::read_i32(self.rest).map_err(words)?;
        self.rest = &self.rest[used..];
        Ok(value)
    }

    fn varint_i64(&mut self) -> Result<i64, &'static str> {
        let (value, used) = varint::read_i64(self.rest).map_err(words)?;
        self.rest = &self.rest[used..];
        Ok(value)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }
}

fn words(error: VarintError) -> &'static str {
    match error {
        VarintError::Truncated => "it ends inside a variable-length integer",
        VarintError::TooLong => "a variable-length integer is too long",
    }
}

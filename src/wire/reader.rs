//! Bounds-checked reading of protocol primitives. Every decoder in this room stands on it.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use crate::record::varint;
use crate::types::TopicId;

use super::error::Problem;

/// Most array elements and tagged fields one message may have. A decoded element takes up to a few
/// hundred bytes however small it was on the wire; this keeps a frame of the largest allowed size
/// from becoming gigabytes, and is far above what a cluster of this product answers.
pub const ELEMENTS_MAX: usize = 1 << 18;

/// A position in a frame, and what is still allowed from there.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    frame: &'a Bytes,
    at: usize,
    end: usize,
    /// Compact lengths and tagged fields.
    flexible: bool,
    elements_left: usize,
}

type Read<T> = Result<T, Problem>;

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a Bytes) -> Reader<'a> {
        let elements_left = ELEMENTS_MAX;
        Reader { frame, at: 0, end: frame.len(), flexible: false, elements_left }
    }

    /// Where the next read starts, in bytes from the frame's start.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn left(&self) -> usize {
        self.end - self.at
    }

    /// The bytes not yet read, shared with the frame.
    pub(super) fn rest(&self) -> Bytes {
        self.frame.slice(self.at..self.end)
    }

    pub(super) fn set_flexible(&mut self, flexible: bool) {
        self.flexible = flexible;
    }

    pub(super) fn skip(&mut self, count: usize) -> Read<()> {
        self.check(count)?;
        self.at += count;
        Ok(())
    }

    pub(super) fn i8(&mut self) -> Read<i8> {
        self.array().map(i8::from_be_bytes)
    }

    pub(super) fn bool(&mut self) -> Read<bool> {
        Ok(self.i8()? != 0)
    }

    pub(super) fn i16(&mut self) -> Read<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Read<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Read<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Read<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn uuid(&mut self) -> Read<[u8; 16]> {
        self.array()
    }

    pub(super) fn topic_id(&mut self) -> Read<TopicId> {
        self.uuid().map(TopicId)
    }

    pub(super) fn unsigned_varint(&mut self) -> Read<u32> {
        let (value, used) = varint::read_u32(&self.frame[self.at..self.end])?;
        self.at += used;
        Ok(value)
    }

    /// An array's length, checked against the bytes left if each element takes at least
    /// `element_bytes_min`. `None` is a null array.
    pub(super) fn nullable_count(&mut self, element_bytes_min: usize) -> Read<Option<usize>> {
        let Some(count) = self.length(Width::Four)? else {
            return Ok(None);
        };
        if count > self.left() / element_bytes_min.max(1) {
            return Err(Problem::Count { count, left: self.left() });
        }
        Ok(Some(count))
    }

    /// Counts `elements` towards [`ELEMENTS_MAX`].
    pub(super) fn spend(&mut self, elements: usize) -> Read<()> {
        let left = self.elements_left.checked_sub(elements);
        self.elements_left = left.ok_or(Problem::TooManyElements(ELEMENTS_MAX))?;
        Ok(())
    }

    /// Reads a whole array, one `element` at a time.
    pub(super) fn array_of<T>(
        &mut self,
        element_bytes_min: usize,
        element: impl FnMut(&mut Reader<'a>) -> Read<T>,
    ) -> Read<Vec<T>> {
        self.nullable_array_of(element_bytes_min, element)?.ok_or(Problem::Null)
    }

    /// As [`Reader::array_of`] of an array that may be null.
    pub(super) fn nullable_array_of<T>(
        &mut self,
        element_bytes_min: usize,
        mut element: impl FnMut(&mut Reader<'a>) -> Read<T>,
    ) -> Read<Option<Vec<T>>> {
        let Some(count) = self.nullable_count(element_bytes_min)? else {
            return Ok(None);
        };
        self.spend(count)?;
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(Some(elements))
    }

    pub(super) fn nullable_string(&mut self) -> Read<Option<StrBytes>> {
        let Some(length) = self.length(Width::Two)? else {
            return Ok(None);
        };
        let bytes = self.take(length)?;
        StrBytes::from_utf8(bytes).map(Some).map_err(|_| Problem::NotUtf8)
    }

    pub(super) fn string(&mut self) -> Read<StrBytes> {
        self.nullable_string()?.ok_or(Problem::Null)
    }

    /// Bytes shared with the frame, not copied.
    pub(super) fn nullable_bytes(&mut self) -> Read<Option<Bytes>> {
        match self.length(Width::Four)? {
            None => Ok(None),
            Some(length) => self.take(length).map(Some),
        }
    }

    /// Skips a string, null or not, without looking at its characters.
    pub(super) fn skip_string(&mut self) -> Read<()> {
        let length = self.length(Width::Two)?;
        self.skip(length.unwrap_or(0))
    }

    /// Reads the tagged fields at the end of a struct, if the version has them. `field` gets each
    /// tag with a reader of exactly its bytes, and says whether it knew the tag: a known one must
    /// have been read to its end, any other is skipped by its size.
    pub(super) fn tags(
        &mut self,
        mut field: impl FnMut(u32, &mut Reader<'a>) -> Read<bool>,
    ) -> Read<()> {
        if !self.flexible {
            return Ok(());
        }
        for _ in 0..self.unsigned_varint()? {
            self.spend(1)?;
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            if size > self.left() {
                return Err(Problem::Truncated { wanted: size, left: self.left() });
            }
            let end = self.at + size;
            let mut inside = Reader { end, ..*self };
            let known = field(tag, &mut inside)?;
            if known {
                inside.finish()?;
            }
            self.elements_left = inside.elements_left;
            self.at = end;
        }
        Ok(())
    }

    pub(super) fn skip_tags(&mut self) -> Read<()> {
        self.tags(|_, _| Ok(false))
    }

    /// Everything has been read.
    pub(super) fn finish(&self) -> Read<()> {
        match self.left() {
            0 => Ok(()),
            left => Err(Problem::Trailing { left }),
        }
    }

    /// A length: compact in flexible versions, else of the given width. `None` is null.
    fn length(&mut self, width: Width) -> Read<Option<usize>> {
        if self.flexible {
            return Ok((self.unsigned_varint()? as usize).checked_sub(1));
        }
        let length = match width {
            Width::Two => i32::from(self.i16()?),
            Width::Four => self.i32()?,
        };
        match usize::try_from(length) {
            Ok(length) => Ok(Some(length)),
            Err(_) if length == -1 => Ok(None),
            Err(_) => Err(Problem::NegativeLength(length)),
        }
    }

    fn take(&mut self, count: usize) -> Read<Bytes> {
        self.check(count)?;
        let bytes = self.frame.slice(self.at..self.at + count);
        self.at += count;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.check(N)?;
        let mut array = [0; N];
        array.copy_from_slice(&self.frame[self.at..self.at + N]);
        self.at += N;
        Ok(array)
    }

    fn check(&self, wanted: usize) -> Read<()> {
        let left = self.left();
        if wanted <= left { Ok(()) } else { Err(Problem::Truncated { wanted, left }) }
    }
}

/// How a length is written in versions that are not flexible.
#[derive(Clone, Copy)]
enum Width {
    /// Strings.
    Two,
    /// Bytes and arrays.
    Four,
}

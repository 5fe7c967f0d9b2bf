//! Frames: four bytes of big-endian length, then that many bytes. Cuts them out of what arrives and
//! queues them for sending; never looks inside one.
//!
//! Hot path: one allocation per read buffer (which holds many small frames), none per frame cut out
//! of it, none per queued frame but for a buffer of length prefixes now and then.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem::MaybeUninit;

use bytes::{Buf, BufMut, Bytes, BytesMut};

const LENGTH_BYTES: usize = 4;
/// First size of a read buffer: loopback hands over up to a segment of 64 KiB at once.
const CHUNK_BYTES_MIN: usize = 64 * 1024;
/// Largest read buffer taken on the word of a length prefix alone.
const CHUNK_BYTES_MAX: usize = 1024 * 1024;
/// Between frames a buffer is used on while it has this much room left: frames that are kept would
/// otherwise each hold a whole buffer in memory.
const ROOM_BYTES_MIN: usize = 4 * 1024;
/// Length prefixes are cut out of buffers of this size.
const PREFIX_CHUNK_BYTES: usize = 4 * 1024;

/// Cuts whole frames out of a byte stream without copying them.
#[derive(Debug)]
pub struct FrameReader {
    buffer: BytesMut,
    frame_bytes_max: usize,
    /// Size of the next read buffer; follows the largest frame seen, so that a connection with
    /// large frames does not move each of them while it grows.
    chunk_bytes: usize,
}

impl FrameReader {
    /// A reader that refuses frames longer than `frame_bytes_max`.
    pub fn new(frame_bytes_max: usize) -> FrameReader {
        FrameReader { buffer: BytesMut::new(), frame_bytes_max, chunk_bytes: CHUNK_BYTES_MIN }
    }

    /// Room to read into, never empty: what the frame begun still lacks, but no more than 1 MiB or
    /// what arrived so far; between frames 4 KiB to 1 MiB. Its address holds until the next call of
    /// a method of this reader.
    pub fn spare(&mut self) -> &mut [MaybeUninit<u8>] {
        let needed = match self.begun_frame_bytes() {
            Some(frame) => (frame - self.buffer.len()).min(CHUNK_BYTES_MAX.max(self.buffer.len())),
            None => ROOM_BYTES_MIN,
        };
        if self.buffer.capacity() - self.buffer.len() < needed {
            self.buffer.reserve(needed.max(self.chunk_bytes.saturating_sub(self.buffer.len())));
        }
        self.buffer.spare_capacity_mut()
    }

    /// Takes in the first `length` bytes of [`FrameReader::spare`].
    ///
    /// # Safety
    /// Those bytes must have been written since `spare` was called, with no other call between.
    pub unsafe fn received(&mut self, length: usize) {
        // SAFETY: the caller has initialised the bytes; `advance_mut` checks that they fit.
        unsafe { self.buffer.advance_mut(length) };
    }

    /// Takes in a copy of `bytes`.
    pub fn extend(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.spare().len().min(bytes.len());
            let (now, later) = bytes.split_at(room);
            self.buffer.put_slice(now);
            bytes = later;
        }
    }

    /// The next whole frame without its length; `Ok(None)` until more bytes arrive. The error is
    /// the frame length received that is negative or above the limit; the stream is unusable then.
    pub fn next_frame(&mut self) -> Result<Option<BytesMut>, i32> {
        let Some(prefix) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = i32::from_be_bytes(*prefix);
        let frame_bytes = usize::try_from(length).map_err(|_| length)?;
        if frame_bytes > self.frame_bytes_max {
            return Err(length);
        }
        if self.buffer.len() - LENGTH_BYTES < frame_bytes {
            return Ok(None);
        }
        self.chunk_bytes =
            self.chunk_bytes.max((frame_bytes + ROOM_BYTES_MIN).min(CHUNK_BYTES_MAX));
        self.buffer.advance(LENGTH_BYTES);
        Ok(Some(self.buffer.split_to(frame_bytes)))
    }

    /// Whether a frame has begun and not ended, once [`FrameReader::next_frame`] gave `Ok(None)`.
    pub fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Size with prefix of the frame begun; `None` while its length is unknown or not acceptable.
    fn begun_frame_bytes(&self) -> Option<usize> {
        let prefix = self.buffer.first_chunk::<LENGTH_BYTES>()?;
        let frame_bytes = usize::try_from(i32::from_be_bytes(*prefix)).ok()?;
        let begun = frame_bytes + LENGTH_BYTES > self.buffer.len();
        (begun && frame_bytes <= self.frame_bytes_max).then_some(frame_bytes + LENGTH_BYTES)
    }
}

/// Frames on their way out of one connection.
///
/// The bytes of a queued piece do not move until [`SendQueue::advance`] has passed them or the
/// queue is cleared.
#[derive(Debug, Default)]
pub struct SendQueue {
    pieces: VecDeque<Bytes>,
    bytes: usize,
    prefixes: BytesMut,
}

impl SendQueue {
    /// An empty queue.
    pub fn new() -> SendQueue {
        SendQueue::default()
    }

    /// Queues one frame: its length, `head`, then `payload` in order.
    ///
    /// # Panics
    /// When the frame is longer than `i32::MAX` bytes.
    pub fn push_frame(&mut self, head: Bytes, payload: &[Bytes]) {
        let frame_bytes = head.len() + payload.iter().map(Bytes::len).sum::<usize>();
        let prefix = self.prefix(frame_bytes);
        self.push(prefix);
        self.push(head);
        payload.iter().for_each(|piece| self.push(piece.clone()));
    }

    /// Points `slices` at the queued bytes from the front on; returns how many slices are set.
    pub fn io_slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let count = self.pieces.len().min(slices.len());
        for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
            *slice = IoSlice::new(piece);
        }
        count
    }

    /// Takes the first `length` bytes off the queue.
    ///
    /// # Panics
    /// When fewer are queued.
    pub fn advance(&mut self, length: usize) {
        assert!(length <= self.bytes, "{length} bytes sent, {} queued", self.bytes);
        self.bytes -= length;
        let mut rest = length;
        while let Some(front) = self.pieces.front_mut()
            && rest > 0
        {
            if rest < front.len() {
                front.advance(rest);
                return;
            }
            rest -= front.len();
            self.pieces.pop_front();
        }
    }

    /// Bytes queued, length prefixes included.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Drops what is queued.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
    }

    fn push(&mut self, piece: Bytes) {
        if !piece.is_empty() {
            self.bytes += piece.len();
            self.pieces.push_back(piece);
        }
    }

    fn prefix(&mut self, frame_bytes: usize) -> Bytes {
        let length = i32::try_from(frame_bytes).ok();
        let length = length.unwrap_or_else(|| panic!("a frame of {frame_bytes} bytes"));
        if self.prefixes.capacity() < LENGTH_BYTES {
            self.prefixes.reserve(PREFIX_CHUNK_BYTES);
        }
        self.prefixes.put_i32(length);
        self.prefixes.split().freeze()
    }
}

#[cfg(test)]
mod tests;

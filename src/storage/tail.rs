//! The recent end of a log in memory: the source of every write and of most reads.
//!
//! A ring of chunks. Each chunk mirrors one contiguous range of one segment file byte for byte, so
//! a commit group is a range of a chunk and a read is a few views; nothing is copied after the
//! append. In the direct modes a group is padded with zeros to the block when it is cut: the next
//! batch starts in the next block, and no block that went to disk is written again.
//!
//! Hot path: no allocation per record. Chunks and their lists are used again once no view of them
//! is alive.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::config::node::LogConfig;
use crate::types::Offset;

use super::aligned::Chunk;
use super::device::{align_up, memory_alignment};

/// Large enough that cutting a commit group at a chunk's end costs nothing (a 1 MiB write takes
/// over twice as long as a 64 KiB one, spec/io.md section 2).
const CHUNK_BYTES_MAX: usize = 1 << 20;
const CHUNK_BYTES_MIN: usize = 64 << 10;

/// Dropped chunks kept for reuse: views outlive the drop by one socket write or so.
const RETIRED_CHUNKS_MAX: usize = 2;

/// One batch in a chunk.
#[derive(Clone, Copy, Debug)]
struct Batch {
    base_offset: Offset,
    end_offset: Offset,
    /// First byte in the chunk.
    start: u32,
    length: u32,
}

impl Batch {
    fn end(&self) -> usize {
        self.start as usize + self.length as usize
    }
}

#[derive(Debug)]
struct TailChunk {
    memory: Chunk,
    /// Base offset of the segment the bytes belong to.
    segment: Offset,
    /// Where the chunk's first byte goes in that segment.
    file_position: u64,
    /// Offset of the first batch, there or to come.
    base_offset: Offset,
    batches: Vec<Batch>,
}

impl TailChunk {
    fn end_offset(&self) -> Offset {
        self.batches.last().map_or(self.base_offset, |batch| batch.end_offset)
    }

    fn batches_end(&self) -> usize {
        self.batches.last().map_or(0, Batch::end)
    }
}

/// One commit group: a contiguous range of one chunk, ready to be written.
#[derive(Debug)]
pub(super) struct GroupBytes {
    /// Base offset of the segment it belongs to.
    pub(super) segment: Offset,
    /// Where it goes in the segment.
    pub(super) position: u64,
    /// The batches and, in the direct modes, the padding.
    pub(super) data: Bytes,
    /// Bytes of batches in `data`.
    pub(super) payload_bytes: usize,
    /// Offset after the group's last batch.
    pub(super) end_offset: Offset,
}

/// Where the next commit group begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    /// Counted from the log's opening.
    chunk: u64,
    byte: usize,
}

/// The ring. Invariant: the last chunk is the one appended to, so there is always one.
#[derive(Debug)]
pub(super) struct Tail {
    chunks: VecDeque<TailChunk>,
    /// Number of the first chunk.
    first_chunk: u64,
    unissued: Cursor,
    retired: Vec<TailChunk>,
    chunk_bytes: usize,
    memory_bytes_max: usize,
    block_bytes: usize,
}

impl Tail {
    /// An empty tail; the first append goes to `position`, a multiple of `block_bytes`.
    pub(super) fn new(config: &LogConfig, block_bytes: usize, start: Place) -> Tail {
        let chunk_bytes = (config.memory_bytes / 4).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        let mut tail = Tail {
            chunks: VecDeque::new(),
            first_chunk: 0,
            unissued: Cursor { chunk: 0, byte: 0 },
            retired: Vec::new(),
            chunk_bytes: chunk_bytes.next_multiple_of(memory_alignment(block_bytes)),
            memory_bytes_max: config.memory_bytes,
            block_bytes,
        };
        tail.start_chunk(start, 0);
        tail
    }

    /// First offset that may be served from memory.
    pub(super) fn start_offset(&self) -> Offset {
        self.chunks.front().map_or(Offset::ZERO, |chunk| chunk.base_offset)
    }

    /// The segment and position up to which disk holds what memory does not.
    pub(super) fn start_place(&self) -> Option<(Offset, u64)> {
        self.chunks.front().map(|chunk| (chunk.segment, chunk.file_position))
    }

    /// Where the next batch goes if it goes into the present chunk.
    pub(super) fn append_position(&self) -> u64 {
        let chunk = self.active();
        chunk.file_position + chunk.memory.filled() as u64
    }

    /// Where the next batch goes if it starts a chunk.
    pub(super) fn next_chunk_position(&self) -> u64 {
        align_up(self.append_position(), self.block_bytes)
    }

    /// Whether the present chunk takes `length` more bytes.
    pub(super) fn has_room(&self, length: usize) -> bool {
        let memory = &self.active().memory;
        length <= memory.capacity() - memory.filled()
    }

    /// Ends the present chunk; batches go to `place` from now on. The chunk holds at least
    /// `length` bytes.
    pub(super) fn start_chunk(&mut self, place: Place, length: usize) {
        let mut chunk = self.take_chunk(length);
        chunk.segment = place.segment;
        chunk.file_position = place.position;
        chunk.base_offset = place.offset;
        self.chunks.push_back(chunk);
    }

    /// Copies a batch in; `edit` may change the copy.
    ///
    /// # Panics
    /// If there is no room: see [`Tail::has_room`].
    pub(super) fn append(
        &mut self,
        batch: &[u8],
        base_offset: Offset,
        end_offset: Offset,
        edit: impl FnOnce(&mut [u8]),
    ) {
        let chunk = self.active_mut();
        let range = chunk.memory.append(batch, edit);
        chunk.batches.push(Batch {
            base_offset,
            end_offset,
            start: range.start as u32,
            length: range.len() as u32,
        });
    }

    /// Cuts everything not yet issued, up to the end of a chunk, as the next commit group.
    pub(super) fn next_group(&mut self) -> Option<GroupBytes> {
        let number = self.skips_to_unissued()?;
        if number != self.unissued.chunk {
            self.unissued = Cursor { chunk: number, byte: 0 };
        }
        let block_bytes = self.block_bytes;
        let start = self.unissued.byte;
        let chunk = &mut self.chunks[(number - self.first_chunk) as usize];
        let payload_end = chunk.memory.filled();
        let end = payload_end.next_multiple_of(block_bytes);
        chunk.memory.pad_to(end);
        let group = GroupBytes {
            segment: chunk.segment,
            position: chunk.file_position + start as u64,
            data: chunk.memory.view(start..end),
            payload_bytes: payload_end - start,
            end_offset: chunk.end_offset(),
        };
        self.unissued.byte = end;
        Some(group)
    }

    /// Everything below was cut into commit groups.
    pub(super) fn issued_offset(&self) -> Offset {
        let chunk = &self.chunks[(self.unissued.chunk - self.first_chunk) as usize];
        let issued = chunk.batches.partition_point(|batch| batch.end() <= self.unissued.byte);
        match issued.checked_sub(1) {
            Some(last) => chunk.batches[last].end_offset,
            None => chunk.base_offset,
        }
    }

    /// Drops the oldest chunks above the memory limit whose batches are durable.
    pub(super) fn trim(&mut self, durable_offset: Offset) {
        let mut held: usize = self.chunks.iter().map(|chunk| chunk.memory.capacity()).sum();
        while held > self.memory_bytes_max && self.chunks.len() > 1 {
            let chunk = &self.chunks[0];
            if chunk.end_offset() > durable_offset || !self.is_issued(self.first_chunk) {
                return;
            }
            held -= chunk.memory.capacity();
            if self.unissued.chunk == self.first_chunk {
                self.unissued = Cursor { chunk: self.first_chunk + 1, byte: 0 };
            }
            self.first_chunk += 1;
            if let Some(chunk) = self.chunks.pop_front() {
                self.retire(chunk);
            }
        }
    }

    /// Pushes the batches from the one with offset `from`, whole ones, none past `until`; one at
    /// least, then no more than `bytes_max`. `from` is not below [`Tail::start_offset`]. Gives the
    /// offset after the last and the bytes.
    pub(super) fn read(
        &self,
        from: Offset,
        until: Offset,
        bytes_max: usize,
        out: &mut Vec<Bytes>,
    ) -> (Offset, usize) {
        let mut end_offset = from;
        let mut total = 0;
        let first = self.chunks.partition_point(|chunk| chunk.end_offset() <= from);
        for chunk in self.chunks.range(first..) {
            let first = chunk.batches.partition_point(|batch| batch.end_offset <= from);
            let mut run = 0..0;
            let mut is_full = false;
            for batch in &chunk.batches[first..] {
                let length = batch.length as usize;
                is_full = batch.end_offset > until || (total > 0 && total + length > bytes_max);
                if is_full {
                    break;
                }
                if batch.start as usize != run.end {
                    push_run(chunk, &mut run, out);
                    run.start = batch.start as usize;
                }
                run.end = batch.end();
                total += length;
                end_offset = batch.end_offset;
            }
            push_run(chunk, &mut run, out);
            if is_full {
                break;
            }
        }
        (end_offset, total)
    }

    /// The batch boundary at or before `to` and where it is on disk. `None` if memory does not
    /// reach back to it.
    pub(super) fn boundary(&self, to: Offset) -> Option<Place> {
        let at = self.chunks.partition_point(|chunk| chunk.end_offset() <= to);
        let chunk = self.chunks.get(at)?;
        let batch = chunk.batches.get(chunk.batches.partition_point(|b| b.end_offset <= to))?;
        (self.start_offset() <= to).then_some(Place {
            segment: chunk.segment,
            position: chunk.file_position + u64::from(batch.start),
            offset: batch.base_offset,
        })
    }

    /// Forgets the batches from `boundary` on, as found by [`Tail::boundary`].
    pub(super) fn truncate(&mut self, boundary: Place) {
        while self.chunks.len() > 1 && self.active().base_offset > boundary.offset {
            self.chunks.pop_back();
        }
        let chunk = self.active_mut();
        let kept = chunk.batches.partition_point(|batch| batch.base_offset < boundary.offset);
        chunk.batches.truncate(kept);
        self.restart_after_kept(boundary);
    }

    /// Begins a new chunk behind the batches kept in the last one. What of them is not issued yet
    /// is copied there: in the old place it would be padded with the batches cut off.
    fn restart_after_kept(&mut self, boundary: Place) {
        let number = self.first_chunk + self.chunks.len() as u64 - 1;
        let kept_end = self.active().batches_end();
        let issued = match self.unissued.chunk.cmp(&number) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => self.unissued.byte.min(kept_end),
            std::cmp::Ordering::Greater => kept_end,
        };
        let Some(mut old) = self.chunks.pop_back() else { return };
        let first_moved = old.batches.partition_point(|batch| batch.end() <= issued);
        let moved = old.batches.split_off(first_moved);
        let position = match moved.first() {
            Some(batch) => old.file_position + u64::from(batch.start),
            None => align_up(boundary.position, self.block_bytes),
        };
        let offset = moved.first().map_or(boundary.offset, |batch| batch.base_offset);
        let is_old_kept = !old.batches.is_empty();
        let bytes = old.memory.view(issued.min(kept_end)..kept_end);
        let segment = old.segment;
        if is_old_kept {
            self.chunks.push_back(old);
        }
        self.start_chunk(Place { segment, position, offset }, bytes.len());
        for batch in moved {
            let start = batch.start as usize - issued;
            let copy = &bytes[start..start + batch.length as usize];
            self.append(copy, batch.base_offset, batch.end_offset, |_| ());
        }
        let new = self.first_chunk + self.chunks.len() as u64 - 1;
        if self.unissued.chunk >= number {
            self.unissued = Cursor { chunk: new, byte: 0 };
        }
    }

    /// Forgets everything; the next append goes to `start`.
    pub(super) fn reset(&mut self, start: Place) {
        self.first_chunk += self.chunks.len() as u64;
        while let Some(chunk) = self.chunks.pop_front() {
            self.retire(chunk);
        }
        self.unissued = Cursor { chunk: self.first_chunk, byte: 0 };
        self.start_chunk(start, 0);
    }

    /// Bytes of batches that wait to be written.
    pub(super) fn unissued_bytes(&self) -> usize {
        let numbered = (self.first_chunk..).zip(&self.chunks);
        let unissued = numbered.map(|(number, chunk)| match number.cmp(&self.unissued.chunk) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => chunk.batches_end().saturating_sub(self.unissued.byte),
            std::cmp::Ordering::Greater => chunk.batches_end(),
        });
        unissued.sum()
    }

    /// The first chunk from the cursor on with something to issue.
    fn skips_to_unissued(&self) -> Option<u64> {
        let end = self.first_chunk + self.chunks.len() as u64;
        (self.unissued.chunk..end).find(|number| !self.is_issued(*number))
    }

    fn is_issued(&self, number: u64) -> bool {
        let filled = self.chunks[(number - self.first_chunk) as usize].memory.filled();
        match number.cmp(&self.unissued.chunk) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => filled <= self.unissued.byte,
            std::cmp::Ordering::Greater => filled == 0,
        }
    }

    fn active(&self) -> &TailChunk {
        &self.chunks[self.chunks.len() - 1]
    }

    fn active_mut(&mut self) -> &mut TailChunk {
        let last = self.chunks.len() - 1;
        &mut self.chunks[last]
    }

    /// A dropped chunk nobody looks at any more, or a new one.
    fn take_chunk(&mut self, length: usize) -> TailChunk {
        if length <= self.chunk_bytes
            && let Some(at) = self.retired.iter_mut().position(|chunk| chunk.memory.recycle())
        {
            let mut chunk = self.retired.swap_remove(at);
            chunk.batches.clear();
            return chunk;
        }
        let alignment = memory_alignment(self.block_bytes);
        let capacity = length.max(self.chunk_bytes).next_multiple_of(alignment);
        TailChunk {
            memory: Chunk::allocate(capacity, alignment),
            segment: Offset::ZERO,
            file_position: 0,
            base_offset: Offset::ZERO,
            batches: Vec::new(),
        }
    }

    fn retire(&mut self, chunk: TailChunk) {
        let is_common = chunk.memory.capacity() == self.chunk_bytes;
        if is_common && self.retired.len() < RETIRED_CHUNKS_MAX {
            self.retired.push(chunk);
        }
    }
}

/// A point of a log: an offset and where its batch starts on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Base offset of the segment.
    pub(super) segment: Offset,
    /// Byte in the segment.
    pub(super) position: u64,
    /// Base offset of the batch there, or the log end offset.
    pub(super) offset: Offset,
}

fn push_run(chunk: &TailChunk, run: &mut std::ops::Range<usize>, out: &mut Vec<Bytes>) {
    if run.start < run.end {
        out.push(chunk.memory.view(run.clone()));
    }
    *run = 0..0;
}

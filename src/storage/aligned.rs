//! Append-only memory whose filled part can be shared without a copy.
//!
//! Owns the only `unsafe` of this room. Leaves to others what the bytes mean and where they go.
//!
//! Why this is sound, in one place. A [`Chunk`] is the only writer of its allocation and is not
//! `Clone`. It writes at and above `filled` only, then raises `filled`. A [`View`] covers a range
//! that was below `filled` when the view was made and only reads. Bytes below `filled` are never
//! written again: `filled` goes back to 0 only in [`Chunk::recycle`], which first proves (by
//! `Arc::get_mut`, an acquiring load) that no view is alive. Slices are made for exactly the range
//! that is read or written, so a writer's `&mut [u8]` and a reader's `&[u8]` never overlap, on
//! whatever threads they live. The allocation is zeroed at birth, so every byte is initialised.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use bytes::Bytes;

/// Alignment of every chunk's memory: a page, and at least any block size met in practice.
pub(super) const MEMORY_ALIGNMENT_BYTES: usize = 4096;

/// One allocation; freed with its last owner.
#[derive(Debug)]
struct Memory {
    /// Start of `layout.size()` initialised bytes.
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the allocation belongs to no thread, and the module's rule keeps readers and the one
// writer on disjoint ranges.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`: through a shared `Memory` only `View` reads, and only below `filled`.
unsafe impl Sync for Memory {}

impl Memory {
    fn allocate(capacity: usize, alignment: usize) -> Memory {
        assert!(capacity > 0, "an empty chunk holds nothing");
        let layout = Layout::from_size_align(capacity, alignment)
            .unwrap_or_else(|_| panic!("chunk of {capacity} bytes aligned to {alignment}"));
        // SAFETY: the layout's size is not zero, as asserted.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Memory { start, layout },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this layout, and the last owner is here.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// A reader's hold on a filled range.
struct View {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the range was below the chunk's `filled` at birth (`Chunk::view` asserts it), so
        // it lies in the allocation and nobody writes to it while this view keeps the memory.
        unsafe {
            let start = self.memory.start.as_ptr().add(self.range.start);
            std::slice::from_raw_parts(start, self.range.len())
        }
    }
}

/// The only writer of one allocation.
///
/// Invariant: `filled <= capacity`; bytes below `filled` do not change while a view is alive.
#[derive(Debug)]
pub(super) struct Chunk {
    memory: Arc<Memory>,
    filled: usize,
}

impl Chunk {
    /// An empty chunk. `alignment` is a power of two; it holds for the memory's start.
    pub(super) fn allocate(capacity: usize, alignment: usize) -> Chunk {
        Chunk { memory: Arc::new(Memory::allocate(capacity, alignment)), filled: 0 }
    }

    /// Bytes it can hold.
    pub(super) fn capacity(&self) -> usize {
        self.memory.layout.size()
    }

    /// Bytes it holds: all that views may cover.
    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    /// Copies `bytes` behind what is there, lets `edit` change the copy, and gives its range.
    ///
    /// # Panics
    /// If they do not fit.
    pub(super) fn append(&mut self, bytes: &[u8], edit: impl FnOnce(&mut [u8])) -> Range<usize> {
        let range = self.filled..self.filled + bytes.len();
        let target = self.unfilled(bytes.len());
        target.copy_from_slice(bytes);
        edit(target);
        self.filled = range.end;
        range
    }

    /// Fills with zeros up to `end`; nothing if that is filled already.
    ///
    /// # Panics
    /// If `end` is above the capacity.
    pub(super) fn pad_to(&mut self, end: usize) {
        let missing = end.saturating_sub(self.filled);
        self.unfilled(missing).fill(0);
        self.filled += missing;
    }

    /// The filled `range`, shared without a copy.
    ///
    /// # Panics
    /// If the range is not filled.
    pub(super) fn view(&self, range: Range<usize>) -> Bytes {
        assert!(range.start <= range.end && range.end <= self.filled, "{range:?} is not filled");
        Bytes::from_owner(View { memory: Arc::clone(&self.memory), range })
    }

    /// Empties the chunk if no view of it is alive; says whether it did.
    pub(super) fn recycle(&mut self) -> bool {
        let unshared = Arc::get_mut(&mut self.memory).is_some();
        if unshared {
            self.filled = 0;
        }
        unshared
    }

    /// The next `length` bytes above `filled`.
    fn unfilled(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.capacity() - self.filled, "{length} bytes do not fit the chunk");
        // SAFETY: the range lies in the allocation, as asserted. It is above `filled`, so no view
        // covers it, and `&mut self` keeps the only writer busy while the slice lives.
        unsafe {
            let start = self.memory.start.as_ptr().add(self.filled);
            std::slice::from_raw_parts_mut(start, length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_keep_their_bytes_while_the_chunk_grows_and_moves_between_threads() {
        let mut chunk = Chunk::allocate(8192, MEMORY_ALIGNMENT_BYTES);
        let first = chunk.append(b"abc", |bytes| bytes[0] = b'x');
        let view = chunk.view(first);
        let reader = std::thread::spawn(move || view.iter().map(|b| u64::from(*b)).sum::<u64>());
        chunk.append(&[7; 4000], |_| ());
        assert_eq!(reader.join().expect("reader"), u64::from(b'x') + 98 + 99);
        assert_eq!(&chunk.view(0..4)[..], b"xbc\x07");
    }

    #[test]
    fn memory_is_aligned_and_padding_is_zero_after_recycling() {
        let mut chunk = Chunk::allocate(16384, 8192);
        let range = chunk.append(&[1; 100], |_| ());
        let view = chunk.view(range);
        assert_eq!(view.as_ptr() as usize % 8192, 0);
        assert!(!chunk.recycle(), "a view is alive");
        drop(view);
        assert!(chunk.recycle());
        chunk.append(&[2; 10], |_| ());
        chunk.pad_to(512);
        chunk.pad_to(100);
        let bytes = chunk.view(0..512);
        assert!(bytes[..10].iter().all(|b| *b == 2) && bytes[10..].iter().all(|b| *b == 0));
    }

    #[test]
    #[should_panic(expected = "not filled")]
    fn a_view_of_unfilled_bytes_is_refused() {
        Chunk::allocate(4096, MEMORY_ALIGNMENT_BYTES).view(0..1);
    }
}

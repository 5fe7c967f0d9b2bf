//! Looks at what lies behind the last good batch of a segment: nothing, a torn tail, or a hole.

use crate::record::{BatchHeader, HEADER_BYTES, check_crc, parse_batch};
use crate::types::Offset;

use super::StorageError;
use super::scan::Window;
use super::segment::PIECE_BYTES;

/// Where a batch header keeps its magic, and the one magic there is: what candidates are found by.
const MAGIC_AT: usize = 16;
const MAGIC: u8 = 2;

/// A batch behind a hole continues the same log, so it is not further on than this.
const OFFSETS_AHEAD_MAX: i64 = 1 << 31;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// Byte after the last that is not zero; where the look began if all are.
    pub(super) nonzero_end: u64,
    /// A whole batch with a good CRC and an offset at or past the expected one is among it.
    pub(super) has_batch: bool,
}

/// Looks from byte `from` to the end of the file; `expected` is the offset that would come next.
pub(super) fn examine_rest(
    window: &mut Window<'_>,
    from: u64,
    expected: Offset,
) -> Result<Rest, StorageError> {
    let mut rest = Rest { nonzero_end: from, has_batch: false };
    let mut at = from;
    while at < window.length() {
        let piece = window.piece(at, PIECE_BYTES)?;
        let length = piece.len() as u64;
        if let Some(last) = piece.iter().rposition(|byte| *byte != 0) {
            rest.nonzero_end = at + last as u64 + 1;
            let magics = magics(piece);
            rest.has_batch = rest.has_batch || any_batch(window, at, from, &magics, expected)?;
        }
        at += length;
    }
    Ok(rest)
}

/// Positions in `piece` that hold the magic's value.
fn magics(piece: &[u8]) -> Vec<usize> {
    let found = piece.iter().enumerate().filter(|(_, byte)| **byte == MAGIC);
    found.map(|(at, _)| at).collect()
}

fn any_batch(
    window: &mut Window<'_>,
    piece_at: u64,
    from: u64,
    magics: &[usize],
    expected: Offset,
) -> Result<bool, StorageError> {
    for magic in magics {
        let Some(start) = (piece_at + *magic as u64).checked_sub(MAGIC_AT as u64) else { continue };
        if start >= from && is_batch(window, start, expected)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_batch(window: &mut Window<'_>, start: u64, expected: Offset) -> Result<bool, StorageError> {
    let head = window.bytes(start, HEADER_BYTES)?;
    let Some(size) = declared_size(head, expected) else { return Ok(false) };
    if start + size as u64 > window.length() {
        return Ok(false);
    }
    let bytes = window.bytes(start, size)?;
    let header = parse_batch(bytes);
    Ok(header.is_ok_and(|header| is_plausible(&header) && check_crc(bytes, &header).is_ok()))
}

/// The size a candidate claims, if its offset could be that of a batch of this log.
fn declared_size(head: &[u8], expected: Offset) -> Option<usize> {
    let (offset, rest) = head.split_first_chunk::<8>()?;
    let (length, _) = rest.split_first_chunk::<4>()?;
    let ahead = i64::from_be_bytes(*offset).checked_sub(expected.0)?;
    let size = usize::try_from(i32::from_be_bytes(*length)).ok()? + 12;
    ((0..OFFSETS_AHEAD_MAX).contains(&ahead) && size >= HEADER_BYTES).then_some(size)
}

fn is_plausible(header: &BatchHeader) -> bool {
    header.last_offset_delta >= 0 && header.record_count > 0
}

//! Walks the batches of a log read or a fetch answer.

use std::ops::Range;

use super::batch::{LENGTH_PREFIX_BYTES, declared_bytes};
use super::{BatchError, BatchHeader, parse_batch};

/// The batches in `bytes`, each with its byte range. Ends cleanly where the last batch is cut off,
/// as fetch answers may be; ends after the first error. CRCs are not checked: see `check_crc`.
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { bytes, at: 0 }
}

/// Iterator made by [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    /// Start of the next batch; the length of `bytes` once the walk is over.
    at: usize,
}

impl Iterator for Batches<'_> {
    type Item = Result<(BatchHeader, Range<usize>), BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = &self.bytes[self.at..];
        if is_cut_off(rest) {
            self.at = self.bytes.len();
            return None;
        }
        Some(match parse_batch(rest).and_then(check_progress) {
            Ok(header) => {
                let range = self.at..self.at + header.size_bytes;
                self.at = range.end;
                Ok((header, range))
            }
            Err(error) => {
                self.at = self.bytes.len();
                Err(error)
            }
        })
    }
}

/// Whether `rest` holds no whole batch because its end is missing.
fn is_cut_off(rest: &[u8]) -> bool {
    rest.len() < LENGTH_PREFIX_BYTES || declared_bytes(rest) > rest.len() as i64
}

/// A reader that trusts a negative delta would step back and fetch the same batch for ever.
fn check_progress(header: BatchHeader) -> Result<BatchHeader, BatchError> {
    if header.last_offset_delta < 0 || header.record_count < 0 {
        return Err(BatchError::RecordCount {
            record_count: header.record_count,
            last_offset_delta: header.last_offset_delta,
        });
    }
    Ok(header)
}

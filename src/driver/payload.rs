//! What is in a record: made from the seed and the record's number, so that a reader can tell any
//! record it meets, and whether a byte of it changed.
//!
//! A value is a header of [`HEADER_BYTES`] and a body:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | sequence: the record's number within its cell, little-endian |
//! | 8..16 | seed: which cell's record this is |
//! | 16..24 | intended send time, nanoseconds of the driver's clock |
//! | 24..28 | length of the value |
//! | 28..32 | CRC-32C of bytes 0..28 |
//! | 32.. | body: incompressible bytes from (seed, sequence), then zeros |
//!
//! Bodies come from a generator instead of a pool: nothing repeats, whatever the window of a
//! compressing or deduplicating device (spec/measurement.md M35), and nothing needs warming.
//!
//! Hot path: no allocation.

use crate::types::MonotonicTime;

/// Bytes of the header; no value can be shorter.
pub const HEADER_BYTES: usize = 32;

/// Odd constants with about as many ones as zeros, to spread counters over 64 bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_A: u64 = 0xa076_1d64_78bd_642f;
const MIX_B: u64 = 0xe703_7ed1_a0b4_28db;

/// What a record's header says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHeader {
    /// The record's number within its cell.
    pub sequence: u64,
    /// Which cell's record it is.
    pub seed: u64,
    /// When it should have been sent.
    pub intended: MonotonicTime,
}

/// Why a value is not one of ours, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// Too short, another length than written, or a header that fails its checksum.
    #[error("header is damaged")]
    Header,
    /// The header is sound, the body is not what (seed, sequence) give.
    #[error("body is damaged")]
    Body,
}

/// Makes and checks the values of one cell.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    seed: u64,
    value_bytes: usize,
    random_end: usize,
}

impl Payload {
    /// Values of `value_bytes` (at least [`HEADER_BYTES`]) with this fraction (0 to 1) of the body
    /// zero, at its end.
    pub fn new(seed: u64, value_bytes: usize, compressible: f64) -> Payload {
        assert!(value_bytes >= HEADER_BYTES, "{value_bytes} bytes do not hold a header");
        let body_bytes = value_bytes - HEADER_BYTES;
        let zeros = (body_bytes as f64 * compressible.clamp(0.0, 1.0)).round() as usize;
        Payload { seed, value_bytes, random_end: value_bytes - zeros.min(body_bytes) }
    }

    /// Length of every value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Writes record `sequence` into `value`, which is [`Payload::value_bytes`] long.
    pub fn write(&self, sequence: u64, intended: MonotonicTime, value: &mut [u8]) {
        assert_eq!(value.len(), self.value_bytes, "the value's length is the cell's");
        value[0..8].copy_from_slice(&sequence.to_le_bytes());
        value[8..16].copy_from_slice(&self.seed.to_le_bytes());
        value[16..24].copy_from_slice(&intended.0.to_le_bytes());
        value[24..28].copy_from_slice(&(self.value_bytes as u32).to_le_bytes());
        let checksum = crc32c::crc32c(&value[0..28]);
        value[28..32].copy_from_slice(&checksum.to_le_bytes());
        for (index, chunk) in value[HEADER_BYTES..self.random_end].chunks_mut(8).enumerate() {
            chunk.copy_from_slice(&self.word(sequence, index)[..chunk.len()]);
        }
        value[self.random_end..].fill(0);
    }

    /// Checks every byte of a value read back.
    ///
    /// Errors: [`PayloadError`]. A sound record of another cell is no error: compare the seed.
    pub fn check(&self, value: &[u8]) -> Result<PayloadHeader, PayloadError> {
        let header = parse_header(value)?;
        if header.seed != self.seed {
            return Ok(header);
        }
        if value.len() != self.value_bytes {
            return Err(PayloadError::Header);
        }
        let mut random = value[HEADER_BYTES..self.random_end].chunks(8).enumerate();
        let sound = random
            .all(|(index, chunk)| self.word(header.sequence, index)[..chunk.len()] == *chunk)
            && value[self.random_end..].iter().all(|byte| *byte == 0);
        if sound { Ok(header) } else { Err(PayloadError::Body) }
    }

    /// Eight bytes of a body: both halves of a 128-bit product, folded.
    #[inline]
    fn word(&self, sequence: u64, index: usize) -> [u8; 8] {
        let record = (self.seed ^ MIX_B).wrapping_add(sequence.wrapping_mul(SPREAD));
        let counter = (index as u64 + 1).wrapping_mul(SPREAD);
        let product = u128::from(record.rotate_left(32) ^ counter ^ MIX_A)
            * u128::from(record ^ counter.rotate_left(17) ^ MIX_B);
        ((product >> 64) as u64 ^ product as u64).to_le_bytes()
    }
}

/// Reads a value's header without looking at its body: all a consumer needs for its latency.
///
/// Errors: [`PayloadError::Header`].
pub fn parse_header(value: &[u8]) -> Result<PayloadHeader, PayloadError> {
    let (header, _) = value.split_first_chunk::<HEADER_BYTES>().ok_or(PayloadError::Header)?;
    let word = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[from..from + 8]);
        u64::from_le_bytes(bytes)
    };
    let length_and_crc = word(24);
    if crc32c::crc32c(&header[0..28]) != (length_and_crc >> 32) as u32
        || value.len() as u64 != length_and_crc & 0xffff_ffff
    {
        return Err(PayloadError::Header);
    }
    Ok(PayloadHeader { sequence: word(0), seed: word(8), intended: MonotonicTime(word(16)) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(payload: &Payload, sequence: u64) -> Vec<u8> {
        let mut value = vec![0xaa; payload.value_bytes()];
        payload.write(sequence, MonotonicTime(99), &mut value);
        value
    }

    #[test]
    fn incompressible_bytes_use_all_byte_values_about_equally() {
        let payload = Payload::new(1, 1024, 0.0);
        let mut counts = [0_u32; 256];
        for sequence in 0..256 {
            made(&payload, sequence)[HEADER_BYTES..]
                .iter()
                .for_each(|byte| counts[usize::from(*byte)] += 1);
        }
        let total: u32 = counts.iter().sum();
        let entropy_bits: f64 = counts
            .iter()
            .map(|count| f64::from(*count) / f64::from(total))
            .map(|share| -share * share.log2())
            .sum();
        assert!(entropy_bits > 7.99, "{entropy_bits} bits a byte");
    }

    #[test]
    fn no_eight_bytes_repeat_between_records() {
        let payload = Payload::new(1, 256, 0.0);
        let mut words: Vec<Vec<u8>> = (0..500)
            .flat_map(|sequence| {
                made(&payload, sequence)[HEADER_BYTES..]
                    .chunks(8)
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
            })
            .collect();
        let all = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), all);
    }

    #[test]
    fn the_compressible_part_is_zero() {
        let value = made(&Payload::new(1, 1032, 0.25), 7);
        assert!(value[1032 - 250..].iter().all(|byte| *byte == 0));
        assert!(value[HEADER_BYTES..1032 - 250].chunks(8).all(|chunk| chunk != [0; 8]));
    }

    #[test]
    fn another_cells_record_is_sound_but_not_ours() {
        let header = Payload::new(1, 64, 0.0).check(&made(&Payload::new(2, 100, 0.5), 7));
        assert_eq!(header.map(|header| header.seed), Ok(2));
    }

    proptest! {
        #[test]
        fn what_was_written_is_recognised(
            seed: u64, sequence: u64, extra in 0..200_usize, compressible in 0.0..=1.0,
        ) {
            let payload = Payload::new(seed, HEADER_BYTES + extra, compressible);
            let value = made(&payload, sequence);
            let header = payload.check(&value).unwrap();
            prop_assert_eq!(
                header, PayloadHeader { sequence, seed, intended: MonotonicTime(99) });
            prop_assert_eq!(parse_header(&value).unwrap(), header);
        }

        #[test]
        fn any_changed_bit_is_found(sequence: u64, bit in 0..8 * 100_usize, cut in 0..100_usize) {
            let payload = Payload::new(3, 100, 0.2);
            let mut value = made(&payload, sequence);
            value[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(payload.check(&value).is_err());
            let value = made(&payload, sequence);
            prop_assert!(payload.check(&value[..cut]).is_err());
        }
    }
}

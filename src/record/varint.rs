//! Variable-length integers: seven bits a byte, least significant first, at most 5 bytes for 32
//! bits and 10 for 64. Longer ones are errors, never values.

use bytes::BufMut;

/// Why no integer could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    /// The bytes end inside it.
    #[error("the bytes end inside a variable-length integer")]
    Truncated,
    /// It does not end within its limit, or has bits beyond it.
    #[error("a variable-length integer is longer than its type allows")]
    TooLong,
}

/// Reads an unsigned 32-bit integer; gives it and the bytes it took (at most 5).
pub fn read_u32(bytes: &[u8]) -> Result<(u32, usize), VarintError> {
    let (value, used) = read(bytes, 5)?;
    let value = u32::try_from(value).map_err(|_| VarintError::TooLong)?;
    Ok((value, used))
}

/// Reads a zigzag 32-bit integer; gives it and the bytes it took (at most 5).
pub fn read_i32(bytes: &[u8]) -> Result<(i32, usize), VarintError> {
    let (value, used) = read_u32(bytes)?;
    Ok(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), used))
}

/// Reads a zigzag 64-bit integer; gives it and the bytes it took (at most 10).
pub fn read_i64(bytes: &[u8]) -> Result<(i64, usize), VarintError> {
    let (value, used) = read(bytes, 10)?;
    Ok(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), used))
}

fn read(bytes: &[u8], bytes_max: usize) -> Result<(u64, usize), VarintError> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(bytes_max).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == 9 && bits > 1 {
            return Err(VarintError::TooLong);
        }
        value |= bits << (7 * index);
        if byte < 0x80 {
            return Ok((value, index + 1));
        }
    }
    Err(if bytes.len() < bytes_max { VarintError::Truncated } else { VarintError::TooLong })
}

/// Appends an unsigned integer.
pub fn write_u64(out: &mut impl BufMut, mut value: u64) {
    while value >= 0x80 {
        out.put_u8((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

/// Appends a zigzag integer. A 32-bit one has the same bytes as its 64-bit extension.
pub fn write_i64(out: &mut impl BufMut, value: i64) {
    write_u64(out, zigzag(value));
}

/// How many bytes [`write_i64`] appends for `value`.
pub fn size_of_i64(value: i64) -> usize {
    size_of_u64(zigzag(value))
}

/// How many bytes [`write_u64`] appends for `value`.
pub fn size_of_u64(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

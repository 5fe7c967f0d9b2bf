//! A file of a log as it lies on disk: what a clean stop vouches for, and what a start finds.

use std::ops::Range;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredFile {
    /// In its log's directory.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The bytes that the check sum covers.
    pub tail: Range<u64>,
    /// CRC-32C of `tail`, as far as the file reaches.
    pub tail_crc: u32,
}

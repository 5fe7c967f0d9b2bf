//! **Pure**: Kafka record batches, version 2.
//!
//! Owns the bytes of a batch: reading its header, checking what a producer sent, stamping what the
//! leader decides, building batches and walking records. Leaves to others where batches are stored
//! (`storage`), how they travel (`wire`) and which offset they get (`protocol`).
//!
//! Every length and count is checked against the bytes that are there; no input panics, and nothing
//! is allocated from a number found in the input.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod batch;
mod batches;
mod builder;
mod error;
mod records;
pub mod varint;

pub use batch::{
    BatchHeader, Compression, HEADER_BYTES, check_crc, declared_bytes, parse_batch, stamp,
    validate_produced,
};
pub use batches::{Batches, batches};
pub use builder::BatchBuilder;
pub use error::BatchError;
pub use records::{Header, Headers, Record, Records, records, validate_records};

#[cfg(test)]
mod tests;

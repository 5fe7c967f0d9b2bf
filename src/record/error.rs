//! What can be wrong with a batch, and the Kafka error code each fault is answered with.

use thiserror::Error;

use crate::types::ErrorCode;

/// A fault in a record batch (spec/kafka-wire.md 1.4 item 10 and "Bad input").
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// There are no bytes at all.
    #[error("no record batch")]
    NoBatch,
    /// Fewer bytes than a batch header.
    #[error("{size_bytes} bytes: a record batch has at least 61")]
    TooShort {
        /// What there is, or what the batch says it has.
        size_bytes: usize,
    },
    /// The length in the header disagrees with the bytes.
    #[error("batch of {batch_bytes} bytes by its header, in {available_bytes} bytes")]
    SizeMismatch {
        /// Whole size by the header; negative for a negative length.
        batch_bytes: i64,
        /// What there is.
        available_bytes: usize,
    },
    /// Another message format.
    #[error("batch magic {magic}: only 2 is supported")]
    Magic {
        /// As found.
        magic: i8,
    },
    /// A second batch follows where one is allowed.
    #[error("more than one record batch")]
    SecondBatch,
    /// Larger than the topic allows.
    #[error("batch of {batch_bytes} bytes: at most {batch_bytes_max} are allowed")]
    TooLarge {
        /// Its size, header included.
        batch_bytes: usize,
        /// The limit (`max.message.bytes`).
        batch_bytes_max: usize,
    },
    /// The checksum does not match.
    #[error("batch CRC-32C is {stored:#010x} but its bytes give {computed:#010x}")]
    Crc {
        /// As found in the header.
        stored: u32,
        /// Over the bytes from the attributes on.
        computed: u32,
    },
    /// The record count is not positive, or not the last offset delta plus one.
    #[error("batch of {record_count} records with last offset delta {last_offset_delta}")]
    RecordCount {
        /// As found.
        record_count: i32,
        /// As found.
        last_offset_delta: i32,
    },
    /// A client sent a control batch.
    #[error("control batch from a client")]
    Control,
    /// A producer id comes with a negative sequence number.
    #[error("producer id {producer_id} with base sequence {base_sequence}")]
    Sequence {
        /// As found.
        producer_id: i64,
        /// As found.
        base_sequence: i32,
    },
    /// The compression bits name no codec.
    #[error("compression type {compression}: 0 to 4 are known")]
    UnknownCompression {
        /// The low three bits of the attributes.
        compression: u8,
    },
    /// The records are compressed and cannot be walked here.
    #[error("records of a compressed batch cannot be read")]
    Compressed,
    /// A record's bytes break the format.
    #[error("record {index} of the batch: {problem}")]
    Record {
        /// Its position in the batch, from 0.
        index: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl BatchError {
    /// The code a produce request is answered with.
    pub fn error_code(&self) -> ErrorCode {
        match self {
            BatchError::TooShort { .. }
            | BatchError::SizeMismatch { .. }
            | BatchError::Crc { .. } => ErrorCode::CorruptMessage,
            BatchError::TooLarge { .. } => ErrorCode::MessageTooLarge,
            BatchError::Compressed => ErrorCode::UnsupportedCompressionType,
            BatchError::NoBatch
            | BatchError::Magic { .. }
            | BatchError::SecondBatch
            | BatchError::RecordCount { .. }
            | BatchError::Control
            | BatchError::Sequence { .. }
            | BatchError::UnknownCompression { .. }
            | BatchError::Record { .. } => ErrorCode::InvalidRecord,
        }
    }
}

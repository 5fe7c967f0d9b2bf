//! Why bytes are no message. On a server every [`WireError`] means: close the connection.

use std::error::Error as StdError;
use std::fmt;

use thiserror::Error;

use crate::record::varint::VarintError;

use super::{ApiKey, VersionRange};

/// What is wrong with the bytes at one place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// A value reaches beyond the end.
    #[error("{wanted} bytes are wanted and {left} are left")]
    Truncated {
        /// By the value or its length.
        wanted: usize,
        /// What is there.
        left: usize,
    },
    /// A variable-length integer is cut off or too long.
    #[error(transparent)]
    Varint(#[from] VarintError),
    /// A length or count below -1.
    #[error("a length is {0}")]
    NegativeLength(i32),
    /// More elements than the bytes left can hold.
    #[error("{count} elements are claimed in {left} bytes")]
    Count {
        /// As claimed.
        count: usize,
        /// What is there.
        left: usize,
    },
    /// More elements than any message may have: each takes memory many times its size on the wire.
    #[error("the message has more than {0} elements")]
    TooManyElements(usize),
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// Null where the schema has no null.
    #[error("null where a value is required")]
    Null,
    /// The byte in front of an optional struct is neither 1 nor -1.
    #[error("presence byte {0} is neither 1 nor -1")]
    Presence(i8),
    /// A value that the schema does not know.
    #[error("{field} is {value}")]
    Value {
        /// Its name.
        field: &'static str,
        /// As found.
        value: i64,
    },
    /// Bytes follow the end of a message or of a tagged field.
    #[error("{left} bytes are left after the end")]
    Trailing {
        /// How many.
        left: usize,
    },
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Request => "request",
            Direction::Response => "response",
        })
    }
}

/// Why a frame is no message, or a message no frame.
#[derive(Debug, Error)]
pub enum WireError {
    /// The header does not parse.
    #[error("{direction} header, byte {at}: {problem}")]
    Header {
        /// Of which.
        direction: Direction,
        /// Where in the frame.
        at: usize,
        /// What is wrong.
        problem: Problem,
    },
    /// No such API, or not on this listener.
    #[error("api key {0} is not served here")]
    UnknownApi(i16),
    /// A version outside the range. Never made for ApiVersions requests: see
    /// [`super::Request::UnsupportedApiVersions`].
    #[error("{api} version {version}: {} to {} are supported", range.min, range.max)]
    UnsupportedVersion {
        /// The API.
        api: ApiKey,
        /// As asked.
        version: i16,
        /// What is served.
        range: VersionRange,
    },
    /// The body does not parse.
    #[error("{api} {direction} version {version}, byte {at}: {problem}")]
    Malformed {
        /// The API.
        api: ApiKey,
        /// Request or response.
        direction: Direction,
        /// Its version.
        version: i16,
        /// Where in the frame.
        at: usize,
        /// What is wrong.
        problem: Problem,
    },
    /// The schema crate refused a body whose bounds are right.
    #[error("{api} {direction} version {version}: {source}")]
    Undecodable {
        /// The API.
        api: ApiKey,
        /// Request or response.
        direction: Direction,
        /// Its version.
        version: i16,
        /// The crate's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// A field is set that the version does not carry, or a value does not fit its type.
    #[error("{api} {direction} cannot be encoded as version {version}: {source}")]
    Unencodable {
        /// The API.
        api: ApiKey,
        /// Request or response.
        direction: Direction,
        /// The version asked for.
        version: i16,
        /// The crate's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
}

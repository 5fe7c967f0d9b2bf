//! Why a cell could not be run. What went wrong with single records is no error of the cell but
//! part of its outcome.

use std::net::SocketAddr;
use std::time::Duration;

use crate::driver::spec::SpecError;
use crate::engine::EngineError;
use crate::types::{ErrorCode, PartitionId};
use crate::wire::{ApiKey, WireError};

/// Why a cell, or the reading back of one, could not be run.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The cell makes no sense.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The event loop failed.
    #[error("the driver's event loop failed: {0}")]
    Engine(#[from] EngineError),
    /// Nobody answered in time.
    #[error("bootstrap {address}: no answer to {waiting_for} within {waited:?}")]
    Bootstrap {
        /// The address given.
        address: SocketAddr,
        /// What was asked.
        waiting_for: ApiKey,
        /// How long.
        waited: Duration,
    },
    /// The cluster is too old or too new.
    #[error("bootstrap {address}: serves no {api} version {version}")]
    Version {
        /// Who was asked.
        address: SocketAddr,
        /// The API the driver needs.
        api: ApiKey,
        /// In this version.
        version: i16,
    },
    /// A cell needs a topic of its own, so that offsets begin at zero.
    #[error("topic {0} exists already: a cell needs a new one")]
    TopicExists(String),
    /// The topic was not created.
    #[error("topic {topic} was refused: {code}{reason}")]
    TopicRefused {
        /// Its name.
        topic: String,
        /// The cluster's code.
        code: ErrorCode,
        /// The cluster's words, led by `: `, or nothing.
        reason: String,
    },
    /// The topic has no leader, or not all replicas in sync, in time.
    #[error("topic {topic}: partition {partition} has no leader or no full ISR after {waited:?}")]
    NotReady {
        /// Its name.
        topic: String,
        /// The first such partition.
        partition: PartitionId,
        /// How long.
        waited: Duration,
    },
    /// A leader does not accept connections.
    #[error("not every leader of topic {topic} accepted a connection within {waited:?}")]
    Unreachable {
        /// The topic.
        topic: String,
        /// How long.
        waited: Duration,
    },
    /// A broker's address cannot be used.
    #[error("broker address {0} cannot be resolved")]
    Address(String),
    /// A broker answered bytes that are no answer.
    #[error("answer from {address}: {source}")]
    Answer {
        /// Who.
        address: SocketAddr,
        /// What is wrong.
        source: WireError,
    },
    /// A request cannot be encoded.
    #[error(transparent)]
    Request(WireError),
    /// A partition could not be read back to its end.
    #[error("reading back partition {partition}: {reason}")]
    ReadBack {
        /// Which.
        partition: PartitionId,
        /// What was answered.
        reason: ReadBackFailure,
    },
    /// Stopped from outside, before the load began or in the middle of reading back.
    #[error("stopped before it was over")]
    Stopped,
}

/// Why a partition could not be read back.
#[derive(Debug, thiserror::Error)]
pub enum ReadBackFailure {
    /// Behind these bytes nothing can be found.
    #[error("its log holds bytes that are no record batch")]
    NotBatches,
    /// No leader answered a fetch.
    #[error("no fetch was answered within {0:?}")]
    NoAnswer(Duration),
}

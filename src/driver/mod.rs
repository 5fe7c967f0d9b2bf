//! The load driver: runs one measured cell against a running cluster, and reads one back.
//!
//! Reading order: `spec` (what a cell does), `schedule` and `load` (when records are due and
//! batches close), `payload` and `batcher` (what is in them), `producer` and `consumer` (the
//! connections; with `link`, `messages`, `metadata` and `tracker` under them), `outcome` (what is
//! measured), `cell` (all of it as one program for an engine), `verify` (reading back).

mod batcher;
mod cell;
mod consumer;
pub mod error;
mod link;
pub mod load;
mod messages;
mod metadata;
pub mod outcome;
pub mod payload;
mod producer;
pub mod run;
pub mod schedule;
pub mod spec;
mod tracker;

pub use batcher::Batcher;
pub use cell::{Phase, Progress};

/// What the driver calls itself in requests.
const CLIENT_ID: &str = "ackmark-driver";

/// The latest version that names topics and has tagged fields for [`crate::types::BrokerStamps`].
const PRODUCE_VERSION: i16 = 12;

/// The latest version that names topics; has tagged fields for the high watermark's trace.
const FETCH_VERSION: i16 = 12;

//! The load driver: runs one measured cell against a running cluster, and reads one back.
//!
//! Reading order: `spec` (what a cell does), `schedule` and `load` (when records are due and
//! batches close), `payload` and `batcher` (what is in them), `link`, `messages` and
//! `metadata` (how brokers are talked to), `producer`, `fetcher` and `consumer` with its `tracker`
//! (who talks to them), `outcome` and `recorder` (what is measured), `leaders` (when a partition changed hands), `cell` (all of it as one program
//! for an engine), `ledger` and `read_back` (was every acknowledged record kept), `run` (the doors).

mod batcher;
mod cell;
mod consumer;
pub mod error;
mod fetcher;
mod leaders;
pub mod ledger;
mod link;
pub mod load;
mod messages;
mod metadata;
pub mod outcome;
pub mod payload;
mod producer;
mod read_back;
mod recorder;
pub mod run;
pub mod schedule;
pub mod spec;
mod tracker;

pub use batcher::Batcher;
pub use cell::{Phase, Progress};
pub use recorder::BatchFacts;

/// What the driver calls itself in requests.
const CLIENT_ID: &str = "ackmark-driver";

/// The latest version that names topics and has tagged fields for [`crate::types::BrokerStamps`].
const PRODUCE_VERSION: i16 = 12;

/// The latest version that names topics; has tagged fields for the high watermark's trace.
const FETCH_VERSION: i16 = 12;

#[cfg(test)]
mod tests;

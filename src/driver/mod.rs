//! The load driver: runs one measured cell against a running cluster.
//!
//! Reading order: `spec` (what a cell does), `schedule` and `load` (when records are due and
//! batches close), `payload` (what is in them), `outcome` (what is measured).

pub mod load;
pub mod outcome;
pub mod payload;
pub mod schedule;
pub mod spec;

//! The one clock, latency histograms, and the named gaps between a request's instants.
//!
//! Reading order: `clock` (the only reader of CLOCK_MONOTONIC), `dues` (when the records of a batch
//! were due), `histogram` (what is kept of many samples), `stage` (what one sample is made of),
//! `isr` (what became of a partition's ISR), `around` (latencies in and outside of its stalls),
//! `failover` (what the loss of a leader is made of); and `threads`, which is how the product starts
//! its own.

pub mod around;
pub mod clock;
pub mod dues;
pub mod failover;
pub mod histogram;
pub mod isr;
pub mod stage;
pub mod threads;

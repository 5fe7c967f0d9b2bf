//! The one integration binary: what only shows when the rooms stand together.
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

mod architecture;
mod bad_input;
mod cluster;
mod commands;
mod golden;
mod isr_events;
mod kcat;
mod main_job;
mod quorum;
mod runs;
mod workloads;

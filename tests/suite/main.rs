//! The one integration binary: what only shows when the rooms stand together.
#![expect(clippy::unwrap_used, reason = "in a test a failed step is a failed test")]

mod architecture;
mod bad_input;
mod citations;
mod clean_stop;
mod client;
mod cluster;
mod commands;
mod experiments;
mod faults;
mod golden;
mod html;
mod isr_events;
mod isr_gate;
mod judging;
mod kcat;
mod limits;
mod live;
mod local_cluster;
mod main_job;
mod metrics;
mod quorum;
mod recovery;
mod runs;
mod schemas;
mod surroundings;
mod synthetic;
mod workloads;

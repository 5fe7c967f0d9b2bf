//! The one integration binary: what only shows when the rooms stand together.

mod architecture;
mod bad_input;
mod cluster;
mod commands;
mod golden;
mod kcat;
mod main_job;
mod workloads;

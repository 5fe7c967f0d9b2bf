//! The one integration binary: what only shows when the rooms stand together.

mod architecture;
mod commands;
mod golden;
mod workloads;

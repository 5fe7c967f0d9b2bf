//! The one integration binary: what only shows when the rooms stand together.

mod architecture;
mod golden;
mod workloads;

//! What goes wrong, and when, and the tools that make it go wrong from outside a process.
//!
//! [`plan`] is pure: the same workload gives the same steps, and the same seed the same picks.
//! [`relay`] cuts and slows network links, [`loop_disk`] loses a page cache. [`torture`] makes workloads of random faults.
//! The harness (`scenario`) carries the plan out.

pub mod loop_disk;
pub mod plan;
pub mod relay;
pub mod torture;

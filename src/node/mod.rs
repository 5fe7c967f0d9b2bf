//! Shells that host the protocol machines: the broker shard and the controller.

pub mod broker;
pub mod clean_shutdown;
pub mod controller;
pub mod exporter;

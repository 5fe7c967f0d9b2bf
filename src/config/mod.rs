//! What it means: TOML files as validated configuration, with every default spelled out.
//!
//! Three layers, one file each: what was typed (`read`: spans, scalars, errors for people), what a
//! word stands for ([`units`]), what it means together ([`workload`], [`node_file`]). The meant
//! structs hold no `Option` and have no `Default`; every default is in [`defaults`].

pub mod cells;
pub mod defaults;
mod election;
pub mod node;
pub mod node_file;
mod read;
pub mod units;
pub mod workload;

pub use read::ConfigError;

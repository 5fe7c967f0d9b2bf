//! What it means: validated configuration.

pub mod node;

//! Every rule, as pure state machines: inputs and time come in as arguments, outputs go out as
//! values. No I/O, no clock, no randomness, no logging, no locks in this room.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod broker;
#[cfg(test)]
mod conformance;
pub mod controller;
pub mod metadata;
pub mod partition;

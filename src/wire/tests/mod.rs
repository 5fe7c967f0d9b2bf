//! Tests of the whole room, through its public functions.

mod bad_input;
pub(super) mod hot_samples;
mod mutation;
mod produce_and_fetch;
mod round_trip;
pub(super) mod samples;

mod invariants;
mod requests;
mod vectors;
pub(super) mod world;

mod damaged;
mod directories;
mod invariants;
mod requests;
mod rules_by_topic;
mod vectors;
pub(super) mod world;

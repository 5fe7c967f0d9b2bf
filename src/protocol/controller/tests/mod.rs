mod damaged;
mod directories;
mod invariants;
mod requests;
mod rules_by_topic;
mod settings_under_load;
mod vectors;
pub(super) mod world;

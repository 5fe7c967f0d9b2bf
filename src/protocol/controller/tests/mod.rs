mod invariants;
mod requests;
mod vectors;
mod world;

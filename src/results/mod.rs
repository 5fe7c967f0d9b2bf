//! The result folder: its schema, how it is put together, written and read.
//!
//! Reading order: [`schema`] (the only structs that are ever serialised; `docs/results.md` describes
//! them for people), [`described`] (what was
//! asked for), [`measured`] (live histograms of one cell's repeats → a [`schema::Cell`]),
//! [`isr`] (what became of ISRs), [`sweeps`] (cells as curves over their rate), [`knee`], [`folder`]
//! (`results/<name>/<time>/`, written whole or not at all), [`migration`] (older versions of the
//! schema). Knows nothing of the live run.

pub mod curve;
pub mod described;
pub mod folder;
pub mod isr;
pub mod knee;
pub mod measured;
pub mod migration;
pub mod schema;
pub mod sweeps;
pub mod time;

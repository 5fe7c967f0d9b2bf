//! Many runs of one workload over time: the append-only history, where its level changed, and its
//! figures in the formats of others.
//!
//! Reading order: [`entry`] (what is kept of a run), [`file`](mod@file) (one line of JSON a run),
//! [`changes`] (where a series changed its level), [`series`] (a history as series), [`text`] and
//! [`page`] (for people), [`export`] (for other tools). Reads no result folder and starts no run.

pub mod changes;
pub mod entry;
pub mod export;
pub mod file;
pub mod page;
pub mod series;
pub mod text;

#[cfg(test)]
mod tests;

//! Two measurements set against each other: how much slower or faster, how sure that is, and whether
//! they may be compared at all. Pure: results in, verdicts out.
//!
//! Reading order: [`comparable`] (what forbids a comparison), [`blocks`] (the samples of one cell,
//! repeat by repeat), [`interval`] (a ratio and how far it can be trusted), [`verdict`] (better,
//! worse, same, too noisy), [`row`] (the figures of one cell), [`report`] (all cells of two
//! results, or of interleaved rounds), [`within`] (null results of one run), [`gate`] (may this be merged?), [`text`] (for people).
//!
//! Samples within a repeat follow each other closely and are no independent observations, so a
//! repeat is one block, and only the difference between blocks says how much to trust a figure
//! (spec/measurement.md M17, M21, M22).

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod blocks;
pub mod comparable;
pub mod gate;
pub mod interval;
pub mod report;
pub mod row;
pub mod text;
pub mod verdict;
pub mod within;

#[cfg(test)]
mod tests;

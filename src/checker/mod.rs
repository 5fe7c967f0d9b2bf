//! Was every promise kept? Compares what producers were told and consumers saw with what every
//! replica holds in the end.
//!
//! Pure: fed with facts by whoever drove the load and read the replicas. In reading order:
//! [`numbers`] (sets of record numbers), [`extents`] (records at offsets), [`history`] (what was
//! seen from outside), [`replica`] (what one replica holds), [`divergence`] (whether replicas are
//! equal), [`verdict`] (what it adds up to).
//!
//! A record is known by its number: the n-th record of its partition in the order of the schedule.
//! Books hold runs of records, not records, so their size follows the disruptions of a run and not
//! its length.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod divergence;
pub mod extents;
pub mod history;
pub mod numbers;
pub mod replica;
pub mod verdict;

#[cfg(test)]
mod tests;

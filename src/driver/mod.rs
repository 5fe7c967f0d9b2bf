//! The load driver.

pub mod payload;
pub mod schedule;

//! People's view of a result. Sees only [`crate::results`]: any report can be made again from the
//! run's folder.

pub mod faults;
pub mod html;
pub mod isr;
pub mod numbers;
pub mod origin;
pub mod stages;
pub mod terminal;

//! An experiment: start the nodes, drive the cells, stop, hand back a result.
//!
//! Reading order: [`child`] (one node as a child process), [`cluster`] (all of one block's nodes),
//! [`cell`] (a planned cell → what the driver is told → what results keep), [`floors`] (the least
//! this machine allows, measured in the run), [`run`] (the whole workload), [`progress`] (what a
//! person sees meanwhile). The nodes are real processes on loopback; nothing here is a shortcut.
//! [`drive`] drives a cluster somebody else started. [`bench_floor`] stands apart: the log writer
//! against fio, without a cluster; so does [`bench_controller`]: controllers without brokers.

pub mod bench_controller;
pub mod bench_floor;
mod book;
pub mod cell;
pub mod child;
pub mod cluster;
pub mod drive;
pub mod floors;
mod isr_events;
pub mod progress;
pub mod reason;
pub mod run;
mod saturation;

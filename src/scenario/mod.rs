//! An experiment: start the nodes, drive the cells, stop, hand back a result.
//!
//! Reading order: [`child`] (one node as a child process), `member` (its lives), `settings` (what
//! its file says), [`cluster`] (all of one block's nodes) and `describe` (what a broker says of it),
//! [`cell`] (a planned cell → what the driver is told → what results keep), [`floors`] (the least
//! this machine allows, measured in the run), [`run`] (the whole workload), `faulted` and `injector`
//! (what goes wrong meanwhile), `leader_watch` (what followed a lost leader), `audit` (whether anything was lost), [`progress`] (what is told
//! meanwhile) with [`partitions`] (as the cluster tells them, through [`crate::node::client`]). The nodes are
//! real processes on loopback; nothing here is a shortcut. [`local_cluster`] keeps a cluster for
//! somebody to operate on; [`drive`] drives a cluster somebody else started. [`bench_floor`] stands apart: the log writer
//! against fio, without a cluster; so does [`bench_controller`]: controllers without brokers.

mod audit;
pub mod bench_controller;
pub mod bench_floor;
mod book;
pub mod cell;
pub mod child;
pub mod cluster;
mod describe;
pub mod drive;
mod faulted;
pub mod floors;
mod injector;
mod isr_events;
mod leader_watch;
pub mod local_cluster;
mod member;
mod operator;
pub mod partitions;
pub mod progress;
pub mod reason;
pub mod run;
mod saturation;
mod settings;

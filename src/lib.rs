//! Measures what durability costs an acknowledged write: page cache, fsync and O_DIRECT under
//! Kafka's replication rules, with a real log, real followers and a real controller.
//!
//! The rooms, in reading order; `ARCHITECTURE.md` says what each may import.

pub mod types;

pub mod record;

pub mod protocol;

pub mod sim;

pub mod wire;

pub mod measure;

pub mod engine;

pub mod storage;

pub mod config;

pub mod environment;

pub mod node;

pub mod checker;

pub mod driver;

pub mod faults;

pub mod results;

pub mod report;

pub mod compare;

pub mod history;

pub mod scenario;

pub mod live;

pub mod cli;

//! Shells that host the protocol machines: the broker shard and the controller; and [`client`], for
//! asking them, with [`leadership`], for watching them elect.

pub mod broker;
pub mod clean_shutdown;
pub mod client;
pub mod controller;
pub mod data_directory;
pub mod exporter;
pub mod leadership;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;

/// Says on standard output where this node listens, and where it serves metrics if it does: one JSON
/// line, read by whoever started it.
fn announce(address: SocketAddr, metrics: Option<SocketAddr>) -> io::Result<()> {
    let mut line = serde_json::json!({ "listening": address.to_string() });
    if let Some(metrics) = metrics {
        line["metrics"] = metrics.to_string().into();
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// A line for people, on standard error. Off the hot path.
fn tell(line: fmt::Arguments<'_>) {
    // Nobody reads it then.
    let _ = writeln!(io::stderr(), "{line}");
}

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
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;

use signal_hook::consts::SIGTERM;
use signal_hook::low_level::raise;

use crate::measure::threads;

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

/// A line on standard error, for whoever looks after this node. `eprintln!` would panic once nobody
/// reads it any more.
fn tell(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Gives each line of standard input to `obey`, on a thread of its own; at its end, if
/// `stops_with_it`, this process stops as at SIGTERM: whoever held the other end is gone, or wants
/// that.
///
/// # Errors
/// The system gives no thread.
fn watch_input(stops_with_it: bool, obey: impl Fn(String) + Send + 'static) -> io::Result<()> {
    let watch = move || {
        io::stdin().lock().lines().map_while(Result::ok).for_each(obey);
        if stops_with_it {
            // It fails for numbers that are no signals only.
            let _ = raise(SIGTERM);
        }
    };
    threads::start("standard input", watch).map(drop)
}

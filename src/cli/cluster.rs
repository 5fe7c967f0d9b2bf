//! `ackmark cluster`: a cluster to operate on, in the foreground.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::scenario::local_cluster::{LocalCluster, LocalClusterError, Node, Plan};

use super::exit::{Exit, Failure};
use super::signals;

/// How often is looked whether a node has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Keep a cluster running on this machine until Ctrl-C
///
/// A new DIR gets a file for each node, which may be edited between two starts. A DIR that has them
/// goes on from where it was: --brokers, --controllers and --port then mean nothing.
#[derive(Debug, Args)]
pub struct ClusterArguments {
    /// Holds node files, logs and data
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Number of brokers of a new cluster
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    brokers: usize,
    /// Number of controllers of a new cluster: 1 or 3
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    controllers: usize,
    /// Port of broker 1; the other brokers' follow, the controllers' come 100 later; 0: free ones
    #[arg(long, value_name = "PORT", default_value_t = 9092)]
    port: u16,
}

/// `ackmark cluster`
pub fn run(arguments: &ClusterArguments) -> Result<Exit, Failure> {
    let stop = signals::stop_flag()?;
    let plan = Plan {
        executable: super::run::executable()?,
        folder: arguments.folder.clone(),
        brokers: arguments.brokers,
        controllers: arguments.controllers,
        port: arguments.port,
    };
    let failed = |error| match error {
        LocalClusterError::Child(_) => Failure::failed(&error),
        _ => Failure::usage(&error),
    };
    let mut cluster = LocalCluster::start(&plan).map_err(failed)?;
    super::print(&list(cluster.nodes()))?;
    cluster.await_served(&stop).map_err(failed)?;
    if !stop.load(Ordering::Relaxed) {
        super::print(&invitation(cluster.nodes()))?;
    }
    while !stop.load(Ordering::Relaxed) {
        for (node, error) in cluster.take_ended() {
            super::say(&format!("{error}\n{}", how_to_start(&node)));
        }
        thread::sleep(LOOK_INTERVAL);
    }
    let complaints = cluster.stop();
    if complaints.is_empty() {
        Ok(Exit::Done)
    } else {
        Err(Failure::invalid(complaints.join("\n")))
    }
}

fn list(nodes: &[Node]) -> String {
    let line = |node: &Node| {
        format!("{:<15}{:<17}pid {}\n", node.name(), node.address.to_string(), node.pid())
    };
    nodes.iter().map(line).collect()
}

/// Said once clients are served.
fn invitation(nodes: &[Node]) -> String {
    let first = nodes.iter().find(|node| node.role == "broker");
    let invite =
        |first: &Node| format!("ready: --bootstrap {}; Ctrl-C stops all nodes\n", first.address);
    first.map(invite).unwrap_or_default()
}

fn how_to_start(node: &Node) -> String {
    format!("to start it again: ackmark {} --config {}", node.role, node.file.display())
}

//! How a run is shown while it goes on: options of `run` and `drive`.

use std::net::SocketAddr;

use clap::Args;

use crate::config::workload::Workload;
use crate::live::{Live, Settings, terminal};

use super::exit::Failure;
use super::signals;

/// Progress, for people and for Prometheus.
#[derive(Debug, Args)]
pub struct LiveArguments {
    /// Print plain lines of progress on a terminal too; they are what a pipe gets
    #[arg(long)]
    plain: bool,
    /// Serve metrics of the run at http://IP:PORT/metrics, and those of the nodes it starts on the
    /// ports that follow: brokers by id, then the controller. Port 0 picks one, for the run alone
    #[arg(long, value_name = "IP:PORT")]
    metrics_listen: Option<SocketAddr>,
}

impl LiveArguments {
    /// The address before those of the nodes' metrics, if they serve any.
    pub fn nodes_listen_after(&self) -> Option<SocketAddr> {
        self.metrics_listen.filter(|address| address.port() != 0)
    }

    /// Refuses an address that leaves no room for the ports of `nodes` nodes after it.
    pub fn check(&self, nodes: usize) -> Result<(), Failure> {
        let Some(address) = self.nodes_listen_after() else { return Ok(()) };
        let last = usize::from(address.port()) + nodes;
        if last <= usize::from(u16::MAX) {
            return Ok(());
        }
        let highest = usize::from(u16::MAX).saturating_sub(nodes);
        Err(Failure::unusable(format!(
            "--metrics-listen {address}: the {nodes} nodes need the ports up to {last}, and the \
             highest there is is {}: use port {highest} or a lower one, or 0 for the run alone",
            u16::MAX
        )))
    }

    /// Begins to show a run of `workload`.
    pub fn start(&self, workload: &Workload) -> Result<Live, Failure> {
        let settings = Settings {
            workload: workload.name.clone(),
            steps: workload.cells().len() * workload.load.repeats,
            plain: self.plain,
            metrics_listen: self.metrics_listen,
        };
        let live = Live::start(&settings).map_err(|error| Failure::usage(&error))?;
        if let Some(address) = live.metrics() {
            live.progress().note(&format!("metrics at http://{address}/metrics"));
        }
        if terminal::is_taken() {
            signals::restore_terminal()?;
        }
        Ok(live)
    }
}

//! `ackmark drive`: the load alone, against a cluster that runs elsewhere.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;

use crate::config::workload::Workload;
use crate::node::client;
use crate::results::{folder, time};
use crate::scenario::drive::{self, DriveError};

use super::exit::{Exit, Failure};
use super::live::LiveArguments;
use super::signals;

/// How long each address of the bootstrap broker may take to be connected to.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// Drive a workload against brokers that were started by hand
///
/// The workload must name one engine and one durability mode: those the brokers run with.
#[derive(Debug, Args)]
pub struct DriveArguments {
    /// A workload file; its cluster section is recorded, not started
    #[arg(value_name = "WORKLOAD.toml")]
    workload: PathBuf,
    /// Any broker of the cluster
    #[arg(long, value_name = "HOST:PORT", value_parser = address)]
    bootstrap: String,
    /// Holds the results, as OUT/NAME/TIME
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    #[command(flatten)]
    live: LiveArguments,
}

/// Refuses what names no address at once; which of several answers is found out later.
fn address(text: &str) -> Result<String, String> {
    let addresses = text.to_socket_addrs();
    let mut addresses = addresses.map_err(|error| format!("must be HOST:PORT ({error})"))?;
    addresses.next().map(|_| text.to_owned()).ok_or_else(|| "the host has no address".to_owned())
}

/// `ackmark drive`
pub fn run(arguments: &DriveArguments) -> Result<Exit, Failure> {
    let stop = signals::stop_flag()?;
    let workload =
        Workload::from_file(&arguments.workload).map_err(|error| Failure::usage(&error))?;
    folder::prepare(&arguments.out, &workload.name).map_err(|error| Failure::usage(&error))?;
    drive::check(&workload, &arguments.bootstrap).map_err(|error| Failure::usage(&error))?;
    let bootstrap = client::listening_at(&arguments.bootstrap, CONNECT_PATIENCE)
        .map_err(|error| Failure::failed(&error))?;
    let live = arguments.live.start(&workload)?;
    let started = SystemTime::now();
    let run_id = uuid::Uuid::new_v4().to_string();
    let outcome = drive::run(&workload, bootstrap, &run_id, &stop, &mut live.progress());
    drop(live);
    let result = outcome.map_err(|error| match error {
        DriveError::SeveralClusters { .. } | DriveError::Faults { .. } => Failure::usage(&error),
        DriveError::Driver(_) | DriveError::Rate(_) => Failure::failed(&error),
    })?;
    super::run::finish(&arguments.out, &time::folder_name(started), &result)
}

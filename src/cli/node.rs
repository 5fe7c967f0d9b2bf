//! `ackmark controller` and `ackmark broker`: one node, by hand or as a child of `run`.

use std::path::PathBuf;

use clap::Args;

use crate::config::node::{BrokerConfig, ControllerConfig};
use crate::node;

use super::exit::{Exit, Failure};

/// Run a controller until SIGTERM; prints {"listening":"ip:port"} once it accepts connections
#[derive(Debug, Args)]
pub struct NodeArguments {
    /// The node's TOML file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Stop as at SIGTERM when standard input ends: whoever holds its other end is gone then
    #[arg(long)]
    stop_with_stdin: bool,
}

/// Run a broker until SIGTERM; prints {"listening":"ip:port"} once it accepts connections
#[derive(Debug, Args)]
pub struct BrokerArguments {
    /// The node's TOML file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Stop as at SIGTERM when standard input ends: whoever holds its other end is gone then
    #[arg(long)]
    stop_with_stdin: bool,
}

/// `ackmark controller`
pub fn run_controller(arguments: &NodeArguments) -> Result<Exit, Failure> {
    let config =
        ControllerConfig::from_file(&arguments.config).map_err(|error| Failure::usage(&error))?;
    node::controller::run(config, arguments.stop_with_stdin)
        .map_err(|error| Failure::failed(&error))?;
    Ok(Exit::Done)
}

/// `ackmark broker`
pub fn run_broker(arguments: &BrokerArguments) -> Result<Exit, Failure> {
    let config =
        BrokerConfig::from_file(&arguments.config).map_err(|error| Failure::usage(&error))?;
    node::broker::run(config, arguments.stop_with_stdin)
        .map_err(|error| Failure::failed(&error))?;
    Ok(Exit::Done)
}

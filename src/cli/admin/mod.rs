//! Commands for operators of a running cluster, spoken to through any of its brokers: topics,
//! elections, brokers, the quorum. A table for people, `--json` for programs.

mod brokers;
mod cluster;
mod elect_leaders;
mod quorum;
mod settings;
mod table;
mod topics;

#[cfg(test)]
mod tests;

use std::time::Duration;

use clap::Args;
use serde::Serialize;

pub use self::brokers::{BrokersArguments, run as run_brokers};
pub use self::elect_leaders::{ElectLeadersArguments, run as run_elect_leaders};
pub use self::quorum::{QuorumArguments, run as run_quorum};
pub use self::topics::{TopicsArguments, run as run_topics};
use super::exit::Failure;
use crate::node::client::{Client, ClientError};
use crate::types::ErrorCode;

/// Wait for a connection, and for each answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Which cluster, and how to answer.
#[derive(Debug, Args)]
pub struct ClusterArguments {
    /// Any broker of the cluster
    #[arg(long, visible_alias = "bootstrap-server", value_name = "HOST:PORT")]
    bootstrap: String,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Why a command gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The broker cannot be spoken to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The cluster said no.
    #[error("{what}: {error}{}", in_words(.message))]
    Refused {
        /// What was asked for.
        what: String,
        /// Kafka's code.
        error: ErrorCode,
        /// The cluster's words, if it gave any.
        message: Option<String>,
    },
    /// What was typed makes no sense.
    #[error("{0}")]
    Usage(String),
}

fn in_words(message: &Option<String>) -> String {
    message.as_ref().map_or_else(String::new, |message| format!(": {message}"))
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Failure {
        match error {
            AdminError::Usage(_) => Failure::usage(&error),
            AdminError::Client(_) | AdminError::Refused { .. } => Failure::failed(&error),
        }
    }
}

impl ClusterArguments {
    fn connect(&self) -> Result<Client, AdminError> {
        Ok(Client::connect(&self.bootstrap, ANSWER_TIME_MAX)?)
    }

    /// The answer in the form that was asked for.
    fn render<T: Serialize>(&self, answer: &T, for_people: impl FnOnce(&T) -> String) -> String {
        match (self.json, serde_json::to_string_pretty(answer)) {
            (true, Ok(json)) => json + "\n",
            // Plain values always have a JSON form.
            (true, Err(_)) | (false, _) => for_people(answer),
        }
    }
}

/// `Ok` if the code is none.
///
/// # Errors
/// [`AdminError::Refused`].
fn accepted(what: &str, code: i16, message: Option<&str>) -> Result<(), AdminError> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(()),
        error => Err(AdminError::Refused {
            what: what.to_owned(),
            error,
            message: message.map(str::to_owned),
        }),
    }
}

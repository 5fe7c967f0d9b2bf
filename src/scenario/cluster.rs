//! One controller and its brokers as child processes on loopback, in a folder of their own.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::config::cells::ClusterVariant;
use crate::config::node::{BrokerConfig, ControllerConfig, LogConfig};
use crate::config::workload::Cluster as Settings;
use crate::config::{ConfigError, defaults};
use crate::environment::ProcessUse;
use crate::types::{BrokerId, DurabilityMode, EngineKind};

use super::child::{Child, ChildError, Launch, Stop};

/// How long a node may take until it listens: a broker that recovers a long log needs it.
const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long a node may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// What a cluster is started from.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// This program.
    pub executable: &'a Path,
    /// The cluster's own folder; made here, must not exist.
    pub folder: PathBuf,
    /// As the workload says.
    pub settings: &'a Settings,
    /// Event loop of the brokers.
    pub engine: EngineKind,
    /// Durability mode of the brokers.
    pub durability: DurabilityMode,
    /// What else the matrix varies.
    pub variant: ClusterVariant,
}

/// Why a cluster could not be started, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A folder or file of the cluster could not be made.
    #[error("cannot create {}", path.display())]
    Files {
        /// What.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A node's configuration could not be written down.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A node failed.
    #[error(transparent)]
    Child(#[from] ChildError),
}

/// A running cluster. Dropping it kills all nodes; the folder stays.
#[derive(Debug)]
pub struct Cluster {
    controller: Child,
    brokers: Vec<Broker>,
}

#[derive(Debug)]
struct Broker {
    child: Child,
    address: SocketAddr,
}

impl Cluster {
    /// Starts the controller, then all brokers at once, and waits until each listens.
    ///
    /// # Errors
    /// [`ClusterError`], with the failed node's own words; then no process is left.
    pub fn start(plan: &Plan<'_>) -> Result<Cluster, ClusterError> {
        let folder = &plan.folder;
        fs::create_dir(folder)
            .map_err(|source| ClusterError::Files { path: folder.clone(), source })?;
        let controller_file = controller_config(plan).to_toml()?;
        let mut controller = start(plan, "controller", "controller", &controller_file)?;
        let controller_address = controller.listening(START_PATIENCE)?;
        let ids = 1..=plan.settings.brokers;
        let started: Vec<Child> = ids
            .map(|id| {
                let file = broker_config(plan, id, controller_address).to_toml()?;
                start(plan, &format!("broker-{id}"), "broker", &file)
            })
            .collect::<Result<_, ClusterError>>()?;
        let announced = |mut child: Child| {
            let address = child.listening(START_PATIENCE)?;
            Ok(Broker { child, address })
        };
        let brokers = started.into_iter().map(announced).collect::<Result<_, ChildError>>()?;
        Ok(Cluster { controller, brokers })
    }

    /// A broker that answers for the whole cluster.
    pub fn bootstrap(&self) -> SocketAddr {
        self.brokers[0].address
    }

    /// The files in which its brokers tell what happens to ISRs.
    pub fn events_files(plan: &Plan<'_>) -> Vec<PathBuf> {
        (1..=plan.settings.brokers).map(|id| plan.folder.join(events_file(id))).collect()
    }

    /// Every node's name and use of the machine since it started.
    pub fn usage(&self) -> Vec<(String, ProcessUse)> {
        let brokers = self.brokers.iter().map(|broker| &broker.child);
        std::iter::once(&self.controller)
            .chain(brokers)
            .map(|child| (child.name().to_owned(), ProcessUse::of(child.pid())))
            .collect()
    }

    /// Whether all nodes still run.
    ///
    /// # Errors
    /// [`ChildError::Ended`] for the first that does not, with its own words.
    pub fn check_running(&mut self) -> Result<(), ChildError> {
        self.controller.check_running()?;
        self.brokers.iter_mut().try_for_each(|broker| broker.child.check_running())
    }

    /// Stops all nodes, brokers first. What did not stop in an orderly way is named in the answer.
    pub fn stop(self) -> Vec<String> {
        let mut complaints = Vec::new();
        let brokers = self.brokers.into_iter().map(|broker| broker.child).collect();
        for children in [brokers, vec![self.controller]] {
            complaints.extend(stop_all(children));
        }
        complaints
    }
}

fn stop_all(mut children: Vec<Child>) -> Vec<String> {
    let deadline = Instant::now() + STOP_PATIENCE;
    for child in &mut children {
        child.ask_to_stop();
    }
    let complaint = |child: Child| {
        let name = child.name().to_owned();
        match child.stopped(deadline) {
            Stop::Orderly => None,
            Stop::Failed(error) => Some(error.to_string()),
            Stop::Killed => Some(format!(
                "{name} did not stop within {} s and was killed",
                STOP_PATIENCE.as_secs()
            )),
        }
    };
    children.into_iter().filter_map(complaint).collect()
}

fn start(
    plan: &Plan<'_>,
    name: &str,
    role: &'static str,
    file: &str,
) -> Result<Child, ClusterError> {
    let config = plan.folder.join(format!("{name}.toml"));
    fs::write(&config, file)
        .map_err(|source| ClusterError::Files { path: config.clone(), source })?;
    Ok(Child::start(Launch {
        name: name.to_owned(),
        executable: plan.executable.to_owned(),
        role,
        config,
        log: plan.folder.join(format!("{name}.log")),
    })?)
}

/// Where broker `id` tells what happens to ISRs, within the cluster's folder.
fn events_file(id: usize) -> String {
    format!("broker-{id}.events.jsonl")
}

/// Clusters of one run never talk to each other: each listens on ports of its own.
const CLUSTER_ID: &str = "ackmark-embedded";

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

fn controller_config(plan: &Plan<'_>) -> ControllerConfig {
    ControllerConfig {
        node_id: BrokerId(defaults::CONTROLLER_NODE_ID),
        cluster_id: CLUSTER_ID.to_owned(),
        listen: any_port(),
        data_dir: PathBuf::from("controller"),
        session_timeout: plan.settings.session_timeout,
        metadata_append_linger: plan.settings.metadata_append_linger,
        commit_delay: plan.variant.commit_delay,
        request_bytes_max: defaults::REQUEST_BYTES_MAX as usize,
        voters: Vec::new(),
        election_timeout: defaults::ELECTION_TIMEOUT,
        snapshot_interval_entries: defaults::SNAPSHOT_INTERVAL_ENTRIES,
        metrics_listen: None,
        election: defaults::ELECTION,
    }
}

fn broker_config(plan: &Plan<'_>, id: usize, controller: SocketAddr) -> BrokerConfig {
    let settings = plan.settings;
    BrokerConfig {
        node_id: BrokerId(id as i32),
        cluster_id: CLUSTER_ID.to_owned(),
        listen: any_port(),
        data_dir: PathBuf::from(format!("broker-{id}")),
        controllers: vec![controller],
        metrics_listen: None,
        events_file: Some(PathBuf::from(events_file(id))),
        engine: plan.engine,
        shards: settings.shards,
        pin: settings.pin,
        log: LogConfig {
            durability: plan.durability,
            commit_route: settings.commit_route.under(plan.durability),
            commit_pipeline_depth: plan.variant.commit_pipeline_depth,
            segment_bytes: settings.segment_bytes,
            memory_bytes: settings.memory_bytes,
            message_bytes_max: settings.message_bytes_max,
        },
        heartbeat_interval: settings.heartbeat_interval,
        replica_lag_time_max: settings.replica_lag_time_max,
        replica_fetch_wait_max: settings.replica_fetch_wait_max,
        replica_fetch_backoff: settings.replica_fetch_backoff,
        replica_fetch_bytes_max: settings.replica_fetch_bytes_max,
        replica_fetch_pipeline: plan.variant.fetch_pipeline,
        replica_serve_followers: plan.variant.serve_followers,
        request_bytes_max: defaults::REQUEST_BYTES_MAX as usize,
        half_frame_idle_max: defaults::HALF_FRAME_IDLE_MAX,
        in_flight_requests_max: defaults::IN_FLIGHT_REQUESTS_MAX as usize,
        undurable_bytes_max: settings.undurable_bytes_max,
    }
}

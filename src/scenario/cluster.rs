//! Controllers and their brokers as child processes on loopback, in a folder of their own.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
    /// The nodes serve metrics on the ports that follow, if it is there.
    pub metrics: Option<SocketAddr>,
}

impl Plan<'_> {
    /// Where node `number` serves metrics: brokers by id, then the controllers.
    fn metrics_of(&self, number: usize) -> Option<SocketAddr> {
        let run = self.metrics?;
        let port = u16::try_from(number).ok().and_then(|number| run.port().checked_add(number))?;
        Some(SocketAddr::new(run.ip(), port))
    }
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
    /// No port for a controller.
    #[error("cannot find a free port: {0}")]
    Port(#[source] io::Error),
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
    controllers: Vec<Child>,
    brokers: Vec<Broker>,
}

#[derive(Debug)]
struct Broker {
    child: Child,
    address: SocketAddr,
}

impl Cluster {
    /// Starts the controllers, then all brokers at once, and waits until each listens.
    ///
    /// # Errors
    /// [`ClusterError`], with the failed node's own words; then no process is left.
    pub fn start(plan: &Plan<'_>) -> Result<Cluster, ClusterError> {
        let folder = &plan.folder;
        fs::create_dir(folder)
            .map_err(|source| ClusterError::Files { path: folder.clone(), source })?;
        let (controllers, addresses) = start_controllers(plan)?;
        let ids = 1..=plan.settings.brokers;
        let started: Vec<Child> = ids
            .map(|id| {
                let file = broker_config(plan, id, &addresses).to_toml()?;
                start(plan, &format!("broker-{id}"), "broker", &file)
            })
            .collect::<Result<_, ClusterError>>()?;
        let announced = |mut child: Child| {
            let address = child.listening(START_PATIENCE)?;
            Ok(Broker { child, address })
        };
        let brokers = started.into_iter().map(announced).collect::<Result<_, ChildError>>()?;
        Ok(Cluster { controllers, brokers })
    }

    /// A broker that answers for the whole cluster.
    pub fn bootstrap(&self) -> SocketAddr {
        self.brokers[0].address
    }

    /// Every node's name and use of the machine since it started.
    pub fn usage(&self) -> Vec<(String, ProcessUse)> {
        let brokers = self.brokers.iter().map(|broker| &broker.child);
        self.controllers
            .iter()
            .chain(brokers)
            .map(|child| (child.name().to_owned(), ProcessUse::of(child.pid())))
            .collect()
    }

    /// Whether all nodes still run.
    ///
    /// # Errors
    /// [`ChildError::Ended`] for the first that does not, with its own words.
    pub fn check_running(&mut self) -> Result<(), ChildError> {
        self.controllers.iter_mut().try_for_each(Child::check_running)?;
        self.brokers.iter_mut().try_for_each(|broker| broker.child.check_running())
    }

    /// Stops all nodes, brokers first. What did not stop in an orderly way is named in the answer.
    pub fn stop(self) -> Vec<String> {
        let mut complaints = Vec::new();
        let brokers = self.brokers.into_iter().map(|broker| broker.child).collect();
        for children in [brokers, self.controllers] {
            complaints.extend(stop_all(children));
        }
        complaints
    }
}

/// All controllers, listening, in order of their ids. The first one names the voters and stands as
/// their leader at once: it starts last, when the others are there to vote.
fn start_controllers(plan: &Plan<'_>) -> Result<(Vec<Child>, Vec<SocketAddr>), ClusterError> {
    let ids = (defaults::CONTROLLER_NODE_ID..).map(BrokerId);
    let voters: Vec<_> = match plan.settings.controllers {
        1 => Vec::new(),
        count => ids.zip(free_addresses(count).map_err(ClusterError::Port)?).collect(),
    };
    let start_one = |voter: Option<&(BrokerId, SocketAddr)>| {
        let name = voter.map_or("controller".to_owned(), |(id, _)| format!("controller-{id}"));
        let file = controller_config(plan, &name, voter, &voters).to_toml()?;
        let mut child = start(plan, &name, "controller", &file)?;
        let address = child.listening(START_PATIENCE)?;
        Ok::<_, ClusterError>((child, address))
    };
    let others = voters.iter().skip(1).map(|voter| start_one(Some(voter)));
    let others: Vec<_> = others.collect::<Result<_, _>>()?;
    let first = start_one(voters.first())?;
    Ok(std::iter::once(first).chain(others).unzip())
}

/// Voters must know each other's ports before any of them listens. These were free a moment ago.
pub(super) fn free_addresses(count: usize) -> io::Result<Vec<SocketAddr>> {
    let held: Vec<TcpListener> =
        (0..count).map(|_| TcpListener::bind(any_port())).collect::<Result<_, _>>()?;
    held.iter().map(TcpListener::local_addr).collect()
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

/// Clusters of one run never talk to each other: each listens on ports of its own.
const CLUSTER_ID: &str = "ackmark-embedded";

fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// `voter` is one of `voters`, or the only one there is.
fn controller_config(
    plan: &Plan<'_>,
    name: &str,
    voter: Option<&(BrokerId, SocketAddr)>,
    voters: &[(BrokerId, SocketAddr)],
) -> ControllerConfig {
    let alone = (BrokerId(defaults::CONTROLLER_NODE_ID), any_port());
    let &(node_id, listen) = voter.unwrap_or(&alone);
    let place = voters.iter().position(|(id, _)| *id == node_id).unwrap_or(0);
    ControllerConfig {
        node_id,
        cluster_id: CLUSTER_ID.to_owned(),
        listen,
        data_dir: PathBuf::from(name),
        session_timeout: plan.settings.session_timeout,
        metadata_append_linger: plan.settings.metadata_append_linger,
        request_bytes_max: defaults::REQUEST_BYTES_MAX as usize,
        voters: voters.to_vec(),
        election_timeout: defaults::ELECTION_TIMEOUT,
        snapshot_interval_entries: defaults::SNAPSHOT_INTERVAL_ENTRIES,
        metrics_listen: plan.metrics_of(plan.settings.brokers + 1 + place),
        election: plan.settings.election,
    }
}

fn broker_config(plan: &Plan<'_>, id: usize, controllers: &[SocketAddr]) -> BrokerConfig {
    let settings = plan.settings;
    BrokerConfig {
        node_id: BrokerId(id as i32),
        cluster_id: CLUSTER_ID.to_owned(),
        listen: any_port(),
        data_dir: PathBuf::from(format!("broker-{id}")),
        controllers: controllers.to_vec(),
        metrics_listen: plan.metrics_of(id),
        engine: plan.engine,
        shards: settings.shards,
        pin: settings.pin,
        log: LogConfig {
            durability: plan.durability,
            commit_route: settings.commit_route.under(plan.durability),
            commit_pipeline_depth: settings.commit_pipeline_depth,
            segment_bytes: settings.segment_bytes,
            memory_bytes: settings.memory_bytes,
            message_bytes_max: settings.message_bytes_max,
        },
        heartbeat_interval: settings.heartbeat_interval,
        replica_lag_time_max: settings.replica_lag_time_max,
        replica_fetch_wait_max: settings.replica_fetch_wait_max,
        replica_fetch_backoff: settings.replica_fetch_backoff,
        replica_fetch_bytes_max: settings.replica_fetch_bytes_max,
        request_bytes_max: defaults::REQUEST_BYTES_MAX as usize,
        half_frame_idle_max: defaults::HALF_FRAME_IDLE_MAX,
        in_flight_requests_max: defaults::IN_FLIGHT_REQUESTS_MAX as usize,
        undurable_bytes_max: settings.undurable_bytes_max,
        alter_partition: settings.alter_partition,
    }
}

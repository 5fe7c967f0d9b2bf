//! A cluster to keep: controllers and brokers as child processes on loopback, in a folder that stays,
//! with node files a person may edit. What was started before in the folder goes on from there.
//!
//! Knows no rule and measures nothing; the clusters of an experiment are [`super::cluster`]'s.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::config::ConfigError;
use crate::config::defaults::CONTROLLER_NODE_ID;
use crate::config::node::{BrokerConfig, ControllerConfig};

use super::child::{Child, ChildError, Launch, START_PATIENCE, free_addresses, stop_all};
use super::describe::unfenced;

/// How long a broker may take to say who is there.
const ASK_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at who is there.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Controllers' ports begin so much after the brokers'.
const CONTROLLER_PORTS_AFTER: u16 = 100;

/// So that the last node still has a port.
const PORT_MAX: u16 = u16::MAX - 2 * CONTROLLER_PORTS_AFTER;

/// What a new cluster consists of; one that is in the folder already stays as it is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// This program.
    pub executable: PathBuf,
    /// Holds node files, logs and data; made if it is not there.
    pub folder: PathBuf,
    /// How many brokers, ids from 1.
    pub brokers: usize,
    /// How many controllers: 1 or 3, ids from 100.
    pub controllers: usize,
    /// Port of broker 1, the others' follow, controllers' 100 later; 0 picks free ones.
    pub port: u16,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum LocalClusterError {
    /// Some other number than a quorum can be made of.
    #[error("controllers = {0}: must be 1 or 3")]
    Controllers(usize),
    /// None, or more than there are ports for.
    #[error("brokers = {0}: must be 1 to {CONTROLLER_PORTS_AFTER}")]
    Brokers(usize),
    /// The last controller's port would be beyond the last port.
    #[error("port = {0}: must be 0 or at most {PORT_MAX}")]
    Port(u16),
    /// No free port.
    #[error("cannot find a free port")]
    Ports(#[source] io::Error),
    /// A folder or file of the cluster could not be made or read.
    #[error("cannot use {}", path.display())]
    Files {
        /// What.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A node file that is there cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A node failed.
    #[error(transparent)]
    Child(#[from] ChildError),
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its configuration.
    pub file: PathBuf,
    /// The command that starts it by hand: `controller` or `broker`.
    pub role: &'static str,
}

impl Node {
    /// `broker-1` …
    pub fn name(&self) -> &str {
        self.child.name()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

/// A running cluster. Dropping it kills all nodes; the folder stays.
#[derive(Debug)]
pub struct LocalCluster {
    /// Controllers, then brokers.
    nodes: Vec<Node>,
}

impl LocalCluster {
    /// Starts all nodes and waits until each listens.
    ///
    /// The kernel kills the nodes when the calling *thread* ends.
    ///
    /// # Errors
    /// [`LocalClusterError`], with the failed node's own words; then no process is left.
    pub fn start(plan: &Plan) -> Result<LocalCluster, LocalClusterError> {
        let files =
            |path: &Path, source| LocalClusterError::Files { path: path.to_owned(), source };
        fs::create_dir_all(&plan.folder).map_err(|source| files(&plan.folder, source))?;
        if node_files(&plan.folder, "controller").map_err(|e| files(&plan.folder, e))?.is_empty() {
            for (name, text) in new_files(plan)? {
                let file = plan.folder.join(name);
                fs::write(&file, text).map_err(|source| files(&file, source))?;
            }
        }
        let mut cluster = LocalCluster { nodes: Vec::new() };
        for role in ["controller", "broker"] {
            let files = node_files(&plan.folder, role).map_err(|e| files(&plan.folder, e))?;
            let started: Vec<(Child, PathBuf)> = files
                .into_iter()
                .map(|file| {
                    check(role, &file)?;
                    Ok((start(plan, role, &file)?, file))
                })
                .collect::<Result<_, LocalClusterError>>()?;
            for (mut child, file) in started {
                let address = child.listening(START_PATIENCE)?;
                cluster.nodes.push(Node { child, address, file, role });
            }
        }
        Ok(cluster)
    }

    /// Waits until every broker is unfenced, as each of them has applied it: leaders are elected in
    /// the same records, so that from then on clients are served. After a stop that was not orderly
    /// this takes until the controller has given up the brokers' last processes
    /// (`session_timeout`, 9 s): until then they might still be running. Returns at once when `stop`
    /// is set.
    ///
    /// # Errors
    /// [`ChildError::Ended`]: a node ended instead.
    pub fn await_served(&mut self, stop: &AtomicBool) -> Result<(), LocalClusterError> {
        while !stop.load(Ordering::Relaxed) {
            for node in &mut self.nodes {
                node.child.check_running()?;
            }
            let mut brokers = self.nodes.iter().filter(|node| node.role == "broker");
            let count = brokers.clone().count();
            let sees_all = |broker: &Node| {
                unfenced(broker.address, ASK_PATIENCE).is_some_and(|seen| seen.len() >= count)
            };
            if brokers.all(sees_all) {
                return Ok(());
            }
            thread::sleep(ASK_AGAIN);
        }
        Ok(())
    }

    /// Nodes that were started and have not ended: controllers, then brokers.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Nodes that have ended since the last look, each with its own words.
    pub fn take_ended(&mut self) -> Vec<(Node, ChildError)> {
        let mut ended = Vec::new();
        let mut index = 0;
        while index < self.nodes.len() {
            match self.nodes[index].child.check_running() {
                Ok(()) => index += 1,
                Err(error) => ended.push((self.nodes.remove(index), error)),
            }
        }
        ended
    }

    /// Stops all nodes, brokers first. What did not stop in an orderly way is named in the answer.
    pub fn stop(self) -> Vec<String> {
        let (brokers, controllers): (Vec<Node>, Vec<Node>) =
            self.nodes.into_iter().partition(|node| node.role == "broker");
        let mut complaints = stop_all(brokers.into_iter().map(|node| node.child));
        complaints.extend(stop_all(controllers.into_iter().map(|node| node.child)));
        complaints
    }
}

/// The folder's node files of one role, by name.
fn node_files(folder: &Path, role: &str) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let is_file = path.extension().is_some_and(|extension| extension == "toml");
        if is_file && name.strip_prefix(role).is_some_and(|rest| rest.starts_with('-')) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads the file, so that what is wrong with it is said before anything starts.
fn check(role: &str, file: &Path) -> Result<(), ConfigError> {
    match role {
        "controller" => ControllerConfig::from_file(file).map(|_| ()),
        _ => BrokerConfig::from_file(file).map(|_| ()),
    }
}

fn start(plan: &Plan, role: &'static str, file: &Path) -> Result<Child, ChildError> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Child::start(Launch {
        executable: plan.executable.clone(),
        role,
        config: file.to_owned(),
        log: file.with_extension("log"),
        takes_orders: false,
        name,
    })
}

/// Names and texts of the files of a new cluster.
fn new_files(plan: &Plan) -> Result<Vec<(String, String)>, LocalClusterError> {
    if !matches!(plan.controllers, 1 | 3) {
        return Err(LocalClusterError::Controllers(plan.controllers));
    }
    if !(1..=usize::from(CONTROLLER_PORTS_AFTER)).contains(&plan.brokers) {
        return Err(LocalClusterError::Brokers(plan.brokers));
    }
    if plan.port > PORT_MAX {
        return Err(LocalClusterError::Port(plan.port));
    }
    let (brokers, controllers) = addresses(plan).map_err(LocalClusterError::Ports)?;
    let ids = CONTROLLER_NODE_ID..;
    let voters: Vec<(i32, SocketAddr)> = ids.zip(controllers).collect();
    let join = |parts: Vec<String>| parts.join(",");
    let quorum = join(voters.iter().map(|(id, address)| format!("{id}@{address}")).collect());
    let quorum = if voters.len() > 1 { format!("voters = \"{quorum}\"\n") } else { String::new() };
    let known = join(voters.iter().map(|(_, address)| address.to_string()).collect());
    let node = |id: i32, role: &str, address: SocketAddr| {
        format!(
            "node_id = {id}\ncluster_id = \"local\"\nlisten = \"{address}\"\n\
             data_dir = \"{role}-{id}\"\n"
        )
    };
    let controllers = voters.iter().map(|&(id, address)| {
        (format!("controller-{id}.toml"), node(id, "controller", address) + &quorum)
    });
    let brokers = (1..).zip(brokers).map(|(id, address)| {
        let text = node(id, "broker", address);
        let rest = format!("controllers = \"{known}\"\n\n[log]\ndurability = \"page-cache\"\n");
        (format!("broker-{id}.toml"), text + &rest)
    });
    Ok(controllers.chain(brokers).collect())
}

/// Brokers' and controllers' addresses.
fn addresses(plan: &Plan) -> io::Result<(Vec<SocketAddr>, Vec<SocketAddr>)> {
    let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let all: Vec<SocketAddr> = if plan.port == 0 {
        free_addresses(Ipv4Addr::LOCALHOST, plan.brokers + plan.controllers)?
    } else {
        let brokers = (plan.port..).take(plan.brokers);
        let controllers = (plan.port + CONTROLLER_PORTS_AFTER..).take(plan.controllers);
        brokers.chain(controllers).map(local).collect()
    };
    let (brokers, controllers) = all.split_at(plan.brokers);
    Ok((brokers.to_vec(), controllers.to_vec()))
}

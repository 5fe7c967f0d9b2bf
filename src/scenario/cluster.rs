//! Controllers and their brokers as child processes on loopback, in a folder of their own.
//!
//! What stands in their node files is `settings`'.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::cells::ClusterVariant;
use crate::config::node::ControllerConfig;
use crate::config::workload::Cluster as Settings;
use crate::config::{ConfigError, defaults};
use crate::environment::ProcessUse;
use crate::faults::loop_disk::{self, LoopDisk, LoopDiskError};
use crate::faults::relay::{End, Relay};
use crate::types::{BrokerId, DurabilityMode, EngineKind};

use super::child::{ChildError, Launch, START_PATIENCE, free_addresses, stop_all};
use super::describe::{Description, describe};
use super::member::Member;
use super::settings::{
    BROKER_ADDRESS, CONTROLLER_ADDRESS, Doors, broker_config, controller_config, events_file,
};

/// How long a broker may take to say who is there.
const ASK_PATIENCE: Duration = Duration::from_millis(500);
/// Between two looks at who is there.
const ASK_AGAIN: Duration = Duration::from_millis(20);

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
    /// Whether connections run through the harness's relay, so that links can be cut.
    pub relayed: bool,
    /// Whether brokers take orders that make their disks fail.
    pub fault_control: bool,
    /// Size of the loop disk each broker gets, so that its page cache can be lost; `None` for none.
    pub loop_disk_bytes: Option<u64>,
    /// The nodes serve metrics on the ports that follow, if it is there.
    pub metrics: Option<SocketAddr>,
}

impl Plan<'_> {
    /// Where node `number` serves metrics: brokers by id, then the controllers.
    pub(super) fn metrics_of(&self, number: usize) -> Option<SocketAddr> {
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
    /// No port for a node.
    #[error("cannot find a free port: {0}")]
    Port(#[source] io::Error),
    /// A node's configuration could not be written down.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A node failed.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A disk that can lose its page cache cannot be had.
    #[error(transparent)]
    LoopDisk(#[from] LoopDiskError),
    /// The relay cannot be had.
    #[error("the harness's TCP relay")]
    Relay(#[source] io::Error),
    /// Brokers did not come back.
    #[error("{seen} of {brokers} brokers are in the cluster after {} s", waited.as_secs())]
    Incomplete {
        /// Unfenced ones.
        seen: usize,
        /// Those there should be.
        brokers: usize,
        /// How long.
        waited: Duration,
    },
}

/// A running cluster. Dropping it kills all nodes; the folder stays.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    controllers: Vec<Member>,
    brokers: Vec<Member>,
    relay: Option<Relay>,
    /// After the members: they go first, and with them their open files.
    disks: Vec<(BrokerId, LoopDisk)>,
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
        let mut cluster = Cluster {
            folder: folder.clone(),
            controllers: Vec::new(),
            brokers: Vec::new(),
            relay: None,
            disks: Vec::new(),
        };
        if plan.loop_disk_bytes.is_some() {
            loop_disk::enter_mount_namespace()?;
        }
        if plan.relayed {
            cluster.relay = Some(Relay::start().map_err(ClusterError::Relay)?);
        }
        cluster.start_controllers(plan)?;
        let seats = free_addresses(BROKER_ADDRESS, plan.settings.brokers);
        for (id, listen) in (1..).map(BrokerId).zip(seats.map_err(ClusterError::Port)?) {
            if let Some(size_bytes) = plan.loop_disk_bytes {
                let image = folder.join(format!("broker-{id}.image"));
                let disk = LoopDisk::create(&image, &cluster.data_dir(id), size_bytes)?;
                cluster.disks.push((id, disk));
            }
            let doors = cluster.doors(id, listen).map_err(ClusterError::Relay)?;
            let file = broker_config(plan, id, &doors).to_toml()?;
            let broker = start(plan, id, &format!("broker-{id}"), "broker", &file)?;
            cluster.brokers.push(broker);
        }
        cluster.look()?;
        for broker in &mut cluster.brokers {
            broker.listen(START_PATIENCE)?;
        }
        cluster.look()?;
        Ok(cluster)
    }

    /// All controllers, listening, in order of their ids. The first one names the voters and stands
    /// as their leader at once: it starts last, when the others are there to vote.
    fn start_controllers(&mut self, plan: &Plan<'_>) -> Result<(), ClusterError> {
        let count = plan.settings.controllers;
        let ids = (defaults::CONTROLLER_NODE_ID..).map(BrokerId);
        let seats: Vec<_> = ids
            .zip(free_addresses(CONTROLLER_ADDRESS, count).map_err(ClusterError::Port)?)
            .collect();
        for (place, &(id, listen)) in seats.iter().enumerate().rev() {
            let (name, voters) = match count {
                1 => ("controller".to_owned(), Vec::new()),
                _ => {
                    let voters = self.voters_for(id, &seats).map_err(ClusterError::Relay)?;
                    (format!("controller-{id}"), voters)
                }
            };
            let config = ControllerConfig {
                node_id: id,
                listen,
                data_dir: PathBuf::from(&name),
                voters,
                metrics_listen: plan.metrics_of(plan.settings.brokers + 1 + place),
                ..controller_config(plan)
            };
            let mut controller = start(plan, id, &name, "controller", &config.to_toml()?)?;
            controller.listen(START_PATIENCE)?;
            self.controllers.insert(0, controller);
            self.look()?;
        }
        Ok(())
    }

    /// All voters as voter `own` reaches them.
    fn voters_for(
        &mut self,
        own: BrokerId,
        seats: &[(BrokerId, SocketAddr)],
    ) -> io::Result<Vec<(BrokerId, SocketAddr)>> {
        let reached = |&(id, listen): &(BrokerId, SocketAddr)| match &mut self.relay {
            Some(relay) if id != own => Ok((id, relay.door(Some(End::Node(own)), End::Node(id))?)),
            _ => Ok((id, listen)),
        };
        seats.iter().map(reached).collect()
    }

    /// Where broker `id` reaches the controllers, and where others reach the broker.
    fn doors(&mut self, id: BrokerId, listen: SocketAddr) -> io::Result<Doors> {
        let Some(relay) = &mut self.relay else {
            let controllers = self.controllers.iter().filter_map(Member::address).collect();
            return Ok(Doors { listen, controllers, advertised: None });
        };
        let controllers = self.controllers.iter().map(|controller| End::Node(controller.id));
        let from = Some(End::Node(id));
        Ok(Doors {
            listen,
            controllers: controllers.map(|to| relay.door(from, to)).collect::<io::Result<_>>()?,
            advertised: Some(relay.door(None, End::Node(id))?),
        })
    }

    /// The relay, if connections run through it.
    pub(super) fn relay(&self) -> Option<&Relay> {
        self.relay.as_ref()
    }

    /// A broker that answers for the whole cluster: the first that is up.
    pub fn bootstrap(&self) -> SocketAddr {
        let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let up = self.brokers.iter().find(|broker| broker.address().is_some());
        let relayed = up.zip(self.relay.as_ref());
        let door = relayed.and_then(|(broker, relay)| relay.address(End::Node(broker.id)));
        door.or(up.and_then(Member::address)).unwrap_or(nobody)
    }

    pub(super) fn brokers(&self) -> &[Member] {
        &self.brokers
    }

    pub(super) fn broker(&self, id: BrokerId) -> Option<&Member> {
        self.brokers.iter().find(|broker| broker.id == id)
    }

    /// Holds a broker's partitions.
    pub(super) fn data_dir(&self, broker: BrokerId) -> PathBuf {
        self.folder.join(format!("broker-{broker}"))
    }

    /// The disk of a broker, if it can lose its page cache.
    pub(super) fn disk_mut(&mut self, broker: BrokerId) -> Option<&mut LoopDisk> {
        self.disks.iter_mut().find(|(id, _)| *id == broker).map(|(_, disk)| disk)
    }

    pub(super) fn controllers(&self) -> &[Member] {
        &self.controllers
    }

    pub(super) fn member_mut(&mut self, id: BrokerId) -> Option<&mut Member> {
        self.controllers.iter_mut().chain(&mut self.brokers).find(|member| member.id == id)
    }

    /// The files in which its brokers tell what happens to ISRs.
    pub fn events_files(plan: &Plan<'_>) -> Vec<PathBuf> {
        let ids = (1..=plan.settings.brokers).map(|id| BrokerId(id as i32));
        ids.map(|id| plan.folder.join(events_file(id))).collect()
    }

    /// Every node's name and use of the machine since it started.
    pub fn usage(&self) -> Vec<(String, ProcessUse)> {
        let running = self.controllers.iter().chain(&self.brokers);
        running
            .filter_map(|member| Some((member.name().to_owned(), ProcessUse::of(member.pid()?))))
            .collect()
    }

    /// Whether all nodes still run that are meant to.
    ///
    /// # Errors
    /// [`ChildError::Ended`] for the first that does not, with its own words.
    pub fn check_running(&mut self) -> Result<(), ChildError> {
        let mut members = self.controllers.iter_mut().chain(&mut self.brokers);
        members.try_for_each(Member::check_running)
    }

    /// Takes note of where restarted nodes listen, and has the relay lead there.
    ///
    /// # Errors
    /// [`ClusterError::Relay`].
    pub(super) fn look(&mut self) -> Result<(), ClusterError> {
        for member in self.controllers.iter_mut().chain(&mut self.brokers) {
            member.look();
            if let Some(relay) = &mut self.relay {
                let target = member.listens_at();
                relay.lead(End::Node(member.id), target).map_err(ClusterError::Relay)?;
            }
        }
        Ok(())
    }

    /// Waits until every broker listens and is unfenced, as one of them sees it.
    ///
    /// # Errors
    /// [`ChildError`] if a node ended; [`ClusterError::Incomplete`] after `patience`.
    pub(super) fn await_complete(&mut self, patience: Duration) -> Result<(), ClusterError> {
        let deadline = Instant::now() + patience;
        loop {
            self.look()?;
            self.check_running()?;
            let seen = self.ask(None).map_or(0, |seen| seen.brokers.len());
            if seen == self.brokers.len() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let brokers = self.brokers.len();
                return Err(ClusterError::Incomplete { seen, brokers, waited: patience });
            }
            thread::sleep(ASK_AGAIN);
        }
    }

    /// What brokers say of `topic`, if all of them say the same.
    pub(super) fn ask_all(&self, topic: &str) -> Option<Description> {
        let ask = |broker: &Member| describe(broker.address()?, Some(topic), ASK_PATIENCE);
        let mut answers = self.brokers.iter().map(ask);
        let first = answers.next()??;
        answers.all(|answer| answer.as_ref() == Some(&first)).then_some(first)
    }

    /// What the first broker that answers says of the cluster and of `topic`.
    pub(super) fn ask(&self, topic: Option<&str>) -> Option<Description> {
        let mut addresses = self.brokers.iter().filter_map(Member::address);
        addresses.find_map(|address| describe(address, topic, ASK_PATIENCE))
    }

    /// Stops all nodes, brokers first. What did not stop in an orderly way is named in the answer.
    pub fn stop(self) -> Vec<String> {
        let mut complaints = stop_all(self.brokers.into_iter().filter_map(Member::into_child));
        complaints.extend(stop_all(self.controllers.into_iter().filter_map(Member::into_child)));
        complaints
    }
}

fn start(
    plan: &Plan<'_>,
    id: BrokerId,
    name: &str,
    role: &'static str,
    file: &str,
) -> Result<Member, ClusterError> {
    let config = plan.folder.join(format!("{name}.toml"));
    fs::write(&config, file)
        .map_err(|source| ClusterError::Files { path: config.clone(), source })?;
    let launch = Launch {
        name: name.to_owned(),
        executable: plan.executable.to_owned(),
        role,
        config,
        log: plan.folder.join(format!("{name}.log")),
        takes_orders: plan.fault_control && role == "broker",
    };
    Ok(Member::start(id, launch)?)
}

//! This voter among the others: its start, its proposals, what it can tell about the quorum.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::raft::responder::Responder;
use openraft::{Config, ServerState, SnapshotPolicy};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::machine::StateMachine;
use super::message::{Call, Envelope, Reply, encode_call, encode_reply, parse_call, parse_reply};
use super::network::Network;
use super::store::LogStore;
use super::voter::{Applied, Heard, Voter};
use super::{MetadataBatch, Node, NodeId, Raft, TypeConfig, entry};
use crate::config::node::ControllerConfig;
use crate::measure::clock;
use crate::node::controller::metadata_log::{MetadataLogError, Recovery};
use crate::node::controller::metrics::Now;
use crate::protocol::metadata::ClusterMetadata;
use crate::types::{BrokerId, LeaderEpoch};

/// Heartbeats within the shortest election timeout.
const HEARTBEATS_PER_TIMEOUT: u32 = 5;
/// Election timeouts in a leader's lease.
const LEASE_TIMEOUTS: u32 = 2;
/// A snapshot's chunk, well below what a request may measure.
const SNAPSHOT_CHUNK_BYTES: u64 = 256 << 10;
/// Longest wait for a voter to take a chunk of a snapshot; the last one is written and synced.
const SNAPSHOT_CHUNK_TIMEOUT_MS: u64 = 30_000;
/// Turns that others get before the leader's sync holds the thread: entries go out first.
const TURNS_BEFORE_FLUSH: usize = 3;

/// Why a voter cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum QuorumError {
    /// The metadata log cannot be used.
    #[error(transparent)]
    Log(#[from] MetadataLogError),
    /// openraft cannot start or go on.
    #[error("raft: {0}")]
    Raft(String),
}

/// A voter as the one asked sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoterView {
    /// Its `node.id`.
    pub node_id: i32,
    /// Where it listens.
    pub address: SocketAddr,
    /// Offset after the last record it is known to have; `None` if the one asked does not lead.
    pub log_end: Option<i64>,
    /// Milliseconds since it last took what a leader sent; `None` if it has not, or leads itself.
    pub heard_ms_ago: Option<u64>,
}

/// The quorum as one voter sees it; DescribeQuorum's contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuorumView {
    /// Who was asked.
    pub node_id: i32,
    /// The active controller, if it knows one.
    pub leader: Option<i32>,
    /// Its term: the leader epoch of the metadata log.
    pub term: i32,
    /// Offset after its last record.
    pub log_end: i64,
    /// Offset after the last committed record it applied; the high watermark if it leads.
    pub committed: i64,
    /// First offset that is not in the snapshot only.
    pub log_start: i64,
    /// All voters.
    pub voters: Vec<VoterView>,
}

/// Nobody waits for an entry by name: answers wait for offsets.
#[derive(Debug)]
pub(in crate::node::controller) struct Unheard;

impl Responder<TypeConfig> for Unheard {
    type Receiver = ();

    fn from_app_data(batch: MetadataBatch) -> (MetadataBatch, Unheard, ()) {
        (batch, Unheard, ())
    }

    fn send(self, _: openraft::raft::ClientWriteResult<TypeConfig>) {}
}

/// This voter, running.
#[derive(Clone)]
pub(in crate::node::controller) struct Quorum {
    raft: Raft,
    pub(in crate::node::controller) voter: Rc<Voter>,
    addresses: Rc<BTreeMap<NodeId, SocketAddr>>,
    cluster: u32,
    /// openraft's leader lease: for so long after it heard of a leader, a voter votes for no other.
    lease: Duration,
}

/// Wakes whoever follows this voter's part in the quorum.
pub(in crate::node::controller) struct Watch {
    applied: watch::Receiver<Applied>,
    role: watch::Receiver<openraft::metrics::RaftServerMetrics<NodeId, Node>>,
}

impl Watch {
    /// Waits for committed records, another role, or a failure.
    pub(in crate::node::controller) async fn changed(&mut self) {
        // A closed channel is a stopped Raft, which `Quorum::check` reports.
        tokio::select! {
            _ = self.applied.changed() => {}
            _ = self.role.changed() => {}
        }
    }
}

impl Quorum {
    /// Opens what the last process left and takes part. The first start of the voter with the lowest
    /// id names the voters; the others do so only if it does not show up.
    pub(in crate::node::controller) async fn start(
        config: &ControllerConfig,
    ) -> Result<(Quorum, Recovery), QuorumError> {
        let node = node_id(config.node_id);
        let (voter, recovery) = Voter::open(node, &config.data_dir)?;
        if config.voters.len() < 2 {
            voter.check_not_emptied()?;
        }
        let voter = Rc::new(voter);
        let mut addresses: BTreeMap<_, _> =
            config.voters.iter().map(|&(id, address)| (node_id(id), address)).collect();
        addresses.entry(node).or_insert(config.listen);
        let addresses = Rc::new(addresses);
        let cluster = crc32c::crc32c(config.cluster_id.as_bytes());
        let network = Network {
            voter: voter.clone(),
            cluster,
            addresses: addresses.clone(),
            quiet_for: config.election_timeout / HEARTBEATS_PER_TIMEOUT / 2,
        };
        let started = Raft::new(
            node,
            Arc::new(raft_config(config)?),
            network,
            LogStore(voter.clone()),
            StateMachine(voter.clone()),
        );
        let raft = started.await.map_err(|error| voter.reason(error))?;
        let lease = LEASE_TIMEOUTS * config.election_timeout;
        let quorum = Quorum { raft, voter, addresses, cluster, lease };
        if quorum.addresses.len() > 1 {
            tokio::task::spawn_local(flush_in_turn(quorum.voter.clone()));
        }
        quorum.join(config.election_timeout).await?;
        Ok((quorum, recovery))
    }

    async fn join(&self, election_timeout: Duration) -> Result<(), QuorumError> {
        let stopped = |error| self.voter.reason(error);
        if self.raft.is_initialized().await.map_err(stopped)? {
            if self.addresses.len() == 1 {
                // Nobody else can win: no reason to wait for the election timer.
                self.raft.trigger().elect().await.map_err(stopped)?;
            }
            return Ok(());
        }
        let is_first = self.addresses.keys().next() == Some(&self.voter.node);
        let quorum = self.clone();
        let name_voters = async move {
            if !is_first {
                tokio::time::sleep(2 * election_timeout).await;
            }
            let voters: BTreeSet<NodeId> = quorum.addresses.keys().copied().collect();
            // Refused if another voter has named them meanwhile, and then they are the same.
            let _ = quorum.raft.initialize(voters).await;
        };
        if is_first {
            name_voters.await;
        } else {
            tokio::task::spawn_local(name_voters);
        }
        Ok(())
    }

    /// Wakes on every change from now on.
    pub(in crate::node::controller) fn watch(&self) -> Watch {
        Watch { applied: self.voter.applied.subscribe(), role: self.raft.server_metrics() }
    }

    /// The term that this voter leads, if no other voter can lead a later one by now: a majority took
    /// an append that was sent within the lease, and votes for nobody else until the lease is over.
    pub(in crate::node::controller) fn leads(&self) -> Option<LeaderEpoch> {
        let role = self.raft.server_metrics();
        let role = role.borrow();
        let term = role.vote.leader_id.term;
        let leads = role.state == ServerState::Leader && self.holds_lease(term);
        leads.then(|| entry::epoch(term))
    }

    /// Whether this voter is all there is.
    pub(in crate::node::controller) fn is_alone(&self) -> bool {
        self.addresses.len() == 1
    }

    /// The leader known here, and its term.
    pub(in crate::node::controller) fn leader(&self) -> (Option<BrokerId>, LeaderEpoch) {
        let role = self.raft.server_metrics();
        let role = role.borrow();
        (role.current_leader.map(broker_id), entry::epoch(role.vote.leader_id.term))
    }

    /// Where that leader listens, unless it is this voter.
    pub(in crate::node::controller) fn other_leader(&self) -> Option<SocketAddr> {
        let leader = self.leader().0.map(node_id).filter(|&leader| leader != self.voter.node);
        leader.and_then(|leader| self.addresses.get(&leader).copied())
    }

    /// The committed metadata, if it is all there is: every entry of this voter's log is applied,
    /// proposals on their way into it included.
    pub(in crate::node::controller) async fn settled(&self) -> Option<ClusterMetadata> {
        // Goes through the same queue as proposals.
        self.raft.with_raft_state(|_| ()).await.ok()?;
        let (log, state) = (self.voter.log.borrow(), self.voter.state.borrow());
        let applied = state.last.map(|last| last.index + 1);
        (applied == Some(log.next_index())).then(|| state.metadata.clone())
    }

    /// Hands a batch to the log. It is committed once [`Voter::applied`] reaches its end, or never,
    /// if this voter leads no longer.
    pub(in crate::node::controller) async fn propose(&self, batch: Bytes) {
        // An error is a stopped Raft, which `check` reports.
        let _ = self.raft.client_write_ff(MetadataBatch(batch)).await;
    }

    /// # Errors
    /// What stopped this voter.
    pub(in crate::node::controller) fn check(&self) -> Result<(), QuorumError> {
        if let Some(error) = self.voter.take_failure() {
            return Err(error.into());
        }
        match &self.raft.metrics().borrow().running_state {
            Ok(()) => Ok(()),
            Err(fatal) => Err(QuorumError::Raft(fatal.to_string())),
        }
    }

    /// Ends the voter's tasks.
    pub(in crate::node::controller) async fn stop(&self) {
        // It ends either way.
        let _ = self.raft.shutdown().await;
    }

    /// Answers another voter; `None` closes its connection.
    pub(in crate::node::controller) async fn answer(&self, frame: &[u8]) -> Option<Bytes> {
        let Envelope { cluster, to, call } = parse_call(frame)?;
        if cluster != self.cluster || to.is_some_and(|to| to != self.voter.node) {
            return None;
        }
        let reply = match call {
            Call::Append(request) => Reply::Append(self.raft.append_entries(request).await),
            Call::Vote(request) => Reply::Vote(self.raft.vote(request).await),
            Call::Snapshot(request) => Reply::Snapshot(self.raft.install_snapshot(request).await),
            Call::Describe => Reply::Describe(self.view()),
        };
        encode_reply(&reply).ok()
    }

    /// What this voter knows about the quorum.
    pub(in crate::node::controller) fn view(&self) -> QuorumView {
        let (leader, term) = self.leader();
        let data = self.raft.data_metrics();
        let replication = data.borrow().replication.clone().unwrap_or_default();
        let log = self.voter.log.borrow();
        let end_of = |index: u64| {
            let entry = log.kept(index..index + 1).next();
            entry.map_or(log.start_offset(), |entry| entry.end_offset).0
        };
        let (now, heard) = (clock::now(), self.voter.heard.borrow());
        let since =
            |heard: &Heard| now.since(heard.sent).as_millis().try_into().unwrap_or(u64::MAX);
        let voters = self.addresses.iter().map(|(&id, &address)| VoterView {
            node_id: broker_id(id).0,
            address,
            log_end: replication.get(&id).map(|matched| matched.map_or(0, |at| end_of(at.index))),
            heard_ms_ago: heard.get(&id).map(since),
        });
        QuorumView {
            node_id: broker_id(self.voter.node).0,
            leader: leader.map(|leader| leader.0),
            term: term.0,
            log_end: log.end_offset().0,
            committed: self.voter.applied.borrow().end_offset.0,
            log_start: log.start_offset().0,
            voters: voters.collect(),
        }
    }

    /// The figures of this voter.
    ///
    /// # Errors
    /// As [`super::super::metrics::Metrics::render`].
    pub(in crate::node::controller) fn metrics(
        &self,
        is_active: bool,
        queue_length: usize,
    ) -> Result<String, std::fmt::Error> {
        let view = self.view();
        let state = self.voter.state.borrow();
        self.voter.metrics.render(&Now {
            metadata: &state.metadata,
            is_active,
            queue_length,
            term: view.term,
            log_end: view.log_end,
            committed: view.committed,
        })
    }

    /// The snapshot's records, for readers that begin at offset 0 of a log that does not.
    pub(in crate::node::controller) fn snapshot_records(&self) -> Bytes {
        let snapshot = self.voter.snapshot.borrow();
        snapshot.as_ref().map_or_else(Bytes::new, |snapshot| snapshot.records())
    }

    fn holds_lease(&self, term: u64) -> bool {
        let now = clock::now();
        let heard = self.voter.heard.borrow();
        let lasts = |heard: &&Heard| heard.term == term && now.since(heard.sent) < self.lease;
        // This voter and so many others are a majority.
        heard.values().filter(lasts).count() >= self.addresses.len() / 2
    }
}

/// Asks the controller at `address`, waiting at most `timeout` at each step.
///
/// # Errors
/// It cannot be reached, or is no controller of this cluster and version.
pub fn describe_quorum(
    address: SocketAddr,
    cluster_id: &str,
    timeout: Duration,
) -> io::Result<QuorumView> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let cluster = crc32c::crc32c(cluster_id.as_bytes());
    let call = Envelope { cluster, to: None, call: Call::Describe };
    let frame = encode_call(&call).map_err(io::Error::other)?;
    let length = i32::try_from(frame.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &frame].concat())?;
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u64::try_from(i32::from_be_bytes(length)).map_err(io::Error::other)?;
    let mut answer = Vec::new();
    stream.take(length).read_to_end(&mut answer)?;
    match parse_reply(&answer).map_err(io::Error::other)? {
        Reply::Describe(view) => Ok(view),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

impl Voter {
    /// The cause on disk, if there is one, rather than what Raft made of it.
    fn reason(&self, error: impl std::fmt::Display) -> QuorumError {
        match self.take_failure() {
            Some(error) => error.into(),
            None => QuorumError::Raft(error.to_string()),
        }
    }
}

/// Syncs what a leader pushed, after the entries are on their way to the other voters.
async fn flush_in_turn(voter: Rc<Voter>) {
    loop {
        voter.flush_wanted.notified().await;
        for _ in 0..TURNS_BEFORE_FLUSH {
            tokio::task::yield_now().await;
        }
        if let Err(error) = voter.flush() {
            voter.fail(error);
        }
    }
}

fn raft_config(config: &ControllerConfig) -> Result<Config, QuorumError> {
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: config.cluster_id.clone(),
        heartbeat_interval: millis(config.election_timeout / HEARTBEATS_PER_TIMEOUT).max(1),
        election_timeout_min: millis(config.election_timeout),
        // The leader lease too.
        election_timeout_max: millis(LEASE_TIMEOUTS * config.election_timeout),
        install_snapshot_timeout: SNAPSHOT_CHUNK_TIMEOUT_MS,
        snapshot_max_chunk_size: SNAPSHOT_CHUNK_BYTES,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshot_interval_entries),
        // Brokers and voters that lag by less read on in the log.
        max_in_snapshot_log_to_keep: config.snapshot_interval_entries / 2,
        replication_lag_threshold: 2 * config.snapshot_interval_entries,
        ..Config::default()
    };
    config.validate().map_err(|error| QuorumError::Raft(error.to_string()))
}

fn node_id(id: BrokerId) -> NodeId {
    u64::try_from(id.0).unwrap_or_default()
}

fn broker_id(id: NodeId) -> BrokerId {
    BrokerId(i32::try_from(id).unwrap_or(i32::MAX))
}

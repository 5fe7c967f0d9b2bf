//! Calls to other voters. One connection per caller and target, one call at a time; a call that was
//! given up takes its connection with it, because its answer may still come.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use tokio::net::TcpStream;

use super::message::{Call, Envelope, Reply, encode_call, parse_reply};
use super::voter::{Heard, Voter};
use super::{LogId, Node, NodeId, TypeConfig, Vote};
use crate::measure::clock;
use crate::node::controller::connection::{read_frame, write_frame};
use crate::types::MonotonicTime;

/// Pause before an unreachable voter is tried again.
const RECONNECT_BACKOFF: Duration = Duration::from_millis(100);

type Called<T, E = openraft::error::Infallible> =
    Result<T, RPCError<NodeId, Node, RaftError<NodeId, E>>>;

/// Makes a caller per target.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) voter: Rc<Voter>,
    pub(super) cluster: u32,
    /// From the configuration, not from the log: a voter may move.
    pub(super) addresses: Rc<BTreeMap<NodeId, SocketAddr>>,
    /// How long a voter may go without hearing from the leader: half a heartbeat.
    pub(super) quiet_for: Duration,
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Caller;

    async fn new_client(&mut self, target: NodeId, _: &Node) -> Caller {
        Caller {
            voter: self.voter.clone(),
            cluster: self.cluster,
            target,
            address: self.addresses.get(&target).copied(),
            connection: None,
            quiet_for: self.quiet_for,
            agreed: None,
        }
    }
}

/// Calls one voter.
#[derive(Debug)]
pub(super) struct Caller {
    voter: Rc<Voter>,
    cluster: u32,
    target: NodeId,
    address: Option<SocketAddr>,
    connection: Option<Connection>,
    quiet_for: Duration,
    /// What the target last said yes to.
    agreed: Option<Agreed>,
}

/// An append that was taken.
#[derive(Debug)]
struct Agreed {
    answered: MonotonicTime,
    vote: Vote,
    /// Up to here the target's log is this one's.
    matching: Option<LogId>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
}

impl Caller {
    async fn call<E: Error>(&mut self, call: Call) -> Called<Reply, E> {
        let envelope = Envelope { cluster: self.cluster, to: Some(self.target), call };
        let frame = encode_call(&envelope).map_err(|error| network_error(&error))?;
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.connect().await.map_err(|e| RPCError::Unreachable(Unreachable::new(&e)))?
            }
        };
        let sent = write_frame(&mut connection.stream, &[frame]).await;
        sent.map_err(|error| network_error(&error))?;
        let limit = i32::MAX as usize;
        let Connection { stream, buffer } = &mut connection;
        let answer = read_frame(stream, buffer, limit).await;
        let answer = answer.map_err(|error| network_error(&error))?;
        let closed = || network_error(&io::Error::from(io::ErrorKind::UnexpectedEof));
        let reply =
            parse_reply(&answer.ok_or_else(closed)?).map_err(|error| network_error(&error))?;
        self.connection = Some(connection);
        Ok(reply)
    }

    /// Whether the target said yes a moment ago to all that `request` claims but its commit.
    fn agreed_just_now(&self, request: &AppendEntriesRequest<TypeConfig>) -> bool {
        request.entries.is_empty()
            && self.agreed.as_ref().is_some_and(|agreed| {
                agreed.vote == request.vote
                    && agreed.matching == request.prev_log_id
                    && clock::now().since(agreed.answered) < self.quiet_for
            })
    }

    async fn connect(&self) -> io::Result<Connection> {
        let no_address = || io::Error::other(format!("voter {} has no address", self.target));
        let stream = TcpStream::connect(self.address.ok_or_else(no_address)?).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, buffer: BytesMut::new() })
    }

    #[expect(clippy::result_large_err, reason = "the error is openraft's")]
    fn remote<T, E: Error>(&self, result: Result<T, RaftError<NodeId, E>>) -> Called<T, E> {
        result.map_err(|error| RPCError::RemoteError(RemoteError::new(self.target, error)))
    }
}

impl RaftNetwork<TypeConfig> for Caller {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Called<AppendEntriesResponse<NodeId>> {
        let committed_end = request.leader_commit.map_or(0, |committed| committed.index + 1);
        if committed_end > self.voter.log.borrow().durable_end() {
            // Nobody may believe in a commit that a crash of this voter could take back.
            self.voter.flush().map_err(|error| {
                let told = network_error(&error);
                self.voter.fail(error);
                told
            })?;
        }
        if self.agreed_just_now(&request) {
            // The news is a commit, after every entry. It goes with the next entry or heartbeat;
            // alone it would keep this connection, and the follower, from that next entry.
            return Ok(AppendEntriesResponse::Success);
        }
        let vote = request.vote;
        let matching = request.entries.last().map_or(request.prev_log_id, |last| Some(last.log_id));
        let sent = clock::now();
        self.agreed = None;
        match self.call(Call::Append(request)).await? {
            Reply::Append(result) => {
                if matches!(result, Ok(AppendEntriesResponse::Success)) {
                    self.agreed = Some(Agreed { answered: clock::now(), vote, matching });
                    let heard = Heard { sent, term: vote.leader_id.term };
                    self.voter.heard.borrow_mut().insert(self.target, heard);
                }
                self.remote(result)
            }
            _ => Err(wrong_answer()),
        }
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<TypeConfig>,
        _: RPCOption,
    ) -> Called<InstallSnapshotResponse<NodeId>, InstallSnapshotError> {
        match self.call(Call::Snapshot(request)).await? {
            Reply::Snapshot(result) => self.remote(result),
            _ => Err(wrong_answer()),
        }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        _: RPCOption,
    ) -> Called<VoteResponse<NodeId>> {
        match self.call(Call::Vote(request)).await? {
            Reply::Vote(result) => self.remote(result),
            _ => Err(wrong_answer()),
        }
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(RECONNECT_BACKOFF))
    }
}

fn network_error<E: Error>(error: &(impl Error + 'static)) -> RPCError<NodeId, Node, E> {
    RPCError::Network(NetworkError::new(error))
}

fn wrong_answer<E: Error>() -> RPCError<NodeId, Node, E> {
    network_error(&io::Error::from(io::ErrorKind::InvalidData))
}

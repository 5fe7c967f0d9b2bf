//! DescribeQuorum: the voters and the brokers that follow them, as the active controller sees them.
//! Another voter passes the question on, once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use kafka_protocol::messages::{
    BrokerId as NodeId, DescribeQuorumRequest, DescribeQuorumResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use tokio::net::TcpStream;
use uuid::Uuid;

use super::connection::{Closed, Service, read_frame, write_frame};
use super::raft::{QuorumView, VoterView};
use super::wall_clock_ms;
use crate::measure::clock;
use crate::types::{BrokerId, ErrorCode, MonotonicTime, Offset};
use crate::wire::{self, ApiKey, Request, RequestHead, Response};

/// The version in which voters ask each other.
const VERSION: i16 = 2;
/// First versions with timestamps, and with addresses and messages.
const TIMESTAMPS_FROM: i16 = 1;
const NODES_FROM: i16 = 2;
/// Marks a question that was passed on: it goes no further.
const PASSED_ON: &str = "ackmark-voter";
/// For the other voter's answer.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 1 << 20;
const TOPIC: &str = "__cluster_metadata";
/// Kafka's "unknown" of offsets and timestamps.
const UNKNOWN: i64 = -1;

/// How far each broker had read when it last asked this voter for more.
#[derive(Debug, Default)]
pub(super) struct Observers(RefCell<BTreeMap<BrokerId, (Offset, MonotonicTime)>>);

impl Observers {
    /// `broker` asks for what follows `offset`.
    pub(super) fn fetched(&self, broker: BrokerId, offset: Offset) {
        self.0.borrow_mut().insert(broker, (offset, clock::now()));
    }
}

impl Service {
    pub(super) async fn describe_quorum(
        &self,
        head: &RequestHead,
        request: DescribeQuorumRequest,
    ) -> DescribeQuorumResponse {
        let asked_by_voter = head.client_id.as_deref() == Some(PASSED_ON);
        let other = self.quorum.other_leader().filter(|_| !asked_by_voter);
        let response = if !names_the_log(&request) {
            let error = ErrorCode::UnknownTopicOrPartition;
            refused(error, format!("only partition 0 of {TOPIC} has a quorum"))
        } else if self.quorum.leads().is_some() {
            self.describe()
        } else if let Some(address) = other {
            let passed = tokio::time::timeout(PATIENCE, pass_on(address, request)).await;
            let answer = passed.ok().and_then(Result::ok).flatten();
            answer.unwrap_or_else(|| {
                let message = format!("the active controller at {address} does not answer");
                refused(ErrorCode::LeaderNotAvailable, message)
            })
        } else {
            let QuorumView { node_id, term, .. } = self.quorum.view();
            let message = format!("voter {node_id} knows no active controller in epoch {term}");
            refused(ErrorCode::LeaderNotAvailable, message)
        };
        in_version(head.version, response)
    }

    fn describe(&self) -> DescribeQuorumResponse {
        let view = self.quorum.view();
        let now = (clock::now(), wall_clock_ms());
        let voters = view.voters.iter().map(|voter| voter_state(&view, voter, now.1));
        let observers = self.reader.observers.0.borrow();
        let observers = observers.iter().map(|(&id, &(offset, at))| {
            let fetched = now.1 - millis(now.0.since(at));
            let caught_up = if offset.0 == view.log_end { fetched } else { UNKNOWN };
            replica(id.0, offset.0, fetched, caught_up)
        });
        let partition = PartitionData::default()
            .with_error_message(None)
            .with_leader_id(NodeId(view.leader.unwrap_or(-1)))
            .with_leader_epoch(view.term)
            .with_high_watermark(view.committed)
            .with_current_voters(voters.collect())
            .with_observers(observers.collect());
        let node = |voter: &VoterView| {
            let listener = Listener::default()
                .with_name(StrBytes::from_static_str("CONTROLLER"))
                .with_host(StrBytes::from_string(voter.address.ip().to_string()))
                .with_port(voter.address.port());
            Node::default().with_node_id(NodeId(voter.node_id)).with_listeners(vec![listener])
        };
        response(partition).with_nodes(view.voters.iter().map(node).collect())
    }
}

fn voter_state(view: &QuorumView, voter: &VoterView, now_ms: i64) -> ReplicaState {
    let log_end = voter.log_end.unwrap_or(UNKNOWN);
    if view.leader == Some(voter.node_id) {
        return replica(voter.node_id, view.log_end, now_ms, now_ms);
    }
    let ago = voter.heard_ms_ago.and_then(|ago| i64::try_from(ago).ok());
    let heard = ago.map_or(UNKNOWN, |ago| now_ms - ago);
    let caught_up = if log_end == view.log_end { heard } else { UNKNOWN };
    replica(voter.node_id, log_end, heard, caught_up)
}

fn replica(node: i32, log_end: i64, fetched: i64, caught_up: i64) -> ReplicaState {
    ReplicaState::default()
        .with_replica_id(NodeId(node))
        .with_log_end_offset(log_end)
        .with_last_fetch_timestamp(fetched)
        .with_last_caught_up_timestamp(caught_up)
}

fn response(partition: PartitionData) -> DescribeQuorumResponse {
    let topic = TopicData::default().with_topic_name(TopicName(StrBytes::from_static_str(TOPIC)));
    let topics = vec![topic.with_partitions(vec![partition])];
    DescribeQuorumResponse::default().with_error_message(None).with_topics(topics)
}

fn refused(error: ErrorCode, message: String) -> DescribeQuorumResponse {
    let partition = PartitionData::default()
        .with_error_code(error.code())
        .with_error_message(Some(StrBytes::from_string(message)))
        .with_leader_id(NodeId(-1))
        .with_leader_epoch(-1)
        .with_high_watermark(UNKNOWN);
    response(partition)
}

fn names_the_log(request: &DescribeQuorumRequest) -> bool {
    let [topic] = request.topics.as_slice() else { return false };
    let [partition] = topic.partitions.as_slice() else { return false };
    topic.topic_name.as_str() == TOPIC && partition.partition_index == 0
}

/// Without what `version` has no place for.
fn in_version(version: i16, mut response: DescribeQuorumResponse) -> DescribeQuorumResponse {
    if version < NODES_FROM {
        response.nodes.clear();
    }
    let topics = response.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for partition in topics {
        for replica in partition.current_voters.iter_mut().chain(&mut partition.observers) {
            if version < TIMESTAMPS_FROM {
                replica.last_fetch_timestamp = UNKNOWN;
                replica.last_caught_up_timestamp = UNKNOWN;
            }
            if version < NODES_FROM {
                replica.replica_directory_id = Uuid::nil();
            }
        }
    }
    response
}

/// `None`: the other voter closed the connection, or its answer is not one.
async fn pass_on(
    address: SocketAddr,
    request: DescribeQuorumRequest,
) -> Result<Option<DescribeQuorumResponse>, Closed> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request = Request::DescribeQuorum(request);
    let frame = wire::encode_request(0, PASSED_ON, VERSION, &request)?;
    write_frame(&mut stream, &[frame]).await?;
    let answer = read_frame(&mut stream, &mut BytesMut::new(), ANSWER_BYTES_MAX).await?;
    let parsed = |answer| wire::parse_response(ApiKey::DescribeQuorum, VERSION, answer);
    Ok(match answer.map(parsed).transpose()? {
        Some((_, Response::DescribeQuorum(response))) => Some(response),
        _ => None,
    })
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

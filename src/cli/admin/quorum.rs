//! `ackmark quorum`

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
use kafka_protocol::messages::describe_quorum_response::{
    Node, PartitionData as Described, ReplicaState,
};
use kafka_protocol::messages::{DescribeQuorumRequest, TopicName};
use kafka_protocol::protocol::StrBytes;
use serde::Serialize;

use super::{AdminError, ClusterArguments, accepted, table};
use crate::cli::exit::{Exit, Failure};
use crate::node::client::Client;
use crate::wire::{ApiKey, Request, Response};

const VERSION: i16 = 2;

/// Show the voters of the metadata log and how far each is: any broker or controller tells
#[derive(Debug, Args)]
pub struct QuorumArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
}

/// The quorum as its leader, the active controller, sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Quorum {
    /// The active controller.
    leader: i32,
    /// Its epoch: the term.
    leader_epoch: i32,
    /// Offset after the last committed record.
    high_watermark: i64,
    /// Offset after the leader's last record.
    log_end_offset: i64,
    /// Records that the slowest voter lacks.
    max_follower_lag: i64,
    voters: Vec<Member>,
    /// Brokers.
    observers: Vec<Member>,
}

/// A voter or an observer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Member {
    id: i32,
    /// `host:port`; unknown of observers.
    address: Option<String>,
    /// Unknown of a voter that has not answered this leader yet.
    log_end_offset: Option<i64>,
    /// Records it lacks.
    lag: Option<i64>,
    /// Milliseconds since the epoch; the leader's own is now.
    last_fetch_timestamp_ms: Option<i64>,
    last_caught_up_timestamp_ms: Option<i64>,
}

/// `ackmark quorum`
pub fn run(arguments: &QuorumArguments) -> Result<Exit, Failure> {
    let text = answer(arguments)?;
    crate::cli::print(&text)?;
    Ok(Exit::Done)
}

fn answer(arguments: &QuorumArguments) -> Result<String, AdminError> {
    let quorum = arguments.cluster.connect()?.quorum()?;
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    Ok(arguments.cluster.render(&quorum, |quorum| render(quorum, now_ms)))
}

impl Client {
    fn quorum(&mut self) -> Result<Quorum, AdminError> {
        let name = TopicName(StrBytes::from_static_str("__cluster_metadata"));
        let topic = TopicData::default()
            .with_topic_name(name)
            .with_partitions(vec![PartitionData::default().with_partition_index(0)]);
        let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
        let answer = self.ask(VERSION, &Request::DescribeQuorum(request))?;
        let Response::DescribeQuorum(answer) = answer else {
            return Err(self.unexpected(ApiKey::DescribeQuorum).into());
        };
        let what = "describe the quorum";
        accepted(what, answer.error_code, answer.error_message.as_deref())?;
        let partition = answer.topics.into_iter().flat_map(|topic| topic.partitions).next();
        let partition = partition.ok_or_else(|| self.unexpected(ApiKey::DescribeQuorum))?;
        accepted(what, partition.error_code, partition.error_message.as_deref())?;
        Ok(quorum(&partition, &answer.nodes))
    }
}

fn quorum(partition: &Described, nodes: &[Node]) -> Quorum {
    let leader = partition.current_voters.iter().find(|v| v.replica_id == partition.leader_id);
    let log_end_offset = leader.map_or(partition.high_watermark, |leader| leader.log_end_offset);
    let member = |replica: &ReplicaState| {
        let node = nodes.iter().find(|node| node.node_id == replica.replica_id);
        let listener = node.and_then(|node| node.listeners.first());
        Member {
            id: replica.replica_id.0,
            address: listener.map(|listener| format!("{}:{}", &*listener.host, listener.port)),
            log_end_offset: known(replica.log_end_offset),
            lag: known(replica.log_end_offset).map(|end| log_end_offset - end),
            last_fetch_timestamp_ms: known(replica.last_fetch_timestamp),
            last_caught_up_timestamp_ms: known(replica.last_caught_up_timestamp),
        }
    };
    let voters: Vec<Member> = partition.current_voters.iter().map(member).collect();
    Quorum {
        leader: partition.leader_id.0,
        leader_epoch: partition.leader_epoch,
        high_watermark: partition.high_watermark,
        log_end_offset,
        // A voter that has not answered may lack everything.
        max_follower_lag: voters.iter().map(|v| v.lag.unwrap_or(log_end_offset)).max().unwrap_or(0),
        voters,
        observers: partition.observers.iter().map(member).collect(),
    }
}

fn known(value: i64) -> Option<i64> {
    (value >= 0).then_some(value)
}

fn render(quorum: &Quorum, now_ms: i64) -> String {
    const HEADER: [&str; 6] = ["node", "address", "role", "log end", "lag", "last fetch"];
    let or_none = |value: Option<String>| value.unwrap_or_else(|| table::NONE.to_owned());
    let row = |member: &Member, role: &str| {
        let ago = |at: i64| format!("{} ms ago", (now_ms - at).max(0));
        let fetched = member.last_fetch_timestamp_ms.filter(|_| role != "leader").map(ago);
        vec![
            member.id.to_string(),
            or_none(member.address.clone()),
            role.to_owned(),
            or_none(member.log_end_offset.map(|end| end.to_string())),
            or_none(member.lag.map(|lag| lag.to_string())),
            or_none(fetched),
        ]
    };
    let voters = quorum
        .voters
        .iter()
        .map(|voter| row(voter, if voter.id == quorum.leader { "leader" } else { "follower" }));
    let observers = quorum.observers.iter().map(|observer| row(observer, "observer"));
    let Quorum { leader, leader_epoch, high_watermark, log_end_offset, max_follower_lag, .. } =
        quorum;
    format!(
        "leader {leader} in epoch {leader_epoch}; log end {log_end_offset}, committed \
         {high_watermark}, largest lag of a voter {max_follower_lag}\n{}",
        table::render(&HEADER, voters.chain(observers))
    )
}

#[cfg(test)]
mod tests;

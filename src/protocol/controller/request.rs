//! What the controller is asked and what it answers, as plain values without wire versions.

use super::capacity::Resources;
use crate::protocol::metadata::{
    ConfigResource, DirectoryId, Endpoint, FeatureRange, IncarnationId,
};
use crate::protocol::partition::{IsrCommitted, IsrProposal};
use crate::types::{
    BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId, TopicPartition,
};

/// Something a broker or a client asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// A broker starts, or amends its registration.
    RegisterBroker(Registration),
    /// A broker is alive.
    Heartbeat(Heartbeat),
    /// A broker is gone for good.
    UnregisterBroker(BrokerId),
    /// A leader proposes ISRs.
    AlterPartition(AlterPartition),
    /// Create topics.
    CreateTopics(CreateTopics),
    /// Delete topics.
    DeleteTopics(Vec<TopicSelector>),
    /// Change configuration values (incremental).
    AlterConfigs(AlterConfigs),
    /// Elect leaders.
    ElectLeaders(ElectLeaders),
    /// A broker's answer, or the lack of one, to [`super::Output::AskReplicaLogs`]; from the shell.
    ReplicaLogs(ReplicaLogs),
    /// Change a partition's assignment.
    Reassign(Reassignment),
    /// A replica lives in this directory.
    AssignDirectory(DirectoryAssignment),
    /// Finalize a feature at a level.
    UpdateFeature(FeatureUpdate),
    /// A block of producer ids.
    AllocateProducerIds {
        /// Who asks.
        broker: BrokerId,
        /// Its epoch.
        epoch: BrokerEpoch,
    },
}

/// The answer to the [`Request`] of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Response {
    /// The broker's epoch.
    RegisterBroker(Result<BrokerEpoch, ErrorCode>),
    /// Where the broker stands.
    Heartbeat(Result<HeartbeatReply, ErrorCode>),
    /// Done, or not registered.
    UnregisterBroker(Result<(), ErrorCode>),
    /// Each partition's outcome in request order, or one error for all.
    AlterPartition(Result<Vec<ProposalOutcome>, ErrorCode>),
    /// Each topic's outcome in request order.
    CreateTopics(Vec<(String, Result<CreatedTopic, Refusal>)>),
    /// Each topic's outcome in request order: the topic as it was, or the error.
    DeleteTopics(Vec<(TopicSelector, Result<DeletedTopic, ErrorCode>)>),
    /// Each resource's outcome in request order.
    AlterConfigs(Vec<(ConfigResource, Result<(), Refusal>)>),
    /// Each partition's outcome. For a longest-log election, success means that logs are being
    /// inspected: the leader shows in the metadata once there is one.
    ElectLeaders(Vec<(PartitionName, Result<(), Refusal>)>),
    /// Noted.
    ReplicaLogs,
    /// Started or done at once, or refused.
    Reassign(Result<(), Refusal>),
    /// Done, or refused.
    AssignDirectory(Result<(), ErrorCode>),
    /// Done, or refused.
    UpdateFeature(Result<(), Refusal>),
    /// First id and number of ids of the block.
    AllocateProducerIds(Result<(i64, i32), ErrorCode>),
}

/// An error with words for the person who asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Kafka's code.
    pub error: ErrorCode,
    /// What was wrong with what, and what is allowed.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(error: ErrorCode, message: impl Into<String>) -> Refusal {
        Refusal { error, message: message.into() }
    }
}

/// BrokerRegistration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Who.
    pub broker: BrokerId,
    /// Of which cluster it believes to be part.
    pub cluster_id: String,
    /// Its process start.
    pub incarnation: IncarnationId,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
    /// What it supports.
    pub features: Vec<FeatureRange>,
    /// Its rack.
    pub rack: Option<String>,
    /// Its log directories.
    pub log_dirs: Vec<DirectoryId>,
    /// Epoch that its last process left in the clean shutdown marker; `None` when there is no such
    /// marker, and for request versions below 3.
    pub previous_epoch: Option<BrokerEpoch>,
    /// Its replicas that are not as its clean stop left them: these end as after an unclean one.
    pub damaged: Vec<TopicPartition>,
}

/// BrokerHeartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Heartbeat {
    /// Who.
    pub broker: BrokerId,
    /// Its epoch.
    pub epoch: BrokerEpoch,
    /// Offset after the last metadata record it applied (the wire carries the offset before this).
    pub metadata_end: Offset,
    /// It wants to be or to stay fenced.
    pub want_fence: bool,
    /// It wants to stop.
    pub want_shut_down: bool,
    /// Its log directories that failed.
    pub offline_log_dirs: Vec<DirectoryId>,
    /// What it has for replicas, if it tells.
    pub resources: Option<Resources>,
}

/// Answer to a [`Heartbeat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeartbeatReply {
    /// It applied its own registration.
    pub is_caught_up: bool,
    /// It is fenced.
    pub is_fenced: bool,
    /// It may stop now.
    pub should_shut_down: bool,
}

/// AlterPartition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AlterPartition {
    /// The leader that asks.
    pub broker: BrokerId,
    /// Its epoch.
    pub epoch: BrokerEpoch,
    /// What it proposes.
    pub proposals: Vec<(TopicPartition, IsrProposal)>,
}

/// What became of one proposal.
pub type ProposalOutcome = (TopicPartition, Result<AlteredPartition, ErrorCode>);

/// A partition after an accepted proposal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AlteredPartition {
    /// Leader, ISR and epochs.
    pub committed: IsrCommitted,
    /// Uncleanly elected, recovery not yet reported.
    pub recovering: bool,
}

/// CreateTopics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CreateTopics {
    /// What to create.
    pub topics: Vec<NewTopic>,
    /// Check only.
    pub validate_only: bool,
}

/// One topic to create.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// The id it gets, drawn at random by the shell.
    pub id: TopicId,
    /// Number of partitions; `None` is 1 (wire value -1).
    pub partition_count: Option<i32>,
    /// Replicas of each partition; `None` is 1 (wire value -1).
    pub replication_factor: Option<i16>,
    /// Exactly these replicas, in assignment order; excludes the two counts. Empty: round-robin
    /// over active brokers.
    pub assignments: Vec<(PartitionId, Vec<BrokerId>)>,
    /// Its configuration.
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic that was created, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CreatedTopic {
    /// Its id.
    pub id: TopicId,
    /// Number of partitions.
    pub partition_count: usize,
    /// Replicas of each.
    pub replication_factor: usize,
}

/// A topic by name or by id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicSelector {
    /// By name.
    Name(String),
    /// By id.
    Id(TopicId),
}

/// A topic that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DeletedTopic {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: TopicId,
}

/// IncrementalAlterConfigs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AlterConfigs {
    /// What to change.
    pub resources: Vec<ResourceChanges>,
    /// Check only.
    pub validate_only: bool,
}

/// Changes of one resource's configuration: all are made, or none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceChanges {
    /// Whose.
    pub resource: ConfigResource,
    /// Key and new value; `None` removes the value.
    pub changes: Vec<(String, Option<String>)>,
}

/// A partition as clients name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionName {
    /// The topic's name.
    pub topic: String,
    /// Its index.
    pub partition: PartitionId,
}

/// Kinds of election a client may ask for. The last three are the KIP's and need the unclean
/// recovery manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElectionKind {
    /// Wire value 0: give leadership to the first replica.
    Preferred,
    /// Wire value 1: give a leaderless partition any live replica.
    Unclean,
    /// Wire value 2: give a leaderless partition the best log among those of all its last known ELR
    /// members at least.
    LongestLogBalanced,
    /// Wire value 3: give a leaderless partition the best log found within a few seconds.
    LongestLogProactive,
    /// Wire value 4: give a leaderless partition this replica. As long as the list of partitions,
    /// in its order.
    Designated(Vec<BrokerId>),
}

/// ElectLeaders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElectLeaders {
    /// Which kind.
    pub kind: ElectionKind,
    /// For which partitions; `None` is all, and leaves those that need no election out of the answer.
    pub partitions: Option<Vec<PartitionName>>,
}

/// What one GetReplicaLogInfo came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaLogs {
    /// The question it belongs to.
    pub query: QueryId,
    /// Who was asked.
    pub broker: BrokerId,
    /// The answer; `None` if there is none: no connection, no answer in time, or not understood.
    pub answer: Option<ReplicaLogsAnswer>,
}

/// Names a question to a broker among those of one controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// A broker's word on its replicas' logs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaLogsAnswer {
    /// The life of the broker that answers; `None` if it is not registered (wire value -1).
    pub broker_epoch: Option<BrokerEpoch>,
    /// Each partition's log. Those asked for and left out are asked for again.
    pub logs: Vec<(TopicPartition, Result<ReplicaLog, ErrorCode>)>,
}

/// Where one replica's log ends. The better log is the greater one: leader epoch, then length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaLog {
    /// Leader epoch of the last record; `None` in a log without records (wire value -1).
    pub last_written_leader_epoch: Option<LeaderEpoch>,
    /// Log end offset.
    pub log_end_offset: Offset,
    /// Leader epoch of the partition as the broker knows it; `None` if it knows none yet.
    pub current_leader_epoch: Option<LeaderEpoch>,
}

/// AlterPartitionReassignments, of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reassignment {
    /// Which.
    pub id: TopicPartition,
    /// Replicas wanted, in assignment order.
    pub target: Vec<BrokerId>,
}

/// AssignReplicasToDirs, of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DirectoryAssignment {
    /// Who says so.
    pub broker: BrokerId,
    /// Its epoch.
    pub epoch: BrokerEpoch,
    /// Which partition's replica.
    pub id: TopicPartition,
    /// Where it lives.
    pub directory: DirectoryId,
}

/// UpdateFeatures, of one feature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FeatureUpdate {
    /// Which.
    pub name: String,
    /// The level wanted; 0 turns it off.
    pub level: i16,
}

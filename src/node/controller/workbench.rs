//! A client that plays the brokers of a cluster, for measuring a controller: one request at a time,
//! nothing in between but the socket.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kafka_protocol::messages::alter_partition_request::{BrokerState, PartitionData, TopicData};
use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use kafka_protocol::messages::{
    AlterPartitionRequest, BrokerHeartbeatRequest, BrokerRegistrationRequest, CreateTopicsRequest,
    TopicName,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::metadata_log::MetadataLogError;
use super::raft::seed_snapshot;
use crate::node::client::{Client, ClientError};
use crate::node::data_directory::{self, DataDirectoryError, Owner};
use crate::protocol::metadata::{
    ClusterMetadata, FeatureRange, METADATA_VERSION, METADATA_VERSION_FEATURE, Partition, Record,
    supported_features,
};
use crate::types::{
    BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionEpoch, PartitionId, TopicId, TopicPartition,
};
use crate::wire::{Request, Response};

const REGISTRATION_VERSION: i16 = 4;
const HEARTBEAT_VERSION: i16 = 1;
const CREATE_TOPICS_VERSION: i16 = 7;
const ALTER_PARTITION_VERSION: i16 = 3;
/// The brokers; the first leads everything.
const BROKERS: [i32; 3] = [1, 2, 3];
/// A controller that is silent for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why the controller could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum WorkbenchError {
    /// The connection failed, or an answer makes no sense.
    #[error("controller: {0}")]
    Client(#[from] ClientError),
    /// An answer is for another request.
    #[error("the controller answered something else than {0}")]
    Answer(&'static str),
    /// The controller refused.
    #[error("{what}: {error}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// Its answer.
        error: ErrorCode,
    },
    /// A data directory could not be made.
    #[error(transparent)]
    Log(#[from] MetadataLogError),
    /// Nor owned.
    #[error(transparent)]
    DataDirectory(#[from] DataDirectoryError),
}

/// A topic led by one broker, all of whose partitions have an ISR of three or of two.
#[derive(Debug)]
pub struct Workbench {
    client: Client,
    epochs: Vec<i64>,
    topic: Uuid,
    /// Equal for all partitions: each change is one of every partition that was asked for.
    partition_epochs: Vec<i32>,
}

impl Workbench {
    /// Registers three brokers, unfences them, and has a topic of `partitions` created.
    ///
    /// # Errors
    /// [`WorkbenchError`], among them NOT_CONTROLLER if another one is active.
    pub fn prepare(
        address: SocketAddr,
        cluster_id: &str,
        partitions: usize,
    ) -> Result<Workbench, WorkbenchError> {
        let client = Client::connect(&address.to_string(), PATIENCE)?;
        let (epochs, topic, partition_epochs) = (Vec::new(), Uuid::nil(), vec![0; partitions]);
        let mut bench = Workbench { client, epochs, topic, partition_epochs };
        for broker in BROKERS {
            let epoch = bench.register(broker, cluster_id)?;
            bench.epochs.push(epoch);
            bench.unfence(broker, epoch)?;
        }
        bench.create_topic(partitions)?;
        Ok(bench)
    }

    /// One AlterPartition that changes the first `count` partitions: out of the ISR goes the last
    /// replica, or back it comes, in turns.
    ///
    /// # Errors
    /// [`WorkbenchError`].
    pub fn alter(&mut self, count: usize) -> Result<(), WorkbenchError> {
        let request = self.alteration(count);
        let answer = self.client.ask(ALTER_PARTITION_VERSION, &request)?;
        let Response::AlterPartition(answer) = answer else {
            return Err(WorkbenchError::Answer("AlterPartition"));
        };
        let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let codes = std::iter::once(answer.error_code).chain(partitions.map(|p| p.error_code));
        codes.into_iter().try_for_each(|code| checked("AlterPartition", code))?;
        self.partition_epochs.iter_mut().take(count).for_each(|epoch| *epoch += 1);
        Ok(())
    }

    fn alteration(&self, count: usize) -> Request {
        let partitions =
            self.partition_epochs.iter().take(count).enumerate().map(|(index, &epoch)| {
                let members = if epoch % 2 == 0 { 2 } else { 3 };
                let members =
                    BROKERS.iter().zip(&self.epochs).take(members).map(|(&broker, &epoch)| {
                        BrokerState::default()
                            .with_broker_id(broker.into())
                            .with_broker_epoch(epoch)
                    });
                PartitionData::default()
                    .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX))
                    .with_partition_epoch(epoch)
                    .with_new_isr_with_epochs(members.collect())
            });
        let topic =
            TopicData::default().with_topic_id(self.topic).with_partitions(partitions.collect());
        Request::AlterPartition(
            AlterPartitionRequest::default()
                .with_broker_id(BROKERS[0].into())
                .with_broker_epoch(self.epochs[0])
                .with_topics(vec![topic]),
        )
    }

    fn register(&mut self, broker: i32, cluster_id: &str) -> Result<i64, WorkbenchError> {
        let listener = Listener::default()
            .with_name(StrBytes::from_static_str("PLAINTEXT"))
            .with_host(StrBytes::from_static_str("127.0.0.1"))
            .with_port(9);
        let feature = |FeatureRange { name, min, max }: FeatureRange| {
            Feature::default()
                .with_name(name.into())
                .with_min_supported_version(min)
                .with_max_supported_version(max)
        };
        let request = BrokerRegistrationRequest::default()
            .with_broker_id(broker.into())
            .with_cluster_id(cluster_id.to_owned().into())
            .with_incarnation_id(Uuid::new_v4())
            .with_listeners(vec![listener])
            .with_features(supported_features().into_iter().map(feature).collect())
            .with_log_dirs(vec![Uuid::new_v4()]);
        let request = Request::BrokerRegistration(request);
        match self.client.ask(REGISTRATION_VERSION, &request)? {
            Response::BrokerRegistration(answer) => {
                checked("BrokerRegistration", answer.error_code).map(|()| answer.broker_epoch)
            }
            _ => Err(WorkbenchError::Answer("BrokerRegistration")),
        }
    }

    fn unfence(&mut self, broker: i32, epoch: i64) -> Result<(), WorkbenchError> {
        let request = BrokerHeartbeatRequest::default()
            .with_broker_id(broker.into())
            .with_broker_epoch(epoch)
            .with_current_metadata_offset(epoch);
        match self.client.ask(HEARTBEAT_VERSION, &Request::BrokerHeartbeat(request))? {
            Response::BrokerHeartbeat(answer) => checked("BrokerHeartbeat", answer.error_code),
            _ => Err(WorkbenchError::Answer("BrokerHeartbeat")),
        }
    }

    fn create_topic(&mut self, partitions: usize) -> Result<(), WorkbenchError> {
        let assignment = |index: usize| {
            CreatableReplicaAssignment::default()
                .with_partition_index(i32::try_from(index).unwrap_or(i32::MAX))
                .with_broker_ids(BROKERS.map(Into::into).to_vec())
        };
        let topic = CreatableTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("bench")))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments((0..partitions).map(assignment).collect());
        let request = CreateTopicsRequest::default().with_topics(vec![topic]);
        match self.client.ask(CREATE_TOPICS_VERSION, &Request::CreateTopics(request))? {
            Response::CreateTopics(answer) => {
                let [topic] = answer.topics.as_slice() else {
                    return Err(WorkbenchError::Answer("CreateTopics"));
                };
                self.topic = topic.topic_id;
                checked("CreateTopics", topic.error_code)
            }
            _ => Err(WorkbenchError::Answer("CreateTopics")),
        }
    }
}

/// A new data directory for the controller `node` with a snapshot of `partitions` partitions in topics
/// of a hundred, three replicas each. Gives the snapshot's file.
///
/// # Errors
/// [`WorkbenchError::Log`], [`WorkbenchError::DataDirectory`].
pub fn seed(
    data_dir: &Path,
    cluster_id: &str,
    node: BrokerId,
    partitions: usize,
) -> Result<PathBuf, WorkbenchError> {
    const PARTITIONS_PER_TOPIC: usize = 100;
    let mut metadata = ClusterMetadata::default();
    let mut write = |record: Record| {
        let offset = metadata.end_offset();
        // Each record's topic is written before it.
        let applied = metadata.apply(offset, &record);
        debug_assert!(applied.is_ok(), "{applied:?}");
    };
    let name = METADATA_VERSION_FEATURE.to_owned();
    write(Record::FeatureLevel { name, level: METADATA_VERSION });
    let brokers = BROKERS.map(BrokerId);
    for number in 0..partitions {
        let topic = TopicId(
            (number / PARTITIONS_PER_TOPIC + 1000)
                .to_be_bytes()
                .repeat(2)
                .try_into()
                .unwrap_or_default(),
        );
        let index = number % PARTITIONS_PER_TOPIC;
        if index == 0 {
            write(Record::Topic { name: format!("topic-{number}"), id: topic });
        }
        let partition = PartitionId(i32::try_from(index).unwrap_or(i32::MAX));
        write(Record::Partition(Partition {
            id: TopicPartition { topic, partition },
            replicas: brokers.to_vec(),
            isr: brokers.to_vec(),
            elr: Vec::new(),
            last_known_elr: Vec::new(),
            removing: Vec::new(),
            adding: Vec::new(),
            leader: Some(brokers[number % brokers.len()]),
            recovering: false,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            directories: Vec::new(),
        }));
    }
    debug_assert!(metadata.end_offset() > Offset::ZERO);
    data_directory::claim(data_dir, Owner { role: "controller", node, cluster_id })?;
    Ok(seed_snapshot(data_dir, node, &metadata)?)
}

fn checked(what: &'static str, code: i16) -> Result<(), WorkbenchError> {
    match ErrorCode::from_code(code) {
        ErrorCode::None => Ok(()),
        error => Err(WorkbenchError::Refused { what, error }),
    }
}

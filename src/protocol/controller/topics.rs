//! Topics come and go: checks of names, counts, assignments and configurations; placement.

use super::{
    Controller, CreateTopics, CreatedTopic, DeletedTopic, NewTopic, Refusal, TopicSelector,
};
use crate::protocol::metadata::{
    BrokerRegistration, ConfigResource, DirectoryId, Partition, Record, topic_config,
};
use crate::types::{
    BrokerId, ErrorCode, LeaderEpoch, PartitionEpoch, PartitionId, TopicId, TopicPartition,
};

/// Partitions of one new topic at most, so that one request cannot fill memory or the log.
const PARTITION_COUNT_MAX: i32 = 10_000;
/// Longest topic name, as Kafka has it.
const NAME_LENGTH_MAX: usize = 249;

/// Replicas of each partition, in order of partition ids.
type Assignment = Vec<Vec<BrokerId>>;

impl Controller {
    pub(super) fn create_topics(
        &mut self,
        request: CreateTopics,
    ) -> Vec<(String, Result<CreatedTopic, Refusal>)> {
        let names: Vec<String> = request.topics.iter().map(|topic| topic.name.clone()).collect();
        let create = |topic: NewTopic| {
            let repeated = names.iter().filter(|name| **name == topic.name).count() > 1;
            let outcome = if repeated {
                Err(refuse(ErrorCode::InvalidRequest, "the request names this topic twice"))
            } else {
                self.create_topic(&topic, request.validate_only)
            };
            (topic.name, outcome)
        };
        request.topics.into_iter().map(create).collect()
    }

    fn create_topic(
        &mut self,
        topic: &NewTopic,
        validate_only: bool,
    ) -> Result<CreatedTopic, Refusal> {
        check_name(&topic.name)?;
        if self.metadata.topic_id(&topic.name).is_some() {
            let message = format!("topic {} exists already", topic.name);
            return Err(Refusal::new(ErrorCode::TopicAlreadyExists, message));
        }
        check_configs(&topic.configs)?;
        let assignment = self.assignment(topic)?;
        self.check_resources(assignment.iter().flatten())?;
        let created = CreatedTopic {
            id: topic.id,
            partition_count: assignment.len(),
            replication_factor: assignment.first().map_or(0, Vec::len),
        };
        if !validate_only {
            self.write_topic(topic, assignment);
        }
        Ok(created)
    }

    fn assignment(&self, topic: &NewTopic) -> Result<Assignment, Refusal> {
        let counted = topic.partition_count.is_some() || topic.replication_factor.is_some();
        match (topic.assignments.is_empty(), counted) {
            (true, _) => self.place(topic.partition_count, topic.replication_factor),
            (false, false) => self.check_assignment(&topic.assignments),
            (false, true) => Err(refuse(
                ErrorCode::InvalidRequest,
                "partitions and replication factor must be -1 where replicas are assigned",
            )),
        }
    }

    fn write_topic(&mut self, topic: &NewTopic, assignment: Assignment) {
        self.write(Record::Topic { name: topic.name.clone(), id: topic.id });
        for (name, value) in &topic.configs {
            self.write(Record::Config {
                resource: ConfigResource::Topic(topic.name.clone()),
                name: name.clone(),
                value: value.clone(),
            });
        }
        for (partition, replicas) in (0..).zip(assignment) {
            let id = TopicPartition { topic: topic.id, partition: PartitionId(partition) };
            self.write(Record::Partition(self.new_partition(id, replicas)));
        }
    }

    fn new_partition(&self, id: TopicPartition, replicas: Vec<BrokerId>) -> Partition {
        let isr: Vec<BrokerId> =
            replicas.iter().copied().filter(|&replica| self.metadata.is_active(replica)).collect();
        Partition {
            id,
            directories: replicas.iter().map(|&replica| self.only_directory(replica)).collect(),
            leader: isr.first().copied(),
            replicas,
            isr,
            elr: vec![],
            last_known_elr: vec![],
            removing: vec![],
            adding: vec![],
            recovering: false,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
        }
    }

    /// A broker with one directory has no choice to make.
    fn only_directory(&self, broker: BrokerId) -> DirectoryId {
        match self.metadata.broker(broker).map(|known| known.log_dirs.as_slice()) {
            Some(&[directory]) => directory,
            Some(_) | None => DirectoryId::UNASSIGNED,
        }
    }

    /// Round-robin over active brokers, starting further on with every partition of the cluster so
    /// that leaders spread over topics of one partition too.
    fn place(
        &self,
        partition_count: Option<i32>,
        replication_factor: Option<i16>,
    ) -> Result<Assignment, Refusal> {
        let active: Vec<BrokerId> = self
            .metadata
            .brokers()
            .filter(|broker| broker.is_active())
            .map(|broker: &BrokerRegistration| broker.id)
            .collect();
        let partition_count = partition_count.unwrap_or(1);
        if !(1..=PARTITION_COUNT_MAX).contains(&partition_count) {
            let message =
                format!("partitions = {partition_count}: must be 1 to {PARTITION_COUNT_MAX}");
            return Err(Refusal::new(ErrorCode::InvalidPartitions, message));
        }
        let replication_factor = replication_factor.unwrap_or(1);
        let replicas = usize::try_from(replication_factor).unwrap_or(0);
        if replicas == 0 || replicas > active.len() {
            let message = format!(
                "replication factor = {replication_factor}: must be 1 to the number of active \
                 brokers, {} now",
                active.len()
            );
            return Err(Refusal::new(ErrorCode::InvalidReplicationFactor, message));
        }
        let start = self.metadata.partitions().count();
        let replicas_of = |partition: usize| {
            (0..replicas).map(|index| active[(start + partition + index) % active.len()]).collect()
        };
        Ok((0..usize::try_from(partition_count).unwrap_or(0)).map(replicas_of).collect())
    }

    fn check_assignment(
        &self,
        partitions: &[(PartitionId, Vec<BrokerId>)],
    ) -> Result<Assignment, Refusal> {
        let invalid = |message: String| Refusal::new(ErrorCode::InvalidReplicaAssignment, message);
        let mut sorted = partitions.to_vec();
        sorted.sort();
        if !sorted.iter().map(|(id, _)| id.0).eq(0..i32::try_from(sorted.len()).unwrap_or(0)) {
            return Err(invalid("assigned partitions must be 0, 1, 2 and so on".to_owned()));
        }
        let replication_factor = sorted[0].1.len();
        for (partition, replicas) in &sorted {
            self.check_replicas(replicas).map_err(|message| {
                invalid(format!("replicas of partition {partition}: {message}"))
            })?;
            if replicas.len() != replication_factor {
                return Err(invalid(format!(
                    "partition {partition} has {} replicas, partition 0 has {replication_factor}",
                    replicas.len()
                )));
            }
            if !replicas.iter().any(|&replica| self.metadata.is_active(replica)) {
                let message = format!("no replica of partition {partition} is on an active broker");
                return Err(invalid(message));
            }
        }
        Ok(sorted.into_iter().map(|(_, replicas)| replicas).collect())
    }

    /// Whether these could be the replicas of one partition.
    pub(super) fn check_replicas(&self, replicas: &[BrokerId]) -> Result<(), String> {
        if replicas.is_empty() {
            return Err("must be at least one broker".to_owned());
        }
        for (index, replica) in replicas.iter().enumerate() {
            if replicas[..index].contains(replica) {
                return Err(format!("broker {replica} is named twice"));
            }
            if self.metadata.broker(*replica).is_none() {
                return Err(format!("broker {replica} is not registered"));
            }
        }
        Ok(())
    }

    pub(super) fn delete_topics(
        &mut self,
        topics: Vec<TopicSelector>,
    ) -> Vec<(TopicSelector, Result<DeletedTopic, ErrorCode>)> {
        let delete = |selector| {
            let outcome = self.delete_topic(&selector);
            (selector, outcome)
        };
        topics.into_iter().map(delete).collect()
    }

    fn delete_topic(&mut self, selector: &TopicSelector) -> Result<DeletedTopic, ErrorCode> {
        let id: TopicId = match selector {
            TopicSelector::Name(name) => {
                self.metadata.topic_id(name).ok_or(ErrorCode::UnknownTopicOrPartition)?
            }
            TopicSelector::Id(id) => *id,
        };
        let topic = self.metadata.topic(id).ok_or(ErrorCode::UnknownTopicId)?;
        let name = topic.name.clone();
        self.write(Record::RemoveTopic { id });
        Ok(DeletedTopic { name, id })
    }
}

fn refuse(error: ErrorCode, message: &str) -> Refusal {
    Refusal::new(error, message)
}

/// Names that only the system itself may use: logs of these would stand beside, or be taken for, its
/// own.
const RESERVED_NAMES: [&str; 3] =
    ["__cluster_metadata", "__consumer_offsets", "__transaction_state"];

fn check_name(name: &str) -> Result<(), Refusal> {
    if RESERVED_NAMES.contains(&name) {
        let message = format!("topic name {name:?}: reserved for an internal topic");
        return Err(Refusal::new(ErrorCode::InvalidTopic, message));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let fits = (1..=NAME_LENGTH_MAX).contains(&name.len()) && name.chars().all(allowed);
    if fits && name != "." && name != ".." {
        return Ok(());
    }
    let message = format!(
        "topic name {name:?}: must be 1 to {NAME_LENGTH_MAX} of a-z A-Z 0-9 . _ - and neither . nor .."
    );
    Err(Refusal::new(ErrorCode::InvalidTopic, message))
}

fn check_configs(configs: &[(String, Option<String>)]) -> Result<(), Refusal> {
    for (key, value) in configs {
        let valid = match value {
            Some(value) => topic_config::validate(key, value),
            None => topic_config::validate_key(key),
        };
        valid.map_err(|error| Refusal::new(ErrorCode::InvalidConfig, error.to_string()))?;
    }
    Ok(())
}

//! What a run begins with: the controller's settings, the topic and its configuration.

use std::time::Duration;

use super::{Outcome, World};
use crate::protocol::controller::{
    CreateTopics, NewTopic, Request, Settings as ControllerSettings,
};
use crate::protocol::metadata::topic_config;
use crate::sim::broker::Broker;
use crate::sim::broker::controller_link::CLUSTER;
use crate::sim::clients::CLIENT;
use crate::sim::message::CallId;
use crate::sim::options::Options;
use crate::types::{BrokerId, PartitionId, TopicId, TopicPartition};

/// The one topic.
const TOPIC: TopicId = TopicId([7; 16]);
/// Its name.
pub(super) const TOPIC_NAME: &str = "t";

impl World<'_> {
    pub(super) fn create_topic(&mut self) -> Outcome {
        let count = self.brokers.len();
        let ids: Vec<BrokerId> = self.brokers.iter().map(Broker::id).collect();
        let replicas = |partition: usize| -> Vec<BrokerId> {
            (0..count).map(|index| ids[(partition + index) % count]).collect()
        };
        let assignments =
            partitions(&self.options).enumerate().map(|(n, id)| (id.partition, replicas(n)));
        let topic = NewTopic {
            name: TOPIC_NAME.to_owned(),
            id: TOPIC,
            partition_count: None,
            replication_factor: None,
            assignments: assignments.collect(),
            configs: topic_configs(&self.options),
        };
        let request = CreateTopics { topics: vec![topic], validate_only: false };
        self.administer(Request::CreateTopics(request))
    }

    /// The operator's request, straight to the controller.
    pub(super) fn administer(&mut self, request: Request) -> Outcome {
        self.admin_calls += 1;
        let call = CallId(self.admin_calls);
        self.ask_controller(CLIENT, (call, 0, request))
    }
}

pub(super) fn partitions(options: &Options) -> impl Iterator<Item = TopicPartition> + use<> {
    let count = i32::try_from(options.partition_count).unwrap_or(1);
    (0..count).map(|index| TopicPartition { topic: TOPIC, partition: PartitionId(index) })
}

pub(super) fn controller_settings(options: &Options) -> ControllerSettings {
    let cluster = CLUSTER.to_owned();
    let mut settings = ControllerSettings::new(cluster, options.session_timeout);
    settings.elr_level = options.elr_level;
    settings.unclean_recovery_manager = options.recovery_manager;
    settings.quirks = options.quirks();
    settings.unclean_election_interval = Duration::from_secs(1);
    settings
}

fn topic_configs(options: &Options) -> Vec<(String, Option<String>)> {
    let values = [
        (topic_config::MIN_ISR, options.min_isr.to_string()),
        (topic_config::UNCLEAN_ELECTION, options.unclean_election.to_string()),
        (topic_config::ISR_WAIT, options.isr_wait.name().to_owned()),
        (topic_config::ISR_EXPAND, options.isr_expand.name().to_owned()),
    ];
    let strategy =
        options.unclean_recovery.map(|it| (topic_config::UNCLEAN_RECOVERY, it.to_string()));
    let gate = options.hwm_gate.map(|gate| (topic_config::HWM_GATE, gate.name().to_owned()));
    let values = values.into_iter().chain(gate).chain(strategy);
    values.map(|(key, value)| (key.to_owned(), Some(value))).collect()
}

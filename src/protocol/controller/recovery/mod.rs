//! The unclean recovery manager: gives a partition whose ISR and ELR can provide no leader the
//! replica with the best log, as `unclean.recovery.strategy` allows.
//!
//! Every replica is asked for the end of its log, fenced ones too. An answer counts only from the
//! broker's present life and under the partition's present leader epoch; any other is asked for
//! again. The highest leader epoch wins, then the longest log; only an unfenced broker may lead.
//! Nothing is persisted: the next active controller starts over from the metadata alone.
//!
//! Source: spec/kip966.md 2.9.

mod request_sender;
mod task;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use self::request_sender::RequestSender;
pub(super) use self::task::Mode;
use self::task::{Task, by_strategy};
use super::election::Election;
use super::partition_change::Targets;
use super::{Controller, Output, ReplicaLogs, ReplicaLogsAnswer};
use crate::protocol::metadata::{ClusterMetadata, Record, topic_config};
use crate::types::{BrokerId, MonotonicTime, TopicPartition};

/// A broker that does not answer is asked again after this, or when it is next heard of.
const RETRY_SILENT: Duration = Duration::from_millis(500);
/// A broker that answered of an older state is asked again after this: it applies the metadata log
/// a moment later than the controller.
const RETRY_BEHIND: Duration = Duration::from_millis(50);

/// All recoveries, and what happened that they have not looked at yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Recovery {
    tasks: BTreeMap<TopicPartition, Task>,
    /// Ends of the windows that have not passed.
    windows: BTreeSet<(MonotonicTime, TopicPartition)>,
    sender: RequestSender,
    changed: BTreeSet<TopicPartition>,
    changed_brokers: BTreeSet<BrokerId>,
    /// Any partition may have changed.
    all_changed: bool,
}

impl Recovery {
    /// The manager of a new active controller. Question numbers start at the clock's reading, so
    /// that an answer to an earlier controller is not taken for one of its own.
    pub(super) fn start_over(now: MonotonicTime) -> Recovery {
        Recovery {
            tasks: BTreeMap::new(),
            windows: BTreeSet::new(),
            sender: RequestSender::new(now.0),
            changed: BTreeSet::new(),
            changed_brokers: BTreeSet::new(),
            all_changed: true,
        }
    }

    /// When it wants to act without being asked.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let window = self.windows.first().map(|&(end, _)| end);
        window.into_iter().chain(self.sender.deadline()).min()
    }

    /// Takes note of a record that was just applied.
    pub(super) fn note(&mut self, record: &Record) {
        match record {
            Record::Partition(partition) => _ = self.changed.insert(partition.id),
            Record::PartitionChange(change) => _ = self.changed.insert(change.id),
            Record::RegisterBroker(register) => _ = self.changed_brokers.insert(register.broker),
            Record::BrokerRegistrationChange(change) => {
                self.changed_brokers.insert(change.broker);
            }
            Record::UnregisterBroker { broker, .. } => self.sender.forget_broker(*broker),
            Record::Config { name, .. } => {
                self.all_changed |= name == topic_config::UNCLEAN_RECOVERY
                    || name == topic_config::UNCLEAN_ELECTION
                    || name == topic_config::COMPAT;
            }
            Record::RemoveTopic { .. } => self.changed.extend(self.tasks.keys()),
            Record::FeatureLevel { .. } | Record::ClearElr { .. } => self.all_changed = true,
            Record::Topic { .. } | Record::ProducerIds { .. } => {}
        }
    }

    /// A heartbeat: a broker that could not be asked may be asked now.
    pub(super) fn heard_of(&mut self, broker: BrokerId) {
        self.sender.release(broker);
    }

    /// Everything there may be to do, as partitions to look at.
    fn collect_changed(&mut self, metadata: &ClusterMetadata, now: MonotonicTime) {
        while let Some(&(end, id)) = self.windows.first().filter(|(end, _)| *end <= now) {
            self.windows.remove(&(end, id));
            self.changed.insert(id);
        }
        for broker in std::mem::take(&mut self.changed_brokers) {
            let has_replica = |id| {
                let partition = metadata.partition(id);
                partition.is_some_and(|partition| partition.replicas.contains(&broker))
            };
            self.changed.extend(self.tasks.keys().filter(|&&id| has_replica(id)));
        }
        if std::mem::take(&mut self.all_changed) {
            self.changed.extend(self.tasks.keys());
            let leaderless = metadata.partitions().filter(|(_, p)| p.leader.is_none());
            self.changed.extend(leaderless.map(|(id, _)| id));
        }
    }

    /// A task for the partition, new or the one there is.
    fn task(&mut self, now: MonotonicTime, id: TopicPartition, metadata: &ClusterMetadata) {
        let Some(partition) = metadata.partition(id) else { return };
        let task = self.tasks.entry(id).or_insert_with(|| Task::new(now, partition.leader_epoch));
        if task.leader_epoch != partition.leader_epoch {
            task.start_over(partition.leader_epoch);
        }
        if task.window_end > now {
            self.windows.insert((task.window_end, id));
        }
        for &replica in &partition.replicas {
            if metadata.broker(replica).is_some() && !task.knows(replica, metadata) {
                self.sender.ask(replica, id);
            }
        }
    }

    fn end(&mut self, id: TopicPartition) {
        if let Some(task) = self.tasks.remove(&id) {
            self.windows.remove(&(task.window_end, id));
            self.sender.forget(id);
        }
    }

    /// What a broker said, or did not say, to a question.
    fn came_back(&mut self, now: MonotonicTime, logs: ReplicaLogs, metadata: &ClusterMetadata) {
        let ReplicaLogs { query, broker, answer } = logs;
        let Some(asked) = self.sender.came_back(broker, query) else { return };
        let Some(registration) = metadata.broker(broker) else { return };
        let present = |answer: &ReplicaLogsAnswer| answer.broker_epoch == Some(registration.epoch);
        let Some(answer) = answer.filter(present) else {
            self.sender.hold(broker, now.plus(RETRY_SILENT));
            self.changed.extend(asked);
            return;
        };
        let answer: BTreeMap<_, _> = answer.logs.into_iter().collect();
        for id in asked {
            let Some(task) = self.tasks.get_mut(&id) else { continue };
            match answer.get(&id) {
                Some(Ok(log)) if log.current_leader_epoch == Some(task.leader_epoch) => {
                    task.see(broker, registration.epoch, *log);
                }
                Some(Ok(_) | Err(_)) | None => {
                    self.sender.hold(broker, now.plus(RETRY_BEHIND));
                }
            }
            self.changed.insert(id);
        }
    }
}

impl Controller {
    /// Number of partitions that are being recovered from their replicas' logs.
    pub fn recovery_count(&self) -> usize {
        self.recovery.tasks.len()
    }

    pub(super) fn replica_logs(&mut self, now: MonotonicTime, logs: ReplicaLogs) {
        self.recovery.came_back(now, logs, &self.metadata);
    }

    /// An operator wants a leaderless partition recovered, whatever its strategy.
    pub(super) fn recover_on_request(
        &mut self,
        now: MonotonicTime,
        id: TopicPartition,
        mode: Mode,
    ) {
        self.recovery.task(now, id, &self.metadata);
        if let Some(task) = self.recovery.tasks.get_mut(&id) {
            task.by_request = Some(mode);
        }
        self.recovery.changed.insert(id);
    }

    /// Looks at everything that changed: starts and ends recoveries, elects, asks.
    pub(super) fn drive_recovery(&mut self, now: MonotonicTime, out: &mut Vec<Output>) {
        self.recovery.collect_changed(&self.metadata, now);
        // An election is a change too; it ends its own task.
        while let Some(id) = self.recovery.changed.pop_first() {
            self.recover(now, id);
        }
        self.append_batch(out);
        for question in self.recovery.sender.take_questions(now) {
            let request_sender::Question { query, broker, partitions } = question;
            let endpoint = self.metadata.broker(broker).and_then(|known| known.endpoints.first());
            match endpoint.cloned() {
                Some(endpoint) => {
                    out.push(Output::AskReplicaLogs { query, broker, endpoint, partitions });
                }
                None => self.recovery.sender.forget_broker(broker),
            }
        }
    }

    fn recover(&mut self, now: MonotonicTime, id: TopicPartition) {
        let leaderless = self.metadata.partition(id).filter(|partition| partition.leader.is_none());
        let rules = self.topic_rules(id.topic).filter(|rules| rules.recovery_manager);
        let (Some(partition), Some(rules)) = (leaderless, rules) else {
            return self.recovery.end(id);
        };
        let strategy = by_strategy(partition, rules.config.unclean_recovery);
        let requested = self.recovery.tasks.get(&id).is_some_and(|task| task.by_request.is_some());
        if strategy.is_none() && !requested {
            return self.recovery.end(id);
        }
        self.recovery.task(now, id, &self.metadata);
        let Some(task) = self.recovery.tasks.get_mut(&id) else { return };
        task.by_strategy = strategy;
        let Some(partition) = self.metadata.partition(id) else { return };
        if let Some(winner) = task.winner(partition, &self.metadata, now) {
            let targets = Targets::of(partition, Election::Chosen(winner));
            self.change_partition(id, targets, None);
        }
    }

    pub(super) fn check_recoveries(&self) {
        for (id, task) in &self.recovery.tasks {
            let partition = self.metadata.partition(*id);
            let leaderless = partition.is_some_and(|partition| partition.leader.is_none());
            assert!(leaderless && task.mode().is_some(), "{id:?}: {task:?}");
        }
    }
}

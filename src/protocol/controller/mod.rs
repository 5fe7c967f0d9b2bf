//! The controller as one pure, single-threaded machine: decide, append, replay.
//!
//! A request is decided against the metadata as decided so far, committed or not; its records change
//! that metadata at once and go out as [`Output::Append`]. The answer goes out only when everything
//! decided before it is committed, so that nobody acts on a change that could vanish.
//!
//! Appending and committing are the shell's; what a record means is [`ClusterMetadata`]'s.
//! Source of the rules: spec/kip966.md section 2.

mod alter_partition;
mod capacity;
mod configs;
mod election;
mod heartbeat;
mod leadership;
mod partition_change;
mod recovery;
mod registration;
mod reissue;
mod request;
mod settings;
mod topic_rules;
mod topics;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use capacity::{FILES_PER_REPLICA, Load, Resources, check_room, connections_max};
pub use heartbeat::{BrokerState, BrokerView, next_state};
pub use request::{
    AlterConfigs, AlterPartition, AlteredPartition, CreateTopics, CreatedTopic, DeletedTopic,
    DirectoryAssignment, ElectLeaders, ElectionKind, FeatureUpdate, Heartbeat, HeartbeatReply,
    NewTopic, PartitionName, ProposalOutcome, QueryId, Reassignment, Refusal, Registration,
    ReplicaLog, ReplicaLogs, ReplicaLogsAnswer, Request, ResourceChanges, Response, TopicSelector,
};
pub use settings::{LastKnown, Quirks, Settings};

pub use crate::types::Compat;

use self::heartbeat::Sessions;
use self::partition_change::{Rules, Targets, partition_change};
use self::recovery::Recovery;
use self::topic_rules::TopicRules;
use super::metadata::{
    ClusterMetadata, ELR_FEATURE, Endpoint, PartitionChange, PartitionRegistration, Record,
};
use crate::types::{BrokerId, MonotonicTime, Offset, TopicPartition};

/// Names a request across the machine's outputs; unique while it is unanswered, chosen by the shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Somebody asks. Ends with exactly one [`Output::Respond`].
    Request {
        /// Names it.
        request: RequestId,
        /// What is asked.
        body: Request,
    },
    /// All records below this offset are committed.
    Committed {
        /// Exclusive.
        end: Offset,
    },
    /// The deadline passed.
    Tick,
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Append these records as one batch: all become durable, or none.
    Append {
        /// Offset of the first one.
        base_offset: Offset,
        /// Never empty.
        records: Vec<Record>,
    },
    /// Answer a request.
    Respond {
        /// Which.
        request: RequestId,
        /// With what.
        response: Response,
    },
    /// Ask a broker where its replicas' logs end (GetReplicaLogInfo), without holding anything else
    /// up. Ends with exactly one [`Request::ReplicaLogs`].
    AskReplicaLogs {
        /// Names the question in its answer.
        query: QueryId,
        /// Whom.
        broker: BrokerId,
        /// Where it listens.
        endpoint: Endpoint,
        /// About which partitions; never empty.
        partitions: Vec<TopicPartition>,
    },
}

/// The active controller.
/// Invariants: `committed_end <= next_offset`; `waiting` is ordered by offset.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    settings: Settings,
    metadata: ClusterMetadata,
    sessions: Sessions,
    recovery: Recovery,
    next_unclean_election: MonotonicTime,
    /// Offset of the next record decided.
    next_offset: Offset,
    committed_end: Offset,
    /// Records of the step at hand.
    batch: Vec<Record>,
    waiting: VecDeque<Waiting>,
}

/// An answer, and the end offset that must be committed before it may go out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    after: Offset,
    request: RequestId,
    response: Response,
}

impl Controller {
    /// Takes over a metadata log that ends at `log_end_offset` and adds up to `metadata`, all of it
    /// committed. Every session starts anew. A new log gets its first records.
    pub fn start(
        settings: Settings,
        metadata: ClusterMetadata,
        log_end_offset: Offset,
        now: MonotonicTime,
        out: &mut Vec<Output>,
    ) -> Controller {
        let mut controller = Controller {
            sessions: Sessions::restart(&metadata, settings.session_timeout, now),
            recovery: Recovery::start_over(now),
            next_unclean_election: now.plus(settings.unclean_election_interval),
            settings,
            metadata,
            next_offset: log_end_offset,
            committed_end: log_end_offset,
            batch: Vec::new(),
            waiting: VecDeque::new(),
        };
        controller.finalize_first_features();
        controller.append_batch(out);
        controller.drive_recovery(now, out);
        controller
    }

    /// The metadata as decided, uncommitted changes included.
    pub fn metadata(&self) -> &ClusterMetadata {
        &self.metadata
    }

    /// When [`Input::Tick`] is due.
    pub fn deadline(&self) -> MonotonicTime {
        let recovery = self.recovery.deadline();
        let others = self.sessions.next_check().min(self.next_unclean_election);
        recovery.map_or(others, |recovery| recovery.min(others))
    }

    /// Takes one input.
    pub fn step(&mut self, now: MonotonicTime, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Request { request, body } => {
                let response = self.decide(now, body);
                self.append_batch(out);
                self.waiting.push_back(Waiting { after: self.next_offset, request, response });
            }
            Input::Committed { end } => {
                assert!(end <= self.next_offset, "committed {end} of {}", self.next_offset);
                self.committed_end = self.committed_end.max(end);
            }
            Input::Tick => self.tick(now, out),
        }
        self.drive_recovery(now, out);
        self.release(out);
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// Panics where the metadata breaks one of the ELR invariants of spec/kip966.md 2.5.
    pub fn check_invariants(&self) {
        assert!(self.committed_end <= self.next_offset);
        self.check_recoveries();
        for topic in self.metadata.topics() {
            let Some(rules) = self.topic_rules(topic.id) else { continue };
            for (id, partition) in &topic.partitions {
                check_partition(&rules, partition, &format!("{}-{id}", topic.name));
            }
        }
    }

    fn decide(&mut self, now: MonotonicTime, body: Request) -> Response {
        match body {
            Request::RegisterBroker(registration) => {
                Response::RegisterBroker(self.register(now, registration))
            }
            Request::Heartbeat(heartbeat) => Response::Heartbeat(self.heartbeat(now, heartbeat)),
            Request::UnregisterBroker(broker) => {
                Response::UnregisterBroker(self.unregister(broker))
            }
            Request::AlterPartition(request) => {
                Response::AlterPartition(self.alter_partition(request))
            }
            Request::CreateTopics(request) => Response::CreateTopics(self.create_topics(request)),
            Request::DeleteTopics(topics) => Response::DeleteTopics(self.delete_topics(topics)),
            Request::AlterConfigs(request) => Response::AlterConfigs(self.alter_configs(request)),
            Request::ElectLeaders(request) => {
                Response::ElectLeaders(self.elect_leaders(now, request))
            }
            Request::ReplicaLogs(logs) => {
                self.replica_logs(now, logs);
                Response::ReplicaLogs
            }
            Request::Reassign(request) => Response::Reassign(self.reassign(request)),
            Request::AssignDirectory(request) => {
                Response::AssignDirectory(self.assign_directory(request))
            }
            Request::UpdateFeature(update) => Response::UpdateFeature(self.update_feature(update)),
            Request::AllocateProducerIds { broker, epoch } => {
                Response::AllocateProducerIds(self.allocate_producer_ids(broker, epoch))
            }
        }
    }

    fn tick(&mut self, now: MonotonicTime, out: &mut Vec<Output>) {
        self.fence_expired(now);
        self.append_batch(out);
        if now >= self.next_unclean_election {
            self.next_unclean_election = now.plus(self.settings.unclean_election_interval);
            self.elect_unclean_where_allowed();
            self.append_batch(out);
        }
    }

    /// Decides on a record: it takes effect here at once.
    fn write(&mut self, record: Record) {
        let applied = self.metadata.apply(self.next_offset, &record);
        assert!(applied.is_ok(), "decided on a record that does not fit: {applied:?}");
        self.next_offset = self.next_offset.plus(1);
        self.recovery.note(&record);
        self.batch.push(record);
    }

    fn append_batch(&mut self, out: &mut Vec<Output>) {
        if self.batch.is_empty() {
            return;
        }
        let records = std::mem::take(&mut self.batch);
        let base_offset = self.next_offset.plus(-i64::try_from(records.len()).unwrap_or(i64::MAX));
        out.push(Output::Append { base_offset, records });
    }

    fn release(&mut self, out: &mut Vec<Output>) {
        while self.waiting.front().is_some_and(|waiting| waiting.after <= self.committed_end) {
            let Some(Waiting { request, response, .. }) = self.waiting.pop_front() else { return };
            out.push(Output::Respond { request, response });
        }
    }

    fn elr_on(&self) -> bool {
        self.metadata.feature(ELR_FEATURE) > 0
    }

    /// Takes a partition to `targets` under the rules in force, with `excluded` out of the question
    /// as a leader. Returns what was written.
    fn change_partition(
        &mut self,
        id: TopicPartition,
        targets: Targets,
        excluded: Option<BrokerId>,
    ) -> Option<PartitionChange> {
        self.change_partition_with(id, targets, excluded, self.elr_on())
    }

    fn change_partition_with(
        &mut self,
        id: TopicPartition,
        targets: Targets,
        excluded: Option<BrokerId>,
        elr_on: bool,
    ) -> Option<PartitionChange> {
        let partition = self.metadata.partition(id)?;
        let topic = self.topic_rules(id.topic)?;
        let may_lead = |broker| {
            let active = self.metadata.broker(broker).filter(|known| known.is_active());
            Some(broker) != excluded
                && active.is_some_and(|known| known.has_online(partition.directory_of(broker)))
        };
        let rules = Rules {
            min_isr: topic.min_isr,
            elr_on,
            last_known: topic.last_known,
            quirks: topic.quirks,
            may_lead: &may_lead,
        };
        let change = partition_change(id, partition, targets, &rules);
        if change.is_empty() {
            return None;
        }
        self.write(Record::PartitionChange(change.clone()));
        Some(change)
    }
}

fn check_partition(rules: &TopicRules, partition: &PartitionRegistration, name: &str) {
    let PartitionRegistration { replicas, isr, elr, leader, .. } = partition;
    let min_isr = rules.config.min_isr.min(replicas.len());
    assert!(leader.is_none_or(|leader| isr.contains(&leader)), "{name}: {partition:?}");
    assert!(elr.iter().all(|id| !isr.contains(id)), "{name}: {partition:?}");
    assert!(isr.iter().all(|id| replicas.contains(id)), "{name}: {partition:?}");
    if rules.elr_level > 0 && !rules.quirks.elr_outlives_min_isr {
        assert!(elr.is_empty() || isr.len() < min_isr, "{name}: {partition:?}");
    }
    if !rules.quirks.removed_replica_stays_in_elr {
        assert!(elr.iter().all(|id| replicas.contains(id)), "{name}: {partition:?}");
    }
}

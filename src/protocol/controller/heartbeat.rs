//! Broker sessions: heartbeats, fencing, unfencing, controlled shutdown.
//!
//! ```text
//! FENCED -> UNFENCED: applied its registration and does not want to be fenced
//! FENCED -> SHUTDOWN_NOW: wants to stop
//! UNFENCED -> FENCED: wants to be fenced, or its session expired
//! UNFENCED -> CONTROLLED_SHUTDOWN: wants to stop and leads a partition
//! UNFENCED -> SHUTDOWN_NOW: wants to stop and leads none
//! CONTROLLED_SHUTDOWN -> SHUTDOWN_NOW: leads none, and every active broker knows that
//! ```
//! Source: spec/kip966.md 2.2.

use std::collections::BTreeMap;
use std::time::Duration;

use super::capacity::Resources;
use super::election::Election;
use super::partition_change::Targets;
use super::{Controller, Heartbeat, HeartbeatReply};
use crate::protocol::metadata::{
    BrokerRegistration, BrokerRegistrationChange, ClusterMetadata, DirectoryId,
    PartitionRegistration, Record,
};
use crate::types::{BrokerId, ErrorCode, MonotonicTime, Offset, TopicPartition};

/// A broker's state as the controller steers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerState {
    /// May neither lead nor join an ISR.
    Fenced,
    /// In full service.
    Unfenced,
    /// Handing over its leaderships.
    ControlledShutdown,
    /// May stop at once.
    ShutdownNow,
}

/// What the next state depends on beside the heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerView {
    /// The state now.
    pub state: BrokerState,
    /// Offset of the record that registered the broker.
    pub registration_offset: Offset,
    /// It leads some partition.
    pub leads_any: bool,
    /// Offset of the last record of its controlled shutdown, once that began.
    pub controlled_shutdown_offset: Option<Offset>,
    /// Lowest metadata end offset that an active broker reported; `None` if none is active.
    pub lowest_active_end: Option<Offset>,
}

/// The state a heartbeat leads to.
pub fn next_state(view: &BrokerView, heartbeat: &Heartbeat) -> BrokerState {
    match view.state {
        BrokerState::Fenced if heartbeat.want_shut_down => BrokerState::ShutdownNow,
        BrokerState::Fenced => {
            let ready = !heartbeat.want_fence && is_caught_up(view, heartbeat);
            if ready { BrokerState::Unfenced } else { BrokerState::Fenced }
        }
        BrokerState::Unfenced => match (heartbeat.want_fence, heartbeat.want_shut_down) {
            (true, true) => BrokerState::ShutdownNow,
            (true, false) => BrokerState::Fenced,
            (false, true) if view.leads_any => BrokerState::ControlledShutdown,
            (false, true) => BrokerState::ShutdownNow,
            (false, false) => BrokerState::Unfenced,
        },
        BrokerState::ControlledShutdown => {
            if view.leads_any || !handover_seen(view) {
                BrokerState::ControlledShutdown
            } else {
                BrokerState::ShutdownNow
            }
        }
        BrokerState::ShutdownNow => BrokerState::ShutdownNow,
    }
}

/// What the broker is told on its way to `next`.
pub(super) fn reply(view: &BrokerView, heartbeat: &Heartbeat, next: BrokerState) -> HeartbeatReply {
    HeartbeatReply {
        is_caught_up: is_caught_up(view, heartbeat),
        is_fenced: matches!(next, BrokerState::Fenced | BrokerState::ShutdownNow),
        should_shut_down: next == BrokerState::ShutdownNow,
    }
}

fn is_caught_up(view: &BrokerView, heartbeat: &Heartbeat) -> bool {
    heartbeat.metadata_end > view.registration_offset
}

fn handover_seen(view: &BrokerView) -> bool {
    match (view.controlled_shutdown_offset, view.lowest_active_end) {
        (Some(handover), Some(lowest_end)) => lowest_end > handover,
        (None, _) | (_, None) => true,
    }
}

/// Who was heard of when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Sessions {
    timeout: Duration,
    next_check: MonotonicTime,
    by_broker: BTreeMap<BrokerId, Session>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Session {
    heard: MonotonicTime,
    metadata_end: Offset,
    controlled_shutdown_offset: Option<Offset>,
    /// As it told last.
    resources: Option<Resources>,
}

impl Sessions {
    /// All sessions of a new active controller: unfenced brokers count as heard of just now.
    pub(super) fn restart(
        metadata: &ClusterMetadata,
        timeout: Duration,
        now: MonotonicTime,
    ) -> Sessions {
        let mut sessions =
            Sessions { timeout, next_check: now.plus(timeout / 8), by_broker: BTreeMap::new() };
        for broker in metadata.brokers().filter(|broker| !broker.fenced) {
            sessions.touch(broker.id, now);
        }
        sessions
    }

    pub(super) fn next_check(&self) -> MonotonicTime {
        self.next_check
    }

    /// Heard of within the timeout, and not told to stop or fenced since.
    pub(super) fn is_live(&self, broker: BrokerId, now: MonotonicTime) -> bool {
        self.by_broker.get(&broker).is_some_and(|session| !self.is_expired(session, now))
    }

    /// A broker registered: nothing that an earlier life reported holds.
    pub(super) fn begin(&mut self, broker: BrokerId, now: MonotonicTime) {
        self.end(broker);
        self.touch(broker, now);
    }

    pub(super) fn end(&mut self, broker: BrokerId) {
        self.by_broker.remove(&broker);
    }

    pub(super) fn hear(&mut self, broker: BrokerId, now: MonotonicTime) {
        self.touch(broker, now);
    }

    fn touch(&mut self, broker: BrokerId, now: MonotonicTime) -> &mut Session {
        let new = Session {
            heard: now,
            metadata_end: Offset::ZERO,
            controlled_shutdown_offset: None,
            resources: None,
        };
        let session = self.by_broker.entry(broker).or_insert(new);
        session.heard = session.heard.max(now);
        session
    }

    /// Of the brokers that told theirs.
    pub(super) fn resources(&self) -> impl Iterator<Item = (BrokerId, Resources)> {
        self.by_broker.iter().filter_map(|(&broker, session)| Some((broker, session.resources?)))
    }

    fn is_expired(&self, session: &Session, now: MonotonicTime) -> bool {
        now.since(session.heard) > self.timeout
    }

    fn longest_silent(&self, metadata: &ClusterMetadata, now: MonotonicTime) -> Option<BrokerId> {
        let unfenced = metadata.brokers().filter(|broker| !broker.fenced);
        let expired = unfenced.filter_map(|broker| {
            let session = self.by_broker.get(&broker.id)?;
            self.is_expired(session, now).then_some((session.heard, broker.id))
        });
        expired.min().map(|(_, broker)| broker)
    }

    fn lowest_active_end(&self, metadata: &ClusterMetadata) -> Option<Offset> {
        let active = metadata.brokers().filter(|broker| broker.is_active());
        active
            .map(|broker| self.by_broker.get(&broker.id).map_or(Offset::ZERO, |s| s.metadata_end))
            .min()
    }
}

impl Controller {
    pub(super) fn heartbeat(
        &mut self,
        now: MonotonicTime,
        mut heartbeat: Heartbeat,
    ) -> Result<HeartbeatReply, ErrorCode> {
        let broker = heartbeat.broker;
        self.current_registration(broker, heartbeat.epoch)?;
        heartbeat.want_fence |= !self.lose_directories(broker, &heartbeat.offline_log_dirs);
        let registration = self.current_registration(broker, heartbeat.epoch)?;
        let state = state_of(registration);
        let registration_offset = registration.registration_offset;
        let session = self.sessions.touch(broker, now);
        session.metadata_end = session.metadata_end.max(heartbeat.metadata_end);
        session.resources = heartbeat.resources;
        self.recovery.heard_of(broker);
        let view = BrokerView {
            state,
            registration_offset,
            leads_any: self.metadata.leads_any(broker),
            controlled_shutdown_offset: session.controlled_shutdown_offset,
            lowest_active_end: self.sessions.lowest_active_end(&self.metadata),
        };
        let next = next_state(&view, &heartbeat);
        if next != state {
            self.enter(broker, next, now);
        }
        Ok(reply(&view, &heartbeat, next))
    }

    fn enter(&mut self, broker: BrokerId, next: BrokerState, now: MonotonicTime) {
        match next {
            BrokerState::Fenced | BrokerState::ShutdownNow => self.fence(broker),
            BrokerState::Unfenced => self.unfence(broker),
            BrokerState::ControlledShutdown => {
                self.begin_controlled_shutdown(broker);
                let handover = self.next_offset.plus(-1);
                self.sessions.touch(broker, now).controlled_shutdown_offset = Some(handover);
            }
        }
    }

    /// Fences at most one broker whose session expired, and comes back at once while it finds one.
    pub(super) fn fence_expired(&mut self, now: MonotonicTime) {
        if now < self.sessions.next_check {
            return;
        }
        match self.sessions.longest_silent(&self.metadata, now) {
            Some(broker) => {
                self.fence(broker);
                self.sessions.next_check = now;
            }
            None => self.sessions.next_check = now.plus(self.sessions.timeout / 8),
        }
    }

    /// The registration of a broker that knows its own epoch.
    pub(super) fn current_registration(
        &self,
        broker: BrokerId,
        epoch: crate::types::BrokerEpoch,
    ) -> Result<&BrokerRegistration, ErrorCode> {
        let registration = self.metadata.broker(broker).filter(|known| known.epoch == epoch);
        registration.ok_or(ErrorCode::StaleBrokerEpoch)
    }

    fn fence(&mut self, broker: BrokerId) {
        self.sessions.end(broker);
        if self.metadata.broker(broker).is_some_and(|registration| registration.fenced) {
            return;
        }
        self.leave_isrs(broker);
        self.change_registration(broker, Some(true), false, None);
    }

    /// Directories that failed: like a fence of the replicas in them alone. Returns whether the
    /// broker has any left.
    fn lose_directories(&mut self, broker: BrokerId, offline: &[DirectoryId]) -> bool {
        let Some(registration) = self.metadata.broker(broker) else { return true };
        let (lost, left): (Vec<DirectoryId>, Vec<DirectoryId>) =
            registration.log_dirs.iter().partition(|dir| offline.contains(dir));
        if lost.is_empty() || left.is_empty() {
            return lost.is_empty();
        }
        let in_lost = |partition: &PartitionRegistration| {
            partition.isr.contains(&broker) && lost.contains(&partition.directory_of(broker))
        };
        for id in self.partitions_where(in_lost) {
            self.leave_partition(id, broker, false);
        }
        self.change_registration(broker, None, false, Some(left));
        true
    }

    fn begin_controlled_shutdown(&mut self, broker: BrokerId) {
        self.leave_isrs(broker);
        self.change_registration(broker, None, true, None);
    }

    /// Partitions with a leader are left alone: rejoining the ISR is the leader's job.
    fn unfence(&mut self, broker: BrokerId) {
        self.change_registration(broker, Some(false), false, None);
        for id in self.partitions_where(|partition| partition.leader.is_none()) {
            self.elect_if_possible(id);
        }
    }

    fn elect_if_possible(&mut self, id: TopicPartition) {
        let election = self.election_mode(id);
        if let Some(partition) = self.metadata.partition(id) {
            let targets = Targets::of(partition, election);
            self.change_partition(id, targets, None);
        }
    }

    /// Takes a broker out of every ISR it is in.
    pub(super) fn leave_isrs(&mut self, broker: BrokerId) {
        for id in self.partitions_where(|partition| partition.isr.contains(&broker)) {
            self.leave_partition(id, broker, false);
        }
    }

    /// Takes a broker out of one ISR; after an unclean shutdown out of the ELR as well.
    pub(super) fn leave_partition(&mut self, id: TopicPartition, broker: BrokerId, unclean: bool) {
        let Some(mut targets) = self.targets_without(id, broker) else { return };
        targets.unclean_shutdown = unclean.then_some(broker);
        self.change_partition(id, targets, Some(broker));
    }

    /// Takes a broker whose replica is damaged out of whatever it could lead the partition by.
    pub(super) fn leave_damaged(&mut self, id: TopicPartition, broker: BrokerId) {
        let Some(mut targets) = self.targets_without(id, broker) else { return };
        targets.unclean_shutdown = Some(broker);
        targets.damaged = Some(broker);
        self.change_partition(id, targets, Some(broker));
    }

    fn targets_without(&self, id: TopicPartition, broker: BrokerId) -> Option<Targets> {
        let mut targets = Targets::of(self.metadata.partition(id)?, self.election_mode(id));
        targets.isr.retain(|&member| member != broker);
        Some(targets)
    }

    pub(super) fn partitions_where(
        &self,
        holds: impl Fn(&PartitionRegistration) -> bool,
    ) -> Vec<TopicPartition> {
        self.metadata
            .partitions()
            .filter(|(_, partition)| holds(partition))
            .map(|(id, _)| id)
            .collect()
    }

    /// How leaders are elected that nobody asked for.
    pub(super) fn election_mode(&self, id: TopicPartition) -> Election {
        self.topic_rules(id.topic).map_or(Election::Online, |rules| rules.election())
    }

    fn change_registration(
        &mut self,
        broker: BrokerId,
        fenced: Option<bool>,
        leaving: bool,
        log_dirs: Option<Vec<DirectoryId>>,
    ) {
        let Some(registration) = self.metadata.broker(broker) else { return };
        self.write(Record::BrokerRegistrationChange(BrokerRegistrationChange {
            broker,
            epoch: registration.epoch,
            fenced,
            in_controlled_shutdown: leaving,
            log_dirs,
        }));
    }
}

fn state_of(registration: &BrokerRegistration) -> BrokerState {
    if registration.fenced {
        BrokerState::Fenced
    } else if registration.in_controlled_shutdown {
        BrokerState::ControlledShutdown
    } else {
        BrokerState::Unfenced
    }
}

//! A broker's talk with the controller: `Lifecycle` and `IsrProposals` on one connection, which is
//! replaced when a call on it goes unanswered.

use super::{BrokerOutbox, BrokerSettings, End, Process};
use crate::protocol::broker::{
    IsrProposals, IsrProposalsInput, IsrProposalsOutput, Lifecycle, LifecycleInput,
    LifecycleOutput, LifecycleState, PartitionAnswer,
};
use crate::protocol::controller::{Registration, Request, Response};
use crate::protocol::metadata::{
    DirectoryId, ELR_FEATURE, Endpoint, FeatureRange, IncarnationId, METADATA_VERSION_FEATURE,
};
use crate::protocol::partition::{Input, IsrProposal};
use crate::sim::message::{Address, CallId, Message};
use crate::types::{BrokerEpoch, BrokerId, MonotonicTime, Offset, TopicPartition};

/// The cluster all brokers belong to.
pub const CLUSTER: &str = "simulated";

/// Machines and what they wait for.
#[derive(Debug)]
pub(super) struct ControllerLink {
    lifecycle: Lifecycle,
    proposals: IsrProposals,
    connection: u64,
    life_call: Option<CallId>,
    alter_call: Option<CallId>,
}

impl ControllerLink {
    pub(super) fn new(
        id: BrokerId,
        start: u32,
        previous_epoch: Option<BrokerEpoch>,
        settings: BrokerSettings,
        now: MonotonicTime,
    ) -> ControllerLink {
        let registration = registration(id, start, previous_epoch);
        let mut proposals = IsrProposals::new(id);
        proposals.step(now, IsrProposalsInput::Connected, &mut Vec::new());
        ControllerLink {
            lifecycle: Lifecycle::new(registration, settings.heartbeat_interval, now),
            proposals,
            connection: u64::from(start) << 32,
            life_call: None,
            alter_call: None,
        }
    }

    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.lifecycle.deadline().into_iter().chain(self.proposals.deadline()).min()
    }
}

/// What a broker's process number `start` registers with.
pub fn registration(id: BrokerId, start: u32, previous_epoch: Option<BrokerEpoch>) -> Registration {
    let mut incarnation = [0; 16];
    incarnation[..4].copy_from_slice(&id.0.to_be_bytes());
    incarnation[12..].copy_from_slice(&start.to_be_bytes());
    let mut directory = [0xdd; 16];
    directory[12..].copy_from_slice(&id.0.to_be_bytes());
    let endpoint = Endpoint {
        name: "SIM".to_owned(),
        host: format!("broker-{id}"),
        port: 9092,
        security_protocol: 0,
    };
    let range = |name: &str, max| FeatureRange { name: name.to_owned(), min: 0, max };
    Registration {
        broker: id,
        cluster_id: CLUSTER.to_owned(),
        incarnation: IncarnationId(incarnation),
        endpoints: vec![endpoint],
        features: vec![range(METADATA_VERSION_FEATURE, 99), range(ELR_FEATURE, 2)],
        rack: None,
        log_dirs: vec![DirectoryId(directory)],
        previous_epoch,
        damaged: vec![],
    }
}

impl Process {
    pub(super) fn link_tick(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        self.step_lifecycle(now, LifecycleInput::Tick, out);
        self.step_proposals(now, IsrProposalsInput::Tick, out);
    }

    pub(super) fn link_shut_down(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        self.step_lifecycle(now, LifecycleInput::ShutDown, out);
    }

    /// Metadata below `end` is applied and roles are taken.
    pub(super) fn link_applied(&mut self, now: MonotonicTime, end: Offset, out: &mut BrokerOutbox) {
        self.step_lifecycle(now, LifecycleInput::MetadataApplied(end), out);
        self.step_lifecycle(now, LifecycleInput::Ready, out);
    }

    pub(super) fn link_answered(
        &mut self,
        now: MonotonicTime,
        call: CallId,
        response: Response,
        out: &mut BrokerOutbox,
    ) {
        let link = &mut self.link;
        if link.life_call == Some(call) {
            link.life_call = None;
            match response {
                Response::RegisterBroker(answer) => {
                    self.step_lifecycle(now, LifecycleInput::Registered(answer), out);
                }
                Response::Heartbeat(answer) => {
                    self.step_lifecycle(now, LifecycleInput::Heartbeat(answer), out);
                }
                _ => {}
            }
        } else if link.alter_call == Some(call) {
            link.alter_call = None;
            let Response::AlterPartition(answer) = response else { return };
            let answer = answer.map(|outcomes| -> Vec<PartitionAnswer> {
                let outcomes = outcomes.into_iter();
                outcomes.map(|(id, outcome)| (id, outcome.map(|it| it.committed))).collect()
            });
            self.step_proposals(now, IsrProposalsInput::Answered(answer), out);
        }
    }

    /// Whether the lost call was one of this link. Its connection carried both kinds of calls.
    pub(super) fn link_call_lost(
        &mut self,
        now: MonotonicTime,
        call: CallId,
        out: &mut BrokerOutbox,
    ) -> bool {
        let link = &mut self.link;
        if link.life_call != Some(call) && link.alter_call != Some(call) {
            return false;
        }
        self.reconnect(now, out);
        true
    }

    fn reconnect(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        let link = &mut self.link;
        link.connection += 1;
        link.life_call = None;
        link.alter_call = None;
        self.step_lifecycle(now, LifecycleInput::Disconnected, out);
        self.step_proposals(now, IsrProposalsInput::Disconnected, out);
        self.step_proposals(now, IsrProposalsInput::Connected, out);
    }

    pub(super) fn propose(
        &mut self,
        now: MonotonicTime,
        id: TopicPartition,
        proposal: IsrProposal,
        out: &mut BrokerOutbox,
    ) {
        self.step_proposals(now, IsrProposalsInput::Propose(id, proposal), out);
    }

    fn ask(&mut self, request: Request, out: &mut BrokerOutbox) -> CallId {
        let call = self.calls.next();
        let connection = self.link.connection;
        let message = Message::Ask { call, connection, request };
        self.call(Address::Controller, call, message, out);
        call
    }

    fn step_lifecycle(
        &mut self,
        now: MonotonicTime,
        input: LifecycleInput,
        out: &mut BrokerOutbox,
    ) {
        let mut outputs = Vec::new();
        self.link.lifecycle.step(now, input, &mut outputs);
        for output in outputs {
            match output {
                LifecycleOutput::Register(registration) => {
                    let call = self.ask(Request::RegisterBroker(registration), out);
                    self.link.life_call = Some(call);
                }
                LifecycleOutput::Heartbeat(heartbeat) => {
                    let call = self.ask(Request::Heartbeat(heartbeat), out);
                    self.link.life_call = Some(call);
                }
                LifecycleOutput::Epoch(epoch) => self.registered(now, epoch, out),
                LifecycleOutput::State(LifecycleState::ShuttingDown) => {
                    self.end = Some(End::Clean);
                }
                LifecycleOutput::State(_) => {}
                LifecycleOutput::Refused(error) => {
                    self.end = Some(End::Broken(format!("registration refused: {error}")));
                }
            }
        }
    }

    fn registered(&mut self, now: MonotonicTime, epoch: BrokerEpoch, out: &mut BrokerOutbox) {
        if self.epoch.is_some_and(|known| known != epoch) {
            self.end = Some(End::EpochChanged);
            return;
        }
        self.epoch = Some(epoch);
        self.step_proposals(now, IsrProposalsInput::Epoch(epoch), out);
    }

    fn step_proposals(
        &mut self,
        now: MonotonicTime,
        input: IsrProposalsInput,
        out: &mut BrokerOutbox,
    ) {
        let mut outputs = Vec::new();
        self.link.proposals.step(now, input, &mut outputs);
        for output in outputs {
            match output {
                IsrProposalsOutput::Send(request) => {
                    let call = self.ask(Request::AlterPartition(request), out);
                    self.link.alter_call = Some(call);
                }
                IsrProposalsOutput::Committed { id, proposal, committed } => {
                    self.step(now, id, Input::IsrCommitted { proposal, committed }, out);
                }
                IsrProposalsOutput::Refused { id, proposal, error } => {
                    self.step(now, id, Input::IsrRefused { proposal, error }, out);
                }
                IsrProposalsOutput::ForgetController => self.reconnect(now, out),
            }
        }
    }
}

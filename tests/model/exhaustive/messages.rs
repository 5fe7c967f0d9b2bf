//! Messages of the exhaustive model: what becomes of one that arrives, and of one that is given up.

use ackmark::protocol::broker::IsrProposalsInput;
use ackmark::protocol::controller::{
    AlterPartition, ReplicaLogs, ReplicaLogsAnswer, Request, Response,
};
use ackmark::protocol::partition::{FollowerFetch, Input, RequestId};
use ackmark::sim::replica::{Cargo, Effect, fetched_input, follower_fetch};
use ackmark::types::{BrokerEpoch, ErrorCode};

use super::cluster::{Cluster, PARTITION, Packet, broker_of, id};

impl Cluster {
    /// Hands a message over; gives the answer to a request.
    pub(super) fn deliver(&mut self, packet: Packet) -> Option<Packet> {
        match packet {
            Packet::Fetch { from, epoch, fetch } => self.serve(from, epoch, fetch),
            Packet::Alter { from, request } => self.alter(from, request),
            Packet::Fetched { to, epoch, fetch, answer, batches } => {
                let process = self.process_mut(to).filter(|process| process.epoch == epoch)?;
                let at = process.in_flight.iter().position(|call| *call == fetch)?;
                process.in_flight.remove(at);
                let input = fetched_input(&fetch, &answer, &batches);
                self.step(to, input, Cargo::Fetched(&batches));
                None
            }
            Packet::AskLog { to, query } => {
                let process = self.process(to);
                let answer = process.map(|process| ReplicaLogsAnswer {
                    broker_epoch: Some(process.epoch),
                    logs: vec![(PARTITION, Ok(process.replica.log()))],
                });
                Some(Packet::LogIs { from: to, query, answer })
            }
            Packet::LogIs { from, query, answer } => {
                let broker = id(from);
                self.ask(Request::ReplicaLogs(ReplicaLogs { query, broker, answer }));
                None
            }
            Packet::Altered { to, epoch, answer } => {
                self.process(to).filter(|process| process.epoch == epoch)?;
                let answer = answer.map(|outcomes| {
                    let outcomes = outcomes.into_iter();
                    outcomes.map(|(id, it)| (id, it.map(|it| it.committed))).collect()
                });
                self.step_proposals(to, IsrProposalsInput::Answered(answer));
                None
            }
        }
    }

    /// A leader answers a fetch without parking it.
    pub(super) fn serve(
        &mut self,
        from: usize,
        epoch: BrokerEpoch,
        call: FollowerFetch,
    ) -> Option<Packet> {
        let leader = broker_of(call.leader);
        let now = self.now;
        let process = self.process_mut(leader)?;
        let fetch = follower_fetch(id(from), Some(epoch), &call);
        let request = RequestId(u64::MAX);
        let mut effects = Vec::new();
        let input = Input::Fetch { request, fetch, deadline: now };
        process.replica.step(now, input, Cargo::Nothing, &mut effects);
        let mut answered = None;
        for effect in effects {
            if let Effect::Fetched { answer, batches, .. } = effect {
                answered = Some(Packet::Fetched { to: from, epoch, fetch: call, answer, batches });
            } else {
                self.carry_out(leader, effect);
            }
        }
        answered
    }

    pub(super) fn alter(&mut self, from: usize, request: AlterPartition) -> Option<Packet> {
        let epoch = request.epoch;
        match self.ask(Request::AlterPartition(request)) {
            Some(Response::AlterPartition(answer)) => {
                Some(Packet::Altered { to: from, epoch, answer })
            }
            _ => None,
        }
    }

    pub(super) fn lose_fetch(&mut self, broker: usize) {
        let Some(process) = self.process_mut(broker) else { return };
        let lost = process.in_flight.remove(0);
        let epoch = process.epoch;
        // The answer would come on a connection that is closed.
        self.network.retain(|sealed| {
            let answers = matches!(&*sealed.packet, Packet::Fetched { to, epoch: e, fetch, .. }
                if *to == broker && *e == epoch && *fetch == lost);
            !answers
        });
        let error = ErrorCode::NetworkException;
        let input = Input::FetchFailed { request_leader_epoch: lost.leader_epoch, error };
        self.step(broker, input, Cargo::Nothing);
    }

    pub(super) fn lose_alter(&mut self, broker: usize) {
        self.reconnect(broker);
    }

    /// What was on the old connection is read no more.
    pub(super) fn reconnect(&mut self, broker: usize) {
        self.network.retain(|sealed| {
            !matches!(&*sealed.packet, Packet::Alter { from, .. } if *from == broker)
                && !matches!(&*sealed.packet, Packet::Altered { to, .. } if *to == broker)
        });
        self.step_proposals(broker, IsrProposalsInput::Disconnected);
        self.step_proposals(broker, IsrProposalsInput::Connected);
    }

    /// Asked and answered at once, if the leader is there.
    pub(super) fn ask_leader_offsets(&mut self, broker: usize) {
        let Some(machine) = self.process(broker).map(|process| process.replica.machine()) else {
            return;
        };
        let epoch = machine.leader_epoch();
        let leader = machine.leader().and_then(|leader| self.process(broker_of(leader)));
        let leader = leader.map(|process| process.replica.machine()).filter(|it| it.is_leader());
        let input = match (leader, epoch) {
            (Some(leader), _) => Input::LeaderOffsets {
                log_start_offset: leader.log_start_offset(),
                log_end_offset: leader.log_end_offset(),
            },
            (None, Some(epoch)) => Input::FetchFailed {
                request_leader_epoch: epoch,
                error: ErrorCode::NotLeaderOrFollower,
            },
            (None, None) => return,
        };
        self.step(broker, input, Cargo::Nothing);
    }
}

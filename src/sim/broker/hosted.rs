//! The replicas a broker's process has open: requests they have not answered, fetches under way.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::metadata::partition_settings;
use super::{BrokerOutbox, End, Note, Process};
use crate::protocol::partition::{Fetch, FetchAnswer, FollowerFetch, Input, RequestId};
use crate::sim::disk::{Batch, Disk};
use crate::sim::history::WriteId;
use crate::sim::message::{Address, CallId, Message};
use crate::sim::replica::{
    Cargo, Effect, Flush, Replica, fetched_input, follower_fetch, record_count,
};
use crate::types::{Acks, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Offset, TopicPartition};

/// One open replica.
#[derive(Debug)]
pub(super) struct Hosted {
    replica: Replica,
    next_fetch: Option<FollowerFetch>,
    asks_log_ends: bool,
    in_flight: BTreeMap<CallId, InFlight>,
    /// Requests without an answer; the flag says whether it is an `acks=all` produce.
    waiting: BTreeMap<RequestId, (Address, CallId, bool)>,
}

/// A call to a leader.
#[derive(Clone, Copy, Debug)]
enum InFlight {
    Fetch(FollowerFetch),
    LogEnds { leader: BrokerId, epoch: LeaderEpoch },
}

impl InFlight {
    fn leader(self) -> BrokerId {
        match self {
            InFlight::Fetch(fetch) => fetch.leader,
            InFlight::LogEnds { leader, .. } => leader,
        }
    }

    fn epoch(self) -> LeaderEpoch {
        match self {
            InFlight::Fetch(fetch) => fetch.leader_epoch,
            InFlight::LogEnds { epoch, .. } => epoch,
        }
    }
}

impl Hosted {
    pub(super) fn replica(&self) -> &Replica {
        &self.replica
    }

    pub(super) fn into_disk(self) -> Disk {
        self.replica.into_disk()
    }

    pub(super) fn flushed(&mut self, now: MonotonicTime, flush: Flush, out: &mut Vec<Effect>) {
        self.replica.flushed(now, flush, out);
    }

    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let fetch = self.next_fetch.filter(|fetch| !self.is_calling(fetch.leader));
        self.replica.machine().deadline().into_iter().chain(fetch.map(|f| f.not_before)).min()
    }

    fn is_calling(&self, leader: BrokerId) -> bool {
        self.in_flight.values().any(|call| call.leader() == leader)
    }
}

impl Process {
    pub(super) fn open_if_hosted(
        &mut self,
        now: MonotonicTime,
        id: TopicPartition,
        out: &mut BrokerOutbox,
    ) {
        let replicas = self.metadata.partition(id).map(|partition| &partition.replicas);
        let is_hosted = replicas.is_some_and(|replicas| replicas.contains(&self.id));
        let Some(epoch) = self.epoch.filter(|_| is_hosted && !self.hosted.contains_key(&id)) else {
            return;
        };
        let settings = partition_settings(&self.metadata, id.topic, &self.settings);
        let disk = self.unopened.remove(&id).unwrap_or_default();
        let replica = Replica::open((self.id, epoch), settings, disk, self.settings.durability);
        let hosted = Hosted {
            replica,
            next_fetch: None,
            asks_log_ends: false,
            in_flight: BTreeMap::new(),
            waiting: BTreeMap::new(),
        };
        self.hosted.insert(id, hosted);
        self.step(now, id, Input::Peers(self.metadata.peers()), out);
    }

    pub(super) fn step(
        &mut self,
        now: MonotonicTime,
        id: TopicPartition,
        input: Input,
        out: &mut BrokerOutbox,
    ) {
        self.step_with(now, id, input, Cargo::Nothing, out);
    }

    fn step_with(
        &mut self,
        now: MonotonicTime,
        id: TopicPartition,
        input: Input,
        cargo: Cargo<'_>,
        out: &mut BrokerOutbox,
    ) {
        let Some(hosted) = self.hosted.get_mut(&id) else { return };
        let mut effects = Vec::new();
        hosted.replica.step(now, input, cargo, &mut effects);
        let machine = hosted.replica.machine();
        if machine.leader().is_none_or(|leader| leader == self.id) {
            hosted.next_fetch = None;
            hosted.asks_log_ends = false;
        }
        self.carry_out(now, id, effects, out);
    }

    pub(super) fn carry_out(
        &mut self,
        now: MonotonicTime,
        id: TopicPartition,
        effects: Vec<Effect>,
        out: &mut BrokerOutbox,
    ) {
        for effect in effects {
            let Some(hosted) = self.hosted.get_mut(&id) else { return };
            match effect {
                Effect::Produced { request, result } => {
                    let Some((to, call, is_all)) = hosted.waiting.remove(&request) else {
                        continue;
                    };
                    if is_all {
                        let write = WriteId { broker: self.id, request: request.0 };
                        let is_acknowledged = result.is_ok();
                        out.notes.push((id, Note::Answered { id: write, is_acknowledged }));
                    }
                    self.reply(to, Message::Produced { call, result }, out);
                }
                Effect::Fetched { request, answer, batches } => {
                    let Some((to, call, _)) = hosted.waiting.remove(&request) else { continue };
                    self.reply(to, Message::Fetched { call, answer, batches }, out);
                }
                Effect::Propose(proposal) => self.propose(now, id, proposal, out),
                Effect::Fetch(fetch) => hosted.next_fetch = Some(fetch),
                Effect::AskLeaderOffsets => hosted.asks_log_ends = true,
                Effect::Broken(what) => {
                    self.end.get_or_insert(End::Broken(what));
                }
            }
        }
    }

    pub(super) fn tick_hosted(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        let due = self.hosted.iter().filter(|(_, hosted)| {
            hosted.replica.machine().deadline().is_some_and(|deadline| deadline <= now)
        });
        let due: Vec<TopicPartition> = due.map(|(&id, _)| id).collect();
        for id in due {
            self.step(now, id, Input::Tick, out);
        }
    }

    // --- as leader --------------------------------------------------------------------------------

    pub(super) fn produce(
        &mut self,
        now: MonotonicTime,
        (from, call): (Address, CallId),
        (id, acks, batch, deadline): (TopicPartition, Acks, Bytes, MonotonicTime),
        out: &mut BrokerOutbox,
    ) {
        let Some(hosted) = self.hosted.get_mut(&id) else {
            let result = Err(ErrorCode::UnknownTopicOrPartition);
            return self.reply(from, Message::Produced { call, result }, out);
        };
        let request = RequestId(self.calls.next().0);
        if acks != Acks::None {
            hosted.waiting.insert(request, (from, call, acks == Acks::All));
        }
        let before = hosted.replica.disk().end();
        let record_count = record_count(&batch);
        let input = Input::Produce { request, acks, record_count, deadline };
        let mut notes = BrokerOutbox::default();
        self.step_with(now, id, input, Cargo::Produced(&batch), &mut notes);
        let disk = self.hosted.get(&id).map(|hosted| hosted.replica.disk());
        if let Some(disk) = disk.filter(|disk| acks == Acks::All && disk.end() > before) {
            let (end, write) = (disk.end(), WriteId { broker: self.id, request: request.0 });
            let digest = disk.digest_at(end).unwrap_or_default();
            out.notes.push((id, Note::Appended { id: write, end, digest }));
        }
        // An answer given at once comes after the append it answers.
        out.envelopes.append(&mut notes.envelopes);
        out.calls.append(&mut notes.calls);
        out.notes.append(&mut notes.notes);
    }

    pub(super) fn fetch(
        &mut self,
        now: MonotonicTime,
        (from, call): (Address, CallId),
        (id, fetch, deadline): (TopicPartition, Fetch, MonotonicTime),
        out: &mut BrokerOutbox,
    ) {
        let Some(hosted) = self.hosted.get_mut(&id) else {
            let answer = FetchAnswer {
                error: ErrorCode::UnknownTopicId,
                offset: fetch.offset,
                until: fetch.offset,
                high_watermark: Offset(-1),
                log_start_offset: Offset(-1),
                diverging: None,
            };
            return self.reply(from, Message::Fetched { call, answer, batches: vec![] }, out);
        };
        let request = RequestId(self.calls.next().0);
        hosted.waiting.insert(request, (from, call, false));
        self.step(now, id, Input::Fetch { request, fetch, deadline }, out);
    }

    // --- as follower ------------------------------------------------------------------------------

    pub(super) fn send_fetches(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        let ids: Vec<TopicPartition> = self.hosted.keys().copied().collect();
        for id in ids {
            self.send_fetch(now, id, out);
        }
    }

    fn send_fetch(&mut self, now: MonotonicTime, id: TopicPartition, out: &mut BrokerOutbox) {
        let Some(hosted) = self.hosted.get_mut(&id) else { return };
        let machine = hosted.replica.machine();
        if let (true, Some(leader), Some(epoch)) =
            (hosted.asks_log_ends, machine.leader(), machine.leader_epoch())
        {
            if hosted.is_calling(leader) {
                return;
            }
            hosted.asks_log_ends = false;
            let call = self.calls.next();
            hosted.in_flight.insert(call, InFlight::LogEnds { leader, epoch });
            let message = Message::LogEnds { call, partition: id };
            return self.call(Address::Broker(leader), call, message, out);
        }
        let ready = |fetch: &FollowerFetch| fetch.not_before <= now;
        let Some(next) = hosted.next_fetch.filter(ready) else { return };
        if hosted.is_calling(next.leader) {
            return;
        }
        hosted.next_fetch = None;
        let call = self.calls.next();
        hosted.in_flight.insert(call, InFlight::Fetch(next));
        let fetch = follower_fetch(self.id, self.epoch, &next);
        let wait = self.settings.fetch_wait_max;
        let message = Message::Fetch { call, partition: id, fetch, wait };
        self.call(Address::Broker(next.leader), call, message, out);
    }

    /// Ends a call to a leader; `None` if this process does not wait for it.
    fn take_call(&mut self, call: CallId) -> Option<(TopicPartition, InFlight)> {
        let mut hosted = self.hosted.iter_mut();
        hosted.find_map(|(&id, hosted)| Some((id, hosted.in_flight.remove(&call)?)))
    }

    pub(super) fn fetched(
        &mut self,
        now: MonotonicTime,
        call: CallId,
        answer: FetchAnswer,
        batches: &[Batch],
        out: &mut BrokerOutbox,
    ) {
        let Some((id, in_flight)) = self.take_call(call) else { return };
        let InFlight::Fetch(fetch) = in_flight else { return };
        let input = fetched_input(&fetch, &answer, batches);
        self.step_with(now, id, input, Cargo::Fetched(batches), out);
    }

    pub(super) fn log_ends_are(
        &mut self,
        now: MonotonicTime,
        call: CallId,
        result: Result<(Offset, Offset), ErrorCode>,
        out: &mut BrokerOutbox,
    ) {
        let Some((id, in_flight)) = self.take_call(call) else { return };
        let input = match result {
            Ok((log_start_offset, log_end_offset)) => {
                Input::LeaderOffsets { log_start_offset, log_end_offset }
            }
            Err(error) => Input::FetchFailed { request_leader_epoch: in_flight.epoch(), error },
        };
        self.step(now, id, input, out);
    }

    pub(super) fn hosted_call_lost(
        &mut self,
        now: MonotonicTime,
        call: CallId,
        out: &mut BrokerOutbox,
    ) {
        let Some((id, in_flight)) = self.take_call(call) else { return };
        let error = ErrorCode::NetworkException;
        let input = Input::FetchFailed { request_leader_epoch: in_flight.epoch(), error };
        self.step(now, id, input, out);
    }
}

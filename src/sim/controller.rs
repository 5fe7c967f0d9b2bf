//! The controller's process: the machine on its metadata log, of which a restart keeps what was
//! committed. Answers go out when their records are committed, as the machine says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::message::{Address, CallId, Envelope, Message};
use crate::protocol::controller::{
    Controller, Input, Output, QueryId, ReplicaLogs, ReplicaLogsAnswer, Request, RequestId,
    Settings,
};
use crate::protocol::metadata::{ClusterMetadata, Record};
use crate::types::{BrokerId, MonotonicTime, Offset};

/// The controller's process and its metadata log.
#[derive(Debug)]
pub struct ControllerProcess {
    settings: Settings,
    machine: Controller,
    log: Vec<Record>,
    committed_end: Offset,
    calls: BTreeMap<RequestId, (Address, CallId)>,
    /// Questions to brokers that wait for an answer.
    questions: BTreeSet<QueryId>,
    next_request: u64,
    /// Newest connection of each node.
    connections: BTreeMap<Address, u64>,
    /// Process starts: what was under way in an earlier one is gone.
    life: u64,
}

/// What a step leaves for the world to do.
#[derive(Debug, Default)]
pub struct ControllerOutbox {
    /// To send.
    pub envelopes: Vec<Envelope>,
    /// The log was appended to: it is committed up to here some time later.
    pub commit: Option<Offset>,
    /// Questions whom nobody answers are given up some time later.
    pub questions: Vec<(QueryId, BrokerId)>,
}

impl ControllerProcess {
    /// A controller with an empty metadata log.
    pub fn start(
        settings: Settings,
        now: MonotonicTime,
        out: &mut ControllerOutbox,
    ) -> ControllerProcess {
        let mut outputs = Vec::new();
        let empty = ClusterMetadata::default();
        let machine = Controller::start(settings.clone(), empty, Offset::ZERO, now, &mut outputs);
        let mut process = ControllerProcess {
            settings,
            machine,
            log: Vec::new(),
            committed_end: Offset::ZERO,
            calls: BTreeMap::new(),
            questions: BTreeSet::new(),
            next_request: 0,
            connections: BTreeMap::new(),
            life: 0,
        };
        process.carry_out(outputs, out);
        process
    }

    /// The process ends and a new one takes over what was committed.
    pub fn restart(&mut self, now: MonotonicTime, out: &mut ControllerOutbox) {
        self.log.truncate(index(self.committed_end));
        let mut metadata = ClusterMetadata::default();
        for (offset, record) in (0..).map(Offset).zip(&self.log) {
            let applied = metadata.apply(offset, record);
            assert!(applied.is_ok(), "the committed metadata log does not apply: {applied:?}");
        }
        let (settings, end) = (self.settings.clone(), self.committed_end);
        let mut outputs = Vec::new();
        self.machine = Controller::start(settings, metadata, end, now, &mut outputs);
        self.calls.clear();
        self.questions.clear();
        self.connections.clear();
        self.life += 1;
        self.carry_out(outputs, out);
    }

    /// Number of the process start at hand.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// The metadata as decided.
    pub fn metadata(&self) -> &ClusterMetadata {
        self.machine.metadata()
    }

    /// The committed metadata log.
    pub fn committed(&self) -> &[Record] {
        &self.log[..index(self.committed_end)]
    }

    /// When the machine wants a tick.
    pub fn deadline(&self) -> MonotonicTime {
        self.machine.deadline()
    }

    /// A node asks. A request of a connection that its sender has replaced is not read any more.
    pub fn ask(
        &mut self,
        now: MonotonicTime,
        from: Address,
        (call, connection, request): (CallId, u64, Request),
        out: &mut ControllerOutbox,
    ) {
        let newest = self.connections.entry(from).or_insert(connection);
        if connection < *newest {
            return;
        }
        *newest = connection;
        let id = self.next_request();
        self.calls.insert(id, (from, call));
        self.step(now, Input::Request { request: id, body: request }, out);
    }

    /// A broker answers a question, of this process or of an earlier one.
    pub fn logs_are(
        &mut self,
        now: MonotonicTime,
        broker: BrokerId,
        (query, answer): (QueryId, ReplicaLogsAnswer),
        out: &mut ControllerOutbox,
    ) {
        self.questions.remove(&query);
        self.question_ends(now, ReplicaLogs { query, broker, answer: Some(answer) }, out);
    }

    /// A question goes without an answer, unless there was one.
    pub fn give_up_question(
        &mut self,
        now: MonotonicTime,
        (query, broker): (QueryId, BrokerId),
        out: &mut ControllerOutbox,
    ) {
        if self.questions.remove(&query) {
            self.question_ends(now, ReplicaLogs { query, broker, answer: None }, out);
        }
    }

    fn question_ends(&mut self, now: MonotonicTime, logs: ReplicaLogs, out: &mut ControllerOutbox) {
        let request = self.next_request();
        self.step(now, Input::Request { request, body: Request::ReplicaLogs(logs) }, out);
    }

    fn next_request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// The log is committed up to `end`.
    pub fn commit(&mut self, now: MonotonicTime, end: Offset, out: &mut ControllerOutbox) {
        self.committed_end = self.committed_end.max(end);
        self.step(now, Input::Committed { end }, out);
    }

    /// The deadline passed.
    pub fn tick(&mut self, now: MonotonicTime, out: &mut ControllerOutbox) {
        self.step(now, Input::Tick, out);
    }

    fn step(&mut self, now: MonotonicTime, input: Input, out: &mut ControllerOutbox) {
        let mut outputs = Vec::new();
        self.machine.step(now, input, &mut outputs);
        self.carry_out(outputs, out);
    }

    fn carry_out(&mut self, outputs: Vec<Output>, out: &mut ControllerOutbox) {
        for output in outputs {
            match output {
                Output::Append { base_offset, records } => {
                    assert!(index(base_offset) == self.log.len(), "append at {base_offset}");
                    self.log.extend(records);
                    out.commit = Some(end_of(&self.log));
                }
                Output::AskReplicaLogs { query, broker, partitions, .. } => {
                    self.questions.insert(query);
                    out.questions.push((query, broker));
                    let message = Message::AskLogs { query, partitions };
                    let (from, to) = (Address::Controller, Address::Broker(broker));
                    out.envelopes.push(Envelope { from, to, message });
                }
                // Nobody waits for what follows from a broker's answer.
                Output::Respond { request, response } => {
                    let Some((to, call)) = self.calls.remove(&request) else { continue };
                    let message = Message::Answer { call, response };
                    out.envelopes.push(Envelope { from: Address::Controller, to, message });
                }
            }
        }
    }
}

/// Time between an append to the metadata log and its commit.
pub const COMMIT_DELAY_MAX: Duration = Duration::from_millis(30);

fn index(offset: Offset) -> usize {
    usize::try_from(offset.0).unwrap_or(0)
}

fn end_of(log: &[Record]) -> Offset {
    Offset(i64::try_from(log.len()).unwrap_or(i64::MAX))
}

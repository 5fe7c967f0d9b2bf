//! The controller machine while this voter is the active controller, and who waits for its answers.
//!
//! A voter becomes active once it leads a term and its log holds nothing that is not committed and
//! applied: then the machine starts from the applied metadata, and with it every session anew. It is
//! active no longer once it does not lead that term, or no majority has answered it for a while:
//! then everything not yet answered is answered with NOT_CONTROLLER. What had been proposed may still
//! be committed, by this voter or the next; whoever asked finds out when it asks again, as after any
//! lost answer.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::connection::Ask;
use super::metrics::Stage;
use super::raft::{Applied, Quorum, QuorumError, Voter};
use super::refusal::not_controller;
use super::replica_logs::{self, Question};
use super::translate;
use super::wall_clock_ms;
use crate::config::node::ControllerConfig;
use crate::measure::clock;
use crate::protocol::controller::{
    Controller, Input, Output, Request, RequestId, Response, Settings,
};
use crate::protocol::metadata::Record;
use crate::record::{BatchBuilder, stamp};
use crate::types::{LeaderEpoch, MonotonicTime, Offset};
use crate::wire::encode_metadata_record;

/// See the module.
pub(super) struct Shell {
    settings: Settings,
    linger: Duration,
    commit_delay: Duration,
    /// How often a voter among others looks whether it still leads.
    role_check: Duration,
    quorum: Quorum,
    /// Tells the metadata readers.
    active: Rc<watch::Sender<Option<LeaderEpoch>>>,
    /// Where brokers' answers to the machine's own questions go: the queue of all requests.
    queue: mpsc::Sender<Ask>,
    machine: Option<Machine>,
}

/// The machine of one term.
struct Machine {
    epoch: LeaderEpoch,
    controller: Controller,
    /// Decided, not yet proposed.
    pending: Vec<Record>,
    /// Offset of the first pending record, or of the next one.
    proposed_end: Offset,
    /// When `pending` must be proposed.
    flush_at: Option<Instant>,
    builder: BatchBuilder,
    next_request: u64,
    waiting: BTreeMap<RequestId, Waiting>,
    /// End and time of what is proposed and not known to be committed, in order.
    proposals: VecDeque<(Offset, MonotonicTime)>,
    /// Batches held back by `commit.delay`, and until when, in order.
    held: VecDeque<(Instant, Bytes)>,
    linger: Duration,
    voter: Rc<Voter>,
    queue: mpsc::Sender<Ask>,
}

/// Somebody who waits for an answer.
struct Waiting {
    /// When an AlterPartition was queued, and decided.
    timed: Option<(MonotonicTime, MonotonicTime)>,
    answer: oneshot::Sender<Response>,
    /// What to say if this voter is not the active controller any more.
    otherwise: Option<Response>,
}

impl Shell {
    /// A voter that is not active yet.
    pub(super) fn new(
        config: &ControllerConfig,
        quorum: Quorum,
        active: Rc<watch::Sender<Option<LeaderEpoch>>>,
        queue: mpsc::Sender<Ask>,
    ) -> Shell {
        Shell {
            settings: translate::settings(config),
            linger: config.metadata_append_linger,
            commit_delay: config.commit_delay,
            role_check: config.election_timeout / 2,
            quorum,
            active,
            queue,
            machine: None,
        }
    }

    /// Returns once this voter is the active controller.
    ///
    /// # Errors
    /// The metadata log cannot be used any more.
    pub(super) async fn wait_until_active(&mut self) -> Result<(), QuorumError> {
        let mut watch = self.quorum.watch();
        loop {
            self.quorum.check()?;
            self.follow_role().await;
            if self.machine.is_some() {
                return Ok(());
            }
            watch.changed().await;
        }
    }

    /// Serves until `stop`.
    ///
    /// # Errors
    /// The metadata log cannot be used any more.
    pub(super) async fn run(
        &mut self,
        mut asked: mpsc::Receiver<Ask>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), QuorumError> {
        tokio::pin!(stop);
        let mut watch = self.quorum.watch();
        self.follow_role().await;
        loop {
            let wake_at = self.wake_at();
            let mut first = None;
            tokio::select! {
                biased;
                () = &mut stop => break,
                () = watch.changed() => {}
                ask = asked.recv() => match ask {
                    Some(ask) => first = Some(ask),
                    None => break,
                },
                () = tokio::time::sleep_until(wake_at) => {}
            }
            self.quorum.check()?;
            // Before anything is answered: it may have led when it fell asleep, and not any more.
            self.follow_role().await;
            if let Some(ask) = first {
                self.ask(ask);
            }
            self.take_committed();
            self.drain(&mut asked);
            self.tick(&mut asked).await;
            self.propose_due().await;
        }
        Ok(())
    }

    fn wake_at(&self) -> Instant {
        let now = Instant::now();
        let role_check = (!self.quorum.is_alone()).then(|| now + self.role_check);
        let machine = self.machine.as_ref();
        let deadline =
            machine.map(|machine| now + machine.controller.deadline().since(clock::now()));
        let flush_at = machine.and_then(|machine| machine.flush_at);
        let held_until = machine.and_then(|machine| machine.held.front()).map(|&(until, _)| until);
        let due = [role_check, deadline, flush_at, held_until].into_iter().flatten().min();
        // Without any of them a change of the role comes first.
        due.unwrap_or(now + self.role_check)
    }

    /// Starts or stops the machine.
    async fn follow_role(&mut self) {
        let leads = self.quorum.leads();
        if self.machine.as_ref().is_some_and(|machine| leads != Some(machine.epoch)) {
            self.active.send_replace(None);
            if let Some(machine) = self.machine.take() {
                machine.resign();
            }
        }
        let Some(epoch) = leads.filter(|_| self.machine.is_none()) else { return };
        if self.quorum.voter.applied.borrow().epoch != epoch {
            return;
        }
        let Some(metadata) = self.quorum.settled().await else { return };
        if self.quorum.leads() != Some(epoch) {
            return;
        }
        let end = metadata.end_offset();
        let mut outputs = Vec::new();
        let settings = self.settings.clone();
        let controller = Controller::start(settings, metadata, end, clock::now(), &mut outputs);
        let mut machine = Machine {
            epoch,
            controller,
            pending: Vec::new(),
            proposed_end: end,
            flush_at: None,
            builder: BatchBuilder::default(),
            next_request: 0,
            waiting: BTreeMap::new(),
            proposals: VecDeque::new(),
            held: VecDeque::new(),
            voter: self.quorum.voter.clone(),
            linger: self.linger,
            queue: self.queue.clone(),
        };
        machine.carry_out(outputs);
        self.machine = Some(machine);
        self.propose_due().await;
        self.active.send_replace(Some(epoch));
    }

    fn take_committed(&mut self) {
        let Some(machine) = &mut self.machine else { return };
        let applied = *self.quorum.voter.applied.borrow();
        machine.committed(applied);
    }

    fn drain(&mut self, asked: &mut mpsc::Receiver<Ask>) {
        while let Ok(ask) = asked.try_recv() {
            self.ask(ask);
        }
    }

    fn ask(&mut self, ask: Ask) {
        match &mut self.machine {
            Some(machine) => machine.ask(ask),
            None => {
                if let Some(response) = not_controller(&ask.body) {
                    // The connection may be gone; then nobody waits for this.
                    let _ = ask.answer.send(response);
                }
            }
        }
    }

    async fn tick(&mut self, asked: &mut mpsc::Receiver<Ask>) {
        let is_due = |machine: &Machine| clock::now() >= machine.controller.deadline();
        if self.machine.as_ref().is_some_and(is_due) {
            // Heartbeats that arrived while a sync held this thread count before any session is
            // found to have expired.
            tokio::task::yield_now().await;
            self.drain(asked);
            if let Some(machine) = &mut self.machine {
                machine.step(Input::Tick);
            }
        }
    }

    async fn propose_due(&mut self) {
        let Some(machine) = &mut self.machine else { return };
        if machine.flush_at.is_some_and(|flush_at| Instant::now() >= flush_at) {
            let batch = machine.take_batch();
            machine.held.push_back((Instant::now() + self.commit_delay, batch));
        }
        while machine.held.front().is_some_and(|&(until, _)| until <= Instant::now()) {
            if let Some((_, batch)) = machine.held.pop_front() {
                self.quorum.propose(batch).await;
            }
        }
    }
}

impl Machine {
    fn ask(&mut self, ask: Ask) {
        let request = RequestId(self.next_request);
        self.next_request += 1;
        let now = clock::now();
        self.voter.metrics.taken(now.since(ask.asked));
        let is_timed = matches!(ask.body, Request::AlterPartition(_));
        let waiting = Waiting {
            timed: is_timed.then_some((ask.asked, now)),
            otherwise: not_controller(&ask.body),
            answer: ask.answer,
        };
        self.waiting.insert(request, waiting);
        self.step(Input::Request { request, body: ask.body });
    }

    fn committed(&mut self, applied: Applied) {
        if applied.epoch != self.epoch {
            // Another leader's records may lie where this machine's were to be: they say nothing of it.
            return;
        }
        let end = applied.end_offset;
        let now = clock::now();
        let done = self.proposals.partition_point(|&(of, _)| of <= end);
        for (_, proposed) in self.proposals.drain(..done) {
            self.voter.metrics.committed(now.since(proposed));
        }
        self.step(Input::Committed { end });
    }

    fn answered(&self, waiting: Waiting, response: Response) {
        if let Some((asked, decided)) = waiting.timed {
            let now = clock::now();
            let metrics = &self.voter.metrics;
            metrics.alter_partition(Stage::Queue, decided.since(asked));
            metrics.alter_partition(Stage::Commit, now.since(decided));
            metrics.alter_partition(Stage::Total, now.since(asked));
        }
        // The connection may be gone; then nobody waits for this.
        let _ = waiting.answer.send(response);
    }

    fn step(&mut self, input: Input) {
        let mut outputs = Vec::new();
        self.controller.step(clock::now(), input, &mut outputs);
        self.voter.metrics.recovering(self.controller.recovery_count());
        self.carry_out(outputs);
    }

    fn carry_out(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Append { base_offset, mut records } => {
                    let expected = self.proposed_end.plus(self.pending.len() as i64);
                    assert!(base_offset == expected, "{base_offset}");
                    self.pending.append(&mut records);
                    self.flush_at.get_or_insert_with(|| Instant::now() + self.linger);
                }
                Output::Respond { request, response } => {
                    if let Some(waiting) = self.waiting.remove(&request) {
                        self.answered(waiting, response);
                    }
                }
                Output::AskReplicaLogs { query, broker, endpoint, partitions } => {
                    let question = Question { query, broker, endpoint, partitions };
                    let ask = replica_logs::ask(question, self.queue.clone());
                    tokio::task::spawn_local(ask);
                }
            }
        }
    }

    /// Everything pending as one batch: all of it is committed, or nothing.
    fn take_batch(&mut self) -> Bytes {
        self.flush_at = None;
        self.builder.start(wall_clock_ms());
        for record in &self.pending {
            self.builder.push(0, None, &encode_metadata_record(record));
        }
        let mut batch = self.builder.finish().to_vec();
        stamp(&mut batch, self.proposed_end, self.epoch);
        self.proposed_end = self.proposed_end.plus(self.pending.len() as i64);
        self.pending.clear();
        self.proposals.push_back((self.proposed_end, clock::now()));
        Bytes::from(batch)
    }

    fn resign(self) {
        for waiting in self.waiting.into_values() {
            if let Some(response) = waiting.otherwise {
                let _ = waiting.answer.send(response);
            }
        }
    }
}

#[cfg(test)]
mod tests;

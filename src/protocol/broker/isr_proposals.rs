//! The broker's queue of ISR proposals: one AlterPartition request in flight, everything else waits
//! and goes out together with the next one. Either can be switched off, to see what it costs.
//!
//! What an answer means for a partition is the partition's business: it gets the proposal that was
//! answered with it, and ignores the answer if it no longer waits for exactly that (KAFKA-12686).
//! Source: spec/kip966.md 1.6.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::protocol::controller::AlterPartition;
use crate::protocol::partition::{IsrCommitted, IsrProposal};
use crate::types::{
    AlterPartitionPolicy, BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, TopicPartition,
};

/// Wait after an error for the whole request.
const RETRY_BACKOFF: Duration = Duration::from_millis(50);
/// Wait before the controller is looked for again.
const CONTROLLER_POLL: Duration = Duration::from_millis(100);

/// What the controller says of one partition.
pub type PartitionAnswer = (TopicPartition, Result<IsrCommitted, ErrorCode>);

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsrProposalsInput {
    /// A partition proposes.
    Propose(TopicPartition, IsrProposal),
    /// The answer to [`IsrProposalsOutput::Send`]: per partition, or one error for all.
    Answered(Result<Vec<PartitionAnswer>, ErrorCode>),
    /// There is a connection to the controller.
    Connected,
    /// There is none any more; what was in flight will not be answered.
    Disconnected,
    /// The broker epoch from now on.
    Epoch(BrokerEpoch),
    /// The deadline passed.
    Tick,
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IsrProposalsOutput {
    /// Send AlterPartition.
    Send(AlterPartition),
    /// Tell the partition that the controller committed this proposal.
    Committed {
        /// Which partition.
        id: TopicPartition,
        /// What it had proposed.
        proposal: IsrProposal,
        /// What the controller made of it.
        committed: IsrCommitted,
    },
    /// Tell the partition that this proposal was refused.
    Refused {
        /// Which partition.
        id: TopicPartition,
        /// What it had proposed.
        proposal: IsrProposal,
        /// Why. `OperationNotAttempted`: another proposal of the partition is still unanswered.
        error: ErrorCode,
    },
    /// This controller is not the active one: find it again.
    ForgetController,
}

/// See the module.
/// Invariants: at most one proposal per partition is queued or in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IsrProposals {
    broker: BrokerId,
    epoch: Option<BrokerEpoch>,
    connected: bool,
    /// Unanswered proposals, in flight or not, in order of partitions.
    queue: BTreeMap<TopicPartition, IsrProposal>,
    policy: AlterPartitionPolicy,
    /// What each request in flight holds, sorted; they are answered in this order.
    in_flight: VecDeque<Vec<TopicPartition>>,
    not_before: MonotonicTime,
}

impl IsrProposals {
    /// An empty queue under Kafka's policy; nothing is sent before the epoch is known and a connection
    /// is there.
    pub fn new(broker: BrokerId) -> IsrProposals {
        IsrProposals {
            broker,
            epoch: None,
            connected: false,
            queue: BTreeMap::new(),
            policy: AlterPartitionPolicy::default(),
            in_flight: VecDeque::new(),
            not_before: MonotonicTime::ZERO,
        }
    }

    /// The same queue under another policy.
    pub fn under(self, policy: AlterPartitionPolicy) -> IsrProposals {
        IsrProposals { policy, ..self }
    }

    /// Proposals without an answer.
    pub fn unanswered(&self) -> usize {
        self.queue.len()
    }

    /// When [`IsrProposalsInput::Tick`] is due; `None` if nothing waits for time to pass.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        self.may_send().then_some(self.not_before)
    }

    /// Takes one input.
    pub fn step(
        &mut self,
        now: MonotonicTime,
        input: IsrProposalsInput,
        out: &mut Vec<IsrProposalsOutput>,
    ) {
        match input {
            IsrProposalsInput::Propose(id, proposal) => self.propose(id, proposal, out),
            IsrProposalsInput::Answered(answer) => self.answered(now, answer, out),
            IsrProposalsInput::Connected => self.connected = true,
            IsrProposalsInput::Disconnected => {
                self.connected = false;
                self.in_flight.clear();
            }
            IsrProposalsInput::Epoch(epoch) => self.epoch = Some(epoch),
            IsrProposalsInput::Tick => {}
        }
        self.send_if_due(now, out);
    }

    fn propose(
        &mut self,
        id: TopicPartition,
        proposal: IsrProposal,
        out: &mut Vec<IsrProposalsOutput>,
    ) {
        match self.queue.entry(id) {
            Entry::Vacant(free) => {
                free.insert(proposal);
            }
            Entry::Occupied(_) => {
                let error = ErrorCode::OperationNotAttempted;
                out.push(IsrProposalsOutput::Refused { id, proposal, error });
            }
        }
    }

    fn answered(
        &mut self,
        now: MonotonicTime,
        answer: Result<Vec<PartitionAnswer>, ErrorCode>,
        out: &mut Vec<IsrProposalsOutput>,
    ) {
        let Some(sent) = self.in_flight.pop_front() else { return };
        match answer {
            Err(ErrorCode::NotController) => self.forget_controller(now, out),
            Err(_) => self.not_before = now.plus(RETRY_BACKOFF),
            Ok(answers) if answers.iter().any(is_not_controller) => {
                self.forget_controller(now, out);
            }
            Ok(answers) => self.hand_out(&sent, answers, out),
        }
    }

    /// The whole request stays queued, those that succeeded too: the second time they are refused
    /// with INVALID_UPDATE_VERSION and metadata repairs them.
    fn forget_controller(&mut self, now: MonotonicTime, out: &mut Vec<IsrProposalsOutput>) {
        self.not_before = now.plus(CONTROLLER_POLL);
        out.push(IsrProposalsOutput::ForgetController);
    }

    /// A partition missing from the answer stays queued; one that was not asked about is ignored.
    fn hand_out(
        &mut self,
        sent: &[TopicPartition],
        answers: Vec<PartitionAnswer>,
        out: &mut Vec<IsrProposalsOutput>,
    ) {
        for (id, result) in answers {
            if sent.binary_search(&id).is_err() {
                continue;
            }
            let Some(proposal) = self.queue.remove(&id) else { continue };
            out.push(match result {
                Ok(committed) => IsrProposalsOutput::Committed { id, proposal, committed },
                Err(error) => IsrProposalsOutput::Refused { id, proposal, error },
            });
        }
    }

    fn may_send(&self) -> bool {
        let has_turn = self.in_flight.is_empty() || !self.policy.single_flight;
        has_turn && self.connected && self.epoch.is_some() && self.unsent().next().is_some()
    }

    fn unsent(&self) -> impl Iterator<Item = (&TopicPartition, &IsrProposal)> {
        let is_sent = |id| self.in_flight.iter().any(|sent| sent.binary_search(id).is_ok());
        self.queue.iter().filter(move |&(id, _)| !is_sent(id))
    }

    fn send_if_due(&mut self, now: MonotonicTime, out: &mut Vec<IsrProposalsOutput>) {
        while let Some(epoch) = self.epoch.filter(|_| now >= self.not_before && self.may_send()) {
            let limit = if self.policy.batched { usize::MAX } else { 1 };
            let next = self.unsent().take(limit);
            let proposals: Vec<_> = next.map(|(&id, proposal)| (id, proposal.clone())).collect();
            self.in_flight.push_back(proposals.iter().map(|&(id, _)| id).collect());
            let broker = self.broker;
            out.push(IsrProposalsOutput::Send(AlterPartition { broker, epoch, proposals }));
        }
    }
}

fn is_not_controller((_, result): &PartitionAnswer) -> bool {
    *result == Err(ErrorCode::NotController)
}

//! What comes back to the producer, or does not: acknowledgements, refusals, lost connections,
//! requests out for too long; and which batches are sent again.

use std::hint;
use std::time::Duration;

use bytes::BytesMut;

use crate::driver::messages::{self, ProduceAnswer};
use crate::driver::outcome::Failure;
use crate::driver::recorder::{BatchFacts, Recorder};
use crate::driver::spec::Retry;
use crate::engine::ConnectionId;
use crate::types::{ErrorCode, MonotonicTime};

use super::{InFlight, Producers, Round, index_of};

/// Pause before a failed batch is sent again: an election or a restart takes longer, and a refusal
/// would only be repeated.
const RESEND_PAUSE: Duration = Duration::from_millis(20);

/// Longest an injected slowdown holds one acknowledgement back: answers that a stall delayed come
/// together, and holding each back by its share of the stall would make the stall endless.
const INJECTED_DELAY_MAX: Duration = Duration::from_micros(150);

impl Producers {
    /// The engine says that a connection is gone: what was out on it has failed. Whether it was one
    /// of these.
    pub fn on_closed(&mut self, round: &mut Round<'_>, connection: ConnectionId) -> bool {
        let own = self.producers.iter().position(|producer| producer.link.owns(connection));
        let Some(index) = own else { return false };
        let now = round.io.now();
        self.producers[index].link.on_closed(now);
        self.fail_all(round, index, Failure::Disconnected, now);
        true
    }

    /// Takes in an answer read at `received`.
    pub fn on_frame(
        &mut self,
        round: &mut Round<'_>,
        connection: ConnectionId,
        frame: BytesMut,
        received: MonotonicTime,
    ) {
        let own = self.producers.iter().position(|producer| producer.link.owns(connection));
        let Some(index) = own else { return };
        let answer = messages::read_produce(frame);
        let producer = &mut self.producers[index];
        // Answers come in the order of the requests, so this is the first one.
        let asked = answer.as_ref().ok().and_then(|answer| {
            producer.in_flight.iter().position(|out| out.correlation_id == answer.correlation_id)
        });
        let (Ok(answer), Some(asked)) = (answer, asked) else {
            producer.link.give_up(round.io, received);
            self.fail_all(round, index, Failure::Malformed, received);
            return;
        };
        let Some(out) = producer.in_flight.remove(asked) else { return };
        if let Some(leaders) = round.recorder.leaders(out.facts.partition)
            && answer.error == ErrorCode::None
        {
            leaders.answered(connection.0, producer.broker, received);
        }
        self.in_flight -= 1;
        self.on_answer(round, out, &answer, received);
    }

    fn on_answer(
        &mut self,
        round: &mut Round<'_>,
        out: InFlight,
        answer: &ProduceAnswer,
        received: MonotonicTime,
    ) {
        if answer.error != ErrorCode::None {
            self.fail(round, out, Failure::Broker(answer.error), received);
            return;
        }
        let facts = &out.facts;
        // An answer without an offset is none: nobody could find the batch again.
        let Some(base_offset) = answer.base_offset else {
            self.fail(round, out, Failure::Malformed, received);
            return;
        };
        let received = self.held_back(round, facts, received);
        round.recorder.acknowledged(facts, base_offset, answer.stamps, received);
        if let Some(tracker) = round.trackers.get_mut(index_of(facts.partition)) {
            tracker.acknowledged(base_offset.plus(i64::from(facts.dues.records())));
        }
    }

    /// When an answer read at `received` counts as read: then, but for an injected slowdown.
    fn held_back(
        &self,
        round: &Round<'_>,
        facts: &BatchFacts,
        received: MonotonicTime,
    ) -> MonotonicTime {
        if self.rules.injected_slowdown == 0.0 {
            return received;
        }
        let latency = received.since(facts.dues.oldest());
        let delay = latency.mul_f64(self.rules.injected_slowdown).min(INJECTED_DELAY_MAX);
        let until = received.plus(delay);
        let mut now = round.io.now();
        while now < until {
            hint::spin_loop();
            now = round.io.now();
        }
        now
    }

    /// Gives up everything that is not answered and not sent; what was due from `measured_from_ns`
    /// after the begin of the load and never sent is counted.
    pub fn abandon(&mut self, recorder: &mut Recorder, measured_from_ns: u64) {
        for producer in &mut self.producers {
            producer.in_flight.drain(..).for_each(|out| recorder.unanswered(&out.facts));
        }
        self.in_flight = 0;
        for partition in &mut self.partitions {
            partition.resend.drain(..).for_each(|(facts, _)| recorder.unanswered(&facts));
            recorder.unsent(partition.load.drain_untaken(measured_from_ns));
        }
    }

    /// Closes connections whose oldest request is out for too long. What is behind it on the same
    /// connection goes down with it.
    pub(super) fn give_up_unanswered(&mut self, round: &mut Round<'_>, now: MonotonicTime) {
        for index in 0..self.producers.len() {
            let mut is_given_up = false;
            while let Some(out) = self.pop_overdue(index, now) {
                is_given_up = true;
                self.fail(round, out, Failure::TimedOut, now);
            }
            if is_given_up {
                self.producers[index].link.give_up(round.io, now);
                self.fail_all(round, index, Failure::Disconnected, now);
            }
        }
    }

    fn pop_overdue(&mut self, index: usize, now: MonotonicTime) -> Option<InFlight> {
        let in_flight = &mut self.producers[index].in_flight;
        let sent = in_flight.front()?.facts.sent;
        if sent.plus(self.rules.request_timeout) > now {
            return None;
        }
        self.in_flight -= 1;
        in_flight.pop_front()
    }

    /// Fails everything out on connection `index`.
    fn fail_all(
        &mut self,
        round: &mut Round<'_>,
        index: usize,
        failure: Failure,
        at: MonotonicTime,
    ) {
        self.is_stale = true;
        while let Some(out) = self.producers[index].in_flight.pop_front() {
            self.in_flight -= 1;
            self.fail(round, out, failure, at);
        }
    }

    fn fail(&mut self, round: &mut Round<'_>, out: InFlight, failure: Failure, at: MonotonicTime) {
        let partition = &mut self.partitions[index_of(out.facts.partition)];
        if let Failure::Broker(code) = failure
            && messages::says_leader_moved(code)
        {
            self.is_stale = true;
            partition.awaits_view = true;
        }
        let resend = out.batch.filter(|_| match self.rules.retry {
            Retry::Never => false,
            Retry::IfRefused => appended_nothing(failure),
            Retry::UntilAcknowledged => !is_final(failure),
        });
        round.recorder.failed(&out.facts, failure, at, resend.is_none());
        if let Some(batch) = resend {
            let first = out.facts.first_sequence;
            let place = partition.resend.partition_point(|(facts, _)| facts.first_sequence < first);
            partition.resend.insert(place, (out.facts, batch));
            partition.resend_at = at.plus(RESEND_PAUSE);
        }
    }
}

/// Whether the answer proves that the batch is not in the log. NOT_LEADER_OR_FOLLOWER does not: a
/// leader answers it too for what it had appended when it was deposed.
fn appended_nothing(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::Broker(
            ErrorCode::NotEnoughReplicas
                | ErrorCode::UnknownTopicOrPartition
                | ErrorCode::LeaderNotAvailable
        )
    )
}

/// Whether sending the batch again would get the same answer.
fn is_final(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::Broker(
            ErrorCode::MessageTooLarge
                | ErrorCode::CorruptMessage
                | ErrorCode::InvalidRecord
                | ErrorCode::InvalidRequest
                | ErrorCode::InvalidRequiredAcks
                | ErrorCode::UnsupportedVersion
        )
    )
}

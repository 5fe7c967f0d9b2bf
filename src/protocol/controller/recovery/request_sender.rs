//! The broker request sender: whose logs are asked of which broker, and when. A queue per broker;
//! one question in flight per broker; whatever waits goes along with the next one.
//!
//! Questions are values, carried by the shell away from the controller's thread; nothing here waits.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::controller::QueryId;
use crate::types::{BrokerId, MonotonicTime, TopicPartition};

/// Most partitions of one question: what a broker answers at once (spec/kip966.md 2.12).
pub(super) const PARTITIONS_MAX: usize = 1000;

/// One question, about to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) query: QueryId,
    pub(super) broker: BrokerId,
    /// Never empty.
    pub(super) partitions: Vec<TopicPartition>,
}

/// All queues. Invariant: no partition waits for a broker that is just being asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestSender {
    next_query: u64,
    queues: BTreeMap<BrokerId, Queue>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Queue {
    waiting: BTreeSet<TopicPartition>,
    in_flight: Option<(QueryId, BTreeSet<TopicPartition>)>,
    /// After a question that came to nothing.
    not_before: Option<MonotonicTime>,
}

impl RequestSender {
    /// A sender whose questions are numbered from `first_query`.
    pub(super) fn new(first_query: u64) -> RequestSender {
        RequestSender { next_query: first_query, queues: BTreeMap::new() }
    }

    /// Asks `broker` for its log of `partition`, once: a second wish is the same one. An answer that
    /// is on its way serves too; if it turns out to be stale, its reader asks again.
    pub(super) fn ask(&mut self, broker: BrokerId, partition: TopicPartition) {
        let queue = self.queues.entry(broker).or_default();
        let asked = queue.in_flight.as_ref().is_some_and(|(_, asked)| asked.contains(&partition));
        if !asked {
            queue.waiting.insert(partition);
        }
    }

    /// Nobody wants to know about `partition` any more.
    pub(super) fn forget(&mut self, partition: TopicPartition) {
        for queue in self.queues.values_mut() {
            queue.waiting.remove(&partition);
        }
    }

    /// The broker is gone; what it may still answer is not listened to.
    pub(super) fn forget_broker(&mut self, broker: BrokerId) {
        self.queues.remove(&broker);
    }

    /// Question `query` came back, with an answer or without. Gives what had been asked; `None` if
    /// it is not the question in flight.
    pub(super) fn came_back(
        &mut self,
        broker: BrokerId,
        query: QueryId,
    ) -> Option<BTreeSet<TopicPartition>> {
        let queue = self.queues.get_mut(&broker)?;
        let (_, asked) = queue.in_flight.take_if(|(in_flight, _)| *in_flight == query)?;
        Some(asked)
    }

    /// Leaves the broker alone until then.
    pub(super) fn hold(&mut self, broker: BrokerId, until: MonotonicTime) {
        self.queues.entry(broker).or_default().not_before = Some(until);
    }

    /// The broker gave a sign of life: no use in waiting any longer.
    pub(super) fn release(&mut self, broker: BrokerId) {
        if let Some(queue) = self.queues.get_mut(&broker) {
            queue.not_before = None;
        }
    }

    /// The questions that may leave now.
    pub(super) fn take_questions(&mut self, now: MonotonicTime) -> Vec<Question> {
        let mut questions = Vec::new();
        for (&broker, queue) in &mut self.queues {
            if !queue.is_ready(now) {
                continue;
            }
            let asked: BTreeSet<TopicPartition> =
                queue.waiting.iter().copied().take(PARTITIONS_MAX).collect();
            queue.waiting.retain(|partition| !asked.contains(partition));
            queue.not_before = None;
            let query = QueryId(self.next_query);
            self.next_query += 1;
            let partitions = asked.iter().copied().collect();
            queue.in_flight = Some((query, asked));
            questions.push(Question { query, broker, partitions });
        }
        questions
    }

    /// When a broker that was left alone may be asked again.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let held = self.queues.values().filter(|queue| queue.wants_to_ask());
        held.filter_map(|queue| queue.not_before).min()
    }
}

impl Queue {
    fn wants_to_ask(&self) -> bool {
        self.in_flight.is_none() && !self.waiting.is_empty()
    }

    fn is_ready(&self, now: MonotonicTime) -> bool {
        self.wants_to_ask() && self.not_before.is_none_or(|not_before| not_before <= now)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::types::{PartitionId, TopicId};

    const NOW: MonotonicTime = MonotonicTime(1);

    fn id(partition: i32) -> TopicPartition {
        TopicPartition { topic: TopicId([1; 16]), partition: PartitionId(partition) }
    }

    #[test]
    fn what_waits_for_a_broker_goes_in_one_question_and_only_one_is_in_flight() {
        let mut sender = RequestSender::new(7);
        for partition in [2, 1, 2] {
            sender.ask(BrokerId(1), id(partition));
        }
        sender.ask(BrokerId(2), id(1));
        let questions = sender.take_questions(NOW);
        let asked: Vec<_> = questions.iter().map(|q| (q.query.0, q.broker.0)).collect();
        assert_eq!(asked, [(7, 1), (8, 2)]);
        assert_eq!(questions[0].partitions, [id(1), id(2)]);
        sender.ask(BrokerId(1), id(1));
        sender.ask(BrokerId(1), id(3));
        assert_eq!(sender.take_questions(NOW), []);
        assert_eq!(sender.came_back(BrokerId(1), QueryId(8)), None);
        assert_eq!(sender.came_back(BrokerId(1), QueryId(7)), Some([id(1), id(2)].into()));
        assert_eq!(sender.came_back(BrokerId(1), QueryId(7)), None);
        assert_eq!(sender.take_questions(NOW)[0].partitions, [id(3)]);
    }

    #[test]
    fn a_question_holds_a_thousand_partitions_at_most() {
        let mut sender = RequestSender::new(0);
        (0..1500).for_each(|partition| sender.ask(BrokerId(1), id(partition)));
        let first = sender.take_questions(NOW).remove(0);
        assert_eq!(first.partitions.len(), PARTITIONS_MAX);
        sender.came_back(BrokerId(1), first.query);
        assert_eq!(sender.take_questions(NOW)[0].partitions.len(), 500);
    }

    #[test]
    fn a_held_broker_is_asked_later_or_when_it_shows_itself() {
        let mut sender = RequestSender::new(0);
        let later = NOW.plus(Duration::from_secs(1));
        sender.ask(BrokerId(1), id(1));
        sender.hold(BrokerId(1), later);
        assert_eq!((sender.take_questions(NOW), sender.deadline()), (vec![], Some(later)));
        assert_eq!(sender.take_questions(later).len(), 1);
        assert_eq!(sender.deadline(), None);
        sender.ask(BrokerId(2), id(1));
        sender.hold(BrokerId(2), later);
        sender.release(BrokerId(2));
        assert_eq!(sender.take_questions(NOW).len(), 1);
    }

    #[test]
    fn what_nobody_wants_to_know_is_not_asked() {
        let mut sender = RequestSender::new(0);
        sender.ask(BrokerId(1), id(1));
        sender.ask(BrokerId(2), id(1));
        sender.forget(id(1));
        sender.ask(BrokerId(2), id(2));
        sender.forget_broker(BrokerId(2));
        assert_eq!(sender.take_questions(NOW), []);
    }
}

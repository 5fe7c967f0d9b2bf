//! Virtual time: events in the order of their times, those of one instant in the order in which
//! they were scheduled.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::message::{CallId, Envelope};
use super::replica::Flush;
use crate::protocol::controller::QueryId;
use crate::types::{BrokerId, MonotonicTime, Offset, TopicPartition};

/// One process start of a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// Which broker.
    pub broker: BrokerId,
    /// Its process starts so far.
    pub start: u32,
}

/// What happens.
#[derive(Debug)]
pub enum Event {
    /// A message arrives.
    Deliver(Envelope),
    /// A broker's process may have something due.
    WakeBroker(Life),
    /// A call of a broker's process is given up.
    GiveUp(Life, CallId),
    /// A flush is done.
    Flushed(Life, TopicPartition, Flush),
    /// A broker's process starts, if none runs.
    StartBroker(BrokerId),
    /// The controller may have something due.
    WakeController,
    /// The controller gives up waiting for this broker's answer, if its process is still that one.
    GiveUpQuestion(u64, QueryId, BrokerId),
    /// The metadata log is committed up to here, if the controller's process is still that one.
    Commit(u64, Offset),
    /// Brokers that have not heard of all committed metadata are told again.
    Announce,
    /// The producer sends.
    Produce,
    /// A consumer asks.
    Consume(TopicPartition),
    /// Something fails.
    Fault,
    /// Cut links number so and so work again.
    Mend(usize),
}

/// Events to come.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Scheduled>,
    scheduled_count: u64,
}

#[derive(Debug)]
struct Scheduled {
    at: MonotonicTime,
    number: u64,
    event: Event,
}

impl Queue {
    /// Schedules an event.
    pub fn push(&mut self, at: MonotonicTime, event: Event) {
        self.scheduled_count += 1;
        self.heap.push(Scheduled { at, number: self.scheduled_count, event });
    }

    /// The next event.
    pub fn pop(&mut self) -> Option<(MonotonicTime, Event)> {
        self.heap.pop().map(|scheduled| (scheduled.at, scheduled.event))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    /// The heap gives the greatest: the earliest.
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

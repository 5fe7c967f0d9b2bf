//! What shards of one broker say to each other.
//!
//! A request is split by partition into parts; a part goes to the shard that owns its partition, be
//! it another one or the shard itself. The same code serves both: only the way differs.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::engine::Waker;
use crate::protocol::broker::VouchedLog;
use crate::protocol::metadata::Record;
use crate::protocol::partition::{Fetch, FetchAnswer, IsrCommitted, IsrProposal, RequestId};
use crate::types::{
    Acks, BrokerStamps, ErrorCode, FollowerStamps, HighWatermarkStep, LeaderEpoch, MonotonicTime,
    Offset, TopicPartition,
};
use crate::wire::{ReplicaLogInfo, Request, Response};

/// A shard's number within its broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ShardId(pub u8);

/// Names one part of one request across shards: the shard that took the request, the request's
/// number there, and the part's index in it. Fits the machine's [`RequestId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Part {
    pub origin: ShardId,
    pub index: u32,
    pub ticket: u64,
}

const TICKET_BITS: u32 = 38;
/// A request has no more parts than a message may have elements (2^18).
const INDEX_BITS: u32 = 18;

/// The number of the request after the one numbered `ticket`. Starts over when a part has no room
/// for more, 2^38 requests later.
pub(super) fn next_ticket(ticket: u64) -> u64 {
    (ticket + 1) & ((1 << TICKET_BITS) - 1)
}

impl Part {
    /// The part's place in its request.
    pub fn place(self) -> usize {
        self.index as usize
    }
}

impl From<Part> for RequestId {
    fn from(part: Part) -> RequestId {
        RequestId(
            u64::from(part.origin.0) << (TICKET_BITS + INDEX_BITS)
                | u64::from(part.index) << TICKET_BITS
                | part.ticket,
        )
    }
}

impl From<RequestId> for Part {
    fn from(request: RequestId) -> Part {
        Part {
            origin: ShardId((request.0 >> (TICKET_BITS + INDEX_BITS)) as u8),
            index: (request.0 >> TICKET_BITS) as u32 & ((1 << INDEX_BITS) - 1),
            ticket: request.0 & ((1 << TICKET_BITS) - 1),
        }
    }
}

/// One partition's share of a produce request.
#[derive(Debug)]
pub(super) struct ProducePart {
    pub partition: TopicPartition,
    pub acks: Acks,
    pub records: Bytes,
    pub deadline: MonotonicTime,
    pub received: MonotonicTime,
    pub wants_stamps: bool,
}

/// One partition's share of a fetch request.
#[derive(Debug)]
pub(super) struct FetchPart {
    pub partition: TopicPartition,
    pub fetch: Fetch,
    pub deadline: MonotonicTime,
    pub bytes_max: usize,
    pub received: MonotonicTime,
    /// What a follower says about the batches it acknowledges.
    pub follower_stamps: Option<FollowerStamps>,
    /// The consumer wants the steps of the high watermark.
    pub wants_steps: bool,
}

/// The answer to a [`FetchPart`].
#[derive(Debug)]
pub(super) struct Fetched {
    pub answer: FetchAnswer,
    /// Whole batches, contiguous from `answer.offset`.
    pub records: Vec<Bytes>,
    pub steps: Vec<HighWatermarkStep>,
}

/// A question about one partition's offsets.
#[derive(Clone, Copy, Debug)]
pub(super) enum OffsetQuery {
    /// ListOffsets, latest, from a client.
    Latest,
    /// ListOffsets, latest, from a replica: the log end offset.
    LogEnd,
    /// ListOffsets, earliest.
    Earliest,
    /// OffsetForLeaderEpoch.
    EpochEnd(LeaderEpoch),
}

/// The answer to an [`OffsetQuery`].
#[derive(Clone, Copy, Debug)]
pub(super) struct OffsetFound {
    pub offset: Offset,
    pub leader_epoch: Option<LeaderEpoch>,
}

/// From shard to shard.
#[derive(Debug)]
pub(super) enum Message {
    /// Listen where shard 0 listens.
    Listen(std::net::SocketAddr),
    /// These metadata records were committed; the first has this offset.
    Metadata(Arc<Vec<(Offset, Record)>>),
    /// This broker's epoch, once registered.
    Registered(crate::types::BrokerEpoch),
    Produce(Part, ProducePart),
    Produced(Part, Result<Offset, ErrorCode>, Option<BrokerStamps>),
    Fetch(Part, FetchPart),
    Fetched(Part, Fetched),
    /// Answer a parked fetch with what there is: another part of its request has news.
    FinishFetch(Part),
    Query(Part, TopicPartition, OffsetQuery),
    Queried(Part, Result<OffsetFound, ErrorCode>),
    /// Where does this replica's log end?
    InspectLog(Part, TopicPartition),
    LogInspected(Part, ReplicaLogInfo),
    /// To shard 0: ask the controller for an ISR change.
    Propose(TopicPartition, IsrProposal),
    /// From shard 0: the controller's word on it, and when the request it answers had left.
    Decided(TopicPartition, IsrProposal, Result<IsrCommitted, ErrorCode>, MonotonicTime),
    /// To shard 0: pass this request to the controller, in the version it came in.
    Forward(Part, i16, Request),
    /// From shard 0: the controller's response, or none if it could not be reached.
    Forwarded(Part, Option<Response>),
    /// Stop cleanly: to shard 0 from the signal watcher, to the others from shard 0.
    Stop,
    /// To shard 0: this shard's logs are closed.
    Stopped(Vec<VouchedLog>),
}

/// Where a shard's messages arrive.
#[derive(Clone)]
pub(super) struct Mailbox {
    sender: Sender<Message>,
    /// Set when the shard's engine runs; what was sent before is found when it starts.
    waker: Arc<OnceLock<Waker>>,
}

impl Mailbox {
    pub(super) fn new() -> (Mailbox, Receiver<Message>) {
        let (sender, receiver) = unbounded();
        (Mailbox { sender, waker: Arc::new(OnceLock::new()) }, receiver)
    }

    /// Delivers a message and wakes the shard. A shard that has ended takes none.
    pub(super) fn send(&self, message: Message) {
        if self.sender.send(message).is_ok()
            && let Some(waker) = self.waker.get()
        {
            waker.wake();
        }
    }

    /// The shard runs from now on.
    pub(super) fn open(&self, waker: Waker) {
        // A second opening would be the same shard's: the first waker stays right.
        let _ = self.waker.set(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shard_that_a_file_may_ask_for_has_a_number() {
        assert_eq!(u64::from(u8::MAX) + 1, crate::config::defaults::SHARDS_MAX);
    }

    #[test]
    fn the_number_after_the_last_is_the_first() {
        assert_eq!(next_ticket((1 << TICKET_BITS) - 1), 0);
        assert_eq!(next_ticket(41), 42);
    }

    #[test]
    fn a_part_survives_its_packing() {
        for part in [
            Part { origin: ShardId(0), index: 0, ticket: 0 },
            Part {
                origin: ShardId(255),
                index: crate::wire::ELEMENTS_MAX as u32 - 1,
                ticket: (1 << TICKET_BITS) - 1,
            },
            Part { origin: ShardId(3), index: 7, ticket: 123_456_789_012 },
        ] {
            assert_eq!(Part::from(RequestId::from(part)), part);
        }
    }
}

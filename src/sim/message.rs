//! What the simulated nodes send each other: the machines' own values, in envelopes.

use std::time::Duration;

use bytes::Bytes;

use super::disk::Batch;
use crate::protocol::controller::{QueryId, ReplicaLogsAnswer, Request, Response};
use crate::protocol::partition::{Fetch, FetchAnswer};
use crate::types::{Acks, BrokerId, ErrorCode, LeaderEpoch, Offset, TopicPartition};

/// A node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Address {
    /// The controller.
    Controller,
    /// A broker, in whatever life.
    Broker(BrokerId),
    /// A producer, consumer or operator.
    Client(u64),
}

/// Matches an answer to its request; unique in a run, so that no answer reaches a later life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// Sender.
    pub from: Address,
    /// Receiver.
    pub to: Address,
    /// Content.
    pub message: Message,
}

/// What is said.
#[derive(Clone, Debug)]
pub enum Message {
    /// To the controller.
    Ask {
        /// The call.
        call: CallId,
        /// Connection it came on: a later one of the same sender replaces it.
        connection: u64,
        /// What is asked.
        request: Request,
    },
    /// From the controller.
    Answer {
        /// The call.
        call: CallId,
        /// What is answered.
        response: Response,
    },
    /// From the controller to a broker: all metadata records below this offset are committed.
    Metadata {
        /// Exclusive.
        end: Offset,
    },
    /// The controller asks a broker where its replicas' logs end.
    AskLogs {
        /// The question.
        query: QueryId,
        /// About which.
        partitions: Vec<TopicPartition>,
    },
    /// Answer to the controller's question.
    LogsAre {
        /// The question.
        query: QueryId,
        /// The broker's word.
        answer: ReplicaLogsAnswer,
    },
    /// A producer's batch.
    Produce {
        /// The call.
        call: CallId,
        /// Where to.
        partition: TopicPartition,
        /// What the producer waits for.
        acks: Acks,
        /// Not stamped yet.
        batch: Bytes,
        /// How long it waits.
        timeout: Duration,
    },
    /// Answer to a produce.
    Produced {
        /// The call.
        call: CallId,
        /// Base offset or error.
        result: Result<Offset, ErrorCode>,
    },
    /// A follower or consumer fetches.
    Fetch {
        /// The call.
        call: CallId,
        /// From where.
        partition: TopicPartition,
        /// What is asked.
        fetch: Fetch,
        /// How long it may be parked.
        wait: Duration,
    },
    /// Answer to a fetch.
    Fetched {
        /// The call.
        call: CallId,
        /// Offsets or error.
        answer: FetchAnswer,
        /// Records.
        batches: Vec<Batch>,
    },
    /// A follower whose position is out of range asks for both ends of the leader's log.
    LogEnds {
        /// The call.
        call: CallId,
        /// Of what.
        partition: TopicPartition,
    },
    /// Answer: log start and log end offset.
    LogEndsAre {
        /// The call.
        call: CallId,
        /// Both ends.
        result: Result<(Offset, Offset), ErrorCode>,
    },
    /// A client asks for the latest offset.
    Latest {
        /// The call.
        call: CallId,
        /// Of what.
        partition: TopicPartition,
    },
    /// Answer, with the leader epoch it was given under.
    LatestIs {
        /// The call.
        call: CallId,
        /// The offset.
        result: Result<(LeaderEpoch, Offset), ErrorCode>,
    },
}

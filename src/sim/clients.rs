//! The load: a producer that does not wait for answers, and per partition a consumer that reads
//! from the first record on and asks for the latest offset now and then. Clients find leaders in
//! the metadata of whatever broker they ask, so that they are often wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::broker::Broker;
use super::disk;
use super::message::{Address, CallId, Envelope, Message};
use super::options::ClientOptions;
use super::random::Random;
use crate::protocol::partition::{Fetch, FetchAnswer, Fetcher};
use crate::record::BatchBuilder;
use crate::types::{Acks, BrokerId, ErrorCode, LeaderEpoch, Offset, TopicPartition};

/// How long a producer waits.
const PRODUCE_TIMEOUT: Duration = Duration::from_millis(400);
/// How long a consumer's fetch may be parked.
const CONSUME_WAIT: Duration = Duration::from_millis(30);

/// A consumer that is told this often that its position is out of range begins from the start: what
/// it had read was lost for good. A leader that has lost office says so too, but not for long.
const OUT_OF_RANGE_MAX: u32 = 30;

/// All clients.
#[derive(Debug)]
pub struct Clients {
    options: ClientOptions,
    calls: u64,
    records: u64,
    builder: BatchBuilder,
    consumers: BTreeMap<TopicPartition, Consumer>,
    /// `acks=all` produces that were answered with success.
    pub acknowledged: u64,
}

/// Reads one partition.
#[derive(Debug)]
struct Consumer {
    position: Offset,
    digest: u64,
    call: Option<CallId>,
    /// Answers in a row that said OFFSET_OUT_OF_RANGE.
    out_of_range_count: u32,
}

impl Consumer {
    fn new() -> Consumer {
        Consumer { position: Offset::ZERO, digest: 0, call: None, out_of_range_count: 0 }
    }
}

/// What a client has learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumed {
    /// Of which partition.
    pub partition: TopicPartition,
    /// Everything below this is read.
    pub end: Offset,
    /// Digest of it.
    pub digest: u64,
}

/// The client side of every exchange.
pub const CLIENT: Address = Address::Client(0);

impl Clients {
    /// Clients of these partitions.
    pub fn new(
        options: ClientOptions,
        partitions: impl Iterator<Item = TopicPartition>,
    ) -> Clients {
        let consumers = partitions.map(|id| (id, Consumer::new())).collect();
        let builder = BatchBuilder::with_capacity(256);
        Clients { options, calls: 0, records: 0, builder, consumers, acknowledged: 0 }
    }

    /// Everything below this has been read from `partition`.
    pub fn position(&self, partition: TopicPartition) -> Offset {
        self.consumers.get(&partition).map_or(Offset::ZERO, |consumer| consumer.position)
    }

    /// Reads from the first record on again: what was read before is void.
    pub fn forget(&mut self, partition: TopicPartition) {
        self.consumers.insert(partition, Consumer::new());
    }

    /// No mistakes any more, and consumers hurry to the end.
    pub fn calm(&mut self) {
        self.options.misdirected_per_mille = 0;
        self.options.consume_pause_max = Duration::from_millis(5);
    }

    /// When the next produce leaves, from now.
    pub fn produce_pause(&self, random: &mut Random) -> Duration {
        random.between(Duration::from_millis(1), self.options.produce_pause_max)
    }

    /// When the next fetch leaves, from now.
    pub fn consume_pause(&self, random: &mut Random) -> Duration {
        random.between(Duration::from_millis(1), self.options.consume_pause_max)
    }

    /// A produce to whom some broker takes for the leader.
    pub fn produce(&mut self, random: &mut Random, brokers: &[Broker]) -> Option<Envelope> {
        let partitions: Vec<TopicPartition> = self.consumers.keys().copied().collect();
        let partition = random.pick(&partitions);
        let is_all = random.chance(self.options.acks_all_per_mille);
        let acks = if is_all { Acks::All } else { Acks::Leader };
        let record_count = 1 + random.below(3);
        let (leader, _) = self.guess_leader(random, partition, brokers)?;
        Some(self.write((partition, acks, record_count), leader))
    }

    /// A batch of so many records for the partition, to that broker.
    pub fn write(
        &mut self,
        (partition, acks, record_count): (TopicPartition, Acks, usize),
        leader: BrokerId,
    ) -> Envelope {
        let message = Message::Produce {
            call: self.next_call(),
            partition,
            acks,
            batch: self.batch(record_count),
            timeout: PRODUCE_TIMEOUT,
        };
        Envelope { from: CLIENT, to: Address::Broker(leader), message }
    }

    /// A consumer's next request: mostly a fetch.
    pub fn consume(
        &mut self,
        random: &mut Random,
        partition: TopicPartition,
        brokers: &[Broker],
    ) -> Option<Envelope> {
        let (leader, epoch) = self.guess_leader(random, partition, brokers)?;
        let call = self.next_call();
        let asks_latest = random.chance(100);
        let knows_epoch = random.chance(700);
        let consumer = self.consumers.get_mut(&partition)?;
        let message = if asks_latest {
            Message::Latest { call, partition }
        } else {
            consumer.call = Some(call);
            let fetch = Fetch {
                fetcher: Fetcher::Consumer,
                offset: consumer.position,
                current_leader_epoch: epoch.filter(|_| knows_epoch),
                last_fetched_epoch: None,
                durable_offset: None,
                wants_records: true,
            };
            Message::Fetch { call, partition, fetch, wait: CONSUME_WAIT }
        };
        Some(Envelope { from: CLIENT, to: Address::Broker(leader), message })
    }

    /// An answer arrives.
    pub fn receive(&mut self, message: Message) -> Option<Consumed> {
        match message {
            Message::Produced { result, .. } => {
                self.acknowledged += u64::from(result.is_ok());
                None
            }
            Message::Fetched { call, answer, batches } => self.fetched(call, &answer, &batches),
            _ => None,
        }
    }

    fn fetched(
        &mut self,
        call: CallId,
        answer: &FetchAnswer,
        batches: &[disk::Batch],
    ) -> Option<Consumed> {
        let mut consumers = self.consumers.iter_mut();
        let (&partition, consumer) = consumers.find(|(_, consumer)| consumer.call == Some(call))?;
        consumer.call = None;
        consumer.out_of_range_count = match answer.error {
            ErrorCode::OffsetOutOfRange => consumer.out_of_range_count + 1,
            _ => 0,
        };
        if consumer.out_of_range_count > OUT_OF_RANGE_MAX {
            *consumer = Consumer::new();
        }
        if answer.error != ErrorCode::None || batches.is_empty() {
            return None;
        }
        for batch in batches {
            consumer.digest = disk::digest(consumer.digest, &batch.bytes);
            consumer.position = batch.span.end_offset;
        }
        Some(Consumed { partition, end: consumer.position, digest: consumer.digest })
    }

    fn guess_leader(
        &self,
        random: &mut Random,
        partition: TopicPartition,
        brokers: &[Broker],
    ) -> Option<(BrokerId, Option<LeaderEpoch>)> {
        let up: Vec<&Broker> = brokers.iter().filter(|broker| broker.is_up()).collect();
        if up.is_empty() {
            return None;
        }
        let asked = up[random.below(up.len())];
        if random.chance(self.options.misdirected_per_mille) {
            return Some((asked.id(), None));
        }
        let known = asked.metadata()?.partition(partition)?;
        Some((known.leader?, Some(known.leader_epoch)))
    }

    fn next_call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    /// No two batches of a run are equal.
    fn batch(&mut self, record_count: usize) -> Bytes {
        self.builder.start(0);
        for _ in 0..record_count {
            self.records += 1;
            self.builder.push(0, None, &self.records.to_be_bytes());
        }
        self.builder.finish()
    }
}

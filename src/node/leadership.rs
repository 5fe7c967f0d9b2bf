//! Watches who leads a topic's first partition, as an observer of the metadata log: what a broker
//! hears, when a broker hears it. For measuring elections from outside. Blocks.
//!
//! A controller stamps each batch of records when it writes them down, so what is told holds both
//! that instant and the one at which the batch, committed by then, had been read.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use super::client::{Client, ClientError};
use crate::measure::clock;
use crate::measure::failover::{Decision, Ruling, Successor};
use crate::protocol::metadata::{Endpoint, PartitionChange, Record};
use crate::record;
use crate::types::{BrokerId, ErrorCode, MonotonicTime, Offset, PartitionId, TopicId};
use crate::wire::{self, ApiKey, FetchPartition, FetchRequest, FetchTopic, Request, Response};

const FETCH_VERSION: i16 = 17;
const FETCH_BYTES_MAX: i32 = 8 << 20;
/// How long a fetch waits for records: an end of the watch is looked for this often.
const FETCH_WAIT: Duration = Duration::from_millis(100);
/// How long a controller may take to answer; longer than it waits.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// Between two attempts to find the active controller.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// Tells every [`Decision`] about the first partition of `topic` to `hear`, with where the broker
/// it names as leader listens, until `stop`. Begins with the oldest, from before the call.
pub fn watch(
    controllers: &[SocketAddr],
    topic: &str,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(Decision, Option<SocketAddr>),
) {
    let mut partition = Partition { topic: topic.to_owned(), ..Partition::default() };
    let mut next = Offset::ZERO;
    for controller in controllers.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // One that is down, or not active, is asked again after the others.
        let _ = follow(*controller, &mut partition, &mut next, stop, hear);
        thread::sleep(ASK_AGAIN);
    }
}

/// Reads one controller's log until it has no more to say.
fn follow(
    controller: SocketAddr,
    partition: &mut Partition,
    next: &mut Offset,
    stop: &AtomicBool,
    hear: &mut dyn FnMut(Decision, Option<SocketAddr>),
) -> Result<(), ClientError> {
    let mut client = Client::connect(&controller.to_string(), ANSWER_PATIENCE)?;
    while !stop.load(Ordering::Relaxed) {
        let answer = client.ask(FETCH_VERSION, &request(*next))?;
        let seen = clock::now();
        let Response::Fetch(answer) = answer else {
            return Err(client.unexpected(ApiKey::Fetch));
        };
        let answered = answer.topics.into_iter().flat_map(|topic| topic.partitions).next();
        let Some(answered) = answered.filter(|one| one.error == ErrorCode::None) else {
            return Ok(());
        };
        for chunk in &answered.records {
            partition.read(chunk, next, seen, hear);
        }
    }
    Ok(())
}

fn request(next: Offset) -> Request {
    let partition = FetchPartition {
        partition: PartitionId(0),
        current_leader_epoch: None,
        fetch_offset: next,
        last_fetched_epoch: None,
        log_start_offset: None,
        partition_max_bytes: FETCH_BYTES_MAX,
        durable_offset: None,
        stamps: None,
    };
    let topic = wire::TopicRef { name: Default::default(), id: TopicId::METADATA };
    Request::Fetch(FetchRequest {
        cluster_id: None,
        replica: None,
        max_wait_ms: FETCH_WAIT.as_millis() as i32,
        min_bytes: 1,
        max_bytes: FETCH_BYTES_MAX,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic { topic, partitions: vec![partition] }],
        trace_high_watermark: false,
    })
}

/// What the log said of the partition so far.
#[derive(Default)]
struct Partition {
    topic: String,
    id: Option<TopicId>,
    isr: Vec<BrokerId>,
    elr: Vec<BrokerId>,
    brokers: BTreeMap<BrokerId, SocketAddr>,
}

impl Partition {
    fn read(
        &mut self,
        chunk: &Bytes,
        next: &mut Offset,
        seen: MonotonicTime,
        hear: &mut dyn FnMut(Decision, Option<SocketAddr>),
    ) {
        for (header, range) in record::batches(chunk).map_while(Result::ok) {
            let decided = on_monotonic_clock(header.base_timestamp_ms).min(seen);
            let entries = chunk.get(range).map(record::records);
            let entries = entries.and_then(Result::ok).into_iter().flatten();
            for entry in entries.map_while(Result::ok) {
                let offset = header.base_offset.plus(i64::from(entry.offset_delta));
                let value = entry.value.filter(|_| offset >= *next && !header.is_control());
                let read = value.map(|value| wire::decode_metadata_record(&chunk.slice_ref(value)));
                if let Some(Ok(read)) = read
                    && let Some(what) = self.apply(&read)
                {
                    let leader = match what {
                        Ruling::Leader { broker, .. } => self.brokers.get(&broker).copied(),
                        Ruling::Fenced(_) | Ruling::NoLeader => None,
                    };
                    hear(Decision { decided, seen, what }, leader);
                }
            }
            *next = header.end_offset().max(*next);
        }
    }

    fn apply(&mut self, record: &Record) -> Option<Ruling> {
        match record {
            Record::RegisterBroker(broker) => {
                let address = broker.endpoints.first().and_then(address_of);
                address.and_then(|address| self.brokers.insert(broker.broker, address));
            }
            Record::Topic { name, id } if *name == self.topic => self.id = Some(*id),
            Record::Partition(created) if self.is_it(created.id) => {
                self.isr.clone_from(&created.isr);
                self.elr.clone_from(&created.elr);
                return created.leader.map(|broker| {
                    let from = Successor::Isr;
                    Ruling::Leader { broker, from, known: None }
                });
            }
            Record::PartitionChange(change) if self.is_it(change.id) => {
                return self.changed(change);
            }
            Record::BrokerRegistrationChange(change) if change.fenced == Some(true) => {
                return Some(Ruling::Fenced(change.broker));
            }
            _ => {}
        }
        None
    }

    fn is_it(&self, id: crate::types::TopicPartition) -> bool {
        Some(id.topic) == self.id && id.partition == PartitionId(0)
    }

    fn changed(&mut self, change: &PartitionChange) -> Option<Ruling> {
        let ruling = change.leader.map(|leader| match leader {
            None => Ruling::NoLeader,
            Some(broker) => {
                let from = match change.recovering {
                    Some(true) => Successor::Unclean,
                    _ if self.isr.contains(&broker) => Successor::Isr,
                    _ if self.elr.contains(&broker) => Successor::Elr,
                    _ => Successor::Unclean,
                };
                Ruling::Leader { broker, from, known: None }
            }
        });
        if let Some(isr) = &change.isr {
            self.isr.clone_from(isr);
        }
        if let Some(elr) = &change.elr {
            self.elr.clone_from(elr);
        }
        ruling
    }
}

/// An instant of the wall clock on the monotonic one, as far apart as the two are now.
fn on_monotonic_clock(wall_ms: i64) -> MonotonicTime {
    let ago_ms = clock::wall_ms().saturating_sub(wall_ms);
    let ago = Duration::from_millis(u64::try_from(ago_ms).unwrap_or(0));
    let ago_ns = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
    MonotonicTime(clock::now().0.saturating_sub(ago_ns))
}

fn address_of(endpoint: &Endpoint) -> Option<SocketAddr> {
    Some(SocketAddr::new(endpoint.host.parse().ok()?, endpoint.port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::metadata::{self, BrokerRegistrationChange};
    use crate::types::{BrokerEpoch, LeaderEpoch, PartitionEpoch, TopicPartition};

    const ID: TopicId = TopicId([7; 16]);
    const FIRST: TopicPartition = TopicPartition { topic: ID, partition: PartitionId(0) };

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn created() -> Partition {
        let mut partition = Partition { topic: "t".to_owned(), ..Partition::default() };
        assert_eq!(partition.apply(&Record::Topic { name: "t".to_owned(), id: ID }), None);
        let record = metadata::Partition {
            id: FIRST,
            replicas: ids(&[1, 2, 3]),
            isr: ids(&[1, 2, 3]),
            elr: Vec::new(),
            last_known_elr: Vec::new(),
            removing: Vec::new(),
            adding: Vec::new(),
            leader: Some(BrokerId(1)),
            recovering: false,
            leader_epoch: LeaderEpoch(0),
            partition_epoch: PartitionEpoch(0),
            directories: Vec::new(),
        };
        let ruling = partition.apply(&Record::Partition(record));
        assert!(matches!(ruling, Some(Ruling::Leader { broker: BrokerId(1), .. })), "{ruling:?}");
        partition
    }

    fn change(set: impl FnOnce(&mut PartitionChange)) -> Record {
        let mut change = PartitionChange::none(FIRST);
        set(&mut change);
        Record::PartitionChange(change)
    }

    fn elects(partition: &mut Partition, leader: i32, isr: &[i32]) -> Option<Ruling> {
        partition.apply(&change(|change| {
            change.leader = Some(Some(BrokerId(leader)));
            change.isr = Some(ids(isr));
        }))
    }

    #[test]
    fn a_successor_is_told_by_where_it_stood_before() {
        let mut partition = created();
        let by =
            |from, leader| Some(Ruling::Leader { broker: BrokerId(leader), from, known: None });
        assert_eq!(elects(&mut partition, 2, &[2, 3]), by(Successor::Isr, 2));
        let shrunk = change(|change| {
            change.isr = Some(ids(&[2]));
            change.elr = Some(ids(&[3]));
        });
        assert_eq!(partition.apply(&shrunk), None, "nobody else leads");
        assert_eq!(elects(&mut partition, 3, &[3]), by(Successor::Elr, 3));
        assert_eq!(elects(&mut partition, 1, &[1]), by(Successor::Unclean, 1));
        let gone = change(|change| change.leader = Some(None));
        assert_eq!(partition.apply(&gone), Some(Ruling::NoLeader));
        let back = change(|change| {
            change.leader = Some(Some(BrokerId(1)));
            change.recovering = Some(true);
        });
        assert_eq!(partition.apply(&back), by(Successor::Unclean, 1));
    }

    #[test]
    fn only_fencing_and_the_topic_s_first_partition_are_told() {
        let mut partition = created();
        let registration = |fenced| {
            Record::BrokerRegistrationChange(BrokerRegistrationChange {
                broker: BrokerId(2),
                epoch: BrokerEpoch(1),
                fenced,
                in_controlled_shutdown: false,
                log_dirs: None,
            })
        };
        let fenced = partition.apply(&registration(Some(true)));
        assert_eq!(fenced, Some(Ruling::Fenced(BrokerId(2))));
        assert_eq!(partition.apply(&registration(Some(false))), None);
        let elsewhere = TopicPartition { partition: PartitionId(1), ..FIRST };
        let mut other = PartitionChange::none(elsewhere);
        other.leader = Some(None);
        assert_eq!(partition.apply(&Record::PartitionChange(other)), None);
    }
}

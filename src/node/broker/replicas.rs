//! The partitions a shard owns: feeds their machines, and carries out what the machines decide.

use std::collections::HashMap;

use bytes::Bytes;

use super::BrokerError;
use super::isr_watch::IsrWatch;
use super::message::{FetchPart, Fetched, Message, OffsetFound, OffsetQuery, Part, ProducePart};
use super::room::{OpenReplica, OpenReplicas};
use super::shard::Shard;
use super::trace::{FollowerTrace, Trace};
use crate::engine::{Io, OperationId};
use crate::node::tell;
use crate::protocol::broker::VouchedLog;
use crate::protocol::partition::{
    BatchSpan, FetchAnswer, Fetcher, FollowerFetch, Input, Output, Partition, RequestId,
};
use crate::record;
use crate::storage::{self, DiskRead, PartitionLog, Read, StorageError};
use crate::types::{
    Acks, CommitRoute, DurabilityMode, ErrorCode, FollowerStamps, MonotonicTime, Offset,
    TopicPartition,
};

/// An operation id carries its replica's slot plus one above this many bits; zero there is a read.
const OPERATION_BITS: u32 = 40;

/// One partition this shard owns.
pub(super) struct Replica {
    pub id: TopicPartition,
    pub machine: Partition,
    pub log: PartitionLog,
    pub trace: Trace,
    pub isr_watch: IsrWatch,
    /// The fetch the machine wants next; taken when it is sent.
    pub next_fetch: Option<FollowerFetch>,
    /// What the machine wants acknowledged beside the fetch in flight; taken when it is sent.
    pub next_acknowledgement: Option<FollowerFetch>,
    /// The machine wants the leader's offsets.
    pub wants_leader_offsets: bool,
    /// Instants of the batches this follower holds but has not acknowledged yet.
    pub follower_trace: FollowerTrace,
    next_operation: u64,
    is_dirty: bool,
    /// Deleted, but writes are in flight.
    is_doomed: bool,
    _counted: OpenReplica,
}

impl Replica {
    /// Whether appended records are not durable yet: the next fetch waits for them.
    pub(super) fn is_syncing(&self) -> bool {
        self.machine.durable_offset() < self.machine.log_end_offset()
    }
}

/// All replicas of a shard, and the parts of requests that wait in them.
#[derive(Default)]
pub(super) struct Replicas {
    slots: Vec<Option<Replica>>,
    /// Of all shards.
    pub(super) open: OpenReplicas,
    by_partition: HashMap<TopicPartition, usize>,
    dirty: Vec<usize>,
    fetching: HashMap<RequestId, FetchPart>,
    reads: HashMap<OperationId, DiskFetch>,
    reads_started: u64,
    outputs: Vec<Output>,
    /// Fetches to answer once the writes of the event batch are on their way.
    served_later: Vec<(usize, RequestId, FetchAnswer)>,
}

/// A fetch answer whose records come from the disk.
struct DiskFetch {
    part: Part,
    answer: FetchAnswer,
    slot: usize,
    read: DiskRead,
}

/// One batch of a leader's answer.
pub(super) struct FetchedBatch {
    pub span: BatchSpan,
    pub bytes: Bytes,
}

/// What the input at hand brought with it, for the outputs that refer to it.
enum Cargo<'a> {
    Nothing,
    Produced {
        part: &'a ProducePart,
        record_count: i64,
        append_started: MonotonicTime,
        /// The leader's write will keep the shard until the device has it.
        writes_block: bool,
    },
    Fetched {
        batches: &'a [FetchedBatch],
        received: MonotonicTime,
    },
}

impl Replicas {
    pub(super) fn slot(&self, partition: TopicPartition) -> Option<usize> {
        self.by_partition.get(&partition).copied()
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Replica> {
        self.slots.get(slot)?.as_ref().filter(|replica| !replica.is_doomed)
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Replica> {
        self.slots.get_mut(slot)?.as_mut().filter(|replica| !replica.is_doomed)
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.slots.len()
    }

    pub(super) fn insert(
        &mut self,
        id: TopicPartition,
        machine: Partition,
        log: PartitionLog,
        (trace, isr_watch): (Trace, IsrWatch),
    ) -> usize {
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(Replica {
            id,
            machine,
            log,
            trace,
            isr_watch,
            next_fetch: None,
            next_acknowledgement: None,
            wants_leader_offsets: false,
            follower_trace: FollowerTrace::default(),
            next_operation: (slot as u64 + 1) << OPERATION_BITS,
            is_dirty: false,
            is_doomed: false,
            _counted: self.open.one(),
        });
        self.by_partition.insert(id, slot);
        slot
    }

    /// Whether a fetch is answered after this event batch's writes and produce answers: always a
    /// consumer's; a follower's if the append that woke it waits for the leader's log only, and the
    /// leader's write does not block.
    fn producers_come_first(&self, request: RequestId, cargo: &Cargo<'_>) -> bool {
        let Some(fetch) = self.fetching.get(&request) else { return false };
        match (fetch.fetch.fetcher, cargo) {
            (Fetcher::Consumer, _) => true,
            (Fetcher::Follower { .. }, Cargo::Produced { part, writes_block, .. }) => {
                part.acks != Acks::All && !writes_block
            }
            (Fetcher::Follower { .. }, Cargo::Nothing | Cargo::Fetched { .. }) => false,
        }
    }

    /// The machines of all replicas here.
    pub(super) fn machines(&self) -> impl Iterator<Item = &Partition> {
        let live = self.slots.iter().flatten().filter(|replica| !replica.is_doomed);
        live.map(|replica| &replica.machine)
    }

    /// When some machine or log wants to be looked at again.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let live = self.slots.iter().flatten().filter(|replica| !replica.is_doomed);
        live.flat_map(|replica| [replica.machine.deadline(), replica.log.deadline()])
            .flatten()
            .min()
    }

    /// Bytes appended on this shard that are not durable yet.
    pub(super) fn undurable_bytes(&self) -> usize {
        self.slots.iter().flatten().map(|replica| replica.log.undurable_bytes()).sum()
    }

    /// Whether nothing waits for the disk.
    pub(super) fn is_quiet(&self) -> bool {
        let mut logs = self.slots.iter().flatten().map(|replica| &replica.log);
        logs.all(|log| log.undurable_bytes() == 0 && log.in_flight() == 0)
    }

    fn mark_dirty(&mut self, slot: usize) {
        if let Some(replica) = &mut self.slots[slot]
            && !replica.is_dirty
        {
            replica.is_dirty = true;
            self.dirty.push(slot);
        }
    }
}

impl Shard {
    /// Gives a machine one input and carries out its outputs.
    pub(super) fn step(&mut self, io: &mut dyn Io, slot: usize, input: Input) {
        self.step_with(io, slot, input, &Cargo::Nothing);
    }

    fn step_with(&mut self, io: &mut dyn Io, slot: usize, input: Input, cargo: &Cargo<'_>) {
        let mut outputs = std::mem::take(&mut self.replicas.outputs);
        let now = io.now();
        let mut may_change_isr = may_change_isr(&input);
        if let Some(replica) = self.replicas.get_mut(slot) {
            replica.machine.step(now, input, &mut outputs);
            if cfg!(debug_assertions) {
                replica.machine.check_invariants();
            }
        }
        for output in outputs.drain(..) {
            may_change_isr |= matches!(output, Output::ProposeIsr(_));
            self.carry_out(io, slot, output, cargo);
        }
        self.replicas.outputs = outputs;
        if self.events.is_open()
            && let Some(replica) = self.replicas.get_mut(slot)
        {
            match may_change_isr {
                true => replica.isr_watch.changed(now, &replica.machine, &mut self.events),
                false => replica.isr_watch.moved(now, &replica.machine, &mut self.events),
            }
        }
    }

    fn carry_out(&mut self, io: &mut dyn Io, slot: usize, output: Output, cargo: &Cargo<'_>) {
        match output {
            Output::Append { request, base_offset, leader_epoch } => {
                let Cargo::Produced { part, record_count, append_started, .. } = cargo else {
                    return;
                };
                let end = base_offset.plus(*record_count);
                let Some(replica) = self.replicas.get_mut(slot) else { return };
                let appended =
                    replica.log.append(&part.records, base_offset, end, leader_epoch, true);
                if part.wants_stamps {
                    replica.trace.appended(request, end, part.received, *append_started, io.now());
                }
                self.check_log(appended);
                self.replicas.mark_dirty(slot);
            }
            Output::AppendFetched { count } => self.append_fetched(io, slot, count, cargo),
            Output::AnswerProduce { request, result } => {
                let stamps = self.replicas.get_mut(slot).and_then(|r| r.trace.take(request));
                let part = Part::from(request);
                self.deliver(io, part.origin, Message::Produced(part, result, stamps));
            }
            Output::AnswerFetch { request, answer } => {
                if self.replicas.producers_come_first(request, cargo) {
                    self.replicas.served_later.push((slot, request, answer));
                } else {
                    self.answer_fetch(io, slot, request, answer);
                }
            }
            Output::HighWatermark(high_watermark) => {
                if let Some(replica) = self.replicas.get_mut(slot)
                    && replica.machine.is_leader()
                {
                    replica.trace.committed(high_watermark, io.now());
                }
            }
            Output::ProposeIsr(proposal) => {
                if let Some(replica) = self.replicas.get(slot) {
                    let message = Message::Propose(replica.id, proposal);
                    self.deliver(io, Self::CONTROLLER_SHARD, message);
                }
            }
            Output::Truncate { to } => {
                let Some(replica) = self.replicas.get_mut(slot) else { return };
                replica.follower_trace.clear();
                tell(format_args!(
                    "{}: cut from log end offset {} to {to}, where the leader's log differs",
                    replica.log.directory().display(),
                    replica.log.log_end_offset(),
                ));
                let truncated = replica.log.truncate(io, to);
                if let Some(end) = self.check_log(truncated)
                    && end != to
                {
                    self.fail(BrokerError::TruncatedInsideBatch { to, end });
                }
                self.replicas.mark_dirty(slot);
            }
            Output::Restart { at } => {
                let Some(replica) = self.replicas.get_mut(slot) else { return };
                let restarted = replica.log.restart(io, at);
                self.check_log(restarted);
                self.replicas.mark_dirty(slot);
            }
            Output::FetchFromLeader(fetch) => {
                if let Some(replica) = self.replicas.get_mut(slot) {
                    replica.next_fetch = Some(fetch);
                    replica.next_acknowledgement = None;
                    self.fetchers.follow(fetch.leader, slot);
                }
            }
            Output::Acknowledge(fetch) => {
                if let Some(replica) = self.replicas.get_mut(slot) {
                    // A fetch that has not left yet takes the news with it.
                    match &mut replica.next_fetch {
                        Some(unsent) => unsent.durable_offset = fetch.durable_offset,
                        None => {
                            replica.next_acknowledgement = Some(fetch);
                            self.fetchers.has_acknowledgements = true;
                        }
                    }
                }
            }
            Output::AskLeaderOffsets => {
                if let Some(replica) = self.replicas.get_mut(slot) {
                    replica.wants_leader_offsets = true;
                }
            }
            Output::Ignored(reason) => self.counters.ignored(reason),
        }
    }

    fn writes_block(&self) -> bool {
        let log = &self.config.log;
        log.commit_route == CommitRoute::Inline && log.durability != DurabilityMode::PageCache
    }

    // --- produce ---------------------------------------------------------------------------------

    pub(super) fn produce_part(&mut self, io: &mut dyn Io, part: Part, produce: &ProducePart) {
        let header = match self.replicas.slot(produce.partition) {
            None => Err(ErrorCode::UnknownTopicOrPartition),
            Some(slot) => {
                record::validate_produced(&produce.records, self.config.log.message_bytes_max)
                    .map(|header| (slot, header.record_count))
                    .map_err(|error| error.error_code())
            }
        };
        let (slot, record_count) = match header {
            Ok(found) => found,
            Err(error) => {
                return self.deliver(io, part.origin, Message::Produced(part, Err(error), None));
            }
        };
        let input = Input::Produce {
            request: part.into(),
            acks: produce.acks,
            record_count: record_count.unsigned_abs(),
            deadline: produce.deadline,
        };
        let cargo = Cargo::Produced {
            part: produce,
            record_count: i64::from(record_count),
            append_started: io.now(),
            writes_block: self.writes_block(),
        };
        self.step_with(io, slot, input, &cargo);
    }

    // --- fetch -----------------------------------------------------------------------------------

    pub(super) fn fetch_part(&mut self, io: &mut dyn Io, part: Part, fetch: FetchPart) {
        let Some(slot) = self.replicas.slot(fetch.partition) else {
            return self.deliver(
                io,
                part.origin,
                Message::Fetched(part, Fetched::failed(ErrorCode::UnknownTopicId)),
            );
        };
        if let (Fetcher::Follower { id, .. }, Some(stamps), Some(replica)) =
            (fetch.fetch.fetcher, fetch.follower_stamps, self.replicas.get_mut(slot))
        {
            let acknowledged = fetch.fetch.acknowledged();
            replica.trace.acknowledged(id, acknowledged, stamps, fetch.received);
        }
        let (request, deadline) = (RequestId::from(part), fetch.deadline);
        let input = Input::Fetch { request, fetch: fetch.fetch, deadline };
        self.replicas.fetching.insert(request, fetch);
        self.step(io, slot, input);
    }

    /// Answers a parked fetch now, with what there is: another part of its request has news.
    pub(super) fn finish_fetch(&mut self, io: &mut dyn Io, part: Part) {
        let request = RequestId::from(part);
        let Some(fetch) = self.replicas.fetching.get(&request) else { return };
        let offset = fetch.fetch.offset;
        let Some(slot) = self.replicas.slot(fetch.partition) else { return };
        self.step(io, slot, Input::ForgetFetch(request));
        let Some(replica) = self.replicas.get(slot) else { return };
        let answer = FetchAnswer {
            error: ErrorCode::None,
            offset,
            until: offset,
            high_watermark: replica.machine.high_watermark(),
            log_start_offset: replica.machine.log_start_offset(),
            diverging: None,
        };
        self.answer_fetch(io, slot, request, answer);
    }

    fn answer_fetch(
        &mut self,
        io: &mut dyn Io,
        slot: usize,
        request: RequestId,
        answer: FetchAnswer,
    ) {
        let Some(fetch) = self.replicas.fetching.remove(&request) else { return };
        let part = Part::from(request);
        let Some(replica) = self.replicas.get_mut(slot) else { return };
        let mut records = Vec::new();
        let mut end = answer.offset;
        if answer.offset < answer.until {
            let read = replica.log.read(answer.offset, answer.until, fetch.bytes_max, &mut records);
            match self.check_log(read) {
                None => return,
                Some(Read::Memory { end_offset, .. }) => end = end_offset,
                Some(Read::Disk(read)) => {
                    self.replicas.reads_started += 1;
                    let operation = OperationId(self.replicas.reads_started);
                    io.submit_read(operation, read.file, read.position, read.length);
                    let waiting = DiskFetch { part, answer, slot, read };
                    self.replicas.reads.insert(operation, waiting);
                    self.replicas.fetching.insert(request, fetch);
                    return;
                }
            }
        }
        self.send_fetched(io, slot, part, &fetch, answer, (records, end));
    }

    fn send_fetched(
        &mut self,
        io: &mut dyn Io,
        slot: usize,
        part: Part,
        fetch: &FetchPart,
        answer: FetchAnswer,
        (records, end): (Vec<Bytes>, Offset),
    ) {
        let mut steps = Vec::new();
        if let Some(replica) = self.replicas.get_mut(slot) {
            match fetch.fetch.fetcher {
                Fetcher::Follower { id, .. } if !records.is_empty() => {
                    replica.trace.served(id, end, io.now());
                }
                Fetcher::Consumer if fetch.wants_steps => {
                    steps = replica.trace.steps(answer.offset, answer.until);
                }
                _ => {}
            }
        }
        self.deliver(io, part.origin, Message::Fetched(part, Fetched { answer, records, steps }));
    }

    pub(super) fn read_done(
        &mut self,
        io: &mut dyn Io,
        operation: OperationId,
        result: std::io::Result<bytes::BytesMut>,
    ) {
        let Some(DiskFetch { part, mut answer, slot, read }) =
            self.replicas.reads.remove(&operation)
        else {
            return;
        };
        let Some(fetch) = self.replicas.fetching.remove(&part.into()) else { return };
        let mut records = Vec::new();
        let taken = match (result, self.replicas.get(slot)) {
            (Err(error), _) => Err(error.to_string()),
            (Ok(_), None) => Ok(answer.offset),
            (Ok(bytes), Some(replica)) => replica
                .log
                .complete_disk_read(&read, bytes.freeze(), &mut records)
                .map_err(|error| error.to_string()),
        };
        let end = taken.unwrap_or_else(|error| {
            self.counters.failed_read(error);
            answer.error = ErrorCode::KafkaStorageError;
            answer.offset
        });
        self.send_fetched(io, slot, part, &fetch, answer, (records, end));
    }

    // --- offsets ---------------------------------------------------------------------------------

    pub(super) fn query_part(
        &mut self,
        io: &mut dyn Io,
        part: Part,
        partition: TopicPartition,
        query: OffsetQuery,
    ) {
        let replica = self.replicas.slot(partition).and_then(|slot| self.replicas.get(slot));
        let found = match replica {
            None => Err(ErrorCode::UnknownTopicOrPartition),
            Some(replica) if !replica.machine.is_leader() => Err(ErrorCode::NotLeaderOrFollower),
            Some(replica) => answer_query(&replica.machine, query),
        };
        self.deliver(io, part.origin, Message::Queried(part, found));
    }

    // --- the disk --------------------------------------------------------------------------------

    /// Starts what the last batch of events made possible.
    pub(super) fn start_writes(&mut self, io: &mut dyn Io) {
        while let Some(slot) = self.replicas.dirty.pop() {
            let Some(replica) = self.replicas.slots[slot].as_mut() else { continue };
            replica.is_dirty = false;
            let started = replica.log.start_writes(io, &mut replica.next_operation);
            if let Some(Some(offset)) = self.check_log(started) {
                let now = io.now();
                self.durable(io, slot, offset, now);
            }
        }
    }

    /// Answers the fetches that come after producers: the writes of the event batch are handed over
    /// first, and producers just answered get the CPU if they share it, as their wake-up alone does
    /// not take it from this shard.
    pub(super) fn serve_later(&mut self, io: &mut dyn Io) {
        if self.replicas.served_later.is_empty() {
            return;
        }
        io.submit_now();
        if std::mem::take(&mut self.requests.has_answered_producer) {
            std::thread::yield_now();
        }
        let mut later = std::mem::take(&mut self.replicas.served_later);
        for (slot, request, answer) in later.drain(..) {
            self.answer_fetch(io, slot, request, answer);
        }
        self.replicas.served_later = later;
    }

    pub(super) fn written(
        &mut self,
        io: &mut dyn Io,
        operation: OperationId,
        result: std::io::Result<()>,
        completed: MonotonicTime,
    ) {
        let slot = (operation.0 >> OPERATION_BITS) as usize - 1;
        let Some(replica) = self.replicas.slots[slot].as_mut() else { return };
        let written = replica.log.written(operation, result);
        if replica.is_doomed {
            return self.bury(io, slot);
        }
        if let Some(Some(offset)) = self.check_log(written) {
            self.durable(io, slot, offset, completed);
        }
        // More may have been appended while this group was in flight.
        self.replicas.mark_dirty(slot);
    }

    fn durable(&mut self, io: &mut dyn Io, slot: usize, offset: Offset, at: MonotonicTime) {
        let Some(replica) = self.replicas.get_mut(slot) else { return };
        if replica.machine.is_leader() {
            replica.trace.durable(offset, at);
        } else {
            replica.follower_trace.durable(offset, at);
        }
        self.step(io, slot, Input::Durable(offset));
    }

    /// Machines and logs whose time has come.
    pub(super) fn tick_replicas(&mut self, io: &mut dyn Io) {
        let now = io.now();
        for slot in self.replicas.slots() {
            let Some(replica) = self.replicas.get_mut(slot) else { continue };
            let flushed = replica.log.on_deadline(io, &mut replica.next_operation);
            self.check_log(flushed);
            let due = self.replicas.get(slot).and_then(|replica| replica.machine.deadline());
            if due.is_some_and(|at| at <= now) {
                self.step(io, slot, Input::Tick);
            }
        }
    }

    // --- following -------------------------------------------------------------------------------

    /// A leader answered this replica's fetch.
    pub(super) fn fetched_from_leader(
        &mut self,
        io: &mut dyn Io,
        slot: usize,
        input: Input,
        batches: &[FetchedBatch],
        received: MonotonicTime,
    ) {
        self.step_with(io, slot, input, &Cargo::Fetched { batches, received });
    }

    fn append_fetched(&mut self, io: &mut dyn Io, slot: usize, count: usize, cargo: &Cargo<'_>) {
        let Cargo::Fetched { batches, received } = cargo else { return };
        let Some(replica) = self.replicas.get_mut(slot) else { return };
        let mut appended = Ok(());
        for batch in batches.iter().take(count) {
            if appended.is_ok() {
                let BatchSpan { base_offset, end_offset, leader_epoch } = batch.span;
                appended =
                    replica.log.append(&batch.bytes, base_offset, end_offset, leader_epoch, false);
            }
        }
        let stamps = FollowerStamps {
            clock: self.clock,
            received: *received,
            appended: io.now(),
            durable: MonotonicTime::ZERO,
        };
        replica.follower_trace.appended(replica.log.log_end_offset(), stamps);
        self.check_log(appended);
        self.replicas.mark_dirty(slot);
    }

    /// Deletes a replica with its log, once nothing is in flight for it.
    pub(super) fn delete_replica(&mut self, io: &mut dyn Io, partition: TopicPartition) {
        let Some(slot) = self.replicas.by_partition.remove(&partition) else { return };
        if let Some(replica) = self.replicas.slots[slot].as_mut() {
            replica.is_doomed = true;
            replica.isr_watch.end(&mut self.events);
        }
        self.bury(io, slot);
    }

    fn bury(&mut self, io: &mut dyn Io, slot: usize) {
        let is_idle =
            self.replicas.slots[slot].as_ref().is_some_and(|replica| replica.log.in_flight() == 0);
        if is_idle && let Some(replica) = self.replicas.slots[slot].take() {
            let deleted = replica.log.delete(io);
            self.check_log(deleted);
        }
    }

    /// Closes every log with a checkpoint, so that the next start scans nothing.
    pub(super) fn close_logs(&mut self, io: &mut dyn Io) {
        let slots = std::mem::take(&mut self.replicas.slots);
        let mut replicas: Vec<Replica> = slots.into_iter().flatten().collect();
        let closed = storage::close_all(replicas.iter_mut().map(|replica| &mut replica.log), io);
        for (replica, closed) in replicas.iter_mut().zip(closed) {
            replica.isr_watch.end(&mut self.events);
            let Some(files) = self.check_log(closed) else { continue };
            let directory = replica.log.directory().file_name().unwrap_or_default();
            self.closed_logs.push(VouchedLog {
                directory: directory.to_string_lossy().into_owned(),
                id: replica.id,
                log_end_offset: replica.log.log_end_offset(),
                last_epoch: replica.log.leader_epochs().last().map(|(epoch, _)| *epoch),
                files,
            });
        }
        self.replicas.by_partition.clear();
    }

    /// A log that cannot write ends the broker: it must not acknowledge what it did not store.
    fn check_log<T>(&mut self, result: Result<T, StorageError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.fail(error.into());
                None
            }
        }
    }
}

/// Besides these, an input that ends in a proposal.
fn may_change_isr(input: &Input) -> bool {
    matches!(
        input,
        Input::Metadata(_)
            | Input::Settings(_)
            | Input::MetadataAndSettings(..)
            | Input::IsrCommitted { .. }
            | Input::IsrRefused { .. }
    )
}

fn answer_query(machine: &Partition, query: OffsetQuery) -> Result<OffsetFound, ErrorCode> {
    let leader_epoch = machine.leader_epoch();
    let found = |offset| OffsetFound { offset, leader_epoch };
    match query {
        OffsetQuery::Latest => machine.latest_offset_for_clients().map(found),
        OffsetQuery::LogEnd => Ok(found(machine.log_end_offset())),
        OffsetQuery::Earliest => Ok(found(machine.log_start_offset())),
        OffsetQuery::EpochEnd(epoch) => Ok(match machine.epoch_end(epoch) {
            Some((epoch, offset)) => OffsetFound { offset, leader_epoch: Some(epoch) },
            None => OffsetFound { offset: Offset(-1), leader_epoch: None },
        }),
    }
}

impl Fetched {
    /// An answer that says nothing but the error.
    pub(super) fn failed(error: ErrorCode) -> Fetched {
        let unknown = Offset(-1);
        let answer = FetchAnswer {
            error,
            offset: unknown,
            until: unknown,
            high_watermark: unknown,
            log_start_offset: unknown,
            diverging: None,
        };
        Fetched { answer, records: Vec::new(), steps: Vec::new() }
    }
}

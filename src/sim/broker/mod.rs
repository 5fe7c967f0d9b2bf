//! A simulated broker: what survives its process (logs, clean shutdown mark), and the process with
//! the machines of `protocol::broker` and `protocol::partition` in it. The counterpart of
//! `node::broker`; holds no rule.

#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod controller_link;
mod hosted;
pub mod metadata;
mod questions;

use std::collections::BTreeMap;
use std::time::Duration;

use self::controller_link::ControllerLink;
use self::hosted::Hosted;
use super::disk::Disk;
use super::history::WriteId;
use super::message::{Address, CallId, Envelope, Message};
use super::replica::{Durability, Flush, Replica};
use crate::protocol::metadata::{ClusterMetadata, Record, Touched};
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, Offset, TopicPartition};

/// What all brokers of a run share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerSettings {
    /// What "durable" means.
    pub durability: Durability,
    /// `broker.heartbeat.interval.ms`.
    pub heartbeat_interval: Duration,
    /// `replica.lag.time.max.ms`.
    pub lag_time_max: Duration,
    /// `replica.fetch.backoff.ms`.
    pub fetch_backoff: Duration,
    /// `replica.fetch.wait.max.ms`.
    pub fetch_wait_max: Duration,
    /// A stop that the controller does not answer ends anyway after this long.
    pub shutdown_wait_max: Duration,
    /// Take no role before the broker's own registration is applied.
    pub waits_for_registration: bool,
}

/// A broker with or without a running process.
#[derive(Debug)]
pub struct Broker {
    id: BrokerId,
    settings: BrokerSettings,
    /// Logs that no process has open.
    disks: BTreeMap<TopicPartition, Disk>,
    /// Epoch in the mark of a clean shutdown.
    mark: Option<BrokerEpoch>,
    process: Option<Process>,
    /// Process starts so far.
    starts: u32,
}

/// One process start.
#[derive(Debug)]
struct Process {
    id: BrokerId,
    settings: BrokerSettings,
    calls: Calls,
    link: ControllerLink,
    epoch: Option<BrokerEpoch>,
    metadata: ClusterMetadata,
    /// What metadata has touched since roles were last taken.
    touched: Touched,
    has_roles: bool,
    unopened: BTreeMap<TopicPartition, Disk>,
    hosted: BTreeMap<TopicPartition, Hosted>,
    closing_at: Option<MonotonicTime>,
    end: Option<End>,
}

/// Why a process ends by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// In an orderly way, with everything flushed and the mark written.
    Clean,
    /// The controller gave it another epoch under its feet.
    EpochChanged,
    /// Something that must never happen.
    Broken(String),
}

/// Numbers calls and requests over all lives of a broker.
#[derive(Debug)]
struct Calls {
    prefix: u64,
    count: u64,
}

impl Calls {
    fn next(&mut self) -> CallId {
        self.count += 1;
        CallId(self.prefix | self.count)
    }
}

/// What a step leaves for the world to do.
#[derive(Debug, Default)]
pub struct BrokerOutbox {
    /// To send.
    pub envelopes: Vec<Envelope>,
    /// Calls that wait for an answer from now on.
    pub calls: Vec<CallId>,
    /// For the partitions' histories.
    pub notes: Vec<(TopicPartition, Note)>,
}

/// Something a history wants to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// An `acks=all` batch was appended by the leader.
    Appended {
        /// Its name.
        id: WriteId,
        /// Offset after its last record.
        end: Offset,
        /// Digest of the log up to there.
        digest: u64,
    },
    /// An `acks=all` batch was answered.
    Answered {
        /// Its name.
        id: WriteId,
        /// With success.
        is_acknowledged: bool,
    },
    /// A client was told the latest offset.
    ToldLatest {
        /// Under this leader epoch.
        epoch: LeaderEpoch,
        /// The offset.
        offset: Offset,
    },
}

impl Broker {
    /// A broker that never ran.
    pub fn new(id: BrokerId, settings: BrokerSettings) -> Broker {
        let disks = BTreeMap::new();
        Broker { id, settings, disks, mark: None, process: None, starts: 0 }
    }

    /// Which.
    pub fn id(&self) -> BrokerId {
        self.id
    }

    /// Whether a process runs.
    pub fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// Process starts so far: names the process at hand.
    pub fn starts(&self) -> u32 {
        self.starts
    }

    /// Metadata as the running process knows it.
    pub fn metadata(&self) -> Option<&ClusterMetadata> {
        self.process.as_ref().map(|process| &process.metadata)
    }

    /// A replica's log, open or not.
    pub fn disk(&self, partition: TopicPartition) -> Option<&Disk> {
        let closed = || match &self.process {
            Some(process) => process.unopened.get(&partition),
            None => self.disks.get(&partition),
        };
        self.replica(partition).map(Replica::disk).or_else(closed)
    }

    /// A replica that the running process has opened.
    pub fn replica(&self, partition: TopicPartition) -> Option<&Replica> {
        Some(self.process.as_ref()?.hosted.get(&partition)?.replica())
    }

    /// Starts a process: it reads and removes the mark first.
    pub fn start(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        self.starts += 1;
        let previous_epoch = self.mark.take();
        let prefix = u64::from(self.id.0.unsigned_abs()) << 52 | u64::from(self.starts) << 32;
        let mut process = Process {
            id: self.id,
            settings: self.settings,
            calls: Calls { prefix, count: 0 },
            link: ControllerLink::new(self.id, self.starts, previous_epoch, self.settings, now),
            epoch: None,
            metadata: ClusterMetadata::default(),
            touched: Touched::default(),
            has_roles: false,
            unopened: std::mem::take(&mut self.disks),
            hosted: BTreeMap::new(),
            closing_at: None,
            end: None,
        };
        process.tick(now, out);
        self.process = Some(process);
    }

    /// Ends the process without warning. The logs keep what the operating system had.
    pub fn kill(&mut self) {
        let Some(process) = self.process.take() else { return };
        self.disks = process.unopened;
        self.disks.extend(process.hosted.into_iter().map(|(id, hosted)| (id, hosted.into_disk())));
    }

    /// Power fails: of each log the first `kept` batches of what was not flushed are left.
    pub fn lose_unflushed(&mut self, mut kept: impl FnMut(usize) -> usize) {
        for disk in self.disks.values_mut() {
            disk.lose_unflushed(kept(disk.unflushed_count()));
        }
    }

    /// How the process wants to end, if it does. The caller then ends it.
    pub fn end(&self) -> Option<&End> {
        self.process.as_ref()?.end.as_ref()
    }

    /// Ends a process that stopped in an orderly way: flushes, then leaves the mark. Returns whether
    /// there is one: a process that has not learnt its epoch has none to leave, and its broker's next
    /// registration counts as unclean.
    pub fn close(&mut self) -> bool {
        let epoch = self.process.as_ref().and_then(|process| process.epoch);
        self.kill();
        for disk in self.disks.values_mut() {
            disk.flush(disk.end());
        }
        self.mark = epoch;
        epoch.is_some()
    }

    /// Asks the process to stop.
    pub fn shut_down(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        if let Some(process) = &mut self.process {
            process.closing_at = Some(now.plus(self.settings.shutdown_wait_max));
            process.link_shut_down(now, out);
            process.settle(now, out);
        }
    }

    /// A message arrives; `committed` is the committed metadata log.
    pub fn receive(
        &mut self,
        now: MonotonicTime,
        (from, message): (Address, Message),
        committed: &[Record],
        out: &mut BrokerOutbox,
    ) {
        if let Some(process) = &mut self.process {
            process.receive(now, (from, message), committed, out);
            process.settle(now, out);
        }
    }

    /// A call will not be answered: its connection is gone.
    pub fn call_lost(&mut self, now: MonotonicTime, call: CallId, out: &mut BrokerOutbox) {
        if let Some(process) = &mut self.process {
            process.call_lost(now, call, out);
            process.settle(now, out);
        }
    }

    /// When the process wants a tick.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        self.process.as_ref().and_then(Process::deadline)
    }

    /// The deadline passed.
    pub fn tick(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        if let Some(process) = &mut self.process {
            process.tick(now, out);
        }
    }

    /// What a flush of this replica would cover.
    pub fn wants_flush(&self, partition: TopicPartition) -> Option<Flush> {
        self.replica(partition).and_then(Replica::wants_flush)
    }

    /// A flush is done.
    pub fn flushed(
        &mut self,
        now: MonotonicTime,
        (partition, flush): (TopicPartition, Flush),
        out: &mut BrokerOutbox,
    ) {
        let Some(process) = &mut self.process else { return };
        let mut effects = Vec::new();
        if let Some(hosted) = process.hosted.get_mut(&partition) {
            hosted.flushed(now, flush, &mut effects);
        }
        process.carry_out(now, partition, effects, out);
        process.settle(now, out);
    }
}

impl Process {
    fn deadline(&self) -> Option<MonotonicTime> {
        if self.end.is_some() {
            return None;
        }
        let hosted = self.hosted.values().filter_map(Hosted::deadline);
        hosted.chain(self.link.deadline()).chain(self.closing_at).min()
    }

    fn tick(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        if self.closing_at.is_some_and(|at| at <= now) {
            self.end = Some(End::Clean);
            return;
        }
        self.link_tick(now, out);
        self.tick_hosted(now, out);
        self.settle(now, out);
    }

    fn receive(
        &mut self,
        now: MonotonicTime,
        (from, message): (Address, Message),
        committed: &[Record],
        out: &mut BrokerOutbox,
    ) {
        match message {
            Message::Answer { call, response } => self.link_answered(now, call, response, out),
            Message::Metadata { end } => self.metadata_committed(now, end, committed, out),
            Message::Produce { call, partition, acks, batch, timeout } => {
                let deadline = now.plus(timeout);
                self.produce(now, (from, call), (partition, acks, batch, deadline), out);
            }
            Message::Fetch { call, partition, fetch, wait } => {
                self.fetch(now, (from, call), (partition, fetch, now.plus(wait)), out);
            }
            Message::Fetched { call, answer, batches } => {
                self.fetched(now, call, answer, &batches, out);
            }
            Message::LogEnds { call, partition } => {
                let result = self.log_ends(partition);
                self.reply(from, Message::LogEndsAre { call, result }, out);
            }
            Message::LogEndsAre { call, result } => self.log_ends_are(now, call, result, out),
            Message::Latest { call, partition } => {
                let result = self.latest(partition, out);
                self.reply(from, Message::LatestIs { call, result }, out);
            }
            Message::AskLogs { query, partitions } => {
                let answer = self.replica_logs(&partitions);
                self.reply(from, Message::LogsAre { query, answer }, out);
            }
            Message::Ask { .. }
            | Message::LogsAre { .. }
            | Message::Produced { .. }
            | Message::LatestIs { .. } => {}
        }
    }

    fn call_lost(&mut self, now: MonotonicTime, call: CallId, out: &mut BrokerOutbox) {
        if !self.link_call_lost(now, call, out) {
            self.hosted_call_lost(now, call, out);
        }
    }

    fn settle(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        if self.end.is_none() {
            self.send_fetches(now, out);
        }
    }

    fn reply(&self, to: Address, message: Message, out: &mut BrokerOutbox) {
        out.envelopes.push(Envelope { from: Address::Broker(self.id), to, message });
    }

    fn call(&self, to: Address, call: CallId, message: Message, out: &mut BrokerOutbox) {
        out.calls.push(call);
        self.reply(to, message, out);
    }
}

//! A partition machine on its disk: gives it inputs, carries out what touches the log, and hands
//! the rest to whoever hosts it (the simulated broker, or the exhaustive model). Holds no rule.

use bytes::{Bytes, BytesMut};

use super::disk::{Batch, Disk};
use crate::protocol::controller::ReplicaLog;
use crate::protocol::partition::{
    BatchSpan, Fetch, FetchAnswer, Fetcher, FollowerFetch, Input, IsrProposal, Output, Partition,
    RequestId, Settings,
};
use crate::record;
use crate::types::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, Offset};

/// Batches of one fetch answer at most: followers come back for more, as with a byte limit.
const FETCH_BATCHES_MAX: usize = 4;

/// What "durable" means to a replica's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Appended is durable, though a power failure may take it.
    PageCache,
    /// Durable is what a flush has put on the disk.
    Synced,
}

/// A flush of the log as it was when the flush began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    end: Offset,
    digest: u64,
}

/// A partition machine and its log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    machine: Partition,
    disk: Disk,
    durability: Durability,
}

/// What an input brought with it, for the outputs that refer to it.
#[derive(Clone, Copy, Debug)]
pub enum Cargo<'a> {
    /// Nothing.
    Nothing,
    /// The batch of [`Input::Produce`], not stamped yet.
    Produced(&'a Bytes),
    /// The batches of [`Input::FetchedFromLeader`].
    Fetched(&'a [Batch]),
}

/// What the host must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Answer a produce.
    Produced {
        /// The request.
        request: RequestId,
        /// As [`Output::AnswerProduce`].
        result: Result<Offset, ErrorCode>,
    },
    /// Answer a fetch.
    Fetched {
        /// The request.
        request: RequestId,
        /// As [`Output::AnswerFetch`].
        answer: FetchAnswer,
        /// What was read.
        batches: Vec<Batch>,
    },
    /// Queue an ISR proposal.
    Propose(IsrProposal),
    /// Fetch from the leader next; replaces an earlier one that has not left.
    Fetch(FollowerFetch),
    /// Ask the leader for its offsets.
    AskLeaderOffsets,
    /// The log was told to end where it cannot: the broker must stop.
    Broken(String),
}

impl Replica {
    /// A machine on what `disk` holds; it has no role yet.
    pub fn open(
        broker: (BrokerId, BrokerEpoch),
        settings: Settings,
        disk: Disk,
        durability: Durability,
    ) -> Replica {
        let machine = Partition::new(broker.0, broker.1, settings, disk.recovered());
        Replica { machine, disk, durability }
    }

    /// The machine.
    pub fn machine(&self) -> &Partition {
        &self.machine
    }

    /// The log.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Where the log ends, as the controller asks for it.
    pub fn log(&self) -> ReplicaLog {
        let end = self.machine.log_end_offset();
        ReplicaLog {
            last_written_leader_epoch: self.machine.leader_epochs().of_last_record(end),
            log_end_offset: end,
            current_leader_epoch: self.machine.leader_epoch(),
        }
    }

    /// The log alone: the process is gone.
    pub fn into_disk(self) -> Disk {
        self.disk
    }

    /// What the next flush would make durable; `None` if it has nothing to do.
    pub fn wants_flush(&self) -> Option<Flush> {
        let end = self.disk.end();
        let digest = self.disk.digest_at(end)?;
        (self.disk.unflushed_count() > 0).then_some(Flush { end, digest })
    }

    /// A flush is done. It says nothing if the log was cut since and holds other records now.
    pub fn flushed(&mut self, now: MonotonicTime, flush: Flush, out: &mut Vec<Effect>) {
        if self.disk.digest_at(flush.end) != Some(flush.digest) {
            return;
        }
        self.disk.flush(flush.end);
        if self.durability == Durability::Synced {
            self.step(now, Input::Durable(flush.end), Cargo::Nothing, out);
        }
    }

    /// Gives the machine one input.
    pub fn step(
        &mut self,
        now: MonotonicTime,
        input: Input,
        cargo: Cargo<'_>,
        out: &mut Vec<Effect>,
    ) {
        self.step_machine(now, input, cargo, out);
        let end = self.disk.end();
        if self.durability == Durability::PageCache && self.machine.durable_offset() < end {
            self.step_machine(now, Input::Durable(end), Cargo::Nothing, out);
        }
    }

    fn step_machine(
        &mut self,
        now: MonotonicTime,
        input: Input,
        cargo: Cargo<'_>,
        out: &mut Vec<Effect>,
    ) {
        let mut outputs = Vec::new();
        self.machine.step(now, input, &mut outputs);
        for output in outputs {
            self.carry_out(output, cargo, out);
        }
        let (log_end, end) = (self.machine.log_end_offset(), self.disk.end());
        if log_end != end {
            out.push(Effect::Broken(format!("machine ends at {log_end}, log at {end}")));
        }
    }

    fn carry_out(&mut self, output: Output, cargo: Cargo<'_>, out: &mut Vec<Effect>) {
        match output {
            Output::Append { base_offset, leader_epoch, .. } => {
                let Cargo::Produced(bytes) = cargo else { return };
                let mut stamped = BytesMut::from(&bytes[..]);
                record::stamp(&mut stamped, base_offset, leader_epoch);
                let end_offset = base_offset.plus(i64::from(record_count(bytes)));
                let span = BatchSpan { base_offset, end_offset, leader_epoch };
                self.disk.append(Batch { span, bytes: stamped.freeze() });
            }
            Output::AppendFetched { count } => {
                let Cargo::Fetched(batches) = cargo else { return };
                batches.iter().take(count).for_each(|batch| self.disk.append(batch.clone()));
            }
            Output::Truncate { to } => {
                if let Err(inside) = self.disk.truncate(to) {
                    out.push(Effect::Broken(inside.to_string()));
                }
            }
            Output::Restart { at } => self.disk.restart(at),
            Output::AnswerProduce { request, result } => {
                out.push(Effect::Produced { request, result });
            }
            Output::AnswerFetch { request, answer } => {
                let batches = self.disk.read(answer.offset, answer.until, FETCH_BATCHES_MAX);
                out.push(Effect::Fetched { request, answer, batches });
            }
            Output::ProposeIsr(proposal) => out.push(Effect::Propose(proposal)),
            Output::FetchFromLeader(fetch) => out.push(Effect::Fetch(fetch)),
            Output::AskLeaderOffsets => out.push(Effect::AskLeaderOffsets),
            // Only pipelined followers acknowledge apart from their fetches; these are classic.
            Output::Acknowledge(_) | Output::HighWatermark(_) | Output::Ignored(_) => {}
        }
    }
}

/// Records in a batch that a producer built; batches here are always well-formed.
pub fn record_count(bytes: &[u8]) -> u32 {
    record::parse_batch(bytes).map_or(0, |header| header.record_count.unsigned_abs())
}

/// What a follower's next fetch says to the leader.
pub fn follower_fetch(id: BrokerId, epoch: Option<BrokerEpoch>, next: &FollowerFetch) -> Fetch {
    Fetch {
        fetcher: Fetcher::Follower { id, epoch, log_start_offset: next.log_start_offset },
        offset: next.offset,
        current_leader_epoch: Some(next.leader_epoch),
        last_fetched_epoch: next.last_fetched_epoch,
        durable_offset: next.durable_offset,
        wants_records: true,
    }
}

/// What a leader's answer to `fetch` says to the follower's machine.
pub fn fetched_input(fetch: &FollowerFetch, answer: &FetchAnswer, batches: &[Batch]) -> Input {
    let request_leader_epoch = fetch.leader_epoch;
    if answer.error != ErrorCode::None {
        return Input::FetchFailed { request_leader_epoch, error: answer.error };
    }
    Input::FetchedFromLeader {
        request_offset: fetch.offset,
        request_leader_epoch,
        batches: batches.iter().map(|batch| batch.span).collect(),
        high_watermark: answer.high_watermark,
        log_start_offset: answer.log_start_offset,
        diverging: answer.diverging,
    }
}

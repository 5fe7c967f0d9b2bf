//! One broker of the simulation: the machine, its records, and what the shell keeps for it.

use std::collections::VecDeque;

use super::controller::Change;
use super::*;

/// A record as stored: who wrote it, in which leader epoch, and the batch it came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) batch: Offset,
    pub(super) value: u64,
}

pub(super) struct Broker {
    pub(super) id: BrokerId,
    pub(super) life: BrokerEpoch,
    pub(super) alive: bool,
    pub(super) partition: Partition,
    pub(super) log: Vec<Record>,
    /// Metadata not yet read, in order.
    pub(super) changes: VecDeque<Change>,
    /// The machine's wish, not sent yet.
    pub(super) next_fetch: Option<FollowerFetch>,
    /// Leader a fetch is in flight to; one at a time per leader.
    pub(super) in_flight: Vec<BrokerId>,
    /// Fetches of others this broker has not answered.
    pub(super) unanswered: Vec<FetchRequest>,
    /// Batches of the response being handled.
    pub(super) fetched: Vec<Record>,
}

/// A follower's fetch as its leader's shell remembers it.
#[derive(Clone, Copy)]
pub(super) struct FetchRequest {
    pub(super) request: RequestId,
    pub(super) from: BrokerId,
    pub(super) life: BrokerEpoch,
    pub(super) fetch: FollowerFetch,
}

impl Broker {
    pub(super) fn new(id: BrokerId, life: BrokerEpoch, settings: Settings) -> Broker {
        Broker {
            id,
            life,
            alive: true,
            partition: Partition::new(id, life, settings, LogState::empty()),
            log: Vec::new(),
            changes: VecDeque::new(),
            next_fetch: None,
            in_flight: Vec::new(),
            unanswered: Vec::new(),
            fetched: Vec::new(),
        }
    }

    /// Dies: of the unsynced tail some prefix survives.
    pub(super) fn kill(&mut self, random: &mut Random) {
        let durable = usize::try_from(self.partition.durable_offset().0).unwrap();
        self.log.truncate(durable + random.below(self.log.len() - durable + 1));
        // A batch that was torn is gone as a whole.
        while self.log.last().is_some_and(|last| self.ends_torn(*last, durable)) {
            self.log.pop();
        }
        self.alive = false;
        self.next_fetch = None;
        self.in_flight.clear();
        self.changes.clear();
    }

    fn ends_torn(&self, last: Record, durable: usize) -> bool {
        let started = usize::try_from(last.batch.0).unwrap();
        self.log.len() > durable && self.log.len() - started < batch_length(last.value)
    }

    /// Starts a new life from what the disk holds.
    pub(super) fn restart(&mut self, life: BrokerEpoch, settings: Settings, random: &mut Random) {
        let end = self.log.len();
        let starts =
            self.log.iter().enumerate().map(|(offset, record)| {
                (record.leader_epoch, Offset(i64::try_from(offset).unwrap()))
            });
        let known = usize::try_from(self.partition.high_watermark().0).unwrap();
        let recovered = LogState {
            log_start_offset: Offset::ZERO,
            log_end_offset: Offset(i64::try_from(end).unwrap()),
            durable_offset: Offset(i64::try_from(end).unwrap()),
            high_watermark: Offset(i64::try_from(random.below(known + 1)).unwrap()),
            epochs: LeaderEpochs::from_entries(starts),
        };
        self.life = life;
        self.alive = true;
        self.partition = Partition::new(self.id, life, settings, recovered);
    }

    pub(super) fn append(&mut self, base: Offset, leader_epoch: LeaderEpoch, value: u64) {
        assert_eq!(self.log.len(), usize::try_from(base.0).unwrap(), "a hole in the log");
        let record = Record { leader_epoch, batch: base, value };
        self.log.extend(std::iter::repeat_n(record, batch_length(value)));
    }

    pub(super) fn append_fetched(&mut self, count: usize) {
        let batches = spans(&self.fetched);
        let end = batches[count - 1].end_offset;
        let start = batches[0].base_offset;
        assert_eq!(self.log.len(), usize::try_from(start.0).unwrap(), "a hole in the log");
        let taken = usize::try_from(end.0 - start.0).unwrap();
        self.log.extend_from_slice(&self.fetched[..taken]);
    }

    /// What a fetch answer carries: whole batches, perhaps not all of them.
    pub(super) fn read(&self, answer: &FetchAnswer, random: &mut Random) -> Vec<Record> {
        let start = usize::try_from(answer.offset.0).unwrap();
        let until = usize::try_from(answer.until.0).unwrap();
        // Of a diverging fetcher the position may lie past this log; the range is empty then.
        let batches = spans(self.log.get(start..until).unwrap_or_default());
        let Some(most) = batches.len().checked_sub(1) else {
            return Vec::new();
        };
        let end = batches[random.below(most + 1)].end_offset;
        self.log[start..usize::try_from(end.0).unwrap()].to_vec()
    }
}

/// Batches of 1 to 3 records; the value tells which.
pub(super) fn batch_length(value: u64) -> usize {
    usize::try_from(value % 3).unwrap() + 1
}

/// The batches `records` consist of.
pub(super) fn spans(records: &[Record]) -> Vec<BatchSpan> {
    let chunks = records.chunk_by(|a, b| a.batch == b.batch);
    let span = |chunk: &[Record]| BatchSpan {
        base_offset: chunk[0].batch,
        end_offset: chunk[0].batch.plus(i64::try_from(chunk.len()).unwrap()),
        leader_epoch: chunk[0].leader_epoch,
    };
    chunks.map(span).collect()
}

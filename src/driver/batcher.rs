//! Makes the batches: takes due records from a partition's load and encodes them.
//!
//! Hot path: no allocation per record; one buffer per batch, which the builder takes back where the
//! batch before it is gone, and its records' intended times.

use bytes::Bytes;

use crate::driver::load::PartitionLoad;
use crate::driver::payload::Payload;
use crate::driver::recorder::BatchFacts;
use crate::measure::clock;
use crate::measure::dues::Dues;
use crate::record::BatchBuilder;
use crate::types::{MonotonicTime, PartitionId};

/// Makes batches for all partitions of a cell.
#[derive(Debug)]
pub struct Batcher {
    payload: Payload,
    builder: BatchBuilder,
    value: Vec<u8>,
    times: Vec<MonotonicTime>,
    /// When the load began: the zero of its schedules.
    began: MonotonicTime,
    /// The wall clock at `began`: record timestamps are for people, so one reading will do.
    began_wall_ms: i64,
}

impl Batcher {
    /// A batcher for a load that begins at `began`.
    pub fn new(payload: Payload, batch_bytes: usize, began: MonotonicTime) -> Batcher {
        Batcher {
            payload,
            builder: BatchBuilder::with_capacity(batch_bytes),
            value: vec![0; payload.value_bytes()],
            times: Vec::new(),
            began,
            began_wall_ms: clock::wall_ms(),
        }
    }

    /// The batch of `partition` that has closed by `now`, if one has, and what is known of it; it
    /// is not sent yet.
    pub fn next(
        &mut self,
        partition: PartitionId,
        load: &mut PartitionLoad,
        now: MonotonicTime,
    ) -> Option<(BatchFacts, Bytes)> {
        let now_ns = now.0.checked_sub(self.began.0)?;
        if load.closes_ns(now_ns)? > now_ns {
            return None;
        }
        self.builder.start(self.began_wall_ms + (now_ns / 1_000_000) as i64);
        let mut first_sequence = None;
        self.times.clear();
        load.take_batch(now_ns, |due| {
            let intended = MonotonicTime(self.began.0 + due.intended_ns);
            first_sequence.get_or_insert(due.sequence);
            self.times.push(intended);
            self.payload.write(due.sequence, intended, &mut self.value);
            self.builder.push(0, None, &self.value);
        });
        let facts = BatchFacts {
            partition,
            first_sequence: first_sequence?,
            value_bytes_each: self.value.len() as u64,
            dues: Dues::of(&self.times)?,
            first_sent: now,
            sent: now,
            attempts: 0,
        };
        Some((facts, self.builder.finish()))
    }
}

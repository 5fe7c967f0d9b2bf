//! Makes the batches: takes due records from a partition's load and encodes them.
//!
//! Hot path: no allocation per record; one buffer per batch, which the builder takes back where the
//! batch before it is gone.

use bytes::Bytes;

use crate::driver::load::PartitionLoad;
use crate::driver::payload::Payload;
use crate::driver::recorder::BatchFacts;
use crate::measure::clock;
use crate::record::BatchBuilder;
use crate::types::{MonotonicTime, PartitionId};

/// Makes batches for all partitions of a cell.
#[derive(Debug)]
pub struct Batcher {
    payload: Payload,
    builder: BatchBuilder,
    value: Vec<u8>,
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
        let mut oldest = None;
        load.take_batch(now_ns, |due| {
            let intended = MonotonicTime(self.began.0 + due.intended_ns);
            oldest.get_or_insert((due.sequence, intended));
            self.payload.write(due.sequence, intended, &mut self.value);
            self.builder.push(0, None, &self.value);
        });
        let (first_sequence, intended) = oldest?;
        let records = self.builder.record_count().unsigned_abs();
        let facts = BatchFacts {
            partition,
            first_sequence,
            records,
            value_bytes: u64::from(records) * self.value.len() as u64,
            intended,
            first_sent: now,
            sent: now,
            attempts: 0,
        };
        Some((facts, self.builder.finish()))
    }
}

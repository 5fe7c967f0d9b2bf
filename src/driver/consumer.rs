//! What the measuring consumer makes of a fetch answer.
//!
//! Leaves the connections to `fetcher`, the match with what was sent to `tracker`, and the times'
//! meaning to `recorder`.
//!
//! Hot path: no allocation per record; only each batch's first record is looked at.

use crate::driver::payload;
use crate::driver::recorder::Recorder;
use crate::driver::tracker::{Received, Tracker};
use crate::engine::ConnectionId;
use crate::record::{self, BatchHeader};
use crate::types::{MonotonicTime, PartitionId};
use crate::wire::FetchPartitionResponse;

/// Takes in one partition's part of an answer: first the high watermark's steps, then the batches.
pub fn take_in(
    recorder: &mut Recorder,
    tracker: &mut Tracker,
    partition: &FetchPartitionResponse,
    seed: u64,
    source: ConnectionId,
    received: MonotonicTime,
) {
    if let Some(told) = partition.high_watermark {
        recorder.high_watermark(partition.partition, source.0, told);
    }
    if let Some(trace) = &partition.trace {
        tracker.trace(trace.clock, &trace.steps);
    }
    for chunk in &partition.records {
        for batch in record::batches(chunk) {
            // What is behind bytes that are no batch is asked for again.
            let Ok((header, range)) = batch else { return };
            let batch = &chunk[range];
            take_in_batch(recorder, tracker, partition.partition, &header, batch, seed, received);
        }
    }
}

fn take_in_batch(
    recorder: &mut Recorder,
    tracker: &mut Tracker,
    partition: PartitionId,
    header: &BatchHeader,
    batch: &[u8],
    seed: u64,
    received_at: MonotonicTime,
) {
    let first = record::records(batch).ok().and_then(|mut records| records.next()?.ok());
    let oldest = first.and_then(|first| payload::parse_header(first.value?).ok());
    let Some(oldest) = oldest.filter(|oldest| oldest.seed == seed) else {
        tracker.skip_to(header.end_offset());
        return;
    };
    let records = header.record_count.unsigned_abs();
    let received = tracker.received(oldest.sequence, header.end_offset());
    if received.is_some() {
        recorder.seen(partition, oldest.sequence, records, header.base_offset);
    }
    let Some(Received { sent: Some(sent), committed }) = received else { return };
    recorder.consumed(&sent.dues, sent.at, received_at);
    if let Some(committed) = committed {
        recorder.committed(&sent.dues, sent.at, committed);
    }
}

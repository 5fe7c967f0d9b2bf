//! This product's own tagged fields, in flexible versions of Produce and Fetch. Peers that do not
//! know them skip them by size; the numbers are far from any that Kafka uses.

use crate::types::{
    BrokerStamps, ClockId, FollowerStamps, HighWatermarkStep, MonotonicTime, Offset,
};

use super::error::Problem;
use super::reader::Reader;
use super::writer::Writer;

/// Produce request: the client wants [`BROKER_STAMPS`] back. No value.
pub(super) const WANTS_STAMPS: u32 = 10_000;
/// Produce response, partition: [`BrokerStamps`].
pub(super) const BROKER_STAMPS: u32 = 10_001;
/// Fetch request, partition: [`FollowerStamps`].
pub(super) const FOLLOWER_STAMPS: u32 = 10_002;
/// Fetch request: the client wants [`HIGH_WATERMARK_TRACE`] back. No value.
pub(super) const TRACE_HIGH_WATERMARK: u32 = 10_003;
/// Fetch response, partition: [`HighWatermarkTrace`].
pub(super) const HIGH_WATERMARK_TRACE: u32 = 10_004;
/// Fetch request, partition: a pipelined follower's durable end, int64. The fetch offset then says
/// what to send, not what is held; with `partition_max_bytes` 0 nothing is to be sent.
pub(super) const DURABLE_OFFSET: u32 = 10_005;

pub(super) const BROKER_STAMPS_BYTES: usize = 12 * 8;
pub(super) const FOLLOWER_STAMPS_BYTES: usize = 4 * 8;
pub(super) const DURABLE_OFFSET_BYTES: usize = 8;
const STEP_BYTES: usize = 16;

/// How the leader's high watermark moved, for consumers that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HighWatermarkTrace {
    /// The clock of the steps.
    pub clock: ClockId,
    /// The steps, oldest first.
    pub steps: Vec<HighWatermarkStep>,
}

pub(super) fn write_broker_stamps(writer: &mut Writer, stamps: &BrokerStamps) {
    writer.tag(BROKER_STAMPS, BROKER_STAMPS_BYTES);
    writer.u64(stamps.clock.0);
    let instants = [
        stamps.received,
        stamps.append_started,
        stamps.appended,
        stamps.durable,
        stamps.follower_served,
        stamps.follower_received,
        stamps.follower_appended,
        stamps.follower_durable,
        stamps.follower_acknowledged,
        stamps.committed,
        stamps.answered,
    ];
    for instant in instants {
        writer.u64(instant.0);
    }
}

pub(super) fn read_broker_stamps(reader: &mut Reader<'_>) -> Result<BrokerStamps, Problem> {
    Ok(BrokerStamps {
        clock: ClockId(reader.u64()?),
        received: instant(reader)?,
        append_started: instant(reader)?,
        appended: instant(reader)?,
        durable: instant(reader)?,
        follower_served: instant(reader)?,
        follower_received: instant(reader)?,
        follower_appended: instant(reader)?,
        follower_durable: instant(reader)?,
        follower_acknowledged: instant(reader)?,
        committed: instant(reader)?,
        answered: instant(reader)?,
    })
}

pub(super) fn write_follower_stamps(writer: &mut Writer, stamps: &FollowerStamps) {
    writer.tag(FOLLOWER_STAMPS, FOLLOWER_STAMPS_BYTES);
    writer.u64(stamps.clock.0);
    for instant in [stamps.received, stamps.appended, stamps.durable] {
        writer.u64(instant.0);
    }
}

pub(super) fn read_follower_stamps(reader: &mut Reader<'_>) -> Result<FollowerStamps, Problem> {
    Ok(FollowerStamps {
        clock: ClockId(reader.u64()?),
        received: instant(reader)?,
        appended: instant(reader)?,
        durable: instant(reader)?,
    })
}

/// Size of the tagged field's value.
pub(super) fn trace_bytes(trace: &HighWatermarkTrace) -> usize {
    8 + STEP_BYTES * trace.steps.len()
}

pub(super) fn write_trace(writer: &mut Writer, trace: &HighWatermarkTrace) {
    writer.tag(HIGH_WATERMARK_TRACE, trace_bytes(trace));
    writer.u64(trace.clock.0);
    for step in &trace.steps {
        writer.i64(step.high_watermark.0);
        writer.u64(step.at.0);
    }
}

/// Reads to the end of the tagged field: the number of steps follows from its size.
pub(super) fn read_trace(reader: &mut Reader<'_>) -> Result<HighWatermarkTrace, Problem> {
    let clock = ClockId(reader.u64()?);
    let count = reader.left() / STEP_BYTES;
    reader.spend(count)?;
    let mut steps = Vec::with_capacity(count);
    for _ in 0..count {
        steps.push(HighWatermarkStep {
            high_watermark: Offset(reader.i64()?),
            at: instant(reader)?,
        });
    }
    Ok(HighWatermarkTrace { clock, steps })
}

fn instant(reader: &mut Reader<'_>) -> Result<MonotonicTime, Problem> {
    reader.u64().map(MonotonicTime)
}

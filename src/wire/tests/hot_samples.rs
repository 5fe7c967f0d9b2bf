//! Samples of Produce and Fetch, with as much in them as the version carries.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use crate::record::BatchBuilder;
use crate::types::{
    BrokerEpoch, BrokerId, BrokerStamps, ClockId, ErrorCode, FollowerStamps, HighWatermarkStep,
    LeaderEpoch, MonotonicTime, Offset, PartitionId, TopicId,
};
use crate::wire::*;

use super::samples::text;

/// A topic reference as decoding gives it.
pub(super) fn topic_ref(version: i16) -> TopicRef {
    if version >= 13 {
        TopicRef { name: StrBytes::new(), id: TopicId([9; 16]) }
    } else {
        TopicRef { name: text("bench"), id: TopicId::ZERO }
    }
}

pub(super) fn batch() -> Bytes {
    let mut builder = BatchBuilder::default();
    builder.start(1_700_000_000_000);
    builder.push(0, Some(b"key"), b"value");
    builder.finish()
}

fn instants(count: u64) -> impl Iterator<Item = MonotonicTime> {
    (1..=count).map(|n| MonotonicTime(n << 40))
}

pub(super) fn broker_stamps() -> BrokerStamps {
    let mut instant = instants(11);
    let mut next = || instant.next().unwrap();
    BrokerStamps {
        clock: ClockId(7),
        received: next(),
        append_started: next(),
        appended: next(),
        durable: next(),
        follower_served: next(),
        follower_received: next(),
        follower_appended: next(),
        follower_durable: next(),
        follower_acknowledged: next(),
        committed: next(),
        answered: next(),
    }
}

pub(super) fn follower_stamps() -> FollowerStamps {
    let [received, appended, durable] = [1, 2, 3].map(MonotonicTime);
    FollowerStamps { clock: ClockId(7), received, appended, durable }
}

pub(in crate::wire) fn produce_request(version: i16) -> ProduceRequest {
    let partition = |index, records| ProducePartition { partition: PartitionId(index), records };
    ProduceRequest {
        transactional_id: Some(text("transaction")),
        acks: -1,
        timeout_ms: 30_000,
        topics: vec![
            ProduceTopic {
                name: text("bench"),
                partitions: vec![partition(0, batch()), partition(1, Bytes::new())],
            },
            ProduceTopic { name: text("second"), partitions: vec![partition(5, batch())] },
            ProduceTopic { name: text("empty"), partitions: vec![] },
        ],
        wants_stamps: version >= 9,
    }
}

pub(in crate::wire) fn produce_response(version: i16) -> ProduceResponse {
    let appended = ProducePartitionResponse {
        partition: PartitionId(0),
        error: ErrorCode::None,
        base_offset: Some(Offset(77)),
        log_start_offset: (version >= 5).then_some(Offset(3)),
        error_message: None,
        current_leader: None,
        stamps: (version >= 9).then(broker_stamps),
    };
    let refused = ProducePartitionResponse {
        partition: PartitionId(1),
        error: ErrorCode::NotLeaderOrFollower,
        base_offset: None,
        log_start_offset: None,
        error_message: (version >= 8).then(|| text("broker 2 leads")),
        current_leader: (version >= 10)
            .then_some(CurrentLeader { id: Some(BrokerId(2)), epoch: LeaderEpoch(4) }),
        stamps: None,
    };
    ProduceResponse {
        topics: vec![ProduceTopicResponse {
            name: text("bench"),
            partitions: vec![appended, refused],
        }],
    }
}

pub(in crate::wire) fn fetch_request(version: i16) -> FetchRequest {
    let partition = FetchPartition {
        partition: PartitionId(3),
        current_leader_epoch: (version >= 9).then_some(LeaderEpoch(4)),
        fetch_offset: Offset(77),
        last_fetched_epoch: (version >= 12).then_some(LeaderEpoch(2)),
        log_start_offset: (version >= 5).then_some(Offset(1)),
        partition_max_bytes: 1 << 20,
        stamps: (version >= 12).then(follower_stamps),
        durable_offset: (version >= 12).then_some(Offset(75)),
    };
    let plain = FetchPartition {
        stamps: None,
        durable_offset: None,
        partition: PartitionId(4),
        ..partition
    };
    FetchRequest {
        cluster_id: (version >= 12).then(|| text("cluster")),
        replica: Some(FetchingReplica {
            id: BrokerId(2),
            epoch: (version >= 15).then_some(BrokerEpoch(12)),
        }),
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 24,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic { topic: topic_ref(version), partitions: vec![partition, plain] }],
        trace_high_watermark: version >= 12,
    }
}

pub(in crate::wire) fn fetch_response(version: i16) -> FetchResponse {
    let idle = FetchPartitionResponse {
        partition: PartitionId(3),
        error: ErrorCode::None,
        high_watermark: Some(Offset(80)),
        log_start_offset: (version >= 5).then_some(Offset(1)),
        diverging: None,
        current_leader: None,
        records: vec![],
        trace: None,
    };
    let step =
        |offset, at| HighWatermarkStep { high_watermark: Offset(offset), at: MonotonicTime(at) };
    let full = FetchPartitionResponse {
        partition: PartitionId(4),
        records: vec![batch()],
        trace: (version >= 12).then(|| HighWatermarkTrace {
            clock: ClockId(7),
            steps: vec![step(78, 1), step(80, 2)],
        }),
        ..idle.clone()
    };
    let fenced = FetchPartitionResponse {
        partition: PartitionId(5),
        error: ErrorCode::FencedLeaderEpoch,
        high_watermark: None,
        log_start_offset: None,
        diverging: (version >= 12).then_some((LeaderEpoch(3), Offset(60))),
        current_leader: (version >= 12)
            .then_some(CurrentLeader { id: None, epoch: LeaderEpoch(5) }),
        ..idle.clone()
    };
    FetchResponse {
        error: ErrorCode::None,
        session_id: 0,
        topics: vec![FetchTopicResponse {
            topic: topic_ref(version),
            partitions: vec![idle, full, fenced],
        }],
    }
}

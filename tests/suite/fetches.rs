//! A fetch of several partitions over TCP.

use ackmark::types::{Acks, DurabilityMode, ErrorCode, Offset, PartitionId, TopicId};
use ackmark::wire::{FetchPartition, FetchRequest, FetchTopic, Request, Response, TopicRef};

use crate::client::{ackmark, ask, produce, wait_for};
use crate::cluster::{Cluster, Shape};

/// The last version that names topics.
const VERSION: i16 = 12;

fn from_the_start(partition: i32) -> FetchPartition {
    FetchPartition {
        partition: PartitionId(partition),
        current_leader_epoch: None,
        fetch_offset: Offset::ZERO,
        last_fetched_epoch: None,
        log_start_offset: None,
        partition_max_bytes: 1 << 20,
        stamps: None,
        durable_offset: None,
    }
}

#[test]
fn what_one_partition_has_waits_for_no_other_whatever_their_order() {
    let cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let leader = cluster.address(1);
    wait_for("a topic of two partitions with one leader", || {
        let create =
            ["topics", "--create", "--topic", "two", "--replica-assignment", "1:2:3,1:2:3"];
        ackmark(&[&create[..], &["--bootstrap", &leader.to_string()]].concat())
            .status
            .success()
            .then_some(())
    });
    wait_for("its leader", || produce(leader, "two", Acks::All, "news").ok());
    for order in [[0, 1], [1, 0]] {
        let request = Request::Fetch(FetchRequest {
            cluster_id: None,
            replica: None,
            // Longer than the client's patience.
            max_wait_ms: 3_600_000,
            min_bytes: 1,
            max_bytes: 1 << 20,
            session_id: 0,
            session_epoch: -1,
            topics: vec![FetchTopic {
                topic: TopicRef { name: "two".to_owned().into(), id: TopicId::ZERO },
                partitions: order.map(from_the_start).to_vec(),
            }],
            trace_high_watermark: false,
        });
        let Some(Response::Fetch(answer)) = ask(leader, VERSION, &request) else {
            panic!("{order:?}: no answer");
        };
        for partition in &answer.topics[0].partitions {
            assert_eq!(partition.error, ErrorCode::None, "{order:?}");
            let has_news = !partition.records.is_empty();
            assert_eq!(has_news, partition.partition == PartitionId(0), "{order:?}");
        }
    }
}

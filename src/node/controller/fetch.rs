//! Metadata Fetch: brokers follow the metadata log with Kafka's long-polled Fetch.
//!
//! The active controller answers; another voter says who it believes is. Only committed records
//! are readable: the high watermark of every answer is how far this voter has applied the log.
//! Source: spec/kafka-wire.md 2.2.
//!
//! Where the log begins with a snapshot there is no second protocol for it. Its records are a log
//! with gaps that ends where the kept entries begin, so a fetch at offset 0 gets all of it, however
//! large, as the batch that Kafka gives even above the limits. A reader that stopped in between the
//! two has nowhere to go on from: OFFSET_OUT_OF_RANGE, start over.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::describe_quorum::Observers;
use super::raft::Quorum;
use crate::types::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId};
use crate::wire::{
    CurrentLeader, FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopic,
    FetchTopicResponse,
};

/// Longest wait of a fetch, whatever it asks for.
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Most bytes of one answer, unless a single batch is larger.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// What connections need to answer fetches.
#[derive(Clone)]
pub(super) struct MetadataReader {
    pub(super) quorum: Quorum,
    /// The epoch of the active controller, while it is this one.
    pub(super) active: watch::Receiver<Option<LeaderEpoch>>,
    pub(super) cluster_id: Rc<str>,
    pub(super) node_id: BrokerId,
    pub(super) observers: Rc<Observers>,
}

impl MetadataReader {
    /// Answers a fetch, waiting for records as long as it asks for.
    pub(super) async fn answer(&self, request: &FetchRequest) -> FetchResponse {
        let asked = match self.only_partition(request) {
            Ok(asked) => asked,
            Err(error) => return FetchResponse { error, session_id: 0, topics: vec![] },
        };
        let records = match self.check(asked.0, asked.1) {
            Ok(epoch) => {
                if let Some(replica) = request.replica {
                    self.observers.fetched(replica.id, asked.1.fetch_offset);
                }
                self.records(request, asked.1, epoch).await
            }
            Err(error) => Err(error),
        };
        self.response(asked.0, asked.1.partition, records)
    }

    fn only_partition<'a>(
        &self,
        request: &'a FetchRequest,
    ) -> Result<(&'a FetchTopic, &'a FetchPartition), ErrorCode> {
        if request.cluster_id.as_ref().is_some_and(|id| id.as_str() != &*self.cluster_id) {
            return Err(ErrorCode::InconsistentClusterId);
        }
        if request.replica.is_some_and(|replica| replica.id == self.node_id) {
            return Err(ErrorCode::UnknownServerError);
        }
        let [topic] = request.topics.as_slice() else { return Err(ErrorCode::InvalidRequest) };
        let [partition] = topic.partitions.as_slice() else {
            return Err(ErrorCode::InvalidRequest);
        };
        Ok((topic, partition))
    }

    /// The epoch under which this controller is active.
    fn check(&self, topic: &FetchTopic, asked: &FetchPartition) -> Result<LeaderEpoch, ErrorCode> {
        if topic.topic.id != TopicId::METADATA {
            return Err(ErrorCode::UnknownTopicId);
        }
        if asked.partition != PartitionId(0) {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        let epoch = (*self.active.borrow()).ok_or(ErrorCode::NotLeaderOrFollower)?;
        match asked.current_leader_epoch {
            Some(believed) if believed < epoch => return Err(ErrorCode::FencedLeaderEpoch),
            Some(believed) if believed > epoch => return Err(ErrorCode::UnknownLeaderEpoch),
            Some(_) | None => {}
        }
        let start = self.quorum.voter.log.borrow().start_offset();
        let is_kept = asked.fetch_offset == Offset::ZERO || asked.fetch_offset >= start;
        if !is_kept || asked.fetch_offset > self.committed() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        Ok(epoch)
    }

    async fn records(
        &self,
        request: &FetchRequest,
        asked: &FetchPartition,
        epoch: LeaderEpoch,
    ) -> Result<Bytes, ErrorCode> {
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        let mut applied = self.quorum.voter.applied.subscribe();
        let mut active = self.active.clone();
        if request.min_bytes > 0 {
            let moved = async {
                tokio::select! {
                    _ = applied.wait_for(|applied| applied.end_offset > asked.fetch_offset) => {}
                    _ = active.wait_for(|active| *active != Some(epoch)) => {}
                }
            };
            // Neither the end of the wait nor of the process changes what is readable now.
            let _ = tokio::time::timeout(wait.min(WAIT_MAX), moved).await;
        }
        if *self.active.borrow() != Some(epoch) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let log = self.quorum.voter.log.borrow();
        if asked.fetch_offset < log.start_offset() {
            // Only the whole snapshot is a state; entries may have been dropped during the wait.
            let is_whole = asked.fetch_offset == Offset::ZERO;
            let records = is_whole.then(|| self.quorum.snapshot_records());
            return records.ok_or(ErrorCode::OffsetOutOfRange);
        }
        let bytes_max = request.max_bytes.min(asked.partition_max_bytes);
        let bytes_max = usize::try_from(bytes_max).unwrap_or(0).min(ANSWER_BYTES_MAX);
        Ok(log.read(asked.fetch_offset, self.committed(), bytes_max))
    }

    fn response(
        &self,
        topic: &FetchTopic,
        partition: PartitionId,
        records: Result<Bytes, ErrorCode>,
    ) -> FetchResponse {
        let error = records.as_ref().err().copied().unwrap_or(ErrorCode::None);
        let is_stale = matches!(
            error,
            ErrorCode::FencedLeaderEpoch
                | ErrorCode::UnknownLeaderEpoch
                | ErrorCode::NotLeaderOrFollower
        );
        let (id, epoch) = match *self.active.borrow() {
            Some(epoch) => (Some(self.node_id), epoch),
            None => self.quorum.leader(),
        };
        let partition = FetchPartitionResponse {
            partition,
            error,
            high_watermark: Some(self.committed()),
            log_start_offset: Some(Offset::ZERO),
            diverging: None,
            current_leader: is_stale.then_some(CurrentLeader { id, epoch }),
            records: vec![records.unwrap_or_default()],
            trace: None,
        };
        let topics =
            vec![FetchTopicResponse { topic: topic.topic.clone(), partitions: vec![partition] }];
        FetchResponse { error: ErrorCode::None, session_id: 0, topics }
    }

    fn committed(&self) -> Offset {
        self.quorum.voter.applied.borrow().end_offset
    }
}

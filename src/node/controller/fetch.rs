//! Metadata Fetch: brokers follow the metadata log with Kafka's long-polled Fetch.
//!
//! Only synced records are readable, and with one voter synced is committed: the high watermark of
//! every answer is the log's end. Source: spec/kafka-wire.md 2.2.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::metadata_log::{MetadataLog, MetadataLogError};
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
#[derive(Clone, Debug)]
pub(super) struct MetadataReader {
    pub(super) log: Rc<RefCell<MetadataLog>>,
    /// End of the committed records; changes wake waiting fetches.
    pub(super) committed: watch::Receiver<Offset>,
    pub(super) cluster_id: Rc<str>,
    pub(super) node_id: BrokerId,
}

impl MetadataReader {
    /// Answers a fetch, waiting for records as long as it asks for.
    ///
    /// # Errors
    /// The log cannot be read.
    pub(super) async fn answer(
        &self,
        request: &FetchRequest,
    ) -> Result<FetchResponse, MetadataLogError> {
        let asked = match self.only_partition(request) {
            Ok(asked) => asked,
            Err(error) => return Ok(FetchResponse { error, session_id: 0, topics: vec![] }),
        };
        let error = self.check(asked.0, asked.1);
        let records = match error {
            ErrorCode::None => self.records(request, asked.1).await?,
            _ => Bytes::new(),
        };
        Ok(self.response(asked.0, asked.1.partition, error, records))
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

    fn check(&self, topic: &FetchTopic, asked: &FetchPartition) -> ErrorCode {
        if topic.topic.id != TopicId::METADATA {
            return ErrorCode::UnknownTopicId;
        }
        if asked.partition != PartitionId(0) {
            return ErrorCode::UnknownTopicOrPartition;
        }
        let (epoch, end) = (self.epoch(), *self.committed.borrow());
        match asked.current_leader_epoch {
            Some(believed) if believed < epoch => return ErrorCode::FencedLeaderEpoch,
            Some(believed) if believed > epoch => return ErrorCode::UnknownLeaderEpoch,
            Some(_) | None => {}
        }
        if asked.fetch_offset < Offset::ZERO || asked.fetch_offset > end {
            return ErrorCode::OffsetOutOfRange;
        }
        ErrorCode::None
    }

    async fn records(
        &self,
        request: &FetchRequest,
        asked: &FetchPartition,
    ) -> Result<Bytes, MetadataLogError> {
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        let mut committed = self.committed.clone();
        if request.min_bytes > 0 {
            let moved = committed.wait_for(|&end| end > asked.fetch_offset);
            // Neither the end of the wait nor of the process changes what is readable now.
            let _ = tokio::time::timeout(wait.min(WAIT_MAX), moved).await;
        }
        let bytes_max = request.max_bytes.min(asked.partition_max_bytes);
        let bytes_max = usize::try_from(bytes_max).unwrap_or(0).min(ANSWER_BYTES_MAX);
        self.log.borrow().read(asked.fetch_offset, bytes_max)
    }

    fn response(
        &self,
        topic: &FetchTopic,
        partition: PartitionId,
        error: ErrorCode,
        records: Bytes,
    ) -> FetchResponse {
        let leader = CurrentLeader { id: Some(self.node_id), epoch: self.epoch() };
        let stale = matches!(error, ErrorCode::FencedLeaderEpoch | ErrorCode::UnknownLeaderEpoch);
        let partition = FetchPartitionResponse {
            partition,
            error,
            high_watermark: Some(*self.committed.borrow()),
            log_start_offset: Some(Offset::ZERO),
            diverging: None,
            current_leader: stale.then_some(leader),
            records: vec![records],
            trace: None,
        };
        let topics =
            vec![FetchTopicResponse { topic: topic.topic.clone(), partitions: vec![partition] }];
        FetchResponse { error: ErrorCode::None, session_id: 0, topics }
    }

    fn epoch(&self) -> LeaderEpoch {
        self.log.borrow().epoch()
    }
}

//! The ends of a leader's log, asked for after OFFSET_OUT_OF_RANGE: log start first, then log end, on
//! the connection that fetches otherwise use. What to make of them is the machine's.

use bytes::Bytes;
use kafka_protocol::messages::ListOffsetsRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};

use super::fetchers::Asked;
use super::shard::Shard;
use crate::engine::{ConnectionId, Io};
use crate::protocol::partition::{FollowerFetch, Input};
use crate::types::{BrokerId, ErrorCode, MonotonicTime, Offset};
use crate::wire::{self, ApiKey, Request, Response};

const LIST_OFFSETS_VERSION: i16 = 7;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

impl Shard {
    pub(super) fn replica_asking_offsets(&self, leader: BrokerId) -> Option<usize> {
        let followed = self.fetchers.followed(leader);
        let asks =
            |slot: &&usize| self.replicas.get(**slot).is_some_and(|r| r.wants_leader_offsets);
        followed.iter().find(asks).copied()
    }

    pub(super) fn ask_offsets(
        &mut self,
        io: &mut dyn Io,
        leader: BrokerId,
        connection: ConnectionId,
        slot: usize,
    ) {
        let Some(replica) = self.replicas.get_mut(slot) else { return };
        replica.wants_leader_offsets = false;
        let Some(leader_epoch) = replica.machine.leader_epoch() else { return };
        let fetch = FollowerFetch {
            leader,
            leader_epoch,
            offset: replica.machine.log_end_offset(),
            durable_offset: None,
            last_fetched_epoch: None,
            log_start_offset: replica.machine.log_start_offset(),
            not_before: MonotonicTime::ZERO,
        };
        self.ask_offset(io, leader, connection, (slot, fetch), EARLIEST, None);
    }

    fn ask_offset(
        &mut self,
        io: &mut dyn Io,
        leader: BrokerId,
        connection: ConnectionId,
        asking: (usize, FollowerFetch),
        timestamp: i64,
        start: Option<Offset>,
    ) {
        let (slot, fetch) = asking;
        let Some(id) = self.replicas.get(slot).map(|replica| replica.id) else { return };
        let Some(name) = self.metadata.topic(id.topic).map(|topic| topic.name.clone()) else {
            return;
        };
        let partition = ListOffsetsPartition::default()
            .with_partition_index(id.partition.0)
            .with_current_leader_epoch(fetch.leader_epoch.0)
            .with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default()
            .with_name(kafka_protocol::messages::TopicName(name.into()))
            .with_partitions(vec![partition]);
        let request = ListOffsetsRequest::default()
            .with_replica_id(self.config.node_id.0.into())
            .with_topics(vec![topic]);
        let request = Request::ListOffsets(request);
        let frame = wire::encode_request(0, &self.client_id, LIST_OFFSETS_VERSION, &request);
        self.fetchers.asked(leader, Asked::Offset(asking, start));
        match frame {
            Ok(frame) => io.send(connection, frame, &[]),
            Err(_) => self.give_up_on(io, connection),
        }
    }

    pub(super) fn offset_found(
        &mut self,
        io: &mut dyn Io,
        leader: BrokerId,
        connection: ConnectionId,
        asking: (usize, FollowerFetch),
        start: Option<Offset>,
        found: Option<(ErrorCode, Offset)>,
    ) {
        let (slot, fetch) = asking;
        match (found, start) {
            (Some((ErrorCode::None, offset)), None) => {
                self.ask_offset(io, leader, connection, asking, LATEST, Some(offset));
            }
            (Some((ErrorCode::None, log_end_offset)), Some(log_start_offset)) => {
                self.step(io, slot, Input::LeaderOffsets { log_start_offset, log_end_offset });
            }
            (failed, _) => {
                let error = failed.map_or(ErrorCode::UnknownServerError, |(error, _)| error);
                let request_leader_epoch = fetch.leader_epoch;
                self.step(io, slot, Input::FetchFailed { request_leader_epoch, error });
            }
        }
    }
}

/// The offset, or why there is none; the outer `None` if the bytes make no sense.
pub(super) fn offset_answer(frame: Bytes) -> Option<Option<(ErrorCode, Offset)>> {
    let response = wire::parse_response(ApiKey::ListOffsets, LIST_OFFSETS_VERSION, frame);
    let Ok((_, Response::ListOffsets(response))) = response else { return None };
    let answer = response.topics.first().and_then(|topic| topic.partitions.first());
    Some(answer.map(|a| (ErrorCode::from_code(a.error_code), Offset(a.offset))))
}

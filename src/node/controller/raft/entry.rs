//! Raft entries to record batches and back.
//!
//! A batch of metadata records was decided by an active controller against the end of its log, under
//! its epoch, and carries both. The leader's own log takes it only if both still hold; otherwise the
//! entry becomes a blank one. So no entry of any voter's log was decided against anything but the
//! records before it, and its offsets follow from the log alone: nothing is applied twice or skipped
//! when a leader is deposed with writes under way and elected again.

use bytes::Bytes;
use openraft::{EntryPayload, Membership};
use serde::{Deserialize, Serialize};

use super::{Entry, LogId, Node, NodeId};
use crate::node::controller::metadata_log::{EntryId, LogEntry, MetadataLogError};
use crate::record::{BatchBuilder, parse_batch, records, stamp};
use crate::types::{LeaderEpoch, Offset};

/// Types of control records, in Kafka's key format (version, type); Kafka's own end far below.
const BLANK: i16 = 1000;
const MEMBERSHIP: i16 = 1001;
pub(super) const SNAPSHOT_HEADER: i16 = 1002;

/// One batch of metadata records, stamped with the offset and epoch it was decided at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::node::controller) struct MetadataBatch(pub(in crate::node::controller) Bytes);

/// The batch that stands for `entry` in a log that ends at `end`.
pub(super) fn to_batch(entry: Entry, end: Offset) -> Bytes {
    let epoch = epoch(entry.log_id.leader_id.term);
    match entry.payload {
        EntryPayload::Normal(MetadataBatch(batch)) if is_decided_at(&batch, end, epoch) => batch,
        EntryPayload::Normal(_) | EntryPayload::Blank => control_batch(BLANK, &[], end, epoch),
        EntryPayload::Membership(membership) => {
            let value = postcard::to_stdvec(&membership).unwrap_or_default();
            control_batch(MEMBERSHIP, &value, end, epoch)
        }
    }
}

/// The entry that a batch stands for; `None` if it is a control batch of a kind we do not write.
pub(super) fn from_log(found: &LogEntry) -> Option<Entry> {
    let payload = if found.is_control {
        match control_record(&found.batch)? {
            (BLANK, _) => EntryPayload::Blank,
            (MEMBERSHIP, value) => {
                let membership: Membership<NodeId, Node> = postcard::from_bytes(&value).ok()?;
                EntryPayload::Membership(membership)
            }
            _ => return None,
        }
    } else {
        EntryPayload::Normal(MetadataBatch(found.batch.clone()))
    };
    Some(Entry { log_id: log_id(found.id), payload })
}

/// As [`from_log`], for a log that this process has read or written itself.
pub(super) fn understood(found: &LogEntry) -> Result<Entry, MetadataLogError> {
    let foreign = || MetadataLogError::Foreign {
        path: format!("entry {}", found.id.index).into(),
        what: "control record",
    };
    from_log(found).ok_or_else(foreign)
}

/// A control batch with one record; it takes no offset.
pub(super) fn control_batch(kind: i16, value: &[u8], at: Offset, epoch: LeaderEpoch) -> Bytes {
    let mut builder = BatchBuilder::default();
    builder.start(0);
    let key = [0i16.to_be_bytes(), kind.to_be_bytes()].concat();
    builder.push(0, Some(&key), value);
    let mut batch = builder.finish_control().to_vec();
    stamp(&mut batch, at, epoch);
    Bytes::from(batch)
}

/// Type and value of a control batch's record.
pub(super) fn control_record(batch: &Bytes) -> Option<(i16, Bytes)> {
    let record = records(batch).ok()?.next()?.ok()?;
    let [0, 0, high, low] = record.key? else { return None };
    Some((i16::from_be_bytes([*high, *low]), batch.slice_ref(record.value?)))
}

/// Terms count elections and stay far below 2^31.
pub(super) fn epoch(term: u64) -> LeaderEpoch {
    LeaderEpoch(i32::try_from(term).unwrap_or(i32::MAX))
}

pub(super) fn log_id(id: EntryId) -> LogId {
    let term = u64::try_from(id.epoch.0).unwrap_or(0);
    LogId::new(super::CommittedLeaderId::new(term, NodeId::default()), id.index)
}

pub(super) fn entry_id(id: &LogId) -> EntryId {
    EntryId { epoch: epoch(id.leader_id.term), index: id.index }
}

fn is_decided_at(batch: &Bytes, end: Offset, epoch: LeaderEpoch) -> bool {
    parse_batch(batch).is_ok_and(|header| {
        header.base_offset == end && header.leader_epoch == epoch && !header.is_control()
    })
}

//! Fields that more than one hand-written codec has.

use crate::types::{BrokerId, LeaderEpoch, Offset};

use super::error::Problem;
use super::reader::Reader;
use super::writer::Writer;

/// A partition's leader, told with an error so that the client need not ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CurrentLeader {
    /// The leader; `None` if there is none.
    pub id: Option<BrokerId>,
    /// Its epoch.
    pub epoch: LeaderEpoch,
}

/// Size of a leader and its epoch with an empty section of tagged fields.
pub(super) const CURRENT_LEADER_BYTES: usize = 9;

pub(super) fn write_current_leader(writer: &mut Writer, leader: CurrentLeader) {
    writer.i32(leader.id.map_or(-1, |id| id.0));
    writer.i32(leader.epoch.0);
    writer.tag_count(0);
}

/// A leader of unknown epoch is none at all.
pub(super) fn read_current_leader(
    reader: &mut Reader<'_>,
) -> Result<Option<CurrentLeader>, Problem> {
    let id = reader.i32()?;
    let epoch = reader.i32()?;
    reader.skip_tags()?;
    let id = (id >= 0).then_some(BrokerId(id));
    Ok((epoch >= 0).then_some(CurrentLeader { id, epoch: LeaderEpoch(epoch) }))
}

/// -1 on the wire is no offset.
pub(super) fn some_offset(offset: i64) -> Option<Offset> {
    (offset >= 0).then_some(Offset(offset))
}

pub(super) fn offset_or_none(offset: Option<Offset>) -> i64 {
    offset.map_or(-1, |offset| offset.0)
}

//! Partition (api 3) and PartitionChange (api 5).

use crate::protocol::metadata::{DirectoryId, Partition, PartitionChange};
use crate::types::{BrokerId, LeaderEpoch, PartitionEpoch, PartitionId, TopicId, TopicPartition};

use super::{array_bytes, brokers, directories, write_brokers, write_directories};
use crate::wire::error::Problem;
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;

const RECOVERY_STATE: u32 = 0;
const ELR: u32 = 1;
const LAST_KNOWN_ELR: u32 = 2;

const CHANGE_ISR: u32 = 0;
const CHANGE_LEADER: u32 = 1;
const CHANGE_REPLICAS: u32 = 2;
const CHANGE_REMOVING: u32 = 3;
const CHANGE_ADDING: u32 = 4;
const CHANGE_RECOVERY_STATE: u32 = 5;
const CHANGE_ELR: u32 = 6;
const CHANGE_LAST_KNOWN_ELR: u32 = 7;
const CHANGE_DIRECTORIES: u32 = 8;

const NO_LEADER: i32 = -1;
const LEADER_UNCHANGED: i32 = -2;
const RECOVERED: i8 = 0;
const RECOVERING: i8 = 1;
const RECOVERY_UNCHANGED: i8 = -1;

pub(super) fn write(writer: &mut Writer, record: &Partition) {
    write_id(writer, record.id);
    write_brokers(writer, &record.replicas);
    write_brokers(writer, &record.isr);
    write_brokers(writer, &record.removing);
    write_brokers(writer, &record.adding);
    writer.i32(record.leader.map_or(NO_LEADER, |leader| leader.0));
    writer.i32(record.leader_epoch.0);
    writer.i32(record.partition_epoch.0);
    write_directories(writer, &record.directories);
    let elrs = [(ELR, &record.elr), (LAST_KNOWN_ELR, &record.last_known_elr)];
    let elrs = elrs.into_iter().filter(|(_, brokers)| !brokers.is_empty());
    writer.tag_count(usize::from(record.recovering) + elrs.clone().count());
    if record.recovering {
        writer.tag(RECOVERY_STATE, 1);
        writer.i8(RECOVERING);
    }
    for (tag, brokers) in elrs {
        write_brokers_tag(writer, tag, brokers);
    }
}

pub(super) fn read(reader: &mut Reader<'_>, version: u32) -> Result<Partition, Problem> {
    let mut record = Partition {
        id: read_id(reader)?,
        replicas: brokers(reader)?,
        isr: brokers(reader)?,
        removing: brokers(reader)?,
        adding: brokers(reader)?,
        leader: read_leader(reader)?,
        leader_epoch: LeaderEpoch(reader.i32()?),
        partition_epoch: PartitionEpoch(reader.i32()?),
        directories: if version >= 1 { directories(reader)? } else { Vec::new() },
        elr: Vec::new(),
        last_known_elr: Vec::new(),
        recovering: false,
    };
    reader.tags(|tag, reader| {
        match tag {
            RECOVERY_STATE => record.recovering = read_recovery_state(reader)? == Some(true),
            ELR => record.elr = nullable_brokers(reader)?.unwrap_or_default(),
            LAST_KNOWN_ELR => {
                record.last_known_elr = nullable_brokers(reader)?.unwrap_or_default();
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(record)
}

pub(super) fn write_change(writer: &mut Writer, record: &PartitionChange) {
    write_id(writer, record.id);
    // In the order of their tags.
    let before = [(CHANGE_ISR, &record.isr)];
    let between = [
        (CHANGE_REPLICAS, &record.replicas),
        (CHANGE_REMOVING, &record.removing),
        (CHANGE_ADDING, &record.adding),
    ];
    let after = [(CHANGE_ELR, &record.elr), (CHANGE_LAST_KNOWN_ELR, &record.last_known_elr)];
    let lists = before.iter().chain(&between).chain(&after);
    let count = lists.filter(|(_, brokers)| brokers.is_some()).count()
        + usize::from(record.leader.is_some())
        + usize::from(record.recovering.is_some())
        + usize::from(record.directories.is_some());
    writer.tag_count(count);
    write_brokers_tags(writer, &before);
    if let Some(leader) = record.leader {
        writer.tag(CHANGE_LEADER, 4);
        writer.i32(leader.map_or(NO_LEADER, |leader| leader.0));
    }
    write_brokers_tags(writer, &between);
    if let Some(recovering) = record.recovering {
        writer.tag(CHANGE_RECOVERY_STATE, 1);
        writer.i8(if recovering { RECOVERING } else { RECOVERED });
    }
    write_brokers_tags(writer, &after);
    if let Some(directories) = &record.directories {
        writer.tag(CHANGE_DIRECTORIES, array_bytes(directories.len(), 16));
        write_directories(writer, directories);
    }
}

pub(super) fn read_change(reader: &mut Reader<'_>) -> Result<PartitionChange, Problem> {
    let mut record = PartitionChange::none(read_id(reader)?);
    reader.tags(|tag, reader| {
        match tag {
            CHANGE_ISR => record.isr = nullable_brokers(reader)?,
            CHANGE_LEADER => record.leader = read_changed_leader(reader)?,
            CHANGE_REPLICAS => record.replicas = nullable_brokers(reader)?,
            CHANGE_REMOVING => record.removing = nullable_brokers(reader)?,
            CHANGE_ADDING => record.adding = nullable_brokers(reader)?,
            CHANGE_RECOVERY_STATE => record.recovering = read_recovery_state(reader)?,
            CHANGE_ELR => record.elr = nullable_brokers(reader)?,
            CHANGE_LAST_KNOWN_ELR => record.last_known_elr = nullable_brokers(reader)?,
            CHANGE_DIRECTORIES => record.directories = nullable_directories(reader)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(record)
}

fn write_id(writer: &mut Writer, id: TopicPartition) {
    writer.i32(id.partition.0);
    writer.uuid(&id.topic.0);
}

fn read_id(reader: &mut Reader<'_>) -> Result<TopicPartition, Problem> {
    let partition = PartitionId(reader.i32()?);
    Ok(TopicPartition { topic: TopicId(reader.uuid()?), partition })
}

fn write_brokers_tags(writer: &mut Writer, lists: &[(u32, &Option<Vec<BrokerId>>)]) {
    for (tag, brokers) in lists {
        if let Some(brokers) = brokers {
            write_brokers_tag(writer, *tag, brokers);
        }
    }
}

fn write_brokers_tag(writer: &mut Writer, tag: u32, brokers: &[BrokerId]) {
    writer.tag(tag, array_bytes(brokers.len(), 4));
    write_brokers(writer, brokers);
}

fn nullable_brokers(reader: &mut Reader<'_>) -> Result<Option<Vec<BrokerId>>, Problem> {
    reader.nullable_array_of(4, |reader| reader.i32().map(BrokerId))
}

fn nullable_directories(reader: &mut Reader<'_>) -> Result<Option<Vec<DirectoryId>>, Problem> {
    reader.nullable_array_of(16, |reader| reader.uuid().map(DirectoryId))
}

fn read_leader(reader: &mut Reader<'_>) -> Result<Option<BrokerId>, Problem> {
    match reader.i32()? {
        NO_LEADER => Ok(None),
        id if id >= 0 => Ok(Some(BrokerId(id))),
        other => Err(Problem::Value { field: "leader", value: i64::from(other) }),
    }
}

fn read_changed_leader(reader: &mut Reader<'_>) -> Result<Option<Option<BrokerId>>, Problem> {
    match reader.i32()? {
        LEADER_UNCHANGED => Ok(None),
        NO_LEADER => Ok(Some(None)),
        id if id >= 0 => Ok(Some(Some(BrokerId(id)))),
        other => Err(Problem::Value { field: "leader", value: i64::from(other) }),
    }
}

fn read_recovery_state(reader: &mut Reader<'_>) -> Result<Option<bool>, Problem> {
    match reader.i8()? {
        RECOVERY_UNCHANGED => Ok(None),
        RECOVERED => Ok(Some(false)),
        RECOVERING => Ok(Some(true)),
        other => Err(Problem::Value { field: "leader recovery state", value: i64::from(other) }),
    }
}

//! Metadata records: the values of the metadata log's records, as Kafka writes them.
//!
//! A value is: frame version 1, api key, record version (unsigned varints), then a body in flexible
//! encoding. Older record versions are read; the newest is written. Fields: spec/kip966.md 2.12.

mod partition;
mod registration;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;
use thiserror::Error;

use crate::protocol::metadata::{ConfigResource, DirectoryId, Record};
use crate::types::{BrokerEpoch, BrokerId, TopicId};

use super::error::Problem;
use super::reader::Reader;
use super::writer::Writer;

/// The only frame version there is. (A comment in Kafka says 0, its code writes 1.)
const FRAME_VERSION: u32 = 1;

const RESOURCE_TOPIC: i8 = 2;
const RESOURCE_BROKER: i8 = 4;

/// Why bytes are no metadata record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MetadataRecordError {
    /// Written in a way this product does not know.
    #[error("metadata record frame version {0}: only 1 is known")]
    FrameVersion(u32),
    /// A record this product does not apply.
    #[error("metadata record of unknown api key {0}")]
    UnknownApi(u32),
    /// A newer version of a known record.
    #[error("metadata record {api} version {version}: 0 to {version_max} are known")]
    UnknownVersion {
        /// Its api key.
        api: u32,
        /// As found.
        version: u32,
        /// The newest known.
        version_max: u32,
    },
    /// The bytes break the schema.
    #[error("metadata record, byte {at}: {problem}")]
    Malformed {
        /// Where in the value.
        at: usize,
        /// What is wrong.
        problem: Problem,
    },
}

/// Api key and newest version of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Api {
    RegisterBroker,
    UnregisterBroker,
    Topic,
    Partition,
    Config,
    PartitionChange,
    RemoveTopic,
    FeatureLevel,
    ProducerIds,
    BrokerRegistrationChange,
    ClearElr,
}

impl Api {
    const ALL: [Api; 11] = [
        Api::RegisterBroker,
        Api::UnregisterBroker,
        Api::Topic,
        Api::Partition,
        Api::Config,
        Api::PartitionChange,
        Api::RemoveTopic,
        Api::FeatureLevel,
        Api::ProducerIds,
        Api::BrokerRegistrationChange,
        Api::ClearElr,
    ];

    fn code(self) -> u32 {
        match self {
            Api::RegisterBroker => 0,
            Api::UnregisterBroker => 1,
            Api::Topic => 2,
            Api::Partition => 3,
            Api::Config => 4,
            Api::PartitionChange => 5,
            Api::RemoveTopic => 9,
            Api::FeatureLevel => 12,
            Api::ProducerIds => 15,
            Api::BrokerRegistrationChange => 17,
            Api::ClearElr => 28,
        }
    }

    fn version_max(self) -> u32 {
        match self {
            Api::RegisterBroker => 3,
            Api::Partition | Api::PartitionChange | Api::BrokerRegistrationChange => 2,
            _ => 0,
        }
    }

    fn of(record: &Record) -> Api {
        match record {
            Record::RegisterBroker(_) => Api::RegisterBroker,
            Record::UnregisterBroker { .. } => Api::UnregisterBroker,
            Record::Topic { .. } => Api::Topic,
            Record::Partition(_) => Api::Partition,
            Record::Config { .. } => Api::Config,
            Record::PartitionChange(_) => Api::PartitionChange,
            Record::RemoveTopic { .. } => Api::RemoveTopic,
            Record::FeatureLevel { .. } => Api::FeatureLevel,
            Record::ProducerIds { .. } => Api::ProducerIds,
            Record::BrokerRegistrationChange(_) => Api::BrokerRegistrationChange,
            Record::ClearElr { .. } => Api::ClearElr,
        }
    }
}

/// The value of the log record that holds `record`.
///
/// A change of log directories to an empty list reads back as no change: the schema has no
/// difference.
pub fn encode_metadata_record(record: &Record) -> Bytes {
    let api = Api::of(record);
    let mut writer = Writer::new(true, 128, 0);
    writer.unsigned_varint(FRAME_VERSION);
    writer.unsigned_varint(api.code());
    writer.unsigned_varint(api.version_max());
    match record {
        Record::RegisterBroker(record) => return finish(writer, record, registration::write),
        Record::BrokerRegistrationChange(record) => {
            return finish(writer, record, registration::write_change);
        }
        Record::Partition(record) => return finish(writer, record, partition::write),
        Record::PartitionChange(record) => return finish(writer, record, partition::write_change),
        Record::UnregisterBroker { broker, epoch } => {
            writer.i32(broker.0);
            writer.i64(epoch.0);
        }
        Record::Topic { name, id } => {
            writer.string(name);
            writer.uuid(&id.0);
        }
        Record::Config { resource, name, value } => {
            write_resource(&mut writer, resource);
            writer.string(name);
            writer.nullable_string(value.as_deref());
        }
        Record::RemoveTopic { id } => writer.uuid(&id.0),
        Record::FeatureLevel { name, level } => {
            writer.string(name);
            writer.i16(*level);
        }
        Record::ProducerIds { broker, epoch, next_producer_id } => {
            writer.i32(broker.0);
            writer.i64(epoch.0);
            writer.i64(*next_producer_id);
        }
        Record::ClearElr { topic } => writer.string(topic.as_deref().unwrap_or_default()),
    }
    writer.tag_count(0);
    writer.into_bytes()
}

fn finish<T>(mut writer: Writer, record: &T, write: impl FnOnce(&mut Writer, &T)) -> Bytes {
    write(&mut writer, record);
    writer.into_bytes()
}

/// The record that a log record's value holds.
pub fn decode_metadata_record(value: &Bytes) -> Result<Record, MetadataRecordError> {
    let mut reader = Reader::new(value);
    reader.set_flexible(true);
    let at_position = |reader: &Reader<'_>, problem| MetadataRecordError::Malformed {
        at: reader.position(),
        problem,
    };
    let (frame_version, code, version) =
        read_preamble(&mut reader).map_err(|problem| at_position(&reader, problem))?;
    if frame_version != FRAME_VERSION {
        return Err(MetadataRecordError::FrameVersion(frame_version));
    }
    let api = Api::ALL.into_iter().find(|api| api.code() == code);
    let api = api.ok_or(MetadataRecordError::UnknownApi(code))?;
    let version_max = api.version_max();
    if version > version_max {
        return Err(MetadataRecordError::UnknownVersion { api: code, version, version_max });
    }
    read_body(&mut reader, api, version)
        .and_then(|record| reader.finish().map(|()| record))
        .map_err(|problem| at_position(&reader, problem))
}

fn read_preamble(reader: &mut Reader<'_>) -> Result<(u32, u32, u32), Problem> {
    Ok((reader.unsigned_varint()?, reader.unsigned_varint()?, reader.unsigned_varint()?))
}

fn read_body(reader: &mut Reader<'_>, api: Api, version: u32) -> Result<Record, Problem> {
    let record = match api {
        // These end with tagged fields that they know.
        Api::RegisterBroker => {
            return registration::read(reader, version).map(Record::RegisterBroker);
        }
        Api::BrokerRegistrationChange => {
            return registration::read_change(reader).map(Record::BrokerRegistrationChange);
        }
        Api::Partition => return partition::read(reader, version).map(Record::Partition),
        Api::PartitionChange => {
            return partition::read_change(reader).map(Record::PartitionChange);
        }
        Api::UnregisterBroker => {
            Record::UnregisterBroker { broker: broker(reader)?, epoch: broker_epoch(reader)? }
        }
        Api::Topic => Record::Topic { name: string(reader)?, id: TopicId(reader.uuid()?) },
        Api::Config => Record::Config {
            resource: read_resource(reader)?,
            name: string(reader)?,
            value: reader.nullable_string()?.map(owned),
        },
        Api::RemoveTopic => Record::RemoveTopic { id: TopicId(reader.uuid()?) },
        Api::FeatureLevel => Record::FeatureLevel { name: string(reader)?, level: reader.i16()? },
        Api::ProducerIds => Record::ProducerIds {
            broker: broker(reader)?,
            epoch: broker_epoch(reader)?,
            next_producer_id: reader.i64()?,
        },
        Api::ClearElr => {
            let topic = string(reader)?;
            Record::ClearElr { topic: (!topic.is_empty()).then_some(topic) }
        }
    };
    reader.skip_tags()?;
    Ok(record)
}

fn write_resource(writer: &mut Writer, resource: &ConfigResource) {
    match resource {
        ConfigResource::Topic(name) => {
            writer.i8(RESOURCE_TOPIC);
            writer.string(name);
        }
        ConfigResource::Broker(broker) => {
            writer.i8(RESOURCE_BROKER);
            writer.string(&broker.0.to_string());
        }
        ConfigResource::Cluster => {
            writer.i8(RESOURCE_BROKER);
            writer.string("");
        }
    }
}

fn read_resource(reader: &mut Reader<'_>) -> Result<ConfigResource, Problem> {
    let resource_type = reader.i8()?;
    let name = string(reader)?;
    match resource_type {
        RESOURCE_TOPIC => Ok(ConfigResource::Topic(name)),
        RESOURCE_BROKER if name.is_empty() => Ok(ConfigResource::Cluster),
        RESOURCE_BROKER => match name.parse() {
            Ok(id) => Ok(ConfigResource::Broker(BrokerId(id))),
            Err(_) => {
                Err(Problem::Value { field: "length of a broker id", value: name.len() as i64 })
            }
        },
        other => Err(Problem::Value { field: "resource type", value: i64::from(other) }),
    }
}

fn owned(string: StrBytes) -> String {
    string.as_str().to_owned()
}

fn string(reader: &mut Reader<'_>) -> Result<String, Problem> {
    reader.string().map(owned)
}

fn broker(reader: &mut Reader<'_>) -> Result<BrokerId, Problem> {
    reader.i32().map(BrokerId)
}

fn broker_epoch(reader: &mut Reader<'_>) -> Result<BrokerEpoch, Problem> {
    reader.i64().map(BrokerEpoch)
}

fn brokers(reader: &mut Reader<'_>) -> Result<Vec<BrokerId>, Problem> {
    reader.array_of(4, broker)
}

fn write_brokers(writer: &mut Writer, brokers: &[BrokerId]) {
    writer.count(brokers.len());
    for broker in brokers {
        writer.i32(broker.0);
    }
}

fn directories(reader: &mut Reader<'_>) -> Result<Vec<DirectoryId>, Problem> {
    reader.array_of(16, |reader| reader.uuid().map(DirectoryId))
}

fn write_directories(writer: &mut Writer, directories: &[DirectoryId]) {
    writer.count(directories.len());
    for directory in directories {
        writer.uuid(&directory.0);
    }
}

/// Bytes of an array of `count` elements of `element_bytes`.
fn array_bytes(count: usize, element_bytes: usize) -> usize {
    crate::record::varint::size_of_u64(count as u64 + 1) + count * element_bytes
}

#[cfg(test)]
mod tests;

//! RegisterBroker (api 0) and BrokerRegistrationChange (api 17).

use crate::protocol::metadata::{
    BrokerRegistrationChange, Endpoint, FeatureRange, IncarnationId, RegisterBroker,
};

use super::{array_bytes, broker, broker_epoch, directories, owned, string, write_directories};
use crate::wire::error::Problem;
use crate::wire::reader::Reader;
use crate::wire::writer::Writer;

const LOG_DIRS: u32 = 0;

const CHANGE_FENCED: u32 = 0;
const CHANGE_IN_CONTROLLED_SHUTDOWN: u32 = 1;
const CHANGE_LOG_DIRS: u32 = 2;

pub(super) fn write(writer: &mut Writer, record: &RegisterBroker) {
    writer.i32(record.broker.0);
    writer.bool(false); // migrating from ZooKeeper
    writer.uuid(&record.incarnation.0);
    writer.i64(record.epoch.0);
    writer.count(record.endpoints.len());
    for endpoint in &record.endpoints {
        writer.string(&endpoint.name);
        writer.string(&endpoint.host);
        writer.u16(endpoint.port);
        writer.i16(endpoint.security_protocol);
        writer.tag_count(0);
    }
    writer.count(record.features.len());
    for feature in &record.features {
        writer.string(&feature.name);
        writer.i16(feature.min);
        writer.i16(feature.max);
        writer.tag_count(0);
    }
    writer.nullable_string(record.rack.as_deref());
    writer.bool(record.fenced);
    writer.bool(record.in_controlled_shutdown);
    if record.log_dirs.is_empty() {
        writer.tag_count(0);
    } else {
        writer.tag_count(1);
        writer.tag(LOG_DIRS, array_bytes(record.log_dirs.len(), 16));
        write_directories(writer, &record.log_dirs);
    }
}

pub(super) fn read(reader: &mut Reader<'_>, version: u32) -> Result<RegisterBroker, Problem> {
    let broker = broker(reader)?;
    if version >= 2 {
        reader.bool()?; // migrating from ZooKeeper
    }
    let incarnation = IncarnationId(reader.uuid()?);
    let epoch = broker_epoch(reader)?;
    let endpoints = reader.array_of(7, read_endpoint)?;
    let features = reader.array_of(6, read_feature)?;
    let rack = reader.nullable_string()?.map(owned);
    let fenced = reader.bool()?;
    let in_controlled_shutdown = version >= 1 && reader.bool()?;
    let mut log_dirs = Vec::new();
    reader.tags(|tag, reader| {
        if tag != LOG_DIRS {
            return Ok(false);
        }
        log_dirs = directories(reader)?;
        Ok(true)
    })?;
    Ok(RegisterBroker {
        broker,
        incarnation,
        epoch,
        endpoints,
        features,
        rack,
        fenced,
        in_controlled_shutdown,
        log_dirs,
    })
}

fn read_endpoint(reader: &mut Reader<'_>) -> Result<Endpoint, Problem> {
    let endpoint = Endpoint {
        name: string(reader)?,
        host: string(reader)?,
        port: reader.u16()?,
        security_protocol: reader.i16()?,
    };
    reader.skip_tags()?;
    Ok(endpoint)
}

fn read_feature(reader: &mut Reader<'_>) -> Result<FeatureRange, Problem> {
    let feature = FeatureRange { name: string(reader)?, min: reader.i16()?, max: reader.i16()? };
    reader.skip_tags()?;
    Ok(feature)
}

pub(super) fn write_change(writer: &mut Writer, record: &BrokerRegistrationChange) {
    writer.i32(record.broker.0);
    writer.i64(record.epoch.0);
    let log_dirs = record.log_dirs.as_ref().filter(|log_dirs| !log_dirs.is_empty());
    let tags = [record.fenced.is_some(), record.in_controlled_shutdown, log_dirs.is_some()];
    writer.tag_count(tags.into_iter().filter(|&present| present).count());
    if let Some(fenced) = record.fenced {
        writer.tag(CHANGE_FENCED, 1);
        writer.i8(if fenced { 1 } else { -1 });
    }
    if record.in_controlled_shutdown {
        writer.tag(CHANGE_IN_CONTROLLED_SHUTDOWN, 1);
        writer.i8(1);
    }
    if let Some(log_dirs) = log_dirs {
        writer.tag(CHANGE_LOG_DIRS, array_bytes(log_dirs.len(), 16));
        write_directories(writer, log_dirs);
    }
}

pub(super) fn read_change(reader: &mut Reader<'_>) -> Result<BrokerRegistrationChange, Problem> {
    let mut record = BrokerRegistrationChange {
        broker: broker(reader)?,
        epoch: broker_epoch(reader)?,
        fenced: None,
        in_controlled_shutdown: false,
        log_dirs: None,
    };
    reader.tags(|tag, reader| {
        match tag {
            CHANGE_FENCED => record.fenced = read_fenced(reader)?,
            CHANGE_IN_CONTROLLED_SHUTDOWN => {
                record.in_controlled_shutdown = read_in_controlled_shutdown(reader)?;
            }
            CHANGE_LOG_DIRS => {
                record.log_dirs = Some(directories(reader)?).filter(|dirs| !dirs.is_empty());
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(record)
}

fn read_fenced(reader: &mut Reader<'_>) -> Result<Option<bool>, Problem> {
    match reader.i8()? {
        0 => Ok(None),
        1 => Ok(Some(true)),
        -1 => Ok(Some(false)),
        other => Err(Problem::Value { field: "fenced", value: i64::from(other) }),
    }
}

fn read_in_controlled_shutdown(reader: &mut Reader<'_>) -> Result<bool, Problem> {
    match reader.i8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Problem::Value { field: "in controlled shutdown", value: i64::from(other) }),
    }
}

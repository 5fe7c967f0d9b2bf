//! Bodies: the common part of reading and writing one, by this room's codecs or the schema crate's.

use kafka_protocol::protocol::{Decodable, Encodable};

use super::ApiKey;
use super::bounds::{self, Shape};
use super::error::{Direction, Problem, WireError};
use super::reader::Reader;
use super::writer::Writer;

/// The body of one API's requests or responses.
pub(super) trait Message: Sized {
    /// Reads it to its end.
    fn read(body: &mut Body<'_>) -> Result<Self, WireError>;

    /// Writes it.
    ///
    /// Errors: [`WireError::Unencodable`] if a field is set that the version lacks.
    fn write(&self, out: &mut Encoder) -> Result<(), WireError>;
}

/// A body about to be read, and what an error must say about it.
pub(super) struct Body<'a> {
    pub(super) reader: Reader<'a>,
    pub(super) api: ApiKey,
    pub(super) direction: Direction,
    pub(super) version: i16,
}

impl<'a> Body<'a> {
    /// Reads the body to its end with a codec of this room.
    pub(super) fn read<T>(
        &mut self,
        codec: impl FnOnce(&mut Reader<'a>) -> Result<T, Problem>,
    ) -> Result<T, WireError> {
        let result = codec(&mut self.reader);
        result
            .and_then(|message| self.reader.finish().map(|()| message))
            .map_err(|problem| self.malformed(problem))
    }

    /// Reads the body to its end with the schema crate, after its bounds were checked.
    pub(super) fn decode<T: Decodable>(&mut self, shape: &'static Shape) -> Result<T, WireError> {
        let Body { api, direction, version, .. } = *self;
        let mut body = self.reader.rest();
        bounds::check(&mut self.reader, shape, version)
            .map_err(|problem| self.malformed(problem))?;
        T::decode(&mut body, version).map_err(|source| WireError::Undecodable {
            api,
            direction,
            version,
            source: source.into(),
        })
    }

    pub(super) fn starts_with(&self, bytes: &[u8]) -> bool {
        self.reader.rest().starts_with(bytes)
    }

    /// A server that does not know the version of an ApiVersions request answers in version 0.
    pub(super) fn fall_back_to_version_0(&mut self) {
        self.version = 0;
        self.reader.set_flexible(false);
    }

    fn malformed(&self, problem: Problem) -> WireError {
        WireError::Malformed {
            api: self.api,
            direction: self.direction,
            version: self.version,
            at: self.reader.position(),
            problem,
        }
    }
}

/// A body about to be written.
pub(super) struct Encoder {
    pub(super) writer: Writer,
    pub(super) api: ApiKey,
    pub(super) direction: Direction,
    pub(super) version: i16,
}

impl Encoder {
    /// Writes with a codec of this room, if every field that is set exists in the version.
    pub(super) fn write(
        &mut self,
        fits: bool,
        codec: impl FnOnce(&mut Writer),
    ) -> Result<(), WireError> {
        let Encoder { api, direction, version, .. } = *self;
        if !fits {
            let source = "a field is set that the version does not have".into();
            return Err(WireError::Unencodable { api, direction, version, source });
        }
        codec(&mut self.writer);
        Ok(())
    }

    pub(super) fn encode<T: Encodable>(&mut self, message: &T) -> Result<(), WireError> {
        let Encoder { api, direction, version, .. } = *self;
        message.encode(self.writer.buffer(), version).map_err(|source| WireError::Unencodable {
            api,
            direction,
            version,
            source: source.into(),
        })
    }
}

//! Request and response headers.

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use super::error::Problem;
use super::error::{Direction, WireError};
use super::reader::Reader;
use super::writer::Writer;
use super::{ApiKey, Listener};

/// What a server keeps of a request to encode its response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The API.
    pub api: ApiKey,
    /// The version the response is encoded in. 0 for an ApiVersions request of an unsupported
    /// version, whatever the request said.
    pub version: i16,
    /// Given back in the response.
    pub correlation_id: i32,
    /// The client's name for itself, if it gave one.
    pub client_id: Option<StrBytes>,
}

/// What the first eight bytes of a request say.
pub(super) enum Preamble {
    /// A request that `listener` serves; the client id follows.
    Served(RequestHead),
    /// An ApiVersions request of a version nobody knows: nothing more of it can be read.
    UnsupportedApiVersions(RequestHead),
}

/// Reads API key, version and correlation id, and decides whether the request is served at all.
pub(super) fn read_preamble(
    reader: &mut Reader<'_>,
    listener: Listener,
) -> Result<Preamble, WireError> {
    let (code, version, correlation_id) =
        read_fixed(reader).map_err(|problem| header_error(Direction::Request, reader, problem))?;
    let api = ApiKey::from_code(code);
    let (api, range) = api
        .and_then(|api| Some((api, api.served_range(listener)?)))
        .ok_or(WireError::UnknownApi(code))?;
    let head = RequestHead { api, version, correlation_id, client_id: None };
    if range.contains(version) {
        Ok(Preamble::Served(head))
    } else if api == ApiKey::ApiVersions {
        Ok(Preamble::UnsupportedApiVersions(RequestHead { version: 0, ..head }))
    } else {
        Err(WireError::UnsupportedVersion { api, version, range })
    }
}

fn read_fixed(reader: &mut Reader<'_>) -> Result<(i16, i16, i32), Problem> {
    Ok((reader.i16()?, reader.i16()?, reader.i32()?))
}

/// Reads the rest of a request header, and sets the reader up for the body.
pub(super) fn read_client_id(
    reader: &mut Reader<'_>,
    mut head: RequestHead,
) -> Result<RequestHead, WireError> {
    let mut read = || {
        // Not compact even where the header has tagged fields.
        head.client_id = reader.nullable_string()?;
        reader.set_flexible(head.api.is_flexible(head.version));
        reader.skip_tags()
    };
    match read() {
        Ok(()) => Ok(head),
        Err(problem) => Err(header_error(Direction::Request, reader, problem)),
    }
}

/// Reads a response header, and sets the reader up for the body.
pub(super) fn read_response(
    reader: &mut Reader<'_>,
    api: ApiKey,
    version: i16,
) -> Result<i32, WireError> {
    let mut read = || {
        let correlation_id = reader.i32()?;
        reader.set_flexible(api.has_flexible_response_header(version));
        reader.skip_tags()?;
        Ok(correlation_id)
    };
    let result = read();
    reader.set_flexible(api.is_flexible(version));
    result.map_err(|problem| header_error(Direction::Response, reader, problem))
}

pub(super) fn write_request(
    writer: &mut Writer,
    api: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: &str,
) {
    writer.set_flexible(false);
    writer.i16(api.code());
    writer.i16(version);
    writer.i32(correlation_id);
    writer.string(client_id);
    writer.set_flexible(api.is_flexible(version));
    writer.tag_count(0);
}

pub(super) fn write_response(writer: &mut Writer, head: &RequestHead) {
    writer.i32(head.correlation_id);
    writer.set_flexible(head.api.has_flexible_response_header(head.version));
    writer.tag_count(0);
    writer.set_flexible(head.api.is_flexible(head.version));
}

fn header_error(direction: Direction, reader: &Reader<'_>, problem: Problem) -> WireError {
    WireError::Header { direction, at: reader.position(), problem }
}

/// The correlation id at the start of a response frame, before it is known what it answers.
pub fn correlation_id(frame: &Bytes) -> Option<i32> {
    frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
}

//! Frames (without their length) to messages and back.

use bytes::Bytes;

use super::apis::{Request, Response};
use super::body::{Body, Encoder};
use super::error::{Direction, WireError};
use super::head::{self, Preamble, RequestHead};
use super::reader::Reader;
use super::writer::Writer;
use super::{ApiKey, Listener};

/// Decodes a request frame as `listener` does. Records share the frame's memory.
///
/// Errors: the frame is no request that `listener` serves; close the connection.
pub fn parse_request(
    listener: Listener,
    frame: Bytes,
) -> Result<(RequestHead, Request), WireError> {
    let mut reader = Reader::new(&frame);
    let head = match head::read_preamble(&mut reader, listener)? {
        Preamble::UnsupportedApiVersions(head) => {
            return Ok((head, Request::UnsupportedApiVersions));
        }
        Preamble::Served(head) => head::read_client_id(&mut reader, head)?,
    };
    let (api, version) = (head.api, head.version);
    let mut body = Body { reader, api, direction: Direction::Request, version };
    let request = Request::read(&mut body)?;
    Ok((head, request))
}

/// Encodes a request frame. Produce has a way that does not copy the records:
/// [`super::encode_produce_request`].
///
/// Errors: [`WireError::Unencodable`] if a field is set that `version` lacks.
///
/// # Panics
/// If `version` is not one of the API's, or for [`Request::UnsupportedApiVersions`].
pub fn encode_request(
    correlation_id: i32,
    client_id: &str,
    version: i16,
    request: &Request,
) -> Result<Bytes, WireError> {
    let api = request.api();
    assert!(api.codec_range().contains(version), "{api} version {version}");
    let mut writer = Writer::new(false, 128, 0);
    head::write_request(&mut writer, api, version, correlation_id, client_id);
    let mut out = Encoder { writer, api, direction: Direction::Request, version };
    request.write(&mut out)?;
    Ok(out.writer.into_bytes())
}

/// Decodes the response frame to a request of `api` at `version`; gives the correlation id with
/// it. Records share the frame's memory.
///
/// Errors: the frame is no such response; close the connection.
///
/// # Panics
/// If `version` is not one of the API's.
pub fn parse_response(
    api: ApiKey,
    version: i16,
    frame: Bytes,
) -> Result<(i32, Response), WireError> {
    assert!(api.codec_range().contains(version), "{api} version {version}");
    let mut reader = Reader::new(&frame);
    let correlation_id = head::read_response(&mut reader, api, version)?;
    let mut body = Body { reader, api, direction: Direction::Response, version };
    let response = Response::read(&mut body)?;
    Ok((correlation_id, response))
}

/// Encodes a response frame to the request with this head. Fetch has a way that does not copy the
/// records: [`super::encode_fetch_response`].
///
/// Errors: [`WireError::Unencodable`] if a field is set that the version lacks.
///
/// # Panics
/// If the response is not one to this request's API.
pub fn encode_response(head: &RequestHead, response: &Response) -> Result<Bytes, WireError> {
    let (api, version) = (response.api(), head.version);
    assert!(api == head.api, "{api} response to a {} request", head.api);
    let mut writer = Writer::new(false, 256, 0);
    head::write_response(&mut writer, head);
    let mut out = Encoder { writer, api, direction: Direction::Response, version };
    response.write(&mut out)?;
    Ok(out.writer.into_bytes())
}

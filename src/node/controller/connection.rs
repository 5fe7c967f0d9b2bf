//! One connection to the controller: frames in, answers out in the same order, one request at a
//! time as Kafka has it. A broker that long-polls the metadata log does so on a connection of its
//! own.
//!
//! Whatever arrives, only this connection suffers: a frame that cannot be served ends it.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::fetch::MetadataReader;
use super::raft::{Quorum, is_raft_frame};
use super::translate::{self, Asked};
use crate::measure::clock;
use crate::protocol::controller::{Request, Response};
use crate::types::MonotonicTime;
use crate::wire::{self, Listener, RequestHead, WireError};

/// A frame that began must end within this.
const FRAME_TIME_MAX: Duration = Duration::from_secs(30);
/// Read at a time; a frame's buffer grows with what arrives, not with what its length claims.
const READ_BYTES: usize = 64 << 10;

/// A request on its way to the controller machine.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) body: Request,
    pub(super) answer: oneshot::Sender<Response>,
    /// When it was put into the queue.
    pub(super) asked: MonotonicTime,
}

impl Ask {
    /// Asked now.
    pub(super) fn new(body: Request, answer: oneshot::Sender<Response>) -> Ask {
        Ask { body, answer, asked: clock::now() }
    }
}

/// What every connection needs.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) queue: mpsc::Sender<Ask>,
    pub(super) reader: MetadataReader,
    pub(super) quorum: Quorum,
    pub(super) request_bytes_max: usize,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum Closed {
    /// The peer, or the network.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A frame of a length nobody sends.
    #[error("frame of {size_bytes} bytes: at most {size_bytes_max} are read")]
    FrameSize { size_bytes: i32, size_bytes_max: usize },
    /// A frame nobody serves.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Not from a voter of this quorum, or not for this one.
    #[error("a call from a voter that is none of ours")]
    Voter,
    /// A frame began and did not end in time.
    #[error("a frame that did not end within {} s", FRAME_TIME_MAX.as_secs())]
    HalfFrame,
    /// The controller is stopping, or not the active one and the answer has no place to say so.
    #[error("this controller does not answer")]
    Unanswered,
}

/// Serves a connection until it ends.
pub(super) async fn serve(mut stream: TcpStream, service: Rc<Service>) -> Result<(), Closed> {
    stream.set_nodelay(true)?;
    let mut buffer = BytesMut::new();
    while let Some(frame) = read_frame(&mut stream, &mut buffer, service.request_bytes_max).await? {
        if is_raft_frame(&frame) {
            let answer = service.quorum.answer(&frame).await.ok_or(Closed::Voter)?;
            write_frame(&mut stream, &[answer]).await?;
            continue;
        }
        let (head, request) = wire::parse_request(Listener::Controller, frame)?;
        let pieces = service.answer(&head, request).await?;
        write_frame(&mut stream, &pieces).await?;
    }
    Ok(())
}

impl Service {
    async fn answer(
        &self,
        head: &RequestHead,
        request: wire::Request,
    ) -> Result<Vec<Bytes>, Closed> {
        let response = match request {
            wire::Request::Fetch(fetch) => {
                let response = self.reader.answer(&fetch).await;
                return Ok(wire::encode_fetch_response(head, &response));
            }
            wire::Request::ApiVersions(_) | wire::Request::UnsupportedApiVersions => {
                wire::Response::ApiVersions(wire::api_versions_response(
                    Listener::Controller,
                    head,
                    &request,
                ))
            }
            wire::Request::DescribeQuorum(request) => {
                wire::Response::DescribeQuorum(self.describe_quorum(head, request).await)
            }
            request => self.ask(head, request).await?,
        };
        Ok(vec![wire::encode_response(head, &response)?])
    }

    async fn ask(
        &self,
        head: &RequestHead,
        request: wire::Request,
    ) -> Result<wire::Response, Closed> {
        let unserved = || WireError::UnknownApi(head.api.code());
        let body = match translate::request(head.version, request).ok_or_else(unserved)? {
            Asked::Controller(body) => body,
            Asked::Refused(response) => return Ok(response),
        };
        let (answer, answered) = oneshot::channel();
        self.queue.send(Ask::new(body, answer)).await.map_err(|_| Closed::Unanswered)?;
        let response = answered.await.map_err(|_| Closed::Unanswered)?;
        Ok(translate::response(head.version, response).ok_or_else(unserved)?)
    }
}

/// The next frame without its length; `None` if the peer closed the connection between two frames.
pub(super) async fn read_frame(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    size_bytes_max: usize,
) -> Result<Option<Bytes>, Closed> {
    if buffer.is_empty() {
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let rest = async {
        fill(stream, buffer, 4).await?;
        let length = [buffer[0], buffer[1], buffer[2], buffer[3]];
        let size_bytes = i32::from_be_bytes(length);
        let body_bytes = usize::try_from(size_bytes).ok().filter(|&size| size <= size_bytes_max);
        let body_bytes = body_bytes.ok_or(Closed::FrameSize { size_bytes, size_bytes_max })?;
        fill(stream, buffer, 4 + body_bytes).await?;
        let frame = buffer.split_to(4 + body_bytes).freeze();
        Ok(Some(frame.slice(4..)))
    };
    tokio::time::timeout(FRAME_TIME_MAX, rest).await.map_err(|_| Closed::HalfFrame)?
}

async fn fill(stream: &mut TcpStream, buffer: &mut BytesMut, size: usize) -> Result<(), Closed> {
    while buffer.len() < size {
        buffer.reserve(READ_BYTES);
        if stream.read_buf(buffer).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
    Ok(())
}

/// Pieces are copied together: one write is one segment, and metadata is small.
pub(super) async fn write_frame(stream: &mut TcpStream, pieces: &[Bytes]) -> Result<(), Closed> {
    let size: usize = pieces.iter().map(Bytes::len).sum();
    let mut frame = BytesMut::with_capacity(4 + size);
    frame.put_i32(i32::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?);
    pieces.iter().for_each(|piece| frame.extend_from_slice(piece));
    Ok(stream.write_all(&frame).await?)
}

//! What voters say to each other, on the controller's own port: a Kafka frame whose api key Kafka
//! does not use, with a postcard body, one answer per request.

use bytes::{BufMut, Bytes, BytesMut};
use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use super::quorum::QuorumView;
use super::{NodeId, TypeConfig};

/// The api key of all of them; Kafka's end far below.
const API_KEY: i16 = 30_966;
/// Changes with anything in this file.
const VERSION: i16 = 0;

/// A request, and to whom: a voter that took over another's port must notice.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    /// CRC-32C of the cluster id.
    pub(super) cluster: u32,
    /// Its node id; `None` is whoever listens there.
    pub(super) to: Option<NodeId>,
    pub(super) call: Call,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Call {
    Append(AppendEntriesRequest<TypeConfig>),
    Vote(VoteRequest<NodeId>),
    Snapshot(InstallSnapshotRequest<TypeConfig>),
    Describe,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Append(Result<AppendEntriesResponse<NodeId>, RaftError<NodeId>>),
    Vote(Result<VoteResponse<NodeId>, RaftError<NodeId>>),
    Snapshot(Result<InstallSnapshotResponse<NodeId>, RaftError<NodeId, InstallSnapshotError>>),
    Describe(QuorumView),
}

/// Whether a frame is one of ours.
pub(in crate::node::controller) fn is_raft_frame(frame: &[u8]) -> bool {
    frame.starts_with(&API_KEY.to_be_bytes())
}

pub(super) fn encode_call(envelope: &Envelope) -> Result<Bytes, postcard::Error> {
    let mut frame = BytesMut::new();
    frame.put_i16(API_KEY);
    frame.put_i16(VERSION);
    frame.extend_from_slice(&postcard::to_stdvec(envelope)?);
    Ok(frame.freeze())
}

/// `None` if the frame makes no sense.
pub(super) fn parse_call(frame: &[u8]) -> Option<Envelope> {
    let body = frame.strip_prefix(&API_KEY.to_be_bytes())?.strip_prefix(&VERSION.to_be_bytes())?;
    postcard::from_bytes(body).ok()
}

pub(super) fn encode_reply(reply: &Reply) -> Result<Bytes, postcard::Error> {
    postcard::to_stdvec(reply).map(Bytes::from)
}

pub(super) fn parse_reply(frame: &[u8]) -> Result<Reply, postcard::Error> {
    postcard::from_bytes(frame)
}

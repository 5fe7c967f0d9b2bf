//! The metadata log, replicated among one or three voters by openraft.
//!
//! In reading order: `voter` (what one holds), `entry` (Raft entries as record batches), `store` (log
//! and vote), `machine`, `snapshot` and `replay` (what is committed), `message`, `network` (between voters),
//! `quorum` (start, propose, watch).
//!
//! One leader per term (plain Raft), so that a term is a leader epoch. Everything runs on the
//! controller's one thread, disk writes included: a hand-over to another thread would cost more than
//! what could go on meanwhile.

mod entry;
mod machine;
mod message;
mod network;
mod quorum;
mod replay;
mod snapshot;
mod store;
mod vote;
mod voter;

pub(super) use self::entry::MetadataBatch;
pub(super) use self::message::is_raft_frame;
pub(super) use self::quorum::Quorum;
pub use self::quorum::{QuorumError, QuorumView, VoterView, describe_quorum};
#[cfg(test)]
pub(super) use self::snapshot::load_snapshot;
pub use self::snapshot::seed_snapshot;
pub(super) use self::voter::{Applied, Voter};

use std::io::Cursor;

openraft::declare_raft_types!(
    /// Metadata batches in, nothing out: who waits for an entry waits for its offset.
    pub(super) TypeConfig:
        D = MetadataBatch,
        R = (),
        NodeId = u64,
        Node = openraft::EmptyNode,
        Responder = quorum::Unheard,
);

type NodeId = u64;
type Node = openraft::EmptyNode;
type Entry = openraft::Entry<TypeConfig>;
type LogId = openraft::LogId<NodeId>;
type Vote = openraft::Vote<NodeId>;
type CommittedLeaderId = openraft::CommittedLeaderId<NodeId>;
type StoredMembership = openraft::StoredMembership<NodeId, Node>;
type SnapshotMeta = openraft::SnapshotMeta<NodeId, Node>;
type RaftSnapshot = openraft::Snapshot<TypeConfig>;
type Raft = openraft::Raft<TypeConfig>;

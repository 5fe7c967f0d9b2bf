//! What one voter holds, shared by everything that runs on the controller's one thread.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use openraft::{AnyError, StorageError, StorageIOError};
use tokio::sync::{Notify, watch};

use super::snapshot::{self, Snapshot};
use super::vote::VoteFile;
use super::{LogId, NodeId, StoredMembership};
use crate::node::controller::metadata_log::{self, MetadataLog, MetadataLogError, Recovery};
use crate::node::controller::metrics::Metrics;
use crate::protocol::metadata::ClusterMetadata;
use crate::types::{LeaderEpoch, MonotonicTime, Offset};

/// How far committed entries are applied here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::node::controller) struct Applied {
    /// Term of the last one.
    pub(in crate::node::controller) epoch: LeaderEpoch,
    /// Offset after the last record.
    pub(in crate::node::controller) end_offset: Offset,
}

/// The last append that another voter took from this one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// When it was sent: whoever took it, took it later.
    pub(super) sent: MonotonicTime,
    /// This voter's term then.
    pub(super) term: u64,
}

/// The state machine's state.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) metadata: ClusterMetadata,
    pub(super) last: Option<LogId>,
    pub(super) membership: StoredMembership,
}

/// See the module.
#[derive(Debug)]
pub(in crate::node::controller) struct Voter {
    pub(super) node: NodeId,
    pub(super) directory: PathBuf,
    pub(in crate::node::controller) log: RefCell<MetadataLog>,
    pub(super) vote: RefCell<VoteFile>,
    pub(super) state: RefCell<State>,
    /// The latest durable snapshot.
    pub(super) snapshot: RefCell<Option<Rc<Snapshot>>>,
    /// Index of the last entry in it; changes let a purge go on.
    pub(super) snapshotted: watch::Sender<Option<u64>>,
    pub(in crate::node::controller) applied: watch::Sender<Applied>,
    /// By other voter: what this one's lease as a leader rests on.
    pub(super) heard: RefCell<BTreeMap<NodeId, Heard>>,
    /// Something was pushed that others wait for.
    pub(super) flush_wanted: Notify,
    pub(in crate::node::controller) metrics: Metrics,
    failure: RefCell<Option<MetadataLogError>>,
}

impl Voter {
    /// Opens what the last process left in `data_dir`.
    pub(super) fn open(
        node: NodeId,
        data_dir: &Path,
    ) -> Result<(Voter, Recovery), MetadataLogError> {
        let directory = metadata_log::directory(data_dir)?;
        let (snapshot, state) = match snapshot::load(&directory)? {
            Some((snapshot, metadata)) => {
                let (last, membership) = (Some(snapshot.last), snapshot.membership.clone());
                (Some(Rc::new(snapshot)), State { metadata, last, membership })
            }
            None => (None, State::default()),
        };
        let point = snapshot.as_ref().map(|snapshot| snapshot.point());
        let (log, recovery) = MetadataLog::open(&directory, point)?;
        let end_offset = state.metadata.end_offset();
        let epoch = point.map_or(LeaderEpoch(0), |point| point.last.epoch);
        let vote = VoteFile::open(&directory)?;
        let voter = Voter {
            node,
            log: RefCell::new(log),
            vote: RefCell::new(vote),
            state: RefCell::new(state),
            snapshotted: watch::Sender::new(point.map(|point| point.last.index)),
            snapshot: RefCell::new(snapshot),
            applied: watch::Sender::new(Applied { epoch, end_offset }),
            heard: RefCell::default(),
            flush_wanted: Notify::new(),
            metrics: Metrics::default(),
            failure: RefCell::new(None),
            directory,
        };
        Ok((voter, recovery))
    }

    /// For a voter without others: nobody could elect it, and nobody holds its entries.
    pub(super) fn check_not_emptied(&self) -> Result<(), MetadataLogError> {
        let log = self.log.borrow();
        if self.vote.borrow().read().is_some() && log.last().is_none() {
            return Err(MetadataLogError::Emptied { path: log.active_path().to_owned() });
        }
        Ok(())
    }

    /// Makes everything pushed durable.
    pub(super) fn flush(&self) -> Result<(), MetadataLogError> {
        self.log.borrow_mut().flush()
    }

    /// A newer snapshot is durable.
    pub(super) fn snapshotted(&self, snapshot: Snapshot) {
        let index = snapshot.last.index;
        if self.snapshotted.borrow().is_none_or(|before| before < index) {
            self.snapshot.replace(Some(Rc::new(snapshot)));
            self.snapshotted.send_replace(Some(index));
        }
    }

    /// Remembers the first failure: the process ends with it.
    pub(super) fn fail(&self, error: MetadataLogError) {
        self.failure.borrow_mut().get_or_insert(error);
        // Whoever waits for progress must look up.
        self.applied.send_modify(|_| ());
    }

    /// What went wrong, once.
    pub(in crate::node::controller) fn take_failure(&self) -> Option<MetadataLogError> {
        self.failure.borrow_mut().take()
    }

    /// As Raft wants to hear of it; Raft stops.
    pub(super) fn failed(&self, error: MetadataLogError) -> StorageError<NodeId> {
        let told = storage_error(&error);
        self.fail(error);
        told
    }
}

fn storage_error(error: &impl Display) -> StorageError<NodeId> {
    StorageIOError::write(AnyError::error(error)).into()
}

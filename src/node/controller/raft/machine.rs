//! The state machine: committed entries become cluster metadata, cluster metadata becomes snapshots.

use std::io::Cursor;
use std::rc::Rc;

use bytes::Bytes;
use openraft::storage::RaftStateMachine;
use openraft::{
    AnyError, EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageError, StorageIOError,
};
use tokio::sync::oneshot;

use super::entry::entry_id;
use super::replay::for_each_record;
use super::snapshot::{self, Snapshot};
use super::voter::{Applied, Voter};
use super::{Entry, LogId, Node, NodeId, RaftSnapshot, SnapshotMeta, StoredMembership, TypeConfig};
use crate::measure::threads;
use crate::node::controller::metadata_log::{MetadataLogError, at};
use crate::protocol::metadata::ClusterMetadata;

type Stored<T> = Result<T, StorageError<NodeId>>;

/// See the module.
#[derive(Debug)]
pub(super) struct StateMachine(pub(super) Rc<Voter>);

impl StateMachine {
    fn apply_entry(&self, entry: Entry) -> Result<(), MetadataLogError> {
        let mut state = self.0.state.borrow_mut();
        match entry.payload {
            EntryPayload::Blank => {}
            EntryPayload::Normal(batch) => {
                let metrics = &self.0.metrics;
                for_each_record(&batch.0, &self.0.directory, |offset, record| {
                    metrics.applying(&state.metadata, &record);
                    state.metadata.take(offset, record)
                })?;
            }
            EntryPayload::Membership(membership) => {
                state.membership = StoredMembership::new(Some(entry.log_id), membership);
            }
        }
        state.last = Some(entry.log_id);
        Ok(())
    }

    fn publish(&self) {
        let state = self.0.state.borrow();
        let Some(last) = &state.last else { return };
        let end_offset = state.metadata.end_offset();
        self.0.applied.send_replace(Applied { epoch: entry_id(last).epoch, end_offset });
    }

    fn install(&self, bytes: Vec<u8>) -> Result<(), MetadataLogError> {
        let voter = &self.0;
        let snapshot = Snapshot::parse(Bytes::from(bytes), &voter.directory)?;
        let metadata = snapshot.metadata(&voter.directory)?;
        snapshot::store(&voter.directory, &snapshot)?;
        let point = snapshot.point();
        if voter.log.borrow().next_index() <= point.last.index + 1 {
            voter.log.borrow_mut().restart_after(point)?;
        }
        let mut state = voter.state.borrow_mut();
        state.metadata = metadata;
        state.last = Some(snapshot.last);
        state.membership = snapshot.membership.clone();
        voter.snapshotted(snapshot);
        Ok(())
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Stored<(Option<LogId>, StoredMembership)> {
        let state = self.0.state.borrow();
        Ok((state.last, state.membership.clone()))
    }

    /// Syncs first: see `store`.
    async fn apply<I>(&mut self, entries: I) -> Stored<Vec<()>>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        self.0.flush().map_err(|error| self.0.failed(error))?;
        let mut applied = Vec::new();
        for entry in entries {
            self.apply_entry(entry).map_err(|error| self.0.failed(error))?;
            applied.push(());
        }
        self.publish();
        Ok(applied)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let state = self.0.state.borrow();
        Builder {
            voter: self.0.clone(),
            metadata: state.metadata.clone(),
            last: state.last.unwrap_or_default(),
            membership: state.membership.clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Stored<Box<Cursor<Vec<u8>>>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        _: &openraft::SnapshotMeta<NodeId, Node>,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Stored<()> {
        self.install(snapshot.into_inner()).map_err(|error| self.0.failed(error))?;
        self.publish();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Stored<Option<RaftSnapshot>> {
        let snapshot = self.0.snapshot.borrow().clone();
        Ok(snapshot.map(|snapshot| to_raft(&snapshot)))
    }
}

/// The state as of one entry, on its way to a file.
#[derive(Debug)]
pub(super) struct Builder {
    voter: Rc<Voter>,
    metadata: ClusterMetadata,
    last: LogId,
    membership: StoredMembership,
}

impl RaftSnapshotBuilder<TypeConfig> for Builder {
    /// Off the controller's thread: the file is large and its sync slow.
    async fn build_snapshot(&mut self) -> Stored<RaftSnapshot> {
        let (metadata, last) = (std::mem::take(&mut self.metadata), self.last);
        let membership = self.membership.clone();
        let directory = self.voter.directory.clone();
        let (done, built) = oneshot::channel();
        let build = move || {
            let built = Snapshot::of(&metadata, last, membership);
            // A voter that ends meanwhile takes no snapshot.
            let _ = done.send(snapshot::store(&directory, &built).map(|()| built));
        };
        let path = &self.voter.directory;
        at(path, "build a snapshot", threads::start("snapshot", build))
            .map_err(|error| self.voter.failed(error))?;
        let panicked = |error| StorageIOError::write(AnyError::new(&error));
        let built = built.await.map_err(panicked)?.map_err(|error| self.voter.failed(error))?;
        let for_raft = to_raft(&built);
        self.voter.snapshotted(built);
        Ok(for_raft)
    }
}

fn to_raft(snapshot: &Snapshot) -> RaftSnapshot {
    let meta: SnapshotMeta = snapshot.meta();
    RaftSnapshot { meta, snapshot: Box::new(Cursor::new(snapshot.bytes.to_vec())) }
}

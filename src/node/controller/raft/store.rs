//! The log and the vote as Raft stores them.
//!
//! A follower's entries are synced before it says so. The leader of a term says at once that it has
//! an entry, so that sending it to others and syncing it here go on at the same time, and makes up
//! for it in two places: nothing is applied here (so nobody is answered), and no other voter hears
//! that it is committed, before it is synced here. To everybody else it is as if the leader's sync
//! had come first. A leader that restarts has to be elected again (see `vote`), so an entry that it
//! sent and lost is never mistaken for the one that takes its place.

use std::fmt::Debug;
use std::ops::{Bound, Range, RangeBounds};
use std::rc::Rc;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader, StorageError};

use super::entry::{log_id, to_batch, understood};
use super::voter::Voter;
use super::{Entry, LogId, NodeId, TypeConfig, Vote};
use crate::node::controller::metadata_log::MetadataLogError;

type Stored<T> = Result<T, StorageError<NodeId>>;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct LogStore(pub(super) Rc<Voter>);

impl LogStore {
    fn push(&self, entry: Entry) -> Result<(), MetadataLogError> {
        let mut log = self.0.log.borrow_mut();
        let index = entry.log_id.index;
        let batch = to_batch(entry, log.end_offset());
        log.push(index, batch)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Stored<Vec<Entry>> {
        let log = self.0.log.borrow();
        let entries = log.kept(indexes(&range, log.next_index())).map(understood);
        entries.collect::<Result<_, _>>().map_err(|error| self.0.failed(error))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Stored<Vec<Entry>> {
        let log = self.0.log.borrow();
        if log.purged().is_some_and(|purged| start <= purged.index) {
            // Purged since it was asked for: what is left would not follow what the other has.
            return Ok(Vec::new());
        }
        let entries = log.entries(start..end).map(understood);
        entries.collect::<Result<_, _>>().map_err(|error| self.0.failed(error))
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Stored<LogState<TypeConfig>> {
        let log = self.0.log.borrow();
        Ok(LogState {
            last_purged_log_id: log.purged().map(log_id),
            last_log_id: log.last().map(log_id),
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Stored<()> {
        self.0.flush().map_err(|error| self.0.failed(error))?;
        self.0.vote.borrow_mut().save(vote).map_err(|error| self.0.failed(error))
    }

    async fn read_vote(&mut self) -> Stored<Option<Vote>> {
        Ok(self.0.vote.borrow().read())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Stored<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut is_leader = false;
        for entry in entries {
            let term = entry.log_id.leader_id.term;
            is_leader = self.0.vote.borrow().is_own_term(self.0.node, term);
            self.push(entry).map_err(|error| self.0.failed(error))?;
        }
        if is_leader {
            self.0.flush_wanted.notify_one();
        } else {
            self.0.flush().map_err(|error| self.0.failed(error))?;
        }
        callback.log_io_completed(Ok(()));
        Ok(())
    }

    async fn truncate(&mut self, from: LogId) -> Stored<()> {
        self.0.log.borrow_mut().truncate(from.index).map_err(|error| self.0.failed(error))
    }

    /// Waits until a snapshot covers what is to be dropped: one that another voter sent is installed
    /// meanwhile, and a crash in between must find either the entries or the snapshot.
    async fn purge(&mut self, upto: LogId) -> Stored<()> {
        let mut snapshotted = self.0.snapshotted.subscribe();
        let covered = |index: &Option<u64>| index.is_some_and(|index| index >= upto.index);
        // The sender lives as long as the voter.
        let _ = snapshotted.wait_for(covered).await;
        self.0.log.borrow_mut().purge(upto.index).map_err(|error| self.0.failed(error))
    }
}

fn indexes(range: &impl RangeBounds<u64>, end: u64) -> Range<u64> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last + 1,
        Bound::Excluded(&end) => end,
        Bound::Unbounded => end,
    };
    start..end
}

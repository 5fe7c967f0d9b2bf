//! The vote of this voter, in the file where Kafka keeps its own: written aside, synced, renamed.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{NodeId, Vote};
use crate::node::controller::metadata_log::{MetadataLogError, at, sync_directory};

const FILE_NAME: &str = "quorum-state";

/// For whom this voter voted in which term.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    leader_epoch: u64,
    voted_id: Option<NodeId>,
}

/// The vote on disk.
#[derive(Debug)]
pub(super) struct VoteFile {
    directory: PathBuf,
    stored: Option<Vote>,
}

impl VoteFile {
    /// Reads the file in `directory`, if there is one.
    pub(super) fn open(directory: &Path) -> Result<VoteFile, MetadataLogError> {
        let path = directory.join(FILE_NAME);
        let stored = match fs::read(&path) {
            Ok(bytes) => {
                let foreign = |_| MetadataLogError::Foreign { path, what: "the vote" };
                Some(serde_json::from_slice::<Stored>(&bytes).map_err(foreign)?)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return at(&path, "read", Err(error)),
        };
        let stored = stored.map(|stored| {
            let mut vote = Vote::default();
            vote.leader_id.term = stored.leader_epoch;
            vote.leader_id.voted_for = stored.voted_id;
            vote
        });
        Ok(VoteFile { directory: directory.to_owned(), stored })
    }

    /// The vote, never as one that a majority is known to have granted: a leader that restarts must
    /// be elected again, because the end of its log, sent to others before it was synced here, may
    /// be gone, and the same term must not name different entries.
    pub(super) fn read(&self) -> Option<Vote> {
        self.stored
    }

    /// Makes a vote durable.
    pub(super) fn save(&mut self, vote: &Vote) -> Result<(), MetadataLogError> {
        let vote = Vote { committed: false, ..*vote };
        if self.stored == Some(vote) {
            return Ok(());
        }
        let (term, voted_id) = (vote.leader_id.term, vote.leader_id.voted_for);
        let text = serde_json::json!(Stored { leader_epoch: term, voted_id }).to_string();
        let path = self.directory.join(FILE_NAME);
        let aside = path.with_extension("new");
        let written = File::create(&aside).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        at(&aside, "write", written)?;
        at(&path, "rename", fs::rename(&aside, &path))?;
        sync_directory(&self.directory)?;
        self.stored = Some(vote);
        Ok(())
    }

    /// Whether this voter is the one and only leader of a term: it voted for itself there, and has
    /// not voted since.
    pub(super) fn is_own_term(&self, node: NodeId, term: u64) -> bool {
        self.stored.is_some_and(|vote| {
            vote.leader_id.term == term && vote.leader_id.voted_for == Some(node)
        })
    }
}

//! One replica of one partition: leader and follower rules as a sans-IO state machine.
//!
//! The shell feeds [`Input`]s with the time and drains [`Output`]s; it holds no rule. A replica's
//! log *content* lives in `storage`; this machine knows only its ends and its leader epochs.
//!
//! In reading order: `message` (what goes in and out), `log_state`, `leader_epochs`,
//! `high_watermark`, `isr`, `replica_progress`, `pending_produce`, `parked_fetches`, `leader`,
//! `isr_changes`, `follower`, `observe`. This file decides the role and hands inputs to it.
//!
//! Source of the rules: spec/kip966.md section 1.

mod follower;
pub mod high_watermark;
mod isr;
mod isr_changes;
mod leader;
mod leader_epochs;
mod local;
mod log_state;
mod message;
mod observe;
mod parked_fetches;
mod pending_produce;
mod replica_progress;
#[cfg(test)]
mod tests;

pub use leader_epochs::LeaderEpochs;
pub use local::{IsrCounters, PendingIsr};
pub use log_state::LogState;
pub use message::{
    BatchSpan, Fetch, FetchAnswer, Fetcher, FollowerFetch, Input, IsrCommitted, IsrProposal,
    Output, PartitionMetadata, Peer, RequestId, Settings,
};

use crate::types::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, Offset};
use follower::{Fetched, Follower};
use leader::{Leader, Produce, epoch_error};
use local::{Local, Term};

/// One replica of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Partition {
    local: Local,
    role: Role,
}

/// Roles change by metadata only. Any role may follow any other; leaving `Leader` answers all
/// waiting requests with NOT_LEADER_OR_FOLLOWER.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// Metadata has not spoken yet.
    Unknown,
    /// There is no leader, or this broker is not a replica.
    Idle { term: Term, leader: Option<BrokerId> },
    /// This replica leads.
    Leader(Box<Leader>),
    /// This replica follows.
    Follower(Follower),
}

impl Partition {
    /// A replica on broker `local` in its life `local_epoch`, with the log as recovered. It has no
    /// role until the first [`Input::Metadata`].
    pub fn new(
        local: BrokerId,
        local_epoch: BrokerEpoch,
        settings: Settings,
        log: LogState,
    ) -> Partition {
        let local = Local {
            id: local,
            epoch: local_epoch,
            settings,
            peers: Vec::new(),
            log: log.recovered(),
            counters: IsrCounters::default(),
        };
        Partition { local, role: Role::Unknown }
    }

    /// Takes one input at `now` and appends what the shell must do to `out`.
    ///
    /// # Panics
    ///
    /// If the shell breaks the contract (a produce without records), or on a bug.
    pub fn step(&mut self, now: MonotonicTime, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Metadata(metadata) => self.apply_metadata(now, metadata, out),
            Input::Peers(peers) => {
                self.local.peers = peers;
                self.refresh_leader();
            }
            Input::Settings(settings) => {
                self.local.settings = settings;
                self.refresh_leader();
            }
            Input::MetadataAndSettings(metadata, settings) => {
                self.local.settings = settings;
                self.refresh_leader();
                self.apply_metadata(now, metadata, out);
            }
            Input::Produce { request, acks, record_count, deadline } => {
                self.produce(Produce { request, acks, record_count, deadline }, out);
            }
            Input::Durable(end) => self.durable(now, end, out),
            Input::Fetch { request, fetch, deadline } => {
                self.fetch(now, (request, fetch, deadline), out);
            }
            Input::ForgetFetch(request) => self.lead(out, |leader, _, out| {
                if !leader.fetches.forget(request) {
                    out.push(Output::Ignored("forgotten fetch was not parked"));
                }
            }),
            Input::Tick => {
                if let Role::Leader(leader) = &mut self.role {
                    leader.tick(&mut self.local, now, out);
                }
            }
            Input::IsrCommitted { proposal, committed } => self.lead(out, |leader, local, out| {
                leader.isr_committed(local, now, (&proposal, committed), out);
            }),
            Input::IsrRefused { proposal, error } => self.lead(out, |leader, local, out| {
                leader.isr_refused(local, proposal, error, out);
            }),
            Input::FetchedFromLeader {
                request_offset,
                request_leader_epoch,
                batches,
                high_watermark,
                log_start_offset,
                diverging,
            } => self.follow(out, |follower, local, out| {
                let request = (request_offset, request_leader_epoch);
                let leader = (log_start_offset, high_watermark);
                let fetched = Fetched { request, batches: &batches, leader, diverging };
                follower.fetched(local, now, &fetched, out);
            }),
            Input::FetchFailed { request_leader_epoch, error } => {
                self.follow(out, |follower, local, out| {
                    follower.fetch_failed(local, now, (request_leader_epoch, error), out);
                });
            }
            Input::LeaderOffsets { log_start_offset, log_end_offset } => {
                self.follow(out, |follower, local, out| {
                    let offsets = (log_start_offset, log_end_offset);
                    follower.leader_offsets(local, now, offsets, out);
                });
            }
        }
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }

    /// The one place where roles change.
    fn apply_metadata(
        &mut self,
        now: MonotonicTime,
        metadata: PartitionMetadata,
        out: &mut Vec<Output>,
    ) {
        let new = Term::of(&metadata);
        let stale = |known: Term| {
            new.partition_epoch < known.partition_epoch || new.leader_epoch < known.leader_epoch
        };
        if self.term().is_some_and(stale) {
            out.push(Output::Ignored("metadata older than known"));
            return;
        }
        let local = &mut self.local;
        let lead = metadata.leader == Some(local.id);
        let follow = metadata.leader.filter(|_| metadata.replicas.contains(&local.id));
        if let (Role::Leader(leader), false) = (&mut self.role, lead) {
            leader.step_down(local, out);
        }
        match (&mut self.role, follow) {
            (Role::Leader(leader), _) if lead => leader.apply_metadata(local, now, metadata, out),
            (_, _) if lead => {
                self.role = Role::Leader(Box::new(Leader::assume(local, now, metadata, out)));
            }
            (Role::Follower(follower), Some(id)) => {
                follower.apply_metadata(local, now, (id, new), out);
            }
            (_, Some(id)) => {
                self.role = Role::Follower(Follower::start(local, now, (id, new), out));
            }
            (_, None) => self.role = Role::Idle { term: new, leader: metadata.leader },
        }
    }

    fn refresh_leader(&mut self) {
        if let Role::Leader(leader) = &mut self.role {
            leader.refresh_followers(&self.local.settings, &self.local.peers);
        }
    }

    fn produce(&mut self, produce: Produce, out: &mut Vec<Output>) {
        match &mut self.role {
            Role::Leader(leader) => leader.produce(&mut self.local, produce, out),
            Role::Unknown | Role::Idle { .. } | Role::Follower(_) => {
                let result = Err(ErrorCode::NotLeaderOrFollower);
                out.push(Output::AnswerProduce { request: produce.request, result });
            }
        }
    }

    fn durable(&mut self, now: MonotonicTime, end: Offset, out: &mut Vec<Output>) {
        match &mut self.role {
            Role::Leader(leader) => leader.durable(&mut self.local, now, end, out),
            Role::Follower(follower) => follower.durable(&mut self.local, end, out),
            Role::Unknown | Role::Idle { .. } => {
                self.local.log.mark_durable(end);
            }
        }
    }

    fn fetch(
        &mut self,
        now: MonotonicTime,
        (request, fetch, deadline): (RequestId, Fetch, MonotonicTime),
        out: &mut Vec<Output>,
    ) {
        if let Role::Leader(leader) = &mut self.role {
            leader.fetch(&mut self.local, now, (request, fetch, deadline), out);
            return;
        }
        let claimed = fetch.current_leader_epoch;
        let conflict = claimed
            .zip(self.leader_epoch())
            .and_then(|(claimed, known)| epoch_error(claimed, known));
        let error = conflict.unwrap_or(ErrorCode::NotLeaderOrFollower);
        let readable = parked_fetches::readable(&fetch, &self.local);
        let answer = FetchAnswer { error, ..readable.without_records() };
        out.push(Output::AnswerFetch { request, answer });
    }

    /// For inputs that mean something to a leader only.
    fn lead(
        &mut self,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut Leader, &mut Local, &mut Vec<Output>),
    ) {
        match &mut self.role {
            Role::Leader(leader) => act(leader, &mut self.local, out),
            Role::Unknown | Role::Idle { .. } | Role::Follower(_) => {
                out.push(Output::Ignored("input for a leader, but this replica does not lead"));
            }
        }
    }

    /// For inputs that mean something to a follower only.
    fn follow(
        &mut self,
        out: &mut Vec<Output>,
        act: impl FnOnce(&mut Follower, &mut Local, &mut Vec<Output>),
    ) {
        match &mut self.role {
            Role::Follower(follower) => act(follower, &mut self.local, out),
            Role::Unknown | Role::Idle { .. } | Role::Leader(_) => {
                out.push(Output::Ignored("input for a follower, but this replica does not follow"));
            }
        }
    }
}

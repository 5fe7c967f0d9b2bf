//! One follower as its leader knows it: how far it is, since when it keeps up, which life of the
//! broker last fetched. Says whether it is caught up and eligible; proposes nothing.
//!
//! Source: spec/kip966.md 1.1 (fields), 1.2 (resets), 1.3 (update, `caughtUp`, `eligible`).

use std::time::Duration;

use super::high_watermark::FollowerEnd;
use super::message::{Fetch, Peer};
use crate::types::{BrokerEpoch, BrokerId, MonotonicTime, Offset};

/// Broker epoch of a follower's last fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FetchEpoch {
    /// It has not fetched yet.
    Unseen,
    /// The fetch carried -1: the check against metadata is skipped.
    NotGiven,
    /// As carried.
    Given(BrokerEpoch),
}

/// One follower as its leader knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReplicaProgress {
    /// Its id.
    pub(super) id: BrokerId,
    /// Its durable end, as its last fetch acknowledged it; `None` before the first.
    pub(super) log_end_offset: Option<Offset>,
    /// Kept in step with the leader's `IsrState` so that the high watermark is one pass.
    pub(super) in_maximal_isr: bool,
    /// Broker epoch of its last fetch.
    pub(super) fetch_epoch: FetchEpoch,
    /// The end of what it could have been served when it last fetched; of a pipelined follower: at
    /// the last fetch whose mark it had reached before the next was set.
    pub(super) leader_end_at_last_fetch: Option<Offset>,
    /// When that was.
    pub(super) last_fetch_time: Option<MonotonicTime>,
    /// When it last held everything the leader had; `None` is long ago.
    pub(super) last_caught_up_time: Option<MonotonicTime>,
    /// What metadata says of the broker.
    pub(super) peer: Option<Peer>,
    /// Outside the ISR: since which fetch it meets the join rule without a break.
    pub(super) joinable_since: Option<MonotonicTime>,
}

impl ReplicaProgress {
    /// A follower nothing is known of.
    pub(super) fn unknown(id: BrokerId) -> ReplicaProgress {
        ReplicaProgress {
            id,
            log_end_offset: None,
            in_maximal_isr: false,
            fetch_epoch: FetchEpoch::Unseen,
            leader_end_at_last_fetch: None,
            last_fetch_time: None,
            last_caught_up_time: None,
            peer: None,
            joinable_since: None,
        }
    }

    /// A new leader epoch of the same leader: what it holds is still known, its clocks restart.
    pub(super) fn continue_in_new_epoch(
        &mut self,
        leader_end: Offset,
        in_sync: Option<MonotonicTime>,
    ) {
        self.leader_end_at_last_fetch = Some(leader_end);
        self.last_fetch_time = in_sync;
    }

    /// Takes note of a fetch, by what it acknowledges. Returns whether its durable end changed.
    ///
    /// A classic follower has everything there was at its last fetch by the next, if it keeps up. A
    /// pipelined one is always behind by what is being synced, so its mark stays until it is reached:
    /// it was caught up as of the time of that mark.
    pub(super) fn acknowledge(
        &mut self,
        now: MonotonicTime,
        fetch: &Fetch,
        epoch: Option<BrokerEpoch>,
        leader_end: Offset,
    ) -> bool {
        let offset = fetch.acknowledged();
        let reached = self.leader_end_at_last_fetch.is_none_or(|end| offset >= end);
        if offset >= leader_end {
            self.last_caught_up_time = self.last_caught_up_time.max(Some(now));
        } else if reached && self.leader_end_at_last_fetch.is_some() {
            self.last_caught_up_time = self.last_caught_up_time.max(self.last_fetch_time);
        }
        let changed = self.log_end_offset != Some(offset);
        self.log_end_offset = Some(offset);
        if reached || fetch.durable_offset.is_none() {
            self.leader_end_at_last_fetch = self.leader_end_at_last_fetch.max(Some(leader_end));
            self.last_fetch_time = Some(now);
        }
        self.fetch_epoch = epoch.map_or(FetchEpoch::NotGiven, FetchEpoch::Given);
        changed
    }

    /// Whether it holds all it could have been served, or did within the lag limit.
    pub(super) fn is_caught_up(
        &self,
        now: MonotonicTime,
        leader_end: Offset,
        lag_time_max: Duration,
    ) -> bool {
        self.log_end_offset >= Some(leader_end)
            || self.last_caught_up_time.is_some_and(|at| now.since(at) <= lag_time_max)
    }

    /// Whether it may be in the ISR: the broker is active, and the life that last fetched is the
    /// life metadata knows.
    pub(super) fn is_eligible(&self) -> bool {
        let active = self.peer.filter(Peer::is_active);
        let Some(registered) = active.and_then(|peer| peer.epoch) else {
            return false;
        };
        match self.fetch_epoch {
            FetchEpoch::Unseen => false,
            FetchEpoch::NotGiven => true,
            FetchEpoch::Given(epoch) => epoch == registered,
        }
    }

    /// Whether metadata knows a later life of the broker, and an unfenced one, than the one that
    /// asks. What an outdated life of a fenced broker says does no harm: it is not eligible.
    pub(super) fn is_outdated(&self, asking: Option<BrokerEpoch>) -> bool {
        let registered = self.peer.filter(|peer| !peer.fenced).and_then(|peer| peer.epoch);
        asking.zip(registered).is_some_and(|(asking, registered)| asking < registered)
    }

    /// The epoch a proposal names for it; `None` makes the controller skip its check.
    pub(super) fn proposed_epoch(&self) -> Option<BrokerEpoch> {
        match self.fetch_epoch {
            FetchEpoch::Unseen | FetchEpoch::NotGiven => None,
            FetchEpoch::Given(epoch) => Some(epoch),
        }
    }

    /// What the high watermark needs to know of it.
    pub(super) fn end(
        &self,
        now: MonotonicTime,
        leader_end: Offset,
        lag_time_max: Duration,
    ) -> FollowerEnd {
        FollowerEnd {
            id: self.id,
            log_end_offset: self.log_end_offset,
            in_maximal_isr: self.in_maximal_isr,
            about_to_join: !self.in_maximal_isr
                && self.is_eligible()
                && self.is_caught_up(now, leader_end, lag_time_max),
        }
    }
}

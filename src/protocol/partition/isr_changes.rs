//! How a leader changes its ISR: when it proposes, and what it makes of the controller's reply.
//! The states themselves are in `isr`; sending, queueing and batching are `protocol::broker`'s.
//!
//! Source: spec/kip966.md 1.5, 1.6.

use super::isr::IsrState;
use super::leader::Leader;
use super::local::Local;
use super::message::{IsrCommitted, IsrProposal, Output};
use crate::types::{BrokerEpoch, BrokerId, ErrorCode, HwmGate, IsrExpand, IsrWait, MonotonicTime};

impl Leader {
    /// Proposes to add the follower at `index` if it meets the join rule and nothing is pending.
    pub(super) fn maybe_expand(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        index: usize,
        out: &mut Vec<Output>,
    ) {
        if !self.may_join(local, now, index) {
            self.followers[index].joinable_since = None;
            return;
        }
        self.followers[index].joinable_since.get_or_insert(now);
        if self.isr.pending().is_some() {
            return;
        }
        let joining = self.followers[index].id;
        let isr = self.isr.committed().to_vec();
        let proposal = self.proposal(local, isr.iter().copied().chain([joining]));
        self.isr = IsrState::PendingExpand { isr, joining, proposal: proposal.clone() };
        self.propose(local, now, proposal, out);
    }

    /// Proposes to remove every member that is not caught up, all at once. No floor: the proposal
    /// may lie under min ISR, unless the gate is `soft`: then those that are behind the longest go,
    /// as long as effective min ISR is left.
    pub(super) fn maybe_shrink(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        out: &mut Vec<Output>,
    ) {
        if self.isr.pending().is_some() {
            return;
        }
        let mut leaving = self.out_of_sync(local, now);
        if local.settings.hwm_gate == HwmGate::Soft {
            let floor = self.effective_min_isr(&local.settings);
            leaving.sort_by_key(|&(caught_up_at, _)| caught_up_at);
            leaving.truncate(self.isr.committed().len().saturating_sub(floor));
        }
        if leaving.is_empty() {
            return;
        }
        let leaves = |id: BrokerId| leaving.iter().any(|&(_, leaving)| leaving == id);
        let isr = self.isr.committed().to_vec();
        let proposal = self.proposal(local, isr.iter().copied().filter(|&id| !leaves(id)));
        self.isr = IsrState::PendingShrink { isr, proposal: proposal.clone() };
        self.propose(local, now, proposal, out);
    }

    /// Members that are not caught up, each with when it last was.
    fn out_of_sync(
        &self,
        local: &Local,
        now: MonotonicTime,
    ) -> Vec<(Option<MonotonicTime>, BrokerId)> {
        let (end, lag) = (local.served_end(), local.settings.lag_time_max);
        let lagging = |&id: &BrokerId| {
            let follower = self.followers.iter().find(|follower| follower.id == id);
            match follower {
                _ if id == local.id => None,
                Some(known) if known.is_caught_up(now, end, lag) => None,
                Some(known) => Some((known.last_caught_up_time, id)),
                None => Some((None, id)),
            }
        };
        self.isr.committed().iter().filter_map(lagging).collect()
    }

    /// The controller committed `proposal` as `committed`.
    pub(super) fn isr_committed(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        (proposal, committed): (&IsrProposal, IsrCommitted),
        out: &mut Vec<Output>,
    ) {
        if self.isr.pending() != Some(proposal) {
            out.push(Output::Ignored("ISR change committed that is not pending"));
            return;
        }
        let stale_leader_epoch = committed.leader_epoch != self.term.leader_epoch;
        if stale_leader_epoch || committed.partition_epoch < self.term.partition_epoch {
            local.counters.failed_updates += 1;
            out.push(Output::Ignored("ISR change committed under other epochs"));
            return;
        }
        self.count_isr_change(local);
        self.term.partition_epoch = committed.partition_epoch;
        self.isr = IsrState::Committed { isr: committed.isr };
        self.refresh_followers(&local.settings, &local.peers);
        self.committed_isr_changed(local, now, out);
    }

    /// The pending proposal is committed, as the reply says or metadata shows, whichever comes first.
    pub(super) fn count_isr_change(&self, local: &mut Local) {
        if matches!(self.isr, IsrState::PendingExpand { .. }) {
            local.counters.expands += 1;
        } else {
            local.counters.shrinks += 1;
        }
    }

    /// The controller refused `proposal`.
    pub(super) fn isr_refused(
        &mut self,
        local: &mut Local,
        proposal: IsrProposal,
        error: ErrorCode,
        out: &mut Vec<Output>,
    ) {
        if self.isr.pending() != Some(&proposal) {
            out.push(Output::Ignored("ISR change refused that is not pending"));
            return;
        }
        local.counters.failed_updates += 1;
        match error {
            // The controller vouches that nothing was applied.
            ErrorCode::OperationNotAttempted | ErrorCode::IneligibleReplica => {
                self.isr.revert();
                self.refresh_followers(&local.settings, &local.peers);
            }
            // Perhaps applied, perhaps overtaken: metadata will tell, and until then the pending
            // member keeps counting.
            ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::InvalidUpdateVersion
            | ErrorCode::InvalidRequest
            | ErrorCode::NewLeaderElected => {
                out.push(Output::Ignored("ISR change given up, stays pending until metadata"));
            }
            _ => out.push(Output::ProposeIsr(proposal)),
        }
    }

    /// The join rule. The lag clock is consulted only under `isr.expand = caught-up`, and only
    /// under min ISR, where the frozen high watermark is trivially reached (KAFKA-19996).
    fn may_join(&self, local: &Local, now: MonotonicTime, index: usize) -> bool {
        let (follower, log) = (&self.followers[index], &local.log);
        let reached = follower.log_end_offset >= Some(log.high_watermark)
            && follower.log_end_offset >= Some(self.epoch_start_offset);
        let must_be_caught_up = match local.settings.isr_expand {
            IsrExpand::Kafka => false,
            IsrExpand::CaughtUp => self.is_under_min_isr(&local.settings),
        };
        !self.isr.committed().contains(&follower.id)
            && follower.is_eligible()
            && reached
            && (!must_be_caught_up
                || follower.is_caught_up(now, local.served_end(), local.settings.lag_time_max))
    }

    fn propose(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        proposal: IsrProposal,
        out: &mut Vec<Output>,
    ) {
        self.refresh_followers(&local.settings, &local.peers);
        out.push(Output::ProposeIsr(proposal));
        if local.settings.isr_wait == IsrWait::None {
            // The proposal counts as committed here and now.
            self.advance_high_watermark(local, now, out);
        }
    }

    fn proposal(&self, local: &Local, members: impl Iterator<Item = BrokerId>) -> IsrProposal {
        IsrProposal {
            leader_epoch: self.term.leader_epoch,
            partition_epoch: self.term.partition_epoch,
            isr: members.map(|id| (id, self.proposed_epoch(local, id))).collect(),
            recovering: false,
        }
    }

    /// A proposal names the epoch of the member's last fetch, not the one metadata knows: both
    /// must come from the same snapshot of the follower (KAFKA-15221).
    fn proposed_epoch(&self, local: &Local, id: BrokerId) -> Option<BrokerEpoch> {
        if id == local.id {
            return Some(local.epoch);
        }
        self.followers.iter().find(|known| known.id == id).and_then(|known| known.proposed_epoch())
    }
}

//! What the shell may ask of a partition between steps, and the invariants that hold there.

use super::high_watermark::HighWatermark;
use super::leader::Leader;
use super::leader_epochs::LeaderEpochs;
use super::local::{IsrCounters, PendingIsr, Term};
use super::{Partition, Role};
use crate::types::{BrokerId, ErrorCode, HwmGate, LeaderEpoch, MonotonicTime, Offset};

impl Partition {
    /// When to give [`Tick`](super::Input::Tick) at the latest; may be earlier than the first thing due.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        match &self.role {
            Role::Leader(leader) => Some(leader.deadline()),
            Role::Unknown | Role::Idle { .. } | Role::Follower(_) => None,
        }
    }

    /// Offset the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.local.log.log_end_offset
    }

    /// Exclusive end of what this replica's durability mode holds.
    pub fn durable_offset(&self) -> Offset {
        self.local.log.durable_offset
    }

    /// Exclusive end of what is known to be committed.
    pub fn high_watermark(&self) -> Offset {
        self.local.log.high_watermark
    }

    /// First offset kept.
    pub fn log_start_offset(&self) -> Offset {
        self.local.log.log_start_offset
    }

    /// Which leader epoch begins where.
    pub fn leader_epochs(&self) -> &LeaderEpochs {
        &self.local.log.epochs
    }

    /// Whether this replica leads.
    pub fn is_leader(&self) -> bool {
        self.leading().is_some()
    }

    /// The leader, if metadata names one.
    pub fn leader(&self) -> Option<BrokerId> {
        match &self.role {
            Role::Unknown => None,
            Role::Idle { leader, .. } => *leader,
            Role::Leader(_) => Some(self.local.id),
            Role::Follower(follower) => Some(follower.leader),
        }
    }

    /// The leader epoch; `None` before the first metadata.
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        self.term().map(|term| term.leader_epoch)
    }

    /// The ISR as committed by the controller; empty unless this replica leads.
    pub fn committed_isr(&self) -> &[BrokerId] {
        self.leading().map_or(&[], |leader| leader.isr.committed())
    }

    /// The ISR the high watermark waits for; empty unless this replica leads. Allocates: not for
    /// the hot path.
    pub fn maximal_isr(&self) -> Vec<BrokerId> {
        let Some(leader) = self.leading() else {
            return Vec::new();
        };
        let followers = leader.followers.iter().filter(|follower| follower.in_maximal_isr);
        [self.local.id].into_iter().chain(followers.map(|follower| follower.id)).collect()
    }

    /// Whether an ISR proposal is pending.
    pub fn is_isr_pending(&self) -> bool {
        self.leading().is_some_and(|leader| leader.isr.pending().is_some())
    }

    /// The ISR change under way. Allocates: not for the hot path.
    pub fn pending_isr(&self) -> Option<PendingIsr> {
        let leader = self.leading()?;
        let (isr, proposal) = (leader.isr.committed(), leader.isr.pending()?);
        let proposed = |id: &BrokerId| proposal.isr.iter().any(|(member, _)| member == id);
        let known = |id: BrokerId| leader.followers.iter().find(|known| known.id == id);
        let is_expand = proposal.isr.len() > isr.len();
        let members: Vec<BrokerId> = if is_expand {
            let joins = proposal.isr.iter().map(|&(id, _)| id).filter(|id| !isr.contains(id));
            joins.collect()
        } else {
            isr.iter().copied().filter(|id| !proposed(id)).collect()
        };
        let detected = members.iter().filter_map(|&id| {
            let follower = known(id)?;
            if is_expand { follower.joinable_since } else { follower.last_caught_up_time }
        });
        Some(PendingIsr {
            is_expand,
            isr_before: isr.len(),
            isr_after: proposal.isr.len(),
            min_isr: leader.effective_min_isr(&self.local.settings),
            partition_epoch: proposal.partition_epoch,
            detected_at: detected.min(),
            members,
        })
    }

    /// Whether this replica leads with a committed ISR under effective min ISR.
    pub fn is_under_min_isr(&self) -> bool {
        self.leading().is_some_and(|leader| leader.is_under_min_isr(&self.local.settings))
    }

    /// Effective min ISR by the settings this leader has read; `None` if it does not lead.
    pub fn min_isr(&self) -> Option<usize> {
        self.leading().map(|leader| leader.effective_min_isr(&self.local.settings))
    }

    /// Whether this replica leads and its committed ISR lets the high watermark move.
    pub fn may_commit(&self) -> bool {
        let is_gated = self.local.settings.hwm_gate != HwmGate::Legacy;
        self.leading().is_some() && !(is_gated && self.is_under_min_isr())
    }

    /// Outcome of the leader's last evaluation of its high watermark, with the reason if it held.
    pub fn high_watermark_decision(&self) -> Option<HighWatermark> {
        self.leading().and_then(|leader| leader.decision)
    }

    /// Fates of the ISR changes proposed here since the machine was made.
    pub fn isr_counters(&self) -> IsrCounters {
        self.local.counters
    }

    /// What ListOffsets(latest) tells a client.
    ///
    /// Errors: NOT_LEADER_OR_FOLLOWER; OFFSET_NOT_AVAILABLE while the high watermark has not
    /// reached the start of the leader's epoch.
    pub fn latest_offset_for_clients(&self) -> Result<Offset, ErrorCode> {
        let leader = self.leading().ok_or(ErrorCode::NotLeaderOrFollower)?;
        if self.high_watermark() < leader.epoch_start_offset {
            return Err(ErrorCode::OffsetNotAvailable);
        }
        Ok(self.high_watermark())
    }

    /// The largest epoch at or below `epoch` and its end offset (OffsetForLeaderEpoch); `None` if
    /// `epoch` is newer than all known here.
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.local.log.epochs.end_of(epoch, self.local.log.log_end_offset)
    }

    /// Panics if the machine's state contradicts itself.
    pub fn check_invariants(&self) {
        let log = &self.local.log;
        assert!(log.log_start_offset <= log.high_watermark);
        assert!(log.high_watermark <= log.log_end_offset);
        assert!(log.durable_offset <= log.log_end_offset);
        let epochs = log.epochs.entries();
        assert!(epochs.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        assert!(epochs.last().is_none_or(|&(_, start)| start <= log.log_end_offset));
        match &self.role {
            Role::Unknown | Role::Idle { .. } => {}
            Role::Leader(leader) => leader.check_invariants(&self.local),
            Role::Follower(follower) => follower.check_invariants(&self.local),
        }
    }

    fn leading(&self) -> Option<&Leader> {
        match &self.role {
            Role::Leader(leader) => Some(leader),
            Role::Unknown | Role::Idle { .. } | Role::Follower(_) => None,
        }
    }

    pub(super) fn term(&self) -> Option<Term> {
        match &self.role {
            Role::Unknown => None,
            Role::Idle { term, .. } => Some(*term),
            Role::Leader(leader) => Some(leader.term),
            Role::Follower(follower) => Some(follower.term),
        }
    }
}

//! The ISR as committed by the controller, and the one change to it that may be pending.
//!
//! Transitions:
//! - `Committed` -> `PendingExpand`: a follower's fetch meets the join rule;
//! - `Committed` -> `PendingShrink`: the lag timer finds members out of sync;
//! - pending -> `Committed`: the controller committed it, refused it while vouching that nothing
//!   was applied, or metadata of a newer partition epoch replaced the whole state.
//!
//! Source: spec/kip966.md 1.1, 1.5, 1.6. Admission uses the committed ISR, the minimum of the high
//! watermark uses the maximal ISR, a proposal is based on the committed ISR.

use super::message::IsrProposal;
use crate::types::{BrokerId, IsrWait};

/// Committed and proposed are different variants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum IsrState {
    /// Nothing is pending.
    Committed {
        /// As the controller committed it.
        isr: Vec<BrokerId>,
    },
    /// `proposal` would add `joining`.
    PendingExpand {
        /// As the controller committed it.
        isr: Vec<BrokerId>,
        /// Not in `isr`.
        joining: BrokerId,
        /// Exactly as sent; replies are matched against it.
        proposal: IsrProposal,
    },
    /// `proposal` would remove the members it lacks.
    PendingShrink {
        /// As the controller committed it.
        isr: Vec<BrokerId>,
        /// Exactly as sent; replies are matched against it.
        proposal: IsrProposal,
    },
}

impl IsrState {
    /// As the controller committed it.
    pub(super) fn committed(&self) -> &[BrokerId] {
        match self {
            IsrState::Committed { isr }
            | IsrState::PendingExpand { isr, .. }
            | IsrState::PendingShrink { isr, .. } => isr,
        }
    }

    /// The proposal under way.
    pub(super) fn pending(&self) -> Option<&IsrProposal> {
        match self {
            IsrState::Committed { .. } => None,
            IsrState::PendingExpand { proposal, .. } | IsrState::PendingShrink { proposal, .. } => {
                Some(proposal)
            }
        }
    }

    /// Whether the pending proposal is for exactly these members.
    pub(super) fn proposes(&self, isr: &[BrokerId]) -> bool {
        self.pending().is_some_and(|proposal| {
            proposal.isr.len() == isr.len() && proposal.isr.iter().all(|(id, _)| isr.contains(id))
        })
    }

    /// Size of the ISR that gate and admission count as committed.
    pub(super) fn counted(&self, wait: IsrWait) -> usize {
        match (self.pending(), wait) {
            (Some(proposal), IsrWait::None) => proposal.isr.len(),
            (None, IsrWait::None) | (_, IsrWait::Controller) => self.committed().len(),
        }
    }

    /// Whether `id` belongs to the maximal ISR: pending additions count, and so do members whose
    /// removal is pending; with [`IsrWait::None`] it is the proposed ISR as it stands.
    pub(super) fn in_maximal(&self, id: BrokerId, wait: IsrWait) -> bool {
        match (self, wait) {
            (IsrState::PendingShrink { proposal, .. }, IsrWait::None) => {
                proposal.isr.iter().any(|&(member, _)| member == id)
            }
            (IsrState::PendingExpand { isr, joining, .. }, _) => {
                *joining == id || isr.contains(&id)
            }
            (IsrState::Committed { isr }, _)
            | (IsrState::PendingShrink { isr, .. }, IsrWait::Controller) => isr.contains(&id),
        }
    }

    /// Size of the maximal ISR.
    pub(super) fn maximal_count(&self, wait: IsrWait) -> usize {
        match (self, wait) {
            (IsrState::PendingShrink { proposal, .. }, IsrWait::None) => proposal.isr.len(),
            (IsrState::PendingExpand { isr, .. }, _) => isr.len() + 1,
            (IsrState::Committed { isr }, _)
            | (IsrState::PendingShrink { isr, .. }, IsrWait::Controller) => isr.len(),
        }
    }

    /// Nothing was applied: back to what is committed.
    pub(super) fn revert(&mut self) {
        let isr = match self {
            IsrState::Committed { isr }
            | IsrState::PendingExpand { isr, .. }
            | IsrState::PendingShrink { isr, .. } => std::mem::take(isr),
        };
        *self = IsrState::Committed { isr };
    }

    pub(super) fn check_invariants(&self, leader: BrokerId) {
        assert!(self.committed().contains(&leader));
        assert!(self.pending().is_none_or(|p| p.isr.iter().any(|&(id, _)| id == leader)));
        match self {
            IsrState::Committed { .. } => {}
            IsrState::PendingExpand { isr, joining, proposal } => {
                assert!(!isr.contains(joining));
                assert!(proposal.isr.len() == isr.len() + 1);
            }
            IsrState::PendingShrink { isr, proposal } => {
                assert!(proposal.isr.len() < isr.len());
                assert!(proposal.isr.iter().all(|(id, _)| isr.contains(id)));
            }
        }
    }
}

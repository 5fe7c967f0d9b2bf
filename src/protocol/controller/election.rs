//! Who leads a partition: the order of preference, as a decision with its reason.
//! Does not change anything, and never looks at the length of a log.
//!
//! Source: spec/kip966.md 2.5 step 3.

use super::partition_change::{Eligible, Rules, Targets};
use super::settings::LastKnown;
use crate::protocol::metadata::PartitionRegistration;
use crate::types::BrokerId;

/// What the caller of an election allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Election {
    /// ISR, then ELR, then the last known leader.
    Online,
    /// As `Online`, then any live replica.
    Unclean,
    /// As `Online`, but the first replica comes before the current leader.
    Preferred,
    /// This replica and no other: its log was found to be the best, or an operator named it.
    Chosen(BrokerId),
}

/// Who leads and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elected {
    /// A live member of the ISR.
    Isr(BrokerId),
    /// A live member of the ELR, the ISR being empty. Clean: it holds all below the high watermark.
    Elr(BrokerId),
    /// The last known leader, ISR and ELR being empty. May lose acknowledged records.
    LastKnownLeader(BrokerId),
    /// A live replica, because that is allowed or it was chosen. May lose acknowledged records.
    AnyReplica(BrokerId),
    /// Nobody may.
    Nobody,
}

impl Elected {
    /// The new leader.
    pub(super) fn leader(self) -> Option<BrokerId> {
        match self {
            Elected::Isr(leader)
            | Elected::Elr(leader)
            | Elected::LastKnownLeader(leader)
            | Elected::AnyReplica(leader) => Some(leader),
            Elected::Nobody => None,
        }
    }

    /// Whether acknowledged records may be lost by it.
    pub(super) fn is_unclean(self) -> bool {
        match self {
            Elected::LastKnownLeader(_) | Elected::AnyReplica(_) => true,
            Elected::Isr(_) | Elected::Elr(_) | Elected::Nobody => false,
        }
    }
}

/// Elects a leader for `partition` as it is about to become.
pub(super) fn elect(
    partition: &PartitionRegistration,
    targets: &Targets,
    eligible: &Eligible,
    rules: &Rules<'_>,
) -> Elected {
    let first = match targets.election {
        Election::Preferred => targets.replicas.first().copied(),
        Election::Online | Election::Unclean => None,
        Election::Chosen(leader) => return chosen(leader, targets, eligible, rules),
    };
    let in_order =
        first.into_iter().chain(partition.leader).chain(targets.replicas.iter().copied());
    in_order
        .filter_map(|candidate| clean(candidate, targets, eligible, rules))
        .next()
        .or_else(|| last_known_leader(partition, targets, eligible, rules))
        .or_else(|| any_replica(targets, rules))
        .unwrap_or(Elected::Nobody)
}

fn chosen(leader: BrokerId, targets: &Targets, eligible: &Eligible, rules: &Rules<'_>) -> Elected {
    let may_lead = targets.replicas.contains(&leader) && (rules.may_lead)(leader);
    let unclean = may_lead.then_some(Elected::AnyReplica(leader));
    clean(leader, targets, eligible, rules).or(unclean).unwrap_or(Elected::Nobody)
}

fn clean(
    candidate: BrokerId,
    targets: &Targets,
    eligible: &Eligible,
    rules: &Rules<'_>,
) -> Option<Elected> {
    if !(rules.may_lead)(candidate) {
        return None;
    }
    if targets.isr.contains(&candidate) {
        return Some(Elected::Isr(candidate));
    }
    let by_elr = targets.isr.is_empty() && eligible.elr.contains(&candidate);
    by_elr.then_some(Elected::Elr(candidate))
}

fn last_known_leader(
    partition: &PartitionRegistration,
    targets: &Targets,
    eligible: &Eligible,
    rules: &Rules<'_>,
) -> Option<Elected> {
    let remembers_leader = rules.elr_on && rules.last_known == LastKnown::Leader;
    if !remembers_leader || !eligible.elr.is_empty() || !targets.isr.is_empty() {
        return None;
    }
    // More than one entry is no pointer to a leader (C27).
    let &[leader] = partition.last_known_elr.as_slice() else { return None };
    if !targets.replicas.contains(&leader) || targets.distrusted() == Some(leader) {
        return None;
    }
    let may_lead = rules.quirks.last_known_leader_may_be_fenced || (rules.may_lead)(leader);
    may_lead.then_some(Elected::LastKnownLeader(leader))
}

fn any_replica(targets: &Targets, rules: &Rules<'_>) -> Option<Elected> {
    if targets.election != Election::Unclean {
        return None;
    }
    let mut live = targets.replicas.iter().copied().filter(|&replica| (rules.may_lead)(replica));
    live.next().map(Elected::AnyReplica)
}

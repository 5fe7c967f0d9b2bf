//! What becomes of a partition's ISR, ELR and leader: one record, or none. Every change of a
//! partition comes through here; a second way would forget a rule (KAFKA-18106).
//!
//! Source: spec/kip966.md 2.5; the numbers below are its steps.

use super::election::{Elected, Election, elect};
use super::settings::{LastKnown, Quirks};
use crate::protocol::metadata::{DirectoryId, PartitionChange, PartitionRegistration};
use crate::types::{BrokerId, TopicPartition};

/// What the caller wants the partition to be.
#[derive(Clone, Debug)]
pub(super) struct Targets {
    /// The ISR before elections.
    pub(super) isr: Vec<BrokerId>,
    /// The assignment, adding ones included.
    pub(super) replicas: Vec<BrokerId>,
    /// Being removed.
    pub(super) removing: Vec<BrokerId>,
    /// Being added.
    pub(super) adding: Vec<BrokerId>,
    /// Directories of the replicas.
    pub(super) directories: Vec<DirectoryId>,
    /// Recovery state, where the caller has a say.
    pub(super) recovering: bool,
    /// Lost an unknown part of its log, so that it may not enter or stay in the ELR.
    pub(super) unclean_shutdown: Option<BrokerId>,
    /// Its files are not as its clean stop left them, so that it may lack even what was durable: where
    /// there is another replica, it is no last resort either.
    pub(super) damaged: Option<BrokerId>,
    /// How a leader is elected.
    pub(super) election: Election,
}

impl Targets {
    /// Everything as it is.
    pub(super) fn of(partition: &PartitionRegistration, election: Election) -> Targets {
        Targets {
            isr: partition.isr.clone(),
            replicas: partition.replicas.clone(),
            removing: partition.removing.clone(),
            adding: partition.adding.clone(),
            directories: partition.directories.clone(),
            recovering: partition.recovering,
            unclean_shutdown: None,
            damaged: None,
            election,
        }
    }

    /// Whoever may not stay as the last member of the ISR, nor as the last known leader.
    pub(super) fn distrusted(&self) -> Option<BrokerId> {
        self.damaged.filter(|_| self.replicas.len() > 1)
    }
}

/// The world around the partition.
pub(super) struct Rules<'a> {
    /// Effective min ISR of the topic before the change.
    pub(super) min_isr: usize,
    /// The feature is on.
    pub(super) elr_on: bool,
    /// What `LastKnownElr` holds.
    pub(super) last_known: LastKnown,
    /// Departures from the KIP.
    pub(super) quirks: Quirks,
    /// Whether a replica is active and not excluded by the caller.
    pub(super) may_lead: &'a dyn Fn(BrokerId) -> bool,
}

/// ELR and last known ELR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Eligible {
    pub(super) elr: Vec<BrokerId>,
    pub(super) last_known: Vec<BrokerId>,
}

/// The record that takes `partition` to `targets`; empty if nothing differs.
pub(super) fn partition_change(
    id: TopicPartition,
    partition: &PartitionRegistration,
    targets: Targets,
    rules: &Rules<'_>,
) -> PartitionChange {
    let mut targets = complete_reassignment(targets); // 1
    let mut eligible = eligible(partition, &targets, rules); // 2
    let elected = elect(partition, &targets, &eligible, rules); // 3
    let mut change = PartitionChange::none(id);
    if elected.leader() != partition.leader {
        lead(elected, partition, &mut targets, &mut eligible, &mut change); // 4
    }
    if change.leader.is_none() && loses_replica(partition, &targets) {
        change.leader = Some(partition.leader); // 5
    }
    close_elr(elected, &targets, &mut eligible, rules); // 6
    set_members(partition, &targets, &eligible, rules, &mut change); // 6, 7
    if rules.quirks.isr_shrink_raises_leader_epoch && loses_isr_member(partition, &change) {
        change.leader = change.leader.or(Some(partition.leader)); // 8
    }
    if rules.elr_on && rules.last_known == LastKnown::Leader {
        remember_leader(partition, targets.distrusted(), &mut change); // 9
    }
    set_assignment(partition, targets, &mut change); // 10
    change
}

/// A reassignment completes once all of its final replicas are in the ISR (KAFKA-15665). The KIP's own
/// condition, an ISR of at least min ISR, follows: no more than the final replicas can be asked for.
fn complete_reassignment(mut targets: Targets) -> Targets {
    if targets.removing.is_empty() && targets.adding.is_empty() {
        return targets;
    }
    let isr = without(&targets.isr, &targets.removing);
    let replicas = without(&targets.replicas, &targets.removing);
    if isr.is_empty() || replicas.is_empty() || !replicas.iter().all(|id| isr.contains(id)) {
        return targets;
    }
    targets.directories = directories_of(&replicas, &targets);
    targets.isr = isr;
    targets.replicas = replicas;
    targets.removing.clear();
    targets.adding.clear();
    targets
}

fn directories_of(replicas: &[BrokerId], targets: &Targets) -> Vec<DirectoryId> {
    let placed = targets.replicas.iter().zip(&targets.directories);
    placed.filter(|(id, _)| replicas.contains(id)).map(|(_, &directory)| directory).collect()
}

fn eligible(partition: &PartitionRegistration, targets: &Targets, rules: &Rules<'_>) -> Eligible {
    let stored =
        Eligible { elr: partition.elr.clone(), last_known: partition.last_known_elr.clone() };
    if !rules.elr_on {
        return stored;
    }
    if targets.isr.len() >= rules.min_isr {
        return Eligible { elr: vec![], last_known: vec![] };
    }
    let candidates = union(&partition.elr, &partition.isr);
    let unclean: Vec<BrokerId> = targets.unclean_shutdown.into_iter().collect();
    let mut elr = without(&without(&candidates, &targets.isr), &unclean);
    let known = union(&candidates, &partition.last_known_elr);
    let mut last_known = without(&without(&known, &targets.isr), &elr);
    last_known.retain(|&id| Some(id) != targets.distrusted());
    if !rules.quirks.removed_replica_stays_in_elr {
        elr.retain(|id| targets.replicas.contains(id));
        last_known.retain(|id| targets.replicas.contains(id));
    }
    Eligible { elr, last_known }
}

fn lead(
    elected: Elected,
    partition: &PartitionRegistration,
    targets: &mut Targets,
    eligible: &mut Eligible,
    change: &mut PartitionChange,
) {
    change.leader = Some(elected.leader());
    match elected {
        Elected::Elr(leader) => {
            targets.isr = vec![leader];
            eligible.elr.retain(|&id| id != leader);
        }
        Elected::LastKnownLeader(leader) | Elected::AnyReplica(leader) => {
            targets.isr = vec![leader];
            change.recovering = (!partition.recovering).then_some(true);
        }
        Elected::Isr(_) | Elected::Nobody => {}
    }
}

fn loses_replica(partition: &PartitionRegistration, targets: &Targets) -> bool {
    partition.replicas.iter().any(|id| !targets.replicas.contains(id))
}

fn loses_isr_member(partition: &PartitionRegistration, change: &PartitionChange) -> bool {
    let kept = |id: &BrokerId| change.isr.as_ref().is_none_or(|isr| isr.contains(id));
    !partition.isr.iter().all(kept)
}

fn close_elr(elected: Elected, targets: &Targets, eligible: &mut Eligible, rules: &Rules<'_>) {
    // At min ISR the high watermark moves without the others, who then hold less than it.
    let at_min_isr = targets.isr.len() >= rules.min_isr && !rules.quirks.elr_outlives_min_isr;
    if elected.is_unclean() || !rules.elr_on || at_min_isr {
        *eligible = Eligible { elr: vec![], last_known: vec![] };
    }
}

fn set_members(
    partition: &PartitionRegistration,
    targets: &Targets,
    eligible: &Eligible,
    rules: &Rules<'_>,
    change: &mut PartitionChange,
) {
    if !same_set(&eligible.elr, &partition.elr) {
        change.elr = Some(eligible.elr.clone());
    }
    let full_set = rules.last_known == LastKnown::FullSet;
    // A leader writes what those remembered do not hold, and level 0 takes nobody off the list.
    let leads_at_level_0 = !rules.elr_on && matches!(change.leader, Some(Some(_)));
    let forgets = full_set || (leads_at_level_0 && !rules.quirks.settings_leave_partitions);
    if forgets && !same_set(&eligible.last_known, &partition.last_known_elr) {
        change.last_known_elr = Some(eligible.last_known.clone());
    }
    // Without ELR the last member stays in the ISR: nothing else would say who may lead. One that is
    // damaged may not: the others would cut their logs to what is left of its.
    let storable = rules.elr_on || !targets.isr.is_empty() || targets.distrusted().is_some();
    if storable && !same_set(&targets.isr, &partition.isr) {
        change.isr = Some(targets.isr.clone());
    }
}

fn remember_leader(
    partition: &PartitionRegistration,
    distrusted: Option<BrokerId>,
    change: &mut PartitionChange,
) {
    let is_distrusted = |leader: &BrokerId| Some(*leader) == distrusted;
    match change.leader {
        Some(None) if partition.last_known_elr.is_empty() => {
            let remembered = partition.leader.filter(|leader| !is_distrusted(leader));
            change.last_known_elr = remembered.map(|leader| vec![leader]);
        }
        _ if partition.last_known_elr.iter().any(is_distrusted) => {
            change.last_known_elr = Some(vec![]);
        }
        Some(Some(_)) if !partition.last_known_elr.is_empty() => {
            change.last_known_elr = Some(vec![]);
        }
        Some(None | Some(_)) | None => {}
    }
}

fn set_assignment(
    partition: &PartitionRegistration,
    targets: Targets,
    change: &mut PartitionChange,
) {
    if change.recovering.is_none() && targets.recovering != partition.recovering {
        change.recovering = Some(targets.recovering);
    }
    let differs = |new: Vec<BrokerId>, old: &[BrokerId]| (new != old).then_some(new);
    change.replicas = differs(targets.replicas, &partition.replicas);
    change.removing = differs(targets.removing, &partition.removing);
    change.adding = differs(targets.adding, &partition.adding);
    if targets.directories != partition.directories {
        change.directories = Some(targets.directories);
    }
}

fn without(ids: &[BrokerId], removed: &[BrokerId]) -> Vec<BrokerId> {
    ids.iter().copied().filter(|id| !removed.contains(id)).collect()
}

fn union(first: &[BrokerId], second: &[BrokerId]) -> Vec<BrokerId> {
    let mut all = first.to_vec();
    all.extend(without(second, first));
    all
}

fn same_set(first: &[BrokerId], second: &[BrokerId]) -> bool {
    first.len() == second.len() && first.iter().all(|id| second.contains(id))
}

//! The leader of the current epoch, while its committed ISR lets it commit by the settings it has
//! read, waits for everyone
//! who could succeed it: its maximal ISR contains the controller's ISR and ELR.
//!
//! Source: spec/kip966.md 2.5 (replication-quorum superset of the TLA+ model).

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    let Some(partition) = view.now.partition() else { return Ok(()) };
    let mut leaders = view.now.leaders();
    let current = leaders.find(|(replica, machine)| {
        Some(replica.broker) == partition.leader
            && machine.leader_epoch() == Some(partition.leader_epoch)
    });
    let Some((replica, machine)) = current else { return Ok(()) };
    if !view.is_promised() || !machine.may_commit() {
        return Ok(());
    }
    let maximal = machine.maximal_isr();
    let mut eligible = partition.isr.iter().chain(&partition.elr);
    match eligible.find(|member| !maximal.contains(member)) {
        None => Ok(()),
        Some(member) => Err(format!(
            "leader {} does not wait for {member}: maximal ISR {maximal:?}, controller has ISR \
             {:?}, ELR {:?}",
            replica.broker, partition.isr, partition.elr
        )),
    }
}

//! Every member of ISR and ELR holds all that is committed, unless it had an unclean shutdown that
//! the controller has not heard of yet.
//!
//! Source: KIP-966 (ELR members "hold the log to the high watermark"), spec/kip966.md 2.5
//! (LeaderCandidateCompleteness of the TLA+ model).

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    let Some(partition) = view.now.partition().filter(|_| view.is_promised()) else {
        return Ok(());
    };
    let end = view.past.committed_end();
    let committed = view.past.committed_digest(end);
    for &member in partition.isr.iter().chain(&partition.elr) {
        let registered = view.now.metadata.broker(member).map(|broker| broker.epoch);
        if view.past.crash_is_unheard(member, registered) {
            continue;
        }
        let Some(replica) = view.now.replica(member) else { continue };
        if replica.disk.digest_at(end) != committed {
            return Err(format!(
                "broker {member} is in ISR {:?} or ELR {:?}, but its log (end {}) lacks the \
                 committed log (end {end})",
                partition.isr,
                partition.elr,
                replica.disk.end()
            ));
        }
    }
    Ok(())
}

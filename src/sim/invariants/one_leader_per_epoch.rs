//! At most one replica ever leads under a leader epoch. Holds in every mode.
//!
//! Source: spec/kip966.md 1.1 (leader epoch as fencing token), 2.4.

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    for (replica, machine) in view.now.leaders() {
        let epoch = machine.leader_epoch();
        let before = epoch.and_then(|epoch| view.past.reign(epoch)).map(|reign| reign.leader);
        let now = view.now.leaders().filter(|(_, other)| other.leader_epoch() == epoch);
        let mut leaders = before.into_iter().chain(now.map(|(other, _)| other.broker));
        if let Some(other) = leaders.find(|&leader| leader != replica.broker) {
            return Err(format!("{other} and {} both lead in epoch {epoch:?}", replica.broker));
        }
    }
    Ok(())
}

//! Below its own high watermark every replica's log is the committed log, byte for byte; and no two
//! leaders ever call different records committed.
//!
//! Source: spec/kip966.md 5.3 ("consumer-visible prefix never changes"), 1.7 (F03, F05, F06).

use super::{ReplicaView, View};

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    if !view.is_promised() {
        return Ok(());
    }
    view.now.replicas.iter().try_for_each(|replica| check_replica(view, replica))
}

fn check_replica(view: &View<'_>, replica: &ReplicaView<'_>) -> Result<(), String> {
    let Some(machine) = replica.machine else { return Ok(()) };
    let shared = machine.high_watermark().min(view.past.committed_end());
    let own = replica.disk.digest_at(shared);
    let committed = view.past.committed_digest(shared);
    if own.is_none() || own != committed {
        return Err(format!(
            "broker {} differs from the committed log below offset {shared}, which it calls \
             committed (high watermark {}, leads: {})",
            replica.broker,
            machine.high_watermark(),
            machine.is_leader(),
        ));
    }
    Ok(())
}

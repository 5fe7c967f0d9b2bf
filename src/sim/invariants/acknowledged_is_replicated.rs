//! When a record is acknowledged under `acks=all`, some leader's high watermark has passed it, and
//! min ISR replicas hold it; those that had an unclean shutdown since the append may have lost it.
//!
//! Source: spec/kip966.md 1.4, 1.8 (`acks = -1`).

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    let Some(write) = view.past.acknowledged().last().filter(|_| view.is_promised()) else {
        return Ok(());
    };
    let holds = |disk: &super::Disk| disk.digest_at(write.end) == Some(write.digest);
    let led_past = view.now.leaders().any(|(_, machine)| machine.high_watermark() >= write.end);
    let is_committed = view.past.committed_digest(write.end) == Some(write.digest);
    if !is_committed && (!led_past || write.end <= view.past.committed_end()) {
        return Err(format!("{:?} was acknowledged, but no high watermark passed it", write.id));
    }
    let holders = view.now.replicas.iter().filter(|replica| holds(replica.disk));
    let counted = holders.filter(|replica| !write.unclean.contains(&replica.broker)).count();
    if counted + write.unclean.len() < view.min_isr_of(write) {
        return Err(format!(
            "{:?} ending at {} was acknowledged, but only {counted} replicas hold it",
            write.id, write.end
        ));
    }
    Ok(())
}

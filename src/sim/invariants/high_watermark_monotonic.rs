//! The high watermark never goes back on a leader within its leader epoch. Holds in every mode.
//!
//! Source: spec/kip966.md 1.4 ("never backwards on a leader").

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    for (replica, machine) in view.now.leaders() {
        let Some(epoch) = machine.leader_epoch() else { continue };
        let Some(before) = view.past.reign(epoch) else { continue };
        let now = machine.high_watermark();
        if before.leader == replica.broker && before.high_watermark > now {
            return Err(format!(
                "leader {} of epoch {epoch} went from {} back to {now}",
                replica.broker, before.high_watermark
            ));
        }
    }
    Ok(())
}

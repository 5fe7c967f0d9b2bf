//! There is an ELR only while the ISR is under min ISR: at min ISR the high watermark moves without
//! the ELR's members. Does not hold where shipped Kafka's departure is asked for.
//!
//! Source: KIP-966; spec/kip966.md 2.5 (ELR invariants), 2.7.

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    let Some(partition) = view.now.partition() else { return Ok(()) };
    let allowed =
        view.now.promises.elr_outlives_min_isr || partition.isr.len() < view.now.min_isr();
    if partition.elr.is_empty() || allowed {
        return Ok(());
    }
    Err(format!(
        "ELR {:?} although ISR {:?} reaches min ISR {}",
        partition.elr,
        partition.isr,
        view.now.min_isr()
    ))
}

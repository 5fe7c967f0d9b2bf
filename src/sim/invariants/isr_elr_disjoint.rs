//! No replica is in ISR and ELR at once. Holds in every mode.
//!
//! Source: KIP-966; spec/kip966.md 2.5 (ELR invariants).

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    let Some(partition) = view.now.partition() else { return Ok(()) };
    match partition.elr.iter().find(|member| partition.isr.contains(member)) {
        None => Ok(()),
        Some(both) => {
            Err(format!("{both} is in ISR {:?} and ELR {:?}", partition.isr, partition.elr))
        }
    }
}

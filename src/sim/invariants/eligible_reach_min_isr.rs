//! With ELR on, |ISR| + |ELR| never falls below min ISR except by an unclean registration, a change
//! of min ISR, or an unclean election.
//!
//! Source: KIP-966; spec/kip966.md 2.5 (ELR invariants).

use super::{Cause, View};
use crate::protocol::metadata::ELR_FEATURE;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    let (Some(partition), Some(decided)) = (view.now.partition(), view.past.decided()) else {
        return Ok(());
    };
    let (before, min_isr_before) = (decided.eligible, decided.min_isr);
    let elects_uncleanly = partition.recovering && partition.leader_epoch > decided.leader_epoch;
    let (now, min_isr) = (partition.isr.len() + partition.elr.len(), view.now.min_isr());
    let fell = now < before.min(min_isr) && min_isr == min_isr_before;
    let caused = view.now.cause == Cause::UncleanRegistration
        || elects_uncleanly
        || view.now.metadata.feature(ELR_FEATURE) == 0;
    if !fell || caused {
        return Ok(());
    }
    Err(format!(
        "eligible replicas fell from {before} to {now} (ISR {:?}, ELR {:?}), min ISR {min_isr}",
        partition.isr, partition.elr
    ))
}

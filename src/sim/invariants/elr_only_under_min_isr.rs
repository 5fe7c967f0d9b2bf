//! There is an ELR only while the ISR is under min ISR: at min ISR the high watermark moves without
//! the ELR's members. At feature level 0 there is none. Does not hold where shipped Kafka's departure is asked for.
//!
//! Source: KIP-966; spec/kip966.md 2.5 (ELR invariants), 2.7.

use super::View;
use crate::protocol::metadata::ELR_FEATURE;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    let Some(partition) = view.now.partition() else { return Ok(()) };
    let topic = view.now.metadata.topic(view.now.id.topic);
    let config = topic.map(|topic| view.now.metadata.topic_config(&topic.name));
    let min_isr = config.map_or(1, |config| config.min_isr).min(partition.replicas.len());
    let is_on = view.now.metadata.feature(ELR_FEATURE) > 0;
    let allowed =
        view.now.promises.elr_outlives_min_isr || (is_on && partition.isr.len() < min_isr);
    if partition.elr.is_empty() || allowed {
        return Ok(());
    }
    Err(format!(
        "ELR {:?} although ISR {:?} reaches min ISR {min_isr}, or the ELR is off",
        partition.elr, partition.isr
    ))
}

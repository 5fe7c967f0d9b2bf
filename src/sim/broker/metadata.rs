//! Committed metadata records on their way to a broker's machines.

use super::{BrokerOutbox, BrokerSettings, Process};
use crate::protocol::broker::may_take_roles;
use crate::protocol::metadata::{ClusterMetadata, Record, Touched};
use crate::protocol::partition::{Input, Settings};
use crate::types::{MonotonicTime, Offset, TopicId, TopicPartition};

/// Applies a record of the controller's own log, in order.
///
/// # Panics
/// If it does not fit.
pub fn apply(
    touched: &mut Touched,
    metadata: &mut ClusterMetadata,
    offset: Offset,
    record: &Record,
) {
    let applied = touched.apply(metadata, offset, record);
    assert!(applied.is_ok(), "the committed metadata log does not apply: {applied:?}");
}

/// A machine's settings: the topic's from metadata, the rest from the broker.
pub fn partition_settings(
    metadata: &ClusterMetadata,
    topic: TopicId,
    settings: &BrokerSettings,
) -> Settings {
    metadata.partition_settings(topic, settings.lag_time_max, settings.fetch_backoff)
}

impl Process {
    /// Takes in committed records up to `end`; roles follow from the state after the last of them.
    pub(super) fn metadata_committed(
        &mut self,
        now: MonotonicTime,
        end: Offset,
        committed: &[Record],
        out: &mut BrokerOutbox,
    ) {
        if self.epoch.is_none() {
            return;
        }
        let from = self.metadata.end_offset();
        if from >= end {
            return;
        }
        for offset in (from.0..end.0).map(Offset) {
            let Some(record) = usize::try_from(offset.0).ok().and_then(|at| committed.get(at))
            else {
                break;
            };
            apply(&mut self.touched, &mut self.metadata, offset, record);
        }
        self.has_roles |= may_take_roles(&self.metadata, self.id, self.epoch)
            || !self.settings.waits_for_registration;
        if self.has_roles {
            self.take_roles(now, out);
            self.link_applied(now, self.metadata.end_offset(), out);
        }
    }

    fn take_roles(&mut self, now: MonotonicTime, out: &mut BrokerOutbox) {
        let touched = std::mem::take(&mut self.touched);
        for &id in &touched.partitions {
            self.open_if_hosted(now, id, out);
        }
        let hosted: Vec<TopicPartition> = self.hosted.keys().copied().collect();
        for id in hosted {
            let settings = || partition_settings(&self.metadata, id.topic, &self.settings);
            let inputs: Vec<Input> = touched.inputs(&self.metadata, id, settings).collect();
            for input in inputs {
                self.step(now, id, input, out);
            }
        }
    }
}

//! What committed metadata records mean for a broker's machines: which inputs they get, in which
//! order. Partitions come before settings, as spec/kip966.md 1.2 (7) has it.

use super::{BrokerOutbox, BrokerSettings, Process};
use crate::protocol::broker::may_take_roles;
use crate::protocol::metadata::{ClusterMetadata, Record, Touched};
use crate::protocol::partition::{Input, Settings};
use crate::types::{MonotonicTime, Offset, TopicId, TopicPartition};

/// The inputs of the machine of `id` for what was touched, in order.
pub fn inputs(
    touched: &Touched,
    metadata: &ClusterMetadata,
    id: TopicPartition,
    settings: &BrokerSettings,
) -> Vec<Input> {
    let mut inputs = Vec::new();
    if touched.brokers {
        inputs.push(Input::Peers(metadata.peers()));
    }
    if touched.partitions.contains(&id)
        && let Some(partition) = metadata.partition(id)
    {
        inputs.push(Input::Metadata(partition.to_partition_metadata()));
    }
    if touched.settings {
        inputs.push(Input::Settings(partition_settings(metadata, id.topic, settings)));
    }
    inputs
}

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
            for input in inputs(&touched, &self.metadata, id, &self.settings) {
                self.step(now, id, input, out);
            }
        }
    }
}

//! What a change of settings means for partitions: it re-issues them.
//!
//! A leader decides what is committed by settings that it reads from the metadata log, while the
//! controller decides by the newest ones who may succeed it. So every partition whose leader's rule
//! changes gets a new partition epoch in the batch of the change: no ISR change of a leader that has
//! not read it can be committed, and what the controller does to the ISR by itself reaches the
//! leader behind the change. Where the new rules do not allow an ELR, it goes in the same batch.
//!
//! Then whenever a leader's committed ISR lets it commit, its partition had no ELR as of the same
//! metadata offset, and nobody can become eligible since but members of its maximal ISR
//! (docs/verification.md, "Changes of settings").

use super::Controller;
use super::topic_rules::TopicRules;
use crate::protocol::metadata::{PartitionChange, PartitionRegistration, Record};
use crate::types::{HwmGate, IsrWait, TopicId, TopicPartition};

impl TopicRules {
    /// What a leader of the topic decides by whether a record is committed; with the replicas, of
    /// which every change has a partition epoch of its own.
    fn of_commit(&self) -> (usize, HwmGate, IsrWait) {
        (self.config.min_isr, self.config.hwm_gate, self.config.isr_wait)
    }
}

impl Controller {
    /// Has `write` change settings of `topics`, and puts their partitions under the new ones.
    pub(super) fn change_rules(
        &mut self,
        topics: Vec<TopicId>,
        write: impl FnOnce(&mut Controller),
    ) {
        let rules = |topic| Some((topic, self.topic_rules(topic)?));
        let before: Vec<(TopicId, TopicRules)> = topics.into_iter().filter_map(rules).collect();
        write(self);
        for (topic, before) in before {
            let Some(now) = self.topic_rules(topic) else { continue };
            let as_shipped = |rules: &TopicRules| rules.quirks.settings_leave_partitions;
            if !(as_shipped(&before) && as_shipped(&now)) {
                self.reissue(topic, &before, &now);
            }
        }
    }

    fn reissue(&mut self, topic: TopicId, before: &TopicRules, now: &TopicRules) {
        let leads_otherwise = before.of_commit() != now.of_commit();
        for id in self.partitions_of(topic) {
            let Some(partition) = self.metadata.partition(id) else { continue };
            let change = put_right(id, partition, before, now);
            if leads_otherwise || !change.is_empty() {
                self.write(Record::PartitionChange(change));
            }
        }
    }
}

/// Takes from the partition what the rules `now` do not allow; empty if that is nothing.
fn put_right(
    id: TopicPartition,
    partition: &PartitionRegistration,
    before: &TopicRules,
    now: &TopicRules,
) -> PartitionChange {
    let PartitionRegistration { isr, elr, last_known_elr, .. } = partition;
    let mut change = PartitionChange::none(id);
    let (was_on, is_on) = (before.elr_level > 0, now.elr_level > 0);
    // At min ISR the high watermark may pass what others hold: neither ELR nor last known ELR may be
    // trusted any longer, whatever the latter holds. Nor may what level 0 neither keeps nor obeys.
    let void = was_on != is_on || (is_on && isr.len() >= now.min_isr);
    // Level 2 remembers members that were lost, level 1 the last leader of a leaderless partition.
    // While nobody else is left, nothing new can be written either: then neither grows stale.
    let is_other_list = before.last_known != now.last_known;
    let somebody_is_left = !(isr.is_empty() && elr.is_empty());
    if void && !elr.is_empty() {
        change.elr = Some(vec![]);
    }
    if (void || is_other_list) && somebody_is_left && !last_known_elr.is_empty() {
        change.last_known_elr = Some(vec![]);
    }
    // Every member of the ELR holds what is committed, which is what level 0 asks of the ISR. With
    // neither, nobody would be left to lead.
    if was_on && !is_on && isr.is_empty() && !elr.is_empty() {
        change.isr = Some(elr.clone());
    }
    change
}

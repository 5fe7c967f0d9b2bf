//! Which rules hold for one topic: its settings, the feature level and the departures from the KIP
//! that apply to it. Two topics of one cluster may differ: `compat` is a topic's, else the cluster's,
//! else what the controller was started with.

use super::election::Election;
use super::settings::{LastKnown, Quirks, Settings};
use super::{Compat, Controller};
use crate::protocol::metadata::{ConfigResource, ELR_FEATURE, TopicConfig, topic_config};
use crate::types::TopicId;

/// Level of [`ELR_FEATURE`] from which partitions are recovered from their logs.
pub(super) const RECOVERY_LEVEL: i16 = 2;
/// Highest level of [`ELR_FEATURE`] that shipped Kafka has.
pub(super) const SHIPPED_LEVEL_MAX: i16 = 1;

/// What holds for one topic.
#[derive(Clone, Copy, Debug)]
pub(super) struct TopicRules {
    /// Its settings.
    pub(super) config: TopicConfig,
    /// Effective min ISR (spec/kip966.md 2.6).
    pub(super) min_isr: usize,
    /// Level of [`ELR_FEATURE`] in force.
    pub(super) elr_level: i16,
    /// What `LastKnownElr` holds.
    pub(super) last_known: LastKnown,
    /// Departures from the KIP.
    pub(super) quirks: Quirks,
    /// The unclean recovery manager inspects logs before it elects.
    pub(super) recovery_manager: bool,
}

impl TopicRules {
    /// Whether a controller-made election may be unclean. With the recovery manager none is: it
    /// inspects logs first.
    pub(super) fn election(&self) -> Election {
        if self.config.unclean_election && !self.recovery_manager {
            Election::Unclean
        } else {
            Election::Online
        }
    }
}

impl Controller {
    /// `None` for an unknown topic.
    pub(super) fn topic_rules(&self, topic: TopicId) -> Option<TopicRules> {
        let metadata = self.metadata.topic(topic)?;
        let config = self.metadata.topic_config(&metadata.name);
        let level = self.metadata.feature(ELR_FEATURE);
        let elr_level = match config.compat {
            Some(Compat::Kafka42) => level.min(SHIPPED_LEVEL_MAX),
            Some(Compat::Kip) | None => level,
        };
        Some(TopicRules {
            min_isr: metadata.effective_min_isr(config.min_isr),
            elr_level,
            last_known: match elr_level {
                0 => self.settings.last_known_when_off,
                1 => LastKnown::Leader,
                _ => LastKnown::FullSet,
            },
            quirks: quirks(&self.settings, config.compat),
            recovery_manager: self.settings.unclean_recovery_manager && elr_level >= RECOVERY_LEVEL,
            config,
        })
    }

    /// Departures that hold where no single topic is meant.
    pub(super) fn cluster_quirks(&self) -> Quirks {
        let value = self.metadata.config(&ConfigResource::Cluster, topic_config::COMPAT);
        quirks(&self.settings, value.and_then(topic_config::compat))
    }
}

/// Those of the compatibility mode in the log, else of the one the controller was started with.
fn quirks(settings: &Settings, compat: Option<Compat>) -> Quirks {
    compat.map_or(settings.quirks, |compat| Quirks {
        last_known_leader_may_be_fenced: settings.quirks.last_known_leader_may_be_fenced,
        isr_shrink_raises_leader_epoch: settings.quirks.isr_shrink_raises_leader_epoch,
        ..Quirks::of(compat)
    })
}

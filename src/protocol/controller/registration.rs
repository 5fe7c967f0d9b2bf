//! A broker comes and goes: registration with its checks, and unregistration.
//!
//! Source: spec/kip966.md 2.1, spec/kafka-wire.md 2.1.

use super::{Controller, Registration};
use crate::protocol::metadata::{
    BrokerRegistration, FeatureRange, METADATA_VERSION_FEATURE, Record, RegisterBroker,
};
use crate::types::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, TopicPartition};

/// Producer ids handed out at a time, as Kafka does.
const PRODUCER_ID_BLOCK: i32 = 1000;

impl Controller {
    pub(super) fn register(
        &mut self,
        now: MonotonicTime,
        registration: Registration,
    ) -> Result<BrokerEpoch, ErrorCode> {
        self.check_registration(now, &registration)?;
        let broker = registration.broker;
        let known = self.metadata.broker(broker).cloned();
        let same_process = known.filter(|known| known.incarnation == registration.incarnation);
        let record = match same_process {
            Some(known) => {
                self.sessions.hear(broker, now);
                amended(registration, &known)
            }
            None => {
                let epoch = BrokerEpoch(self.next_offset.0);
                self.end_previous_life(&registration);
                self.sessions.begin(broker, now);
                new_registration(registration, epoch)
            }
        };
        let epoch = record.epoch;
        self.write(Record::RegisterBroker(record));
        Ok(epoch)
    }

    /// A new incarnation starts outside every ISR; if it lost an unknown part of its log, outside
    /// every ELR too, and where its replica is damaged, outside all that could make it lead. Written
    /// before the registration: a crash in between only repeats this.
    fn end_previous_life(&mut self, registration: &Registration) {
        let broker = registration.broker;
        let known = self.metadata.broker(broker);
        let clean = known.is_some_and(|known| registration.previous_epoch == Some(known.epoch));
        for id in &registration.damaged {
            self.leave_damaged(*id, broker);
        }
        if clean || !self.elr_on() {
            self.leave_isrs(broker);
        } else {
            self.leave_isrs_and_elrs(broker, |_, _| true);
        }
    }

    /// Passes over all ISRs, then over all ELRs; `unclean` says where the broker may not stay in the
    /// ELR.
    fn leave_isrs_and_elrs(
        &mut self,
        broker: BrokerId,
        unclean: impl Fn(&Controller, TopicPartition) -> bool,
    ) {
        for id in self.partitions_where(|partition| partition.isr.contains(&broker)) {
            self.leave_partition(id, broker, unclean(self, id));
        }
        for id in self.partitions_where(|partition| partition.elr.contains(&broker)) {
            self.leave_partition(id, broker, unclean(self, id));
        }
    }

    pub(super) fn unregister(&mut self, broker: BrokerId) -> Result<(), ErrorCode> {
        let registration = self.metadata.broker(broker).ok_or(ErrorCode::BrokerIdNotRegistered)?;
        let epoch = registration.epoch;
        // Also with the ELR off: a change of the partition clears what is left of it.
        self.leave_isrs_and_elrs(broker, |controller, id| {
            let rules = controller.topic_rules(id.topic);
            !rules.is_some_and(|rules| rules.quirks.unregister_keeps_elr)
        });
        self.sessions.end(broker);
        self.write(Record::UnregisterBroker { broker, epoch });
        Ok(())
    }

    pub(super) fn allocate_producer_ids(
        &mut self,
        broker: BrokerId,
        epoch: BrokerEpoch,
    ) -> Result<(i64, i32), ErrorCode> {
        self.current_registration(broker, epoch)?;
        let first = self.metadata.next_producer_id();
        let next_producer_id =
            first.checked_add(PRODUCER_ID_BLOCK.into()).ok_or(ErrorCode::UnknownServerError)?;
        self.write(Record::ProducerIds { broker, epoch, next_producer_id });
        Ok((first, PRODUCER_ID_BLOCK))
    }

    fn check_registration(
        &self,
        now: MonotonicTime,
        registration: &Registration,
    ) -> Result<(), ErrorCode> {
        if registration.cluster_id != self.settings.cluster_id {
            return Err(ErrorCode::InconsistentClusterId);
        }
        let known = self.metadata.broker(registration.broker);
        let other_process =
            known.is_some_and(|known| known.incarnation != registration.incarnation);
        if other_process && self.sessions.is_live(registration.broker, now) {
            return Err(ErrorCode::DuplicateBrokerRegistration);
        }
        self.check_log_dirs(registration)?;
        self.check_features(&registration.features)
    }

    fn check_log_dirs(&self, registration: &Registration) -> Result<(), ErrorCode> {
        let dirs = &registration.log_dirs;
        let others = self.metadata.brokers().filter(|other| other.id != registration.broker);
        let mut owned = others.flat_map(|other: &BrokerRegistration| &other.log_dirs);
        let repeated = (1..dirs.len()).any(|index| dirs[..index].contains(&dirs[index]));
        let reserved = dirs.iter().any(|dir| dir.is_reserved());
        if dirs.is_empty() || repeated || reserved || owned.any(|dir| dirs.contains(dir)) {
            return Err(ErrorCode::InvalidRegistration);
        }
        Ok(())
    }

    fn check_features(&self, features: &[FeatureRange]) -> Result<(), ErrorCode> {
        if !features.iter().any(|feature| feature.name == METADATA_VERSION_FEATURE) {
            return Err(ErrorCode::InvalidRegistration);
        }
        if self.metadata.features().any(|(name, level)| !supports(features, name, level)) {
            return Err(ErrorCode::UnsupportedVersion);
        }
        Ok(())
    }
}

/// Whether a feature's level lies in the offered ranges; a feature not offered is 0 to 0.
pub(super) fn supports(features: &[FeatureRange], name: &str, level: i16) -> bool {
    let offered = features.iter().find(|feature| feature.name == name);
    offered.map_or(level == 0, |range| (range.min..=range.max).contains(&level))
}

/// The same process again: state and epoch are kept, no partition is touched (KAFKA-16952).
fn amended(registration: Registration, known: &BrokerRegistration) -> RegisterBroker {
    RegisterBroker {
        fenced: known.fenced,
        in_controlled_shutdown: known.in_controlled_shutdown,
        ..new_registration(registration, known.epoch)
    }
}

fn new_registration(registration: Registration, epoch: BrokerEpoch) -> RegisterBroker {
    RegisterBroker {
        broker: registration.broker,
        incarnation: registration.incarnation,
        epoch,
        endpoints: registration.endpoints,
        features: registration.features,
        rack: registration.rack,
        fenced: true,
        in_controlled_shutdown: false,
        log_dirs: registration.log_dirs,
    }
}

//! The configuration keys this product knows: how a value is written, and what it means.
//! Unknown keys are refused rather than ignored: a measurement must not run under a setting that
//! somebody believes to be on.

use crate::types::{Compat, HwmGate, IsrExpand, IsrWait, ProduceUnderMinIsr, UncleanRecovery};

/// Key of the min ISR.
pub const MIN_ISR: &str = "min.insync.replicas";
/// Key of the switch that allows a leader from outside ISR and ELR.
pub const UNCLEAN_ELECTION: &str = "unclean.leader.election.enable";
/// Key of the way a partition recovers whose ISR and ELR are gone.
pub const UNCLEAN_RECOVERY: &str = "unclean.recovery.strategy";
/// Key of the high watermark's min ISR condition.
pub const HWM_GATE: &str = "ackmark.hwm.gate";
/// Key of the wait for the controller's commit of an ISR change.
pub const ISR_WAIT: &str = "ackmark.isr.wait";
/// Key of the rule by which followers rejoin the ISR.
pub const ISR_EXPAND: &str = "ackmark.isr.expand";
/// Key of the switch between the KIP's text and shipped Kafka where the two differ.
pub const COMPAT: &str = "ackmark.compat";

const KEYS: [&str; 7] =
    [MIN_ISR, UNCLEAN_ELECTION, UNCLEAN_RECOVERY, COMPAT, HWM_GATE, ISR_WAIT, ISR_EXPAND];

/// Every known setting of one topic, with the cluster's values and the defaults filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// `min.insync.replicas` as configured, at least 1; cap it by the replica count before use.
    pub min_isr: usize,
    /// `unclean.leader.election.enable`.
    pub unclean_election: bool,
    /// `unclean.recovery.strategy`, or what `unclean.leader.election.enable` maps to: the topic's
    /// word before the cluster's, and the strategy before the older key where both were given.
    pub unclean_recovery: UncleanRecovery,
    /// `ackmark.hwm.gate`.
    pub hwm_gate: HwmGate,
    /// `ackmark.isr.wait`.
    pub isr_wait: IsrWait,
    /// `ackmark.isr.expand`.
    pub isr_expand: IsrExpand,
    /// Follows from `compat` alone.
    pub produce_under_min_isr: ProduceUnderMinIsr,
    /// `ackmark.compat`, the topic's or the cluster's; `None` is `kip`, or what the controller was
    /// started with.
    pub compat: Option<Compat>,
}

/// Why a key or value is refused (`INVALID_CONFIG`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Nobody reads this key.
    #[error("{key}: unknown configuration key: allowed are {}", KEYS.join(", "))]
    UnknownKey {
        /// As given.
        key: String,
    },
    /// The key is known, the value is not one of its values.
    #[error("{key} = {value}: must be {allowed}")]
    Value {
        /// The key.
        key: &'static str,
        /// As given.
        value: String,
        /// What is allowed, in words.
        allowed: &'static str,
    },
    /// The key must keep a value.
    #[error("{key}: the cluster's value cannot be removed while eligible leader replicas are on")]
    Required {
        /// The key.
        key: &'static str,
    },
    /// Values are kept per topic and per cluster only.
    #[error("broker {broker}: values are set per topic or for the cluster, not for one broker")]
    PerBroker {
        /// The broker named.
        broker: crate::types::BrokerId,
    },
}

impl TopicConfig {
    /// What holds where nobody set anything but `compat`, with
    /// `eligible.leader.replicas.version` at `elr_level`.
    ///
    /// Shipped Kafka has the gate whatever the level, and neither of the other two rules
    /// (spec/kip966.md, departures 1, 7 and 8). By the KIP all three belong to it: at level 0 things
    /// are as before.
    pub fn unset(compat: Option<Compat>, elr_level: i16) -> TopicConfig {
        let (gate, expand, produce) = match (compat, elr_level) {
            (Some(Compat::Kafka42), _) => {
                (HwmGate::Kip966, IsrExpand::Kafka, ProduceUnderMinIsr::Wait)
            }
            (Some(Compat::Kip) | None, ..=0) => {
                (HwmGate::Legacy, IsrExpand::Kafka, ProduceUnderMinIsr::Wait)
            }
            (Some(Compat::Kip) | None, 1..) => {
                (HwmGate::Kip966, IsrExpand::CaughtUp, ProduceUnderMinIsr::Fail)
            }
        };
        TopicConfig {
            min_isr: 1,
            unclean_election: false,
            unclean_recovery: UncleanRecovery::Balanced,
            hwm_gate: gate,
            isr_wait: IsrWait::Controller,
            isr_expand: expand,
            produce_under_min_isr: produce,
            compat,
        }
    }

    /// This configuration with `key` set to `value`. Keys of one resource are applied in their
    /// order, so that the recovery strategy overrides what the older key maps to.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`] and [`ConfigError::Value`].
    pub fn with(mut self, key: &str, value: &str) -> Result<TopicConfig, ConfigError> {
        match key {
            MIN_ISR => self.min_isr = min_isr(value)?,
            UNCLEAN_ELECTION => {
                self.unclean_election = one_of(
                    UNCLEAN_ELECTION,
                    value,
                    "true or false",
                    &[("true", true), ("false", false)],
                )?;
                self.unclean_recovery = UncleanRecovery::of_unclean_election(self.unclean_election);
            }
            UNCLEAN_RECOVERY => {
                let known = |(name, _): &&(&str, UncleanRecovery)| name.eq_ignore_ascii_case(value);
                let found = UncleanRecovery::ALL.iter().find(known);
                let (_, strategy) = found.ok_or_else(|| ConfigError::Value {
                    key: UNCLEAN_RECOVERY,
                    value: value.to_owned(),
                    allowed: "Proactive, Balanced or Manual",
                })?;
                self.unclean_recovery = *strategy;
            }
            COMPAT => {
                self.compat = Some(one_of(COMPAT, value, "kip or kafka-4.2", &Compat::ALL)?);
            }
            HWM_GATE => {
                self.hwm_gate =
                    one_of(HWM_GATE, value, "kip966, legacy, maximal-isr or soft", &HwmGate::ALL)?;
            }
            ISR_WAIT => {
                self.isr_wait = one_of(ISR_WAIT, value, "controller or none", &IsrWait::ALL)?;
            }
            ISR_EXPAND => {
                self.isr_expand = one_of(ISR_EXPAND, value, "kafka or caught-up", &IsrExpand::ALL)?;
            }
            _ => return Err(ConfigError::UnknownKey { key: key.to_owned() }),
        }
        Ok(self)
    }
}

/// Whether `key` may be set to `value`.
///
/// # Errors
/// As [`TopicConfig::with`].
pub fn validate(key: &str, value: &str) -> Result<(), ConfigError> {
    TopicConfig::unset(None, 0).with(key, value).map(|_| ())
}

/// What a value of [`COMPAT`] means; `None` for one that this version does not understand.
pub fn compat(value: &str) -> Option<Compat> {
    Compat::ALL.iter().find(|(name, _)| *name == value).map(|&(_, compat)| compat)
}

/// Whether `key` is one that somebody reads.
///
/// # Errors
/// [`ConfigError::UnknownKey`].
pub fn validate_key(key: &str) -> Result<(), ConfigError> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    Err(ConfigError::UnknownKey { key: key.to_owned() })
}

fn min_isr(value: &str) -> Result<usize, ConfigError> {
    match value.parse::<i32>() {
        Ok(count) if count >= 1 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(ConfigError::Value {
            key: MIN_ISR,
            value: value.to_owned(),
            allowed: "a whole number from 1 to 2147483647",
        }),
    }
}

fn one_of<T: Copy>(
    key: &'static str,
    value: &str,
    allowed: &'static str,
    choices: &[(&str, T)],
) -> Result<T, ConfigError> {
    choices
        .iter()
        .find(|(name, _)| *name == value)
        .map(|&(_, meaning)| meaning)
        .ok_or_else(|| ConfigError::Value { key, value: value.to_owned(), allowed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_value_names_key_value_and_what_is_allowed() {
        let message = |key, value| validate(key, value).unwrap_err().to_string();
        assert_eq!(
            message(HWM_GATE, "off"),
            "ackmark.hwm.gate = off: must be kip966, legacy, maximal-isr or soft"
        );
        assert_eq!(
            message(MIN_ISR, "0"),
            "min.insync.replicas = 0: must be a whole number from 1 to 2147483647"
        );
        assert_eq!(
            message(UNCLEAN_RECOVERY, "None"),
            "unclean.recovery.strategy = None: must be Proactive, Balanced or Manual"
        );
        assert_eq!(
            message("flush.messages", "1"),
            "flush.messages: unknown configuration key: allowed are min.insync.replicas, \
             unclean.leader.election.enable, unclean.recovery.strategy, ackmark.compat, \
             ackmark.hwm.gate, ackmark.isr.wait, ackmark.isr.expand"
        );
    }

    #[test]
    fn every_key_has_a_meaning() {
        let set = [
            (MIN_ISR, "2"),
            (UNCLEAN_ELECTION, "true"),
            (UNCLEAN_RECOVERY, "manual"),
            (HWM_GATE, "legacy"),
            (ISR_WAIT, "none"),
            (ISR_EXPAND, "caught-up"),
            (COMPAT, "kafka-4.2"),
        ]
        .iter()
        .fold(TopicConfig::unset(None, 0), |config, (key, value)| config.with(key, value).unwrap());
        assert_eq!(
            set,
            TopicConfig {
                min_isr: 2,
                unclean_election: true,
                unclean_recovery: UncleanRecovery::Manual,
                hwm_gate: HwmGate::Legacy,
                isr_wait: IsrWait::None,
                isr_expand: IsrExpand::CaughtUp,
                produce_under_min_isr: ProduceUnderMinIsr::Wait,
                compat: Some(Compat::Kafka42),
            }
        );
    }

    #[test]
    fn what_is_not_set_follows_from_compat_and_level() {
        use {HwmGate::*, IsrExpand::*, ProduceUnderMinIsr::*};
        let cases = [
            (None, 0, (Legacy, Kafka, Wait)),
            (None, 1, (Kip966, CaughtUp, Fail)),
            (Some(Compat::Kip), 2, (Kip966, CaughtUp, Fail)),
            (Some(Compat::Kafka42), 0, (Kip966, Kafka, Wait)),
            (Some(Compat::Kafka42), 1, (Kip966, Kafka, Wait)),
        ];
        for (compat, level, expected) in cases {
            let unset = TopicConfig::unset(compat, level);
            let found = (unset.hwm_gate, unset.isr_expand, unset.produce_under_min_isr);
            assert_eq!(found, expected, "{compat:?} at level {level}");
        }
    }
}

//! How a partition without an electable leader comes back: the words that configuration and
//! controller share. Source: spec/kip966.md 2.9.

use std::fmt;

/// Whose behaviour the controller has where shipped Kafka departs from KIP-966 (`compat`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compat {
    /// `kip`: the KIP's text.
    Kip,
    /// `kafka-4.2`: what Kafka 4.2.0 does.
    Kafka42,
}

impl Compat {
    /// Both, by name.
    pub const ALL: [(&str, Compat); 2] = [("kip", Compat::Kip), ("kafka-4.2", Compat::Kafka42)];

    /// As written in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Compat::Kip => "kip",
            Compat::Kafka42 => "kafka-4.2",
        }
    }
}

/// `unclean.recovery.strategy`: what to prefer once nobody is left who surely holds every
/// acknowledged record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UncleanRecovery {
    /// Availability: logs are inspected as soon as there is no leader, and the best one of those
    /// found within a few seconds leads. What `unclean.leader.election.enable = true` maps to.
    Proactive,
    /// Data: only with ISR and ELR empty, and only once every last known ELR member's log was seen.
    /// What `unclean.leader.election.enable = false` maps to.
    Balanced,
    /// An operator decides.
    Manual,
}

impl UncleanRecovery {
    /// All of them, by name.
    pub const ALL: [(&str, UncleanRecovery); 3] = [
        ("Proactive", UncleanRecovery::Proactive),
        ("Balanced", UncleanRecovery::Balanced),
        ("Manual", UncleanRecovery::Manual),
    ];

    /// As written in configuration.
    pub fn name(self) -> &'static str {
        match self {
            UncleanRecovery::Proactive => "Proactive",
            UncleanRecovery::Balanced => "Balanced",
            UncleanRecovery::Manual => "Manual",
        }
    }

    /// The strategy that stands for a value of `unclean.leader.election.enable`.
    pub fn of_unclean_election(enabled: bool) -> UncleanRecovery {
        if enabled { UncleanRecovery::Proactive } else { UncleanRecovery::Balanced }
    }
}

impl fmt::Display for UncleanRecovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

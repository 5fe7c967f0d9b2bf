//! The `[election]` table, the same in a controller's file and in a workload.

use serde::{Deserialize, Serialize};

use super::defaults;
use super::node::ElectionConfig;
use super::node_file::{flag, integer, text};
use super::read::{ConfigError, Field, Source};
use super::units::{self, Scalar};
use crate::types::Compat;

#[derive(Deserialize, Serialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawElection {
    compat: Field,
    elr_level: Field,
    unclean_recovery_manager: Field,
}

impl RawElection {
    /// Every value spelled out.
    pub(super) fn of(election: &ElectionConfig) -> RawElection {
        RawElection {
            compat: text(election.compat.name()),
            elr_level: integer(election.elr_level),
            unclean_recovery_manager: flag(election.unclean_recovery_manager),
        }
    }

    /// # Errors
    /// [`ConfigError`] for a value that is not allowed, by itself or under `compat`.
    pub(super) fn checked(&self, source: &Source<'_>) -> Result<ElectionConfig, ConfigError> {
        let default = defaults::ELECTION;
        let compat = units::choice(&Compat::ALL);
        let compat = source.or("election.compat", &self.compat, default.compat, compat)?;
        let level_max = match compat {
            Compat::Kip => default.elr_level,
            Compat::Kafka42 => defaults::ELR_LEVEL_KAFKA_42,
        };
        let level = |value: &Scalar| {
            let allowed = units::count(0..=level_max.unsigned_abs().into());
            allowed(value).map_err(|problem| match compat {
                Compat::Kip => problem,
                Compat::Kafka42 => format!("{problem} under compat = \"kafka-4.2\""),
            })
        };
        let default_level = level_max.unsigned_abs().into();
        let level = source.or("election.elr_level", &self.elr_level, default_level, level)?;
        Ok(ElectionConfig {
            compat,
            elr_level: i16::try_from(level).unwrap_or(level_max),
            unclean_recovery_manager: source.or(
                "election.unclean_recovery_manager",
                &self.unclean_recovery_manager,
                default.unclean_recovery_manager,
                units::flag,
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::node::ControllerConfig;

    #[test]
    fn kafkas_elections_have_kafkas_feature_levels() {
        let read = |election: &str| {
            let text = format!(
                "node_id = 1\ncluster_id = \"c\"\nlisten = \"[::1]:9093\"\ndata_dir = \"d\"\n\
                 [election]\n{election}"
            );
            ControllerConfig::from_text(Path::new("c.toml"), &text)
        };
        let kafka = read("compat = \"kafka-4.2\"\n").expect("a good file");
        assert_eq!((kafka.election.compat, kafka.election.elr_level), (Compat::Kafka42, 1));
        let before =
            read("elr_level = 0\nunclean_recovery_manager = false\n").expect("a good file");
        assert_eq!((before.election.compat, before.election.elr_level), (Compat::Kip, 0));
        assert!(!before.election.unclean_recovery_manager);
        let error =
            read("compat = \"kafka-4.2\"\nelr_level = 2\n").expect_err("a level of the KIP's");
        assert_eq!(
            error.to_string(),
            "c.toml:7:13: election.elr_level = 2: must be 0 to 1 under \
             compat = \"kafka-4.2\""
        );
    }
}

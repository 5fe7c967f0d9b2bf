//! Random faults, as workloads: a round of torture is a workload file like any other, so that a
//! round that broke a promise can be run again by itself.
//!
//! Pure: the seed and the round's number give the text.

use std::fmt::Write as _;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The modes under which nothing acknowledged by all may be lost, whatever happens.
const MODES: [&str; 3] = ["fsync", "direct-dsync", "direct-fsync"];

/// Faults of processes and their disks, and whom they may hit.
const OF_NODES: [(&str, &[&str]); 8] = [
    ("kill", &["leader", "follower", "any-broker", "active-controller"]),
    ("pause", &["leader", "follower", "active-controller"]),
    ("stop", &["leader", "any-broker"]),
    ("slow-sync", &["leader", "follower"]),
    ("disk-full", &["leader", "follower"]),
    ("write-error", &["leader", "follower"]),
    ("sync-error", &["leader", "follower"]),
    // With a default of 2 of 3 replicas, down and up.
    ("min-isr", &["leader", "any-broker"]),
];

/// Faults of the network, and which links they may hit.
const OF_LINKS: [(&str, &[&str]); 2] = [
    (
        "cut",
        &[
            "follower -> leader",
            "leader -> follower",
            "follower <-> leader",
            "leader <-> active-controller",
            "follower <-> active-controller",
            "any-broker <-> all",
        ],
    ),
    ("delay", &["follower <-> leader", "any-broker <-> active-controller", "leader -> all"]),
];

const PAGE_CACHE_LOSS: (&str, &[&str]) = ("page-cache-loss", &["leader", "follower", "any-broker"]);

/// One round.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// Of the whole campaign.
    pub seed: u64,
    /// From 0.
    pub number: u64,
    /// How long load and faults last.
    pub length: Duration,
    /// Whether brokers can be put on disks that lose their page cache.
    pub can_lose_page_cache: bool,
}

impl Round {
    /// The workload file of the round.
    pub fn workload(&self) -> String {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(self.number);
        let mode = MODES[(self.number % MODES.len() as u64) as usize];
        // Every combination comes up within 24 rounds.
        let controllers = [1, 3][(self.number % 2) as usize];
        let fetch_pipeline = ["classic", "pipelined"][(self.number / 2 % 2) as usize];
        let serve_followers = ["before", "after"][(self.number / 4 % 2) as usize];
        let load_seed = self.seed.wrapping_add(self.number) & i64::MAX as u64;
        let length_ms = self.length.as_millis();
        let mut text = format!(
            "name = \"torture\"\n\n\
             [cluster]\nsegment_bytes = \"4MiB\"\nsession_timeout = \"1s\"\n\
             heartbeat_interval = \"100ms\"\nreplica_lag_time_max = \"1s\"\n\
             replica_fetch_backoff = \"50ms\"\ncontrollers = {controllers}\n\
             fetch_pipeline = \"{fetch_pipeline}\"\nserve_followers = \"{serve_followers}\"\n\n\
             [load]\nwarmup = \"200ms\"\nduration = \"{length_ms}ms\"\nrepeats = 1\n\
             seed = {load_seed}\nrequest_timeout = \"1s\"\nretry = \"if-refused\"\n\n\
             [matrix]\nacks = [\"all\"]\ndurability = [\"{mode}\"]\nrate = [\"600/s\"]\n\
             record_bytes = [512]\npartitions = [3]\n"
        );
        let mut at_ms = random.random_range(300..700);
        while u128::from(at_ms) < length_ms {
            let lasts_ms = random.random_range(200..1_500);
            self.write_fault(&mut random, &mut text, at_ms, lasts_ms);
            // Most faults come when the last one's victim is in sync again, some do not wait.
            let waits = random.random_bool(0.8);
            let pause_ms = random.random_range(if waits { 1_200..2_500 } else { 0..600 });
            at_ms += lasts_ms + pause_ms;
        }
        text
    }

    fn write_fault(&self, random: &mut ChaCha8Rng, text: &mut String, at_ms: u64, lasts_ms: u64) {
        let mut kinds = OF_NODES.to_vec();
        kinds.extend(OF_LINKS);
        if self.can_lose_page_cache {
            kinds.push(PAGE_CACHE_LOSS);
        }
        let (kind, targets) = kinds[random.random_range(0..kinds.len())];
        let target = targets[random.random_range(0..targets.len())];
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n[[fault]]\nkind = \"{kind}\"\ntarget = \"{target}\"\nat = \"{at_ms}ms\"\n\
             for = \"{lasts_ms}ms\"\n"
        );
        if matches!(kind, "delay" | "slow-sync") {
            let _ = writeln!(text, "by = \"{}ms\"", random.random_range(1..40));
        }
        if kind == "min-isr" {
            let _ = writeln!(text, "to = {}", [1, 3][random.random_range(0..2)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::workload::Workload;

    fn round(seed: u64, number: u64) -> Round {
        Round { seed, number, length: Duration::from_secs(60), can_lose_page_cache: true }
    }

    #[test]
    fn every_round_is_a_good_workload_and_rounds_reach_every_kind() {
        let mut kinds = std::collections::BTreeSet::new();
        let mut ways = std::collections::HashSet::new();
        for number in 0..30 {
            let text = round(7, number).workload();
            let workload = Workload::from_text(Path::new("torture.toml"), &text);
            let workload = workload.unwrap_or_else(|error| panic!("{error}\n{text}"));
            assert!(workload.matrix.durabilities.iter().all(|mode| mode.is_synced()), "{text}");
            assert!(workload.faults.len() > 10, "{text}");
            ways.insert((
                workload.cluster.controllers,
                workload.matrix.durabilities.clone(),
                workload.matrix.fetch_pipelines.clone(),
                workload.matrix.serve_followers.clone(),
            ));
            kinds.extend(workload.faults.iter().map(|fault| fault.kind.name()));
        }
        assert_eq!(kinds.len(), 11, "{kinds:?}");
        assert_eq!(ways.len(), 24, "{ways:?}");
    }

    #[test]
    fn the_seed_and_the_number_give_the_round() {
        assert_eq!(round(7, 3).workload(), round(7, 3).workload());
        assert_ne!(round(7, 3).workload(), round(8, 3).workload());
        assert_ne!(round(7, 3).workload(), round(7, 4).workload());
    }
}

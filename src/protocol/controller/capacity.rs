//! Whether brokers can hold the replicas of a new topic: open files and disk space against what they
//! hold, were promised already and would be given now.
//!
//! A broker that runs out of either later cannot give it back: its directory is as full at the next
//! start. So the refusal comes first. Kafka leaves such rules to a `create.topic.policy.class.name`
//! and answers with its code, POLICY_VIOLATION.

use std::collections::BTreeMap;

use super::{Controller, Refusal};
use crate::types::{BrokerId, ErrorCode};

/// Files of a replica that is written to: its active segment, twice (for writes and for background
/// syncs), and so the next one while that is made ready.
pub const FILES_PER_REPLICA: u64 = 4;
/// A broker keeps one of so many files for what is no replica's: connections, and segments that are
/// read only.
const OTHER_FILES_SHARE: u64 = 4;
/// Files of a connection, at most.
const FILES_PER_CONNECTION: u64 = 2;

/// What a broker has for replicas, as its last heartbeat told. A broker that tells nothing is not
/// limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resources {
    /// Files its process may have open (RLIMIT_NOFILE).
    pub open_files_max: u64,
    /// Names the file system of its data directory: the same for brokers that share one.
    pub disk: u64,
    /// Free there.
    pub free_bytes: u64,
    /// Reserved there for each new replica.
    pub replica_bytes: u64,
    /// Replicas for which that was done.
    pub replicas: u64,
}

impl Resources {
    /// Replicas that its open files suffice for.
    pub fn replicas_max(&self) -> u64 {
        (self.open_files_max - self.open_files_max / OTHER_FILES_SHARE) / FILES_PER_REPLICA
    }
}

/// Connections that leave a process with `open_files_max` the files that its replicas need; 1 at
/// least. Half of what is no replica's is left to read-only segments.
pub fn connections_max(open_files_max: u64) -> u64 {
    (open_files_max / OTHER_FILES_SHARE / 2 / FILES_PER_CONNECTION).max(1)
}

/// One broker's part of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Who.
    pub broker: BrokerId,
    /// What it has.
    pub resources: Resources,
    /// Replicas it was given so far, opened or not.
    pub assigned: u64,
    /// Replicas it would be given now.
    pub new: u64,
}

/// Whether all can hold what they would be given now; if not, which limit is in the way and what
/// helps. `loads` has every broker that told its resources, those that get nothing too: they may
/// share a disk with others.
///
/// # Errors
/// The first limit in the way, for people.
pub fn check_room(loads: &[Load]) -> Result<(), String> {
    for Load { broker, resources, assigned, new } in loads.iter().filter(|load| load.new > 0) {
        let (files, most) = (resources.open_files_max, resources.replicas_max());
        if assigned.saturating_add(*new) > most {
            return Err(format!(
                "broker {broker} may have {files} files open, which is enough for {most} replicas; \
                 it has {assigned} and would get {new} more: ask for fewer partitions, or raise \
                 its limit (`ulimit -n` or LimitNOFILE) and restart it"
            ));
        }
    }
    let mut disks: BTreeMap<u64, Vec<&Load>> = BTreeMap::new();
    for load in loads {
        disks.entry(load.resources.disk).or_default().push(load);
    }
    for on_disk in disks.values().filter(|loads| loads.iter().any(|load| load.new > 0)) {
        let bytes = |count: fn(&Load) -> u64| {
            let each =
                on_disk.iter().map(|load| count(load).saturating_mul(load.resources.replica_bytes));
            each.fold(0, u64::saturating_add)
        };
        let promised = bytes(|load| load.assigned.saturating_sub(load.resources.replicas));
        let new = bytes(|load| load.new);
        let free = on_disk.iter().map(|load| load.resources.free_bytes).min().unwrap_or(0);
        if promised.saturating_add(new) > free {
            let brokers: Vec<String> = on_disk.iter().map(|load| load.broker.to_string()).collect();
            return Err(format!(
                "the disk of broker {} has {} MiB free, of which {} MiB are promised to replicas \
                 that were created before; the new ones reserve {} MiB: ask for fewer partitions, \
                 lower log.segment_bytes, or free space",
                brokers.join(", "),
                free >> 20,
                promised >> 20,
                new >> 20,
            ));
        }
    }
    Ok(())
}

impl Controller {
    /// Refuses replicas, by broker, that a broker cannot hold by what it told of itself.
    pub(super) fn check_resources<'a>(
        &self,
        new: impl Iterator<Item = &'a BrokerId>,
    ) -> Result<(), Refusal> {
        if self.sessions.resources().next().is_none() {
            // Nothing to weigh: no need to count every partition there is.
            return Ok(());
        }
        let new = counts(new);
        let partitions = self.metadata.partitions();
        let assigned = counts(partitions.flat_map(|(_, partition)| &partition.replicas));
        let of =
            |counts: &BTreeMap<BrokerId, u64>, broker| counts.get(&broker).copied().unwrap_or(0);
        let load = |(broker, resources)| Load {
            broker,
            resources,
            assigned: of(&assigned, broker),
            new: of(&new, broker),
        };
        let loads: Vec<Load> = self.sessions.resources().map(load).collect();
        check_room(&loads).map_err(|message| Refusal::new(ErrorCode::PolicyViolation, message))
    }
}

fn counts<'a>(replicas: impl Iterator<Item = &'a BrokerId>) -> BTreeMap<BrokerId, u64> {
    let mut counts = BTreeMap::new();
    for &broker in replicas {
        *counts.entry(broker).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn load(broker: i32, disk: u64, assigned: u64, new: u64) -> Load {
        let resources = Resources {
            open_files_max: 1024,
            disk,
            free_bytes: 6000 * MIB,
            replica_bytes: 64 * MIB,
            replicas: 0,
        };
        Load { broker: BrokerId(broker), resources, assigned, new }
    }

    #[test]
    fn open_files_bound_what_a_broker_is_given() {
        let roomy = |load: Load| Load {
            resources: Resources { free_bytes: u64::MAX, ..load.resources },
            ..load
        };
        assert_eq!(check_room(&[roomy(load(1, 1, 92, 100))]), Ok(()));
        let said = check_room(&[roomy(load(1, 1, 93, 100))]).expect_err("one too many");
        for word in ["broker 1", "1024 files", "192 replicas", "has 93", "100 more", "ulimit -n"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert_eq!(check_room(&[roomy(load(1, 1, 700, 0))]), Ok(()), "it gets nothing");
    }

    #[test]
    fn what_was_promised_counts_against_the_free_space() {
        assert_eq!(check_room(&[load(1, 1, 0, 93)]), Ok(()));
        assert_eq!(check_room(&[load(1, 1, 43, 50)]), Ok(()));
        let said = check_room(&[load(1, 1, 44, 50)]).expect_err("64 MiB too many");
        for word in ["broker 1", "6000 MiB free", "2816 MiB are promised", "3200 MiB"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        let mut opened = load(1, 1, 44, 50);
        opened.resources.replicas = 44;
        assert_eq!(check_room(&[opened]), Ok(()), "those took theirs already");
    }

    #[test]
    fn brokers_on_one_disk_share_its_free_space() {
        let apart = [load(1, 1, 0, 60), load(2, 2, 0, 60), load(3, 3, 0, 60)];
        assert_eq!(check_room(&apart), Ok(()));
        let together =
            apart.map(|load| Load { resources: Resources { disk: 1, ..load.resources }, ..load });
        let said = check_room(&together).expect_err("11 GiB of 6");
        assert!(said.contains("broker 1, 2, 3"), "{said}");
        // What a neighbour was promised is gone as well.
        let [first, second, _] = together;
        let second = Load { assigned: 60, new: 0, ..second };
        assert!(check_room(&[first, second]).is_err());
        assert_eq!(check_room(&[Load { new: 0, ..first }, second]), Ok(()), "nobody gets any");
    }

    #[test]
    fn replicas_and_connections_fit_into_the_open_files_together() {
        for files in [8, 256, 1000, 1024, 20_000, 1 << 20] {
            let resources = Resources { open_files_max: files, ..load(1, 1, 0, 0).resources };
            let replicas = resources.replicas_max() * FILES_PER_REPLICA;
            let connections = connections_max(files) * FILES_PER_CONNECTION;
            assert!(replicas + connections <= files, "{files}: {replicas} + {connections}");
        }
    }
}

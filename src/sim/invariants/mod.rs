//! What must hold after every step, one property per file, each with its source. A property looks
//! at the present and at the partition's [`History`], and changes neither.
//!
//! The simulation and the exhaustive model check the same list.

mod acknowledged_is_replicated;
mod acknowledged_survives;
mod committed_prefix_identical;
mod consumers_see_committed;
mod eligible_hold_committed;
mod eligible_reach_min_isr;
mod elr_only_under_min_isr;
mod high_watermark_monotonic;
mod isr_elr_disjoint;
mod latest_offset_monotonic;
mod maximal_isr_covers_eligible;
mod one_leader_per_epoch;

use super::disk::Disk;
use super::history::{History, Write};
use crate::protocol::metadata::{ClusterMetadata, PartitionRegistration};
use crate::protocol::partition::Partition;
use crate::types::{BrokerId, TopicPartition};

/// One replica, running or not.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaView<'a> {
    /// Where.
    pub broker: BrokerId,
    /// What its log holds.
    pub disk: &'a Disk,
    /// Its machine, while its process runs and has opened the log.
    pub machine: Option<&'a Partition>,
}

/// What the controller was asked in the step at hand, as far as a property cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A broker registered without the mark of a clean shutdown.
    UncleanRegistration,
    /// Anything else.
    Other,
}

/// What the run's settings promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Promises {
    /// Records survive as KIP-966 says: strict min ISR, ELR on, no unclean election, min ISR fixed.
    pub kip966: bool,
    /// Whatever is acknowledged is on the disk of those who acknowledged it, and the last leader is
    /// remembered: no number of crashes loses it.
    pub lossless: bool,
    /// An ELR may stay although the ISR has min ISR members (shipped Kafka).
    pub elr_outlives_min_isr: bool,
}

/// The present of one partition.
#[derive(Clone, Copy, Debug)]
pub struct Present<'a> {
    /// Which.
    pub id: TopicPartition,
    /// The controller's metadata as decided.
    pub metadata: &'a ClusterMetadata,
    /// Every replica.
    pub replicas: &'a [ReplicaView<'a>],
    /// What the settings promise.
    pub promises: Promises,
    /// What the controller was just asked.
    pub cause: Cause,
}

/// The present of one partition, and its past.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// As of this step.
    pub now: Present<'a>,
    /// Up to the step before.
    pub past: &'a History,
}

impl<'a> Present<'a> {
    /// The partition as decided.
    pub fn partition(&self) -> Option<&'a PartitionRegistration> {
        self.metadata.partition(self.id)
    }

    /// The controller's effective min ISR: by the replicas of partition 0, or by its own where those
    /// are fewer.
    pub fn min_isr(&self) -> usize {
        let topic = self.metadata.effective_min_isr(self.id.topic).unwrap_or(usize::MAX);
        topic.min(self.partition().map_or(usize::MAX, |partition| partition.replicas.len()))
    }

    /// The lowest min ISR by which somebody decides now: the controller, or a leader that has not
    /// read its newest value.
    pub fn lowest_min_isr(&self) -> usize {
        let leaders = self.leaders().filter_map(|(_, machine)| machine.min_isr());
        leaders.fold(self.min_isr(), usize::min)
    }

    /// The replica on `broker`.
    pub fn replica(&self, broker: BrokerId) -> Option<&'a ReplicaView<'a>> {
        self.replicas.iter().find(|replica| replica.broker == broker)
    }

    /// The leader as decided, if it was elected from outside ISR and ELR and has not reported
    /// recovery.
    pub fn unclean_leader(&self) -> Option<&'a ReplicaView<'a>> {
        let partition = self.partition().filter(|partition| partition.recovering)?;
        self.replica(partition.leader?)
    }

    /// Every replica that leads, with its machine.
    pub fn leaders(&self) -> impl Iterator<Item = (&'a ReplicaView<'a>, &'a Partition)> {
        self.replicas.iter().filter_map(|replica| {
            let machine = replica.machine.filter(|machine| machine.is_leader())?;
            Some((replica, machine))
        })
    }
}

impl<'a> View<'a> {
    /// The replica that leads, or is about to, in the newest leader epoch there has been; `None`
    /// while that one is down.
    pub fn newest_leader(&self) -> Option<&'a ReplicaView<'a>> {
        let unclean = self.now.unclean_leader().filter(|replica| {
            let registered = self.now.metadata.broker(replica.broker).map(|broker| broker.epoch);
            !self.past.crash_is_unheard(replica.broker, registered)
        });
        let newest = self.past.reigns().map(|(epoch, _)| epoch).max();
        let leaders = self.now.leaders().filter(|(_, machine)| machine.leader_epoch() >= newest);
        unclean.or_else(|| {
            let last = leaders.max_by_key(|(_, machine)| machine.leader_epoch());
            last.map(|(replica, _)| replica)
        })
    }

    /// The lowest min ISR by which somebody decided since the append: fewer unclean shutdowns must not
    /// lose the batch.
    pub fn min_isr_of(&self, write: &Write) -> usize {
        write.min_isr.min(self.now.lowest_min_isr())
    }

    /// Whether records survive as KIP-966 promises in this run, up to now.
    pub fn is_promised(&self) -> bool {
        self.now.promises.kip966 && !self.past.is_excused()
    }
}

/// A property.
#[derive(Clone, Copy)]
pub struct Invariant {
    /// Its name: its file's.
    pub name: &'static str,
    /// Says how the present breaks it, if it does.
    pub check: fn(&View<'_>) -> Result<(), String>,
}

/// All of them.
pub const ALL: [Invariant; 12] = [
    Invariant { name: "acknowledged_survives", check: acknowledged_survives::check },
    Invariant { name: "acknowledged_is_replicated", check: acknowledged_is_replicated::check },
    Invariant { name: "committed_prefix_identical", check: committed_prefix_identical::check },
    Invariant { name: "consumers_see_committed", check: consumers_see_committed::check },
    Invariant { name: "high_watermark_monotonic", check: high_watermark_monotonic::check },
    Invariant { name: "latest_offset_monotonic", check: latest_offset_monotonic::check },
    Invariant { name: "one_leader_per_epoch", check: one_leader_per_epoch::check },
    Invariant { name: "maximal_isr_covers_eligible", check: maximal_isr_covers_eligible::check },
    Invariant { name: "eligible_hold_committed", check: eligible_hold_committed::check },
    Invariant { name: "isr_elr_disjoint", check: isr_elr_disjoint::check },
    Invariant { name: "elr_only_under_min_isr", check: elr_only_under_min_isr::check },
    Invariant { name: "eligible_reach_min_isr", check: eligible_reach_min_isr::check },
];

/// A broken property.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Violation {
    /// Name of the property.
    pub invariant: &'static str,
    /// How.
    pub what: String,
}

/// The first property that the present breaks; with `only`, no other is looked at.
pub fn check_all(view: &View<'_>, only: Option<&str>) -> Option<Violation> {
    let mut checked = ALL.iter().filter(|invariant| only.is_none_or(|only| invariant.name == only));
    checked.find_map(|invariant| {
        let broken = (invariant.check)(view).err()?;
        Some(Violation { invariant: invariant.name, what: broken })
    })
}

/// Whether something committed is gone with more unclean shutdowns than the rules survive, so that
/// from here on nothing is promised.
pub fn is_loss_excused(view: &View<'_>) -> bool {
    view.is_promised() && acknowledged_survives::is_loss_excused(view)
}

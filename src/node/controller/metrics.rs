//! What a controller tells about itself. Counted as it happens; what is a property of the metadata is
//! counted when somebody asks.
//!
//! Gauges of partitions are of the active controller only, so that a sum over all voters is right.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::protocol::metadata::{ClusterMetadata, Record};
use crate::types::UncleanRecovery;

type Stages = Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>;

/// From 16 us to 4 s, each bucket twice the one before.
fn latency() -> Histogram {
    Histogram::new(exponential_buckets(16e-6, 2.0, 18))
}

/// The part of an AlterPartition's way through the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// From the queue to the decision.
    Queue,
    /// From the decision to the commit: linger, sync, other voters.
    Commit,
    /// Both.
    Total,
}

impl Stage {
    const ALL: [Stage; 3] = [Stage::Queue, Stage::Commit, Stage::Total];

    fn label(self) -> [(&'static str, &'static str); 1] {
        let name = match self {
            Stage::Queue => "queue",
            Stage::Commit => "commit",
            Stage::Total => "total",
        };
        [("stage", name)]
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Metrics {
    event_queue_time: Histogram,
    metadata_commit: Histogram,
    alter_partition: Stages,
    isr_shrinks: Cell<u64>,
    isr_expands: Cell<u64>,
    /// Of the machine, while there is one.
    recoveries: Cell<usize>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        let alter_partition: Stages = Family::new_with_constructor(latency);
        // A family without a sample would not be told at all.
        for stage in Stage::ALL {
            drop(alter_partition.get_or_create(&stage.label()));
        }
        Metrics {
            event_queue_time: latency(),
            metadata_commit: latency(),
            alter_partition,
            isr_shrinks: Cell::new(0),
            isr_expands: Cell::new(0),
            recoveries: Cell::new(0),
        }
    }
}

/// What is not counted here but read when somebody asks.
pub(super) struct Now<'a> {
    /// Committed.
    pub(super) metadata: &'a ClusterMetadata,
    pub(super) is_active: bool,
    pub(super) queue_length: usize,
    pub(super) term: i32,
    pub(super) log_end: i64,
    pub(super) committed: i64,
}

impl Metrics {
    /// A request was taken from the queue.
    pub(super) fn taken(&self, waited: Duration) {
        self.event_queue_time.observe(waited.as_secs_f64());
    }

    /// A proposal was committed.
    pub(super) fn committed(&self, took: Duration) {
        self.metadata_commit.observe(took.as_secs_f64());
    }

    /// An AlterPartition passed a stage.
    pub(super) fn alter_partition(&self, stage: Stage, took: Duration) {
        self.alter_partition.get_or_create(&stage.label()).observe(took.as_secs_f64());
    }

    /// Partitions under recovery.
    pub(super) fn recovering(&self, count: usize) {
        self.recoveries.set(count);
    }

    /// A committed record is about to be applied to `metadata`.
    pub(super) fn applying(&self, metadata: &ClusterMetadata, record: &Record) {
        let Record::PartitionChange(change) = record else { return };
        let Some(isr) = &change.isr else { return };
        let before = metadata.partition(change.id).map_or(0, |partition| partition.isr.len());
        if isr.len() < before {
            self.isr_shrinks.set(self.isr_shrinks.get() + 1);
        } else if isr.len() > before {
            self.isr_expands.set(self.isr_expands.get() + 1);
        }
    }

    /// Everything, as Prometheus reads it.
    ///
    /// # Errors
    /// Never, as far as is known: it writes to memory.
    pub(super) fn render(&self, now: &Now<'_>) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        let partitions =
            if now.is_active { Partitions::of(now.metadata) } else { Partitions::default() };
        partitions.register(&mut registry, if now.is_active { self.recoveries.get() } else { 0 });
        self.register(&mut registry, now);
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }

    fn register(&self, registry: &mut Registry, now: &Now<'_>) {
        let active = i64::from(now.is_active);
        for (name, help, value) in [
            ("active_controller", "Whether this voter is the active controller", active),
            ("event_queue_length", "Requests waiting for the controller", now.queue_length as i64),
            ("metadata_leader_epoch", "Term of the metadata log's leader", i64::from(now.term)),
            ("metadata_log_end_offset", "End of this voter's metadata log", now.log_end),
            ("metadata_committed_offset", "End of what this voter has applied", now.committed),
        ] {
            registry.register(format!("ackmark_controller_{name}"), help, ConstGauge::new(value));
        }
        for (name, help, value) in [
            ("isr_shrinks", "Committed changes to a smaller ISR", &self.isr_shrinks),
            ("isr_expands", "Committed changes to a larger ISR", &self.isr_expands),
        ] {
            let counter = ConstCounter::new(value.get());
            registry.register(format!("ackmark_controller_{name}"), help, counter);
        }
        registry.register_with_unit(
            "ackmark_controller_event_queue_time",
            "Time a request waited for the controller",
            Unit::Seconds,
            self.event_queue_time.clone(),
        );
        registry.register_with_unit(
            "ackmark_controller_metadata_commit",
            "Time from the proposal of records to their commit",
            Unit::Seconds,
            self.metadata_commit.clone(),
        );
        registry.register_with_unit(
            "ackmark_controller_alter_partition",
            "Time of AlterPartition in the controller, by stage",
            Unit::Seconds,
            self.alter_partition.clone(),
        );
    }
}

/// Counts over all partitions and brokers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Partitions {
    electable_replicas: usize,
    paused: usize,
    offline: usize,
    under_min_isr: usize,
    brokers_active: usize,
    brokers_fenced: usize,
}

impl Partitions {
    pub(super) fn of(metadata: &ClusterMetadata) -> Partitions {
        let mut counts = Partitions::default();
        for broker in metadata.brokers() {
            counts.brokers_active += usize::from(broker.is_active());
            counts.brokers_fenced += usize::from(broker.fenced);
        }
        for topic in metadata.topics() {
            let strategy = metadata.topic_config(&topic.name).unclean_recovery;
            let min_isr = metadata.effective_min_isr(topic.id).unwrap_or(1);
            for partition in topic.partitions.values() {
                let electable = partition.isr.len() + partition.elr.len();
                let is_offline = partition.leader.is_none();
                let waits = strategy == UncleanRecovery::Manual && is_offline && electable == 0;
                counts.electable_replicas += electable;
                counts.paused += usize::from(waits);
                counts.offline += usize::from(is_offline);
                counts.under_min_isr += usize::from(partition.isr.len() < min_isr);
            }
        }
        counts
    }

    fn register(&self, registry: &mut Registry, recoveries: usize) {
        for (name, help, value) in [
            (
                "kafka_replication_electable_replicas",
                "Members of ISR and ELR of all partitions",
                self.electable_replicas,
            ),
            (
                "kafka_replication_unclean_recovery_partitions",
                "Partitions being recovered from their replicas' logs",
                recoveries,
            ),
            (
                "kafka_replication_paused_partitions",
                "Partitions without leader, ISR and ELR that wait for an operator",
                self.paused,
            ),
            ("kafka_controller_offline_partitions", "Partitions without leader", self.offline),
            (
                "kafka_controller_under_min_isr_partitions",
                "Partitions whose ISR is under the effective min ISR",
                self.under_min_isr,
            ),
            ("kafka_controller_active_brokers", "Active brokers", self.brokers_active),
            ("kafka_controller_fenced_brokers", "Fenced brokers", self.brokers_fenced),
        ] {
            registry.register(name, help, ConstGauge::new(value as i64));
        }
    }
}

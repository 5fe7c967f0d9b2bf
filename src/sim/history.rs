//! What has happened to one partition, as nobody inside the cluster can know it: what was committed
//! and acknowledged, who led when, whose disk lost something. The invariants compare the present
//! with it; then the present is added.

use std::collections::BTreeMap;

use super::invariants::Present;
use crate::types::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicPartition};

/// Names a produce across brokers and their lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId {
    /// Who appended it.
    pub broker: BrokerId,
    /// Unique on that broker, over all its lives.
    pub request: u64,
}

/// An `acks=all` batch from its append on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// Its name.
    pub id: WriteId,
    /// Offset after its last record.
    pub end: Offset,
    /// Digest of the leader's log up to `end`.
    pub digest: u64,
    /// Whether its producer was told that it is committed.
    pub is_acknowledged: bool,
    /// Brokers that had an unclean shutdown since the append and have not rejoined the ISR since.
    pub unclean: Vec<BrokerId>,
    /// The lowest min ISR by which somebody decided since the append.
    pub min_isr: usize,
}

/// One leader in one leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reign {
    /// Who led.
    pub leader: BrokerId,
    /// Its high watermark when last looked at.
    pub high_watermark: Offset,
    /// Lowest and highest latest offset told to clients.
    pub latest_told: Option<(Offset, Offset)>,
}

/// What the controller decided last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decided {
    /// Members of ISR and ELR together.
    pub eligible: usize,
    /// Effective min ISR.
    pub min_isr: usize,
    /// Leader epoch.
    pub leader_epoch: LeaderEpoch,
}

/// The past of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// End and digest of the log at every batch that some leader's high watermark has passed.
    committed: Vec<(Offset, u64)>,
    writes: Vec<Write>,
    reigns: BTreeMap<LeaderEpoch, Reign>,
    /// Where each consumer is, and the digest of what it has read.
    consumers: BTreeMap<u64, (Offset, u64)>,
    /// Last unclean shutdown of each broker: the epoch the controller knew it by then.
    crashes: BTreeMap<BrokerId, Option<BrokerEpoch>>,
    /// The ISR as last decided.
    isr: Vec<BrokerId>,
    decided: Option<Decided>,
    /// More was lost than the rules promise to survive: what is committed is void.
    is_excused: bool,
}

impl History {
    /// Exclusive end of what some leader called committed.
    pub fn committed_end(&self) -> Offset {
        self.committed.last().map_or(Offset::ZERO, |&(end, _)| end)
    }

    /// Digest of the committed log below `end`; `None` if no committed batch ends there.
    pub fn committed_digest(&self, end: Offset) -> Option<u64> {
        if end == Offset::ZERO {
            return Some(0);
        }
        let index = self.committed.binary_search_by_key(&end, |&(end, _)| end).ok()?;
        Some(self.committed[index].1)
    }

    /// Acknowledged batches, in order of appends.
    pub fn acknowledged(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(|write| write.is_acknowledged)
    }

    /// Who led in an epoch.
    pub fn reign(&self, epoch: LeaderEpoch) -> Option<&Reign> {
        self.reigns.get(&epoch)
    }

    /// All leaders, by epoch.
    pub fn reigns(&self) -> impl Iterator<Item = (LeaderEpoch, &Reign)> {
        self.reigns.iter().map(|(&epoch, reign)| (epoch, reign))
    }

    /// Where each consumer is, and the digest of what it has read.
    pub fn consumers(&self) -> impl Iterator<Item = (u64, (Offset, u64))> {
        self.consumers.iter().map(|(&id, &position)| (id, position))
    }

    /// What the controller decided last, unless it has forgotten it since.
    pub fn decided(&self) -> Option<Decided> {
        self.decided
    }

    /// Whether `broker` crashed and the controller still takes it for the life that crashed.
    pub fn crash_is_unheard(&self, broker: BrokerId, registered: Option<BrokerEpoch>) -> bool {
        self.crashes.get(&broker).is_some_and(|&known| registered <= known)
    }

    /// Whether more was lost than the rules promise to survive.
    pub fn is_excused(&self) -> bool {
        self.is_excused
    }

    /// A leader appended an `acks=all` batch; its log up to it has `digest`.
    pub fn appended(&mut self, id: WriteId, end: Offset, digest: u64) {
        let unclean = Vec::new();
        let min_isr = usize::MAX;
        self.writes.push(Write { id, end, digest, is_acknowledged: false, unclean, min_isr });
    }

    /// A leader answered an `acks=all` batch.
    pub fn answered(&mut self, id: WriteId, is_acknowledged: bool) {
        if is_acknowledged {
            let write = self.writes.iter_mut().rev().find(|write| write.id == id);
            write.into_iter().for_each(|write| write.is_acknowledged = true);
        } else {
            self.writes.retain(|write| write.id != id);
        }
    }

    /// A consumer has read everything below `end`, with this digest.
    pub fn consumed(&mut self, consumer: u64, end: Offset, digest: u64) {
        self.consumers.insert(consumer, (end, digest));
    }

    /// A leader of `epoch` told a client the latest offset.
    pub fn told_latest(&mut self, epoch: LeaderEpoch, offset: Offset) {
        if let Some(reign) = self.reigns.get_mut(&epoch) {
            let (low, high) = reign.latest_told.unwrap_or((offset, offset));
            reign.latest_told = Some((low.min(offset), high.max(offset)));
        }
    }

    /// A broker's process ended without the clean mark while the controller knew it as `registered`.
    pub fn crashed(&mut self, broker: BrokerId, registered: Option<BrokerEpoch>) {
        let known = self.crashes.entry(broker).or_default();
        *known = registered.max(*known);
        for write in &mut self.writes {
            if !write.unclean.contains(&broker) {
                write.unclean.push(broker);
                write.unclean.sort();
            }
        }
    }

    /// Somebody asked for an election that may lose records, or a rule that promises nothing is on.
    pub fn excuse(&mut self) {
        self.is_excused = true;
        self.writes.clear();
        self.committed.clear();
        self.consumers.clear();
    }

    /// The controller forgot what it had decided: the next present is nothing to compare with that.
    pub fn forget_decisions(&mut self) {
        self.decided = None;
    }

    /// Adds the present.
    pub fn observe(&mut self, now: &Present<'_>) {
        self.observe_decisions(now);
        let min_isr = now.lowest_min_isr();
        self.writes.iter_mut().for_each(|write| write.min_isr = write.min_isr.min(min_isr));
        for (replica, machine) in now.leaders() {
            let Some(epoch) = machine.leader_epoch() else { continue };
            let high_watermark = machine.high_watermark();
            let reign = Reign { leader: replica.broker, high_watermark, latest_told: None };
            self.reigns.entry(epoch).or_insert(reign).high_watermark = high_watermark;
            if !self.is_excused && high_watermark > self.committed_end() {
                let from = self.committed_end();
                let news = replica.disk.ends_between(from, high_watermark);
                self.committed.extend(news);
            }
        }
    }

    fn observe_decisions(&mut self, now: &Present<'_>) {
        let Some(partition) = now.partition() else { return };
        for &broker in &partition.isr {
            // A broker elected from the ELR before the controller heard of its crash holds nothing
            // again.
            let registered = now.metadata.broker(broker).map(|registered| registered.epoch);
            if !self.isr.contains(&broker) && !self.crash_is_unheard(broker, registered) {
                self.writes.iter_mut().for_each(|write| write.unclean.retain(|&id| id != broker));
            }
        }
        self.isr.clone_from(&partition.isr);
        self.decided = Some(Decided {
            eligible: partition.isr.len() + partition.elr.len(),
            min_isr: now.min_isr(),
            leader_epoch: partition.leader_epoch,
        });
    }
}

/// The histories of all partitions.
pub type Histories = BTreeMap<TopicPartition, History>;

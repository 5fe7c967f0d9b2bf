//! A controller reduced to what the partition needs: AlterPartition's checks, fencing, elections
//! from the ISR. Commits at once; brokers learn of it when they read their queue of changes.

use super::*;

pub(super) struct Controller {
    pub(super) isr: Vec<BrokerId>,
    pub(super) leader: Option<BrokerId>,
    pub(super) elections: u64,
    leader_epoch: i32,
    partition_epoch: i32,
    peers: Vec<Peer>,
    next_broker_epoch: i64,
}

/// One change as a broker reads it: brokers first, then the partition.
#[derive(Clone)]
pub(super) struct Change {
    pub(super) peers: Vec<Peer>,
    pub(super) partition: PartitionMetadata,
}

impl Controller {
    pub(super) fn new(brokers: &[BrokerId]) -> Controller {
        let peer = |&id| Peer { id, epoch: None, fenced: true, in_controlled_shutdown: false };
        Controller {
            isr: brokers.to_vec(),
            leader: brokers.first().copied(),
            elections: 0,
            leader_epoch: 0,
            partition_epoch: 0,
            peers: brokers.iter().map(peer).collect(),
            next_broker_epoch: 100,
        }
    }

    pub(super) fn change(&self) -> Change {
        let replicas = self.peers.iter().map(|peer| peer.id).collect();
        Change {
            peers: self.peers.clone(),
            partition: PartitionMetadata {
                replicas,
                isr: self.isr.clone(),
                leader: self.leader,
                leader_epoch: LeaderEpoch(self.leader_epoch),
                partition_epoch: PartitionEpoch(self.partition_epoch),
                recovering: false,
            },
        }
    }

    /// A new life of a broker: fenced until it asks.
    pub(super) fn register(&mut self, id: BrokerId) -> BrokerEpoch {
        self.fence(id);
        self.next_broker_epoch += 1;
        let epoch = BrokerEpoch(self.next_broker_epoch);
        self.peer(id).epoch = Some(epoch);
        epoch
    }

    pub(super) fn unfence(&mut self, id: BrokerId) {
        self.peer(id).fenced = false;
        if self.leader.is_none() {
            self.elect(None);
        }
    }

    /// Takes `id` out of the ISR unless it is the last member, and leadership from it.
    pub(super) fn fence(&mut self, id: BrokerId) {
        self.peer(id).fenced = true;
        if self.isr.len() > 1 && self.isr.contains(&id) {
            self.isr.retain(|&member| member != id);
            self.partition_epoch += 1;
        }
        if self.leader == Some(id) {
            self.elect(None);
        }
    }

    pub(super) fn is_fenced(&self, id: BrokerId) -> bool {
        self.peers.iter().any(|peer| peer.id == id && peer.fenced)
    }

    /// Makes `preferred`, or else the first active ISR member, the leader.
    pub(super) fn elect(&mut self, preferred: Option<BrokerId>) {
        let active = |id: &BrokerId| !self.is_fenced(*id) && self.isr.contains(id);
        let wanted = preferred.filter(active);
        let elected = wanted.or_else(|| self.isr.iter().copied().find(active));
        if elected != self.leader {
            self.leader = elected;
            self.leader_epoch += 1;
            self.partition_epoch += 1;
            self.elections += 1;
        }
    }

    /// `None` if the sender's life is over: the whole request fails and is not answered here.
    pub(super) fn alter_partition(
        &mut self,
        (sender, life): (BrokerId, BrokerEpoch),
        proposal: &IsrProposal,
    ) -> Option<Result<IsrCommitted, ErrorCode>> {
        if self.peer(sender).epoch != Some(life) {
            return None;
        }
        if proposal.leader_epoch.0 < self.leader_epoch {
            return Some(Err(ErrorCode::FencedLeaderEpoch));
        }
        if self.leader != Some(sender) {
            return Some(Err(ErrorCode::InvalidRequest));
        }
        if proposal.partition_epoch.0 < self.partition_epoch {
            return Some(Err(ErrorCode::InvalidUpdateVersion));
        }
        let ineligible = proposal.isr.iter().any(|&(id, epoch)| {
            let peer = self.peer(id);
            peer.fenced || epoch.is_some_and(|epoch| peer.epoch != Some(epoch))
        });
        if ineligible {
            return Some(Err(ErrorCode::IneligibleReplica));
        }
        self.isr = proposal.isr.iter().map(|&(id, _)| id).collect();
        self.partition_epoch += 1;
        Some(Ok(IsrCommitted {
            leader: self.leader,
            leader_epoch: LeaderEpoch(self.leader_epoch),
            partition_epoch: PartitionEpoch(self.partition_epoch),
            isr: self.isr.clone(),
        }))
    }

    fn peer(&mut self, id: BrokerId) -> &mut Peer {
        self.peers.iter_mut().find(|peer| peer.id == id).expect("a known broker")
    }
}

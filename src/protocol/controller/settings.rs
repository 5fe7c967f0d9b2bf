//! What steers the rules: cluster-wide values, and which of shipped Kafka's departures from KIP-966
//! are followed.

use std::time::Duration;

use crate::types::Compat;

/// What `LastKnownElr` holds (spec/kip966.md 2.5, `lastKnownMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LastKnown {
    /// The last leader, once nobody leads; it may come back by itself. Feature level 1.
    Leader,
    /// Every member that an unclean shutdown took out of the ELR. Feature level 2.
    FullSet,
}

/// Departures from the KIP, each by itself. [`Quirks::of`] gives the sets that were shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quirks {
    /// The last known leader is elected even if it is fenced (4.0.x, KAFKA-19522, C26).
    pub last_known_leader_may_be_fenced: bool,
    /// An ISR that loses a member raises the leader epoch (metadata.version before 3.6-IV0, C48).
    pub isr_shrink_raises_leader_epoch: bool,
    /// Unregistering a broker leaves it in ELRs (C51).
    pub unregister_keeps_elr: bool,
    /// Any written min ISR value clears the ELRs, not only one that the ISR reaches (C64, C66, C68).
    pub min_isr_change_clears_elr: bool,
    /// Assigning a directory wipes the ELR (C90).
    pub directory_assignment_wipes_elr: bool,
    /// A replica removed by a reassignment may stay in the ELR (C89).
    pub removed_replica_stays_in_elr: bool,
    /// An ELR election that reaches min ISR by itself leaves the rest of the ELR in place.
    pub elr_outlives_min_isr: bool,
    /// A change of settings leaves partitions as they are: a leader that has not read it yet gets ISR
    /// changes committed under rules that it does not follow, and ELRs outlive a downgrade.
    pub settings_leave_partitions: bool,
}

impl Quirks {
    /// The departures of one compatibility mode.
    pub fn of(compat: Compat) -> Quirks {
        let shipped = compat == Compat::Kafka42;
        Quirks {
            last_known_leader_may_be_fenced: false,
            isr_shrink_raises_leader_epoch: false,
            unregister_keeps_elr: shipped,
            min_isr_change_clears_elr: shipped,
            directory_assignment_wipes_elr: shipped,
            removed_replica_stays_in_elr: shipped,
            elr_outlives_min_isr: shipped,
            settings_leave_partitions: shipped,
        }
    }
}

/// What does not change while a controller runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Brokers of another cluster are refused.
    pub cluster_id: String,
    /// `broker.session.timeout.ms`: a broker not heard from for longer is fenced.
    pub session_timeout: Duration,
    /// `unclean.leader.election.interval.ms`: how often leaderless partitions whose topic allows an
    /// unclean election get one.
    pub unclean_election_interval: Duration,
    /// Level at which a new metadata log finalizes `eligible.leader.replicas.version`: 0, 1 or 2.
    pub elr_level: i16,
    /// `unclean.recovery.manager.enabled`: at level 2 the unclean recovery manager inspects logs
    /// before it elects. Without it an unclean election takes the first live replica, as below
    /// level 2.
    pub unclean_recovery_manager: bool,
    /// What `LastKnownElr` held before the feature was turned off; read only at level 0.
    pub last_known_when_off: LastKnown,
    /// With which `compat` a new metadata log starts, as the cluster's value.
    pub compat: Compat,
    /// Departures from the KIP, where neither topic nor cluster has a value of `compat`.
    pub quirks: Quirks,
}

impl Settings {
    /// Kafka's default intervals and the whole of the KIP: level 2 with its recovery manager.
    pub fn new(cluster_id: String, session_timeout: Duration) -> Settings {
        Settings {
            cluster_id,
            session_timeout,
            unclean_election_interval: Duration::from_secs(300),
            elr_level: 2,
            unclean_recovery_manager: true,
            last_known_when_off: LastKnown::Leader,
            compat: Compat::Kip,
            quirks: Quirks::of(Compat::Kip),
        }
    }
}

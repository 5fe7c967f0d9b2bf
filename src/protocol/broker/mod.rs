//! The broker's side of the controller path, as pure machines: its life in the cluster, its queue of
//! ISR proposals, and whether its last stop was clean. Connections and files are the shell's.
//!
//! Source of the rules: spec/kip966.md 1.6, 2.1, 2.2.

mod clean_shutdown;
mod isr_proposals;
mod lifecycle;

#[cfg(test)]
mod tests;

pub use clean_shutdown::{
    Damage, FoundLog, LogDirectory, Problem, VouchedLog, clean_registration, damages,
    previous_broker_epoch,
};
pub use isr_proposals::{IsrProposals, IsrProposalsInput, IsrProposalsOutput, PartitionAnswer};
pub use lifecycle::{Lifecycle, LifecycleInput, LifecycleOutput, LifecycleState, may_take_roles};

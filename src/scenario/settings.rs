//! What stands in the node files of an experiment's cluster: the workload's settings, and what the
//! harness itself fixes. Who starts when is [`super::cluster`]'s.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use crate::config::defaults;
use crate::config::node::{BrokerConfig, ControllerConfig, LogConfig};
use crate::types::BrokerId;

use super::cluster::Plan;

/// Clusters of one run never talk to each other: each listens on ports of its own.
pub(super) const CLUSTER_ID: &str = "ackmark-embedded";

/// Controllers listen on a loopback address that no connection on this host starts from, so that
/// none can take a controller's port while it is down.
pub(super) const CONTROLLER_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 100);

/// The same for brokers: whoever knows one finds it again after a restart.
pub(super) const BROKER_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 101);

/// Where broker `id` tells what happens to ISRs, within the cluster's folder.
pub(super) fn events_file(id: BrokerId) -> String {
    format!("broker-{id}.events.jsonl")
}

/// What all controllers share; the first one's, alone, as it stands.
pub(super) fn controller_config(plan: &Plan<'_>) -> ControllerConfig {
    ControllerConfig {
        node_id: BrokerId(defaults::CONTROLLER_NODE_ID),
        cluster_id: CLUSTER_ID.to_owned(),
        listen: SocketAddr::from((CONTROLLER_ADDRESS, 0)),
        data_dir: PathBuf::from("controller"),
        session_timeout: plan.settings.session_timeout,
        metadata_append_linger: plan.settings.metadata_append_linger,
        commit_delay: plan.variant.commit_delay,
        request_bytes_max: defaults::REQUEST_BYTES_MAX as usize,
        voters: Vec::new(),
        election_timeout: defaults::ELECTION_TIMEOUT,
        snapshot_interval_entries: defaults::SNAPSHOT_INTERVAL_ENTRIES,
        metrics_listen: None,
        election: plan.settings.election,
    }
}

/// Addresses of one broker's: the nodes' own, or the relay's.
pub(super) struct Doors {
    pub(super) listen: SocketAddr,
    pub(super) controllers: Vec<SocketAddr>,
    pub(super) advertised: Option<SocketAddr>,
}

pub(super) fn broker_config(plan: &Plan<'_>, id: BrokerId, doors: &Doors) -> BrokerConfig {
    let settings = plan.settings;
    BrokerConfig {
        node_id: id,
        cluster_id: CLUSTER_ID.to_owned(),
        listen: doors.listen,
        advertised: doors.advertised,
        data_dir: PathBuf::from(format!("broker-{id}")),
        controllers: doors.controllers.clone(),
        metrics_listen: usize::try_from(id.0).ok().and_then(|id| plan.metrics_of(id)),
        events_file: Some(PathBuf::from(events_file(id))),
        engine: plan.engine,
        shards: settings.shards,
        pin: settings.pin,
        log: LogConfig {
            durability: plan.durability,
            commit_route: settings.commit_route.under(plan.durability),
            commit_pipeline_depth: plan.variant.commit_pipeline_depth,
            segment_bytes: settings.segment_bytes,
            memory_bytes: settings.memory_bytes,
            message_bytes_max: settings.message_bytes_max,
        },
        heartbeat_interval: settings.heartbeat_interval,
        replica_lag_time_max: settings.replica_lag_time_max,
        replica_fetch_wait_max: settings.replica_fetch_wait_max,
        replica_fetch_backoff: settings.replica_fetch_backoff,
        replica_fetch_bytes_max: settings.replica_fetch_bytes_max,
        replica_fetch_pipeline: plan.variant.fetch_pipeline,
        replica_serve_followers: plan.variant.serve_followers,
        request_bytes_max: defaults::REQUEST_BYTES_MAX as usize,
        half_frame_idle_max: defaults::HALF_FRAME_IDLE_MAX,
        in_flight_requests_max: defaults::IN_FLIGHT_REQUESTS_MAX as usize,
        undurable_bytes_max: settings.undurable_bytes_max,
        fault_control: plan.fault_control,
        alter_partition: settings.alter_partition,
    }
}

//! Vectors with scope heartbeat and broker-start.

use super::*;
use crate::protocol::broker::{LogDirectory, previous_broker_epoch};
use crate::protocol::controller::heartbeat::reply;
use crate::types::{BrokerEpoch, Offset};

pub(super) fn run_heartbeat(vector: &Value) -> Result<(), String> {
    let (given, event) = (&vector["given"], &vector["event"]);
    let offsets = ["registrationOffset", "controlledShutdownOffset", "lowestActiveOffset"];
    refuse_unknown(given, &[&["state", "hasLeaderships"][..], &offsets].concat());
    refuse_unknown(event, &["type", "metadataOffset", "wantFence", "wantShutDown"]);
    assert_eq!(kind(event), "heartbeat");
    let offset = |value: &Value| int(value).filter(|&offset| offset >= 0).map(Offset);
    let view = BrokerView {
        state: state_named(given["state"].as_str().unwrap()),
        registration_offset: offset(&given["registrationOffset"]).unwrap(),
        leads_any: flag(&given["hasLeaderships"], false),
        controlled_shutdown_offset: offset(&given["controlledShutdownOffset"]),
        // The vectors give last applied offsets, the machine takes ends. An active broker that has
        // applied nothing (-1) has not reached any handover; null is that no broker is active.
        lowest_active_end: int(&given["lowestActiveOffset"]).map(|last| Offset(last + 1)),
    };
    let heartbeat = Heartbeat {
        broker: BrokerId(1),
        epoch: BrokerEpoch(1),
        metadata_end: int(&event["metadataOffset"]).map_or(Offset::ZERO, |last| Offset(last + 1)),
        want_fence: flag(&event["wantFence"], false),
        want_shut_down: flag(&event["wantShutDown"], false),
        offline_log_dirs: vec![],
        resources: None,
    };
    let next = next_state(&view, &heartbeat);
    let reply = reply(&view, &heartbeat, next);
    differences(&vector["expect"], |key| match key {
        "next" => json!(name(next)),
        "isCaughtUp" => json!(reply.is_caught_up),
        "isFenced" => json!(reply.is_fenced),
        "shouldShutDown" => json!(reply.should_shut_down),
        "actions" => json!(actions(view.state, next)),
        other => unknown_expectation(other),
    })
}

fn state_named(wanted: &str) -> BrokerState {
    let states = [
        BrokerState::Fenced,
        BrokerState::Unfenced,
        BrokerState::ControlledShutdown,
        BrokerState::ShutdownNow,
    ];
    let known = states.into_iter().find(|&state| name(state) == wanted);
    known.unwrap_or_else(|| panic!("unknown state {wanted}"))
}

fn name(state: BrokerState) -> &'static str {
    match state {
        BrokerState::Fenced => "FENCED",
        BrokerState::Unfenced => "UNFENCED",
        BrokerState::ControlledShutdown => "CONTROLLED_SHUTDOWN",
        BrokerState::ShutdownNow => "SHUTDOWN_NOW",
    }
}

/// What the controller does to the broker's registration and partitions, named as the events are.
fn actions(state: BrokerState, next: BrokerState) -> Vec<&'static str> {
    match next {
        _ if next == state => vec![],
        BrokerState::Fenced | BrokerState::ShutdownNow => vec!["fence"],
        BrokerState::Unfenced => vec!["unfence"],
        BrokerState::ControlledShutdown => vec!["controlled_shutdown"],
    }
}

pub(super) fn run_start(vector: &Value) -> Result<(), String> {
    let given = &vector["given"];
    refuse_unknown(given, &["dirs"]);
    refuse_unknown(&vector["event"], &["type"]);
    let directory = |dir: &Value| {
        refuse_unknown(dir, &["online", "brokerEpoch"]);
        let marker = int(&dir["brokerEpoch"]).map(BrokerEpoch);
        LogDirectory { online: flag(&dir["online"], true), marker }
    };
    let dirs: Vec<_> = given["dirs"].as_array().unwrap().iter().map(directory).collect();
    differences(&vector["expect"], |key| match key {
        "previousBrokerEpoch" => json!(previous_broker_epoch(&dirs).map_or(-1, |epoch| epoch.0)),
        other => unknown_expectation(other),
    })
}

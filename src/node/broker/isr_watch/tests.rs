//! A real machine under watch, through the ISR's life.

use std::time::Duration;

use super::*;
use crate::protocol::partition::{
    Fetch, Fetcher, Input, IsrCommitted, LogState, Output, PartitionMetadata, Peer, RequestId,
    Settings,
};
use crate::types::{
    Acks, BrokerEpoch, FetchPipeline, HwmGate, IsrExpand, IsrWait, PartitionEpoch,
    ProduceUnderMinIsr, ServeFollowers,
};

const LAG: Duration = Duration::from_millis(100);

struct Scene {
    machine: Partition,
    watch: IsrWatch,
    sink: EventSink,
    events: crossbeam::channel::Receiver<IsrEvent>,
    out: Vec<Output>,
    requests: u64,
}

fn at(ms: u64) -> MonotonicTime {
    MonotonicTime(ms * 1_000_000)
}

impl Scene {
    /// Broker 1 leads itself and broker 2 from 10 ms on; min ISR is 2.
    fn new(isr: &[i32]) -> Scene {
        let settings = Settings {
            min_isr: 2,
            hwm_gate: HwmGate::Kip966,
            isr_wait: IsrWait::Controller,
            isr_expand: IsrExpand::Kafka,
            produce_under_min_isr: ProduceUnderMinIsr::Wait,
            fetch_pipeline: FetchPipeline::Classic,
            serve_followers: ServeFollowers::BeforeSync,
            lag_time_max: LAG,
            fetch_backoff: LAG,
        };
        let (sender, events) = crossbeam::channel::bounded(100);
        let mut scene = Scene {
            machine: Partition::new(BrokerId(1), BrokerEpoch(1), settings, LogState::empty()),
            watch: IsrWatch::new("t", PartitionId(0), BrokerId(1)),
            sink: EventSink::to(sender),
            events,
            out: Vec::new(),
            requests: 0,
        };
        let peer = |id| Peer {
            id: BrokerId(id),
            epoch: Some(BrokerEpoch(1)),
            fenced: false,
            in_controlled_shutdown: false,
        };
        scene.step(5, Input::Peers(vec![peer(1), peer(2)]));
        scene.step(10, Input::Metadata(metadata(isr, Some(1), 0)));
        scene
    }

    fn step(&mut self, ms: u64, input: Input) {
        self.machine.step(at(ms), input, &mut self.out);
        self.watch.changed(at(ms), &self.machine, &mut self.sink);
    }

    fn append(&mut self, ms: u64, record_count: u32) {
        self.requests += 1;
        let (request, deadline) = (RequestId(self.requests), at(ms + 1_000));
        self.step(ms, Input::Produce { request, acks: Acks::Leader, record_count, deadline });
        self.step(ms, Input::Durable(self.machine.log_end_offset()));
    }

    fn fetch(&mut self, ms: u64, offset: i64) {
        self.requests += 1;
        let fetcher = Fetcher::Follower {
            id: BrokerId(2),
            epoch: Some(BrokerEpoch(1)),
            log_start_offset: Offset::ZERO,
        };
        let fetch = Fetch {
            fetcher,
            offset: Offset(offset),
            current_leader_epoch: None,
            last_fetched_epoch: None,
            durable_offset: None,
            wants_records: true,
        };
        let request = RequestId(self.requests);
        self.step(ms, Input::Fetch { request, fetch, deadline: at(ms + 1_000) });
    }

    /// The controller commits what was proposed; the request had left at `sent_ms`.
    fn commit(&mut self, ms: u64, sent_ms: u64, partition_epoch: i32) {
        let proposal = self.out.iter().rev().find_map(|output| match output {
            Output::ProposeIsr(proposal) => Some(proposal.clone()),
            _ => None,
        });
        let proposal = proposal.expect("something was proposed");
        let committed = IsrCommitted {
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(1),
            partition_epoch: PartitionEpoch(partition_epoch),
            isr: proposal.isr.iter().map(|&(id, _)| id).collect(),
        };
        self.watch.decided(at(sent_ms));
        self.step(ms, Input::IsrCommitted { proposal, committed });
    }

    fn told(&self) -> Vec<IsrEventKind> {
        self.events.try_iter().map(|event| event.kind).collect()
    }
}

fn metadata(isr: &[i32], leader: Option<i32>, later: i32) -> PartitionMetadata {
    PartitionMetadata {
        replicas: vec![BrokerId(1), BrokerId(2)],
        isr: isr.iter().copied().map(BrokerId).collect(),
        leader: leader.map(BrokerId),
        leader_epoch: LeaderEpoch(1 + later),
        partition_epoch: PartitionEpoch(1 + 10 * later),
        recovering: false,
    }
}

fn ns(ms: u64) -> u64 {
    at(ms).0
}

#[test]
fn a_new_leader_is_told_once_its_high_watermark_has_moved() {
    let mut scene = Scene::new(&[1, 2]);
    scene.append(20, 4);
    assert_eq!(scene.told(), []);
    scene.fetch(30, 4);
    let led = IsrEventKind::Led {
        known_ns: ns(10),
        first_append_ns: Some(ns(20)),
        first_commit_ns: Some(ns(30)),
    };
    let stall = IsrEventKind::Stall {
        reason: StallReason::NewLeader,
        since_ns: ns(20),
        until_ns: ns(30),
        records: 4,
        held_record_ns: 4 * ns(10),
    };
    assert_eq!(scene.told(), [stall, led]);
    // An ordinary commit is no event.
    scene.append(40, 1);
    scene.fetch(50, 5);
    assert_eq!(scene.told(), []);
}

/// Broker 2 stops at 50 ms and comes back at 300 ms, behind by 3 records, then by one.
#[test]
fn an_isr_that_falls_below_min_isr_and_recovers_tells_every_instant() {
    let mut scene = Scene::new(&[1, 2]);
    scene.append(20, 4);
    scene.fetch(50, 4);
    scene.told();
    scene.append(60, 1);
    scene.append(70, 2);
    scene.step(200, Input::Tick);
    scene.commit(210, 203, 2);
    assert_eq!(scene.told(), [], "the shrink waits for the high watermark");
    scene.fetch(300, 4);
    scene.append(310, 1);
    scene.fetch(320, 7);
    scene.fetch(330, 8);
    let shrink = scene.told();
    let [IsrEventKind::Change { change, members, detected_ns, submitted_ns, sent_ns, .. }] =
        &shrink[..]
    else {
        panic!("{shrink:?}");
    };
    assert_eq!((*change, &members[..]), (IsrChange::Shrink, &[2][..]));
    let instants = (*detected_ns, *submitted_ns, *sent_ns);
    assert_eq!(instants, (Some(ns(50)), ns(200), Some(ns(203))));
    scene.commit(340, 301, 3);
    let under = IsrEventKind::UnderMinIsr { since_ns: ns(210), until_ns: Some(ns(340)) };
    let stall = IsrEventKind::Stall {
        reason: StallReason::UnderMinIsr,
        since_ns: ns(60),
        until_ns: ns(340),
        records: 4,
        // One record from 60, two from 70, one from 310 ms.
        held_record_ns: ns(280) + 2 * ns(270) + ns(30),
    };
    let expand = IsrEventKind::Change {
        change: IsrChange::Expand,
        members: vec![2],
        isr_before: 1,
        isr_after: 2,
        min_isr: 2,
        // At the frozen high watermark already, though not at the log end.
        detected_ns: Some(ns(300)),
        submitted_ns: ns(300),
        sent_ns: Some(ns(301)),
        settled_ns: Some(ns(340)),
        outcome: IsrOutcome::Committed,
        high_watermark_moved_ns: Some(ns(340)),
    };
    assert_eq!(scene.told(), [under, stall, expand]);
}

/// The metadata record of a change often comes before the answer to the request that asked for it.
#[test]
fn a_change_that_metadata_settles_waits_for_its_answer() {
    let mut scene = Scene::new(&[1]);
    scene.append(20, 1);
    scene.fetch(30, 1);
    let committed =
        PartitionMetadata { partition_epoch: PartitionEpoch(2), ..metadata(&[1, 2], Some(1), 0) };
    scene.step(40, Input::Metadata(committed));
    let told = scene.told();
    let is_change = |kind: &IsrEventKind| matches!(kind, IsrEventKind::Change { .. });
    assert!(!told.iter().any(is_change), "{told:?}");
    scene.commit(45, 33, 2);
    let told = scene.told();
    let [IsrEventKind::Change { sent_ns, settled_ns, outcome, .. }] = &told[..] else {
        panic!("{told:?}");
    };
    let expected = (Some(ns(33)), Some(ns(40)), IsrOutcome::Committed);
    assert_eq!((*sent_ns, *settled_ns, *outcome), expected);
}

#[test]
fn what_is_open_when_leadership_ends_is_told_as_open() {
    let mut scene = Scene::new(&[1]);
    scene.append(20, 1);
    scene.fetch(30, 1);
    scene.step(40, Input::Metadata(metadata(&[2], Some(2), 1)));
    let told = scene.told();
    let [IsrEventKind::Change { outcome, settled_ns, .. }, under, led] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((*outcome, *settled_ns), (IsrOutcome::Open, None));
    assert_eq!(*under, IsrEventKind::UnderMinIsr { since_ns: ns(10), until_ns: None });
    let (first_append_ns, first_commit_ns) = (Some(ns(20)), None);
    assert_eq!(*led, IsrEventKind::Led { known_ns: ns(10), first_append_ns, first_commit_ns });
}

#[test]
fn events_that_do_not_fit_are_counted_in_the_next() {
    let (sender, receiver) = crossbeam::channel::bounded(1);
    let mut sink = EventSink::to(sender);
    let watch = IsrWatch::new("t", PartitionId(0), BrokerId(1));
    let mut tell = |since_ns| {
        let kind = IsrEventKind::UnderMinIsr { since_ns, until_ns: None };
        watch.tell_of(LeaderEpoch(0), kind, &mut sink);
    };
    (1..=3).for_each(&mut tell);
    assert_eq!(receiver.recv().map(|event| event.lost_before), Ok(0));
    tell(4);
    assert_eq!(receiver.recv().map(|event| event.lost_before), Ok(2));
}

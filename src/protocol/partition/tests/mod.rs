//! Tests of the partition machine: the conformance vectors, tables for each rule, the exhaustive
//! high-watermark model, and a seeded simulation of three replicas.

mod eligibility;
mod fetches;
mod followers;
mod high_watermark_model;
mod isr_changes;
mod pipeline;
mod produces;
mod simulation;
mod vectors;

use std::time::Duration;

use super::*;
use crate::types::*;

const LAG_MS: u64 = 30_000;
const PRODUCE_TIMEOUT_MS: u64 = 10_000;
const BACKOFF_MS: u64 = 1_000;
const START_MS: u64 = 1_000_000;
const LOCAL: BrokerId = BrokerId(1);
const LEADER_EPOCH: LeaderEpoch = LeaderEpoch(5);

fn at_ms(ms: u64) -> MonotonicTime {
    MonotonicTime(ms * 1_000_000)
}

fn ids(members: &[i32]) -> Vec<BrokerId> {
    members.iter().copied().map(BrokerId).collect()
}

fn broker_epoch(id: i32) -> BrokerEpoch {
    BrokerEpoch(100 + i64::from(id))
}

fn settings(min_isr: usize) -> Settings {
    Settings {
        min_isr,
        hwm_gate: HwmGate::Kip966,
        isr_wait: IsrWait::Controller,
        isr_expand: IsrExpand::Kafka,
        produce_under_min_isr: ProduceUnderMinIsr::Wait,
        fetch_pipeline: FetchPipeline::Classic,
        serve_followers: ServeFollowers::BeforeSync,
        lag_time_max: Duration::from_millis(LAG_MS),
        fetch_backoff: Duration::from_millis(BACKOFF_MS),
    }
}

/// Durable in full, so that only what a test appends is not.
fn log(epochs: &[(i32, i64)], log_start: i64, log_end: i64, high_watermark: i64) -> LogState {
    LogState {
        log_start_offset: Offset(log_start),
        log_end_offset: Offset(log_end),
        durable_offset: Offset(log_end),
        high_watermark: Offset(high_watermark),
        epochs: LeaderEpochs::from_entries(
            epochs.iter().map(|&(epoch, start)| (LeaderEpoch(epoch), Offset(start))),
        ),
    }
}

fn metadata(leader: i32, replicas: &[i32], isr: &[i32]) -> PartitionMetadata {
    PartitionMetadata {
        replicas: ids(replicas),
        isr: ids(isr),
        leader: Some(BrokerId(leader)),
        leader_epoch: LEADER_EPOCH,
        partition_epoch: PartitionEpoch(1),
        recovering: false,
    }
}

fn peers(fenced: &[i32]) -> Vec<Peer> {
    let peer = |id| Peer {
        id: BrokerId(id),
        epoch: Some(broker_epoch(id)),
        fenced: fenced.contains(&id),
        in_controlled_shutdown: false,
    };
    (1..=9).map(peer).collect()
}

/// A machine with a clock and the outputs so far.
struct Machine {
    partition: Partition,
    now_ms: u64,
    out: Vec<Output>,
    next_request: u64,
}

impl Machine {
    fn new(settings: Settings, log: LogState) -> Machine {
        let partition = Partition::new(LOCAL, broker_epoch(1), settings, log);
        let mut machine = Machine { partition, now_ms: START_MS, out: Vec::new(), next_request: 0 };
        machine.step(Input::Peers(peers(&[])));
        machine
    }

    /// Leads `replicas` with ten committed and durable records.
    fn leader(settings: Settings, replicas: &[i32], isr: &[i32]) -> Machine {
        let mut machine = Machine::new(settings, log(&[(4, 0)], 0, 10, 10));
        machine.step(Input::Metadata(metadata(1, replicas, isr)));
        machine.out.clear();
        machine
    }

    /// As `leader`; every ISR member has fetched up to the log end offset.
    fn leader_in_sync(settings: Settings, replicas: &[i32], isr: &[i32]) -> Machine {
        let mut machine = Machine::leader(settings, replicas, isr);
        for &id in isr.iter().filter(|&&id| id != 1) {
            machine.fetch(id, 10);
        }
        machine.out.clear();
        machine
    }

    fn now(&self) -> MonotonicTime {
        at_ms(self.now_ms)
    }

    /// Outputs of this step only.
    fn step(&mut self, input: Input) -> Vec<Output> {
        let before = self.out.len();
        self.partition.step(at_ms(self.now_ms), input, &mut self.out);
        self.partition.check_invariants();
        self.out[before..].to_vec()
    }

    fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    /// Appends without making durable.
    fn produce(&mut self, acks: Acks, record_count: u32) -> (RequestId, Vec<Output>) {
        let request = self.request();
        let deadline = at_ms(self.now_ms + PRODUCE_TIMEOUT_MS);
        let out = self.step(Input::Produce { request, acks, record_count, deadline });
        (request, out)
    }

    fn durable(&mut self, end: i64) -> Vec<Output> {
        self.step(Input::Durable(Offset(end)))
    }

    /// A follower's fetch that is content to wait for half a second.
    fn fetch(&mut self, id: i32, offset: i64) -> (RequestId, Vec<Output>) {
        let fetcher = Fetcher::Follower {
            id: BrokerId(id),
            epoch: Some(broker_epoch(id)),
            log_start_offset: Offset::ZERO,
        };
        self.fetch_as(fetcher, offset, None, None)
    }

    fn consume(&mut self, offset: i64) -> (RequestId, Vec<Output>) {
        self.fetch_as(Fetcher::Consumer, offset, None, None)
    }

    fn fetch_as(
        &mut self,
        fetcher: Fetcher,
        offset: i64,
        current_leader_epoch: Option<LeaderEpoch>,
        last_fetched_epoch: Option<LeaderEpoch>,
    ) -> (RequestId, Vec<Output>) {
        self.send(Fetch {
            fetcher,
            offset: Offset(offset),
            current_leader_epoch,
            last_fetched_epoch,
            durable_offset: None,
            wants_records: true,
        })
    }

    fn send(&mut self, fetch: Fetch) -> (RequestId, Vec<Output>) {
        let request = self.request();
        let deadline = at_ms(self.now_ms + 500);
        let out = self.step(Input::Fetch { request, fetch, deadline });
        (request, out)
    }

    fn tick_at(&mut self, ms: u64) -> Vec<Output> {
        self.now_ms = ms;
        self.step(Input::Tick)
    }

    fn last_proposal(&self) -> Option<&IsrProposal> {
        self.out.iter().rev().find_map(|output| match output {
            Output::ProposeIsr(proposal) => Some(proposal),
            _ => None,
        })
    }

    /// The controller commits the last proposal as it stands.
    fn commit_proposal(&mut self, partition_epoch: i32) -> Vec<Output> {
        let proposal = self.last_proposal().expect("a proposal was sent").clone();
        let committed = IsrCommitted {
            leader: Some(LOCAL),
            leader_epoch: LEADER_EPOCH,
            partition_epoch: PartitionEpoch(partition_epoch),
            isr: proposal.isr.iter().map(|&(id, _)| id).collect(),
        };
        self.step(Input::IsrCommitted { proposal, committed })
    }

    fn refuse_proposal(&mut self, error: ErrorCode) -> Vec<Output> {
        let proposal = self.last_proposal().expect("a proposal was sent").clone();
        self.step(Input::IsrRefused { proposal, error })
    }

    fn high_watermark(&self) -> i64 {
        self.partition.high_watermark().0
    }
}

/// What a produce was answered, if it was.
fn produce_answer(out: &[Output], wanted: RequestId) -> Option<Result<Offset, ErrorCode>> {
    out.iter().find_map(|output| match output {
        Output::AnswerProduce { request, result } if *request == wanted => Some(*result),
        _ => None,
    })
}

/// What a fetch was answered, if it was.
fn fetch_answer(out: &[Output], wanted: RequestId) -> Option<FetchAnswer> {
    out.iter().find_map(|output| match output {
        Output::AnswerFetch { request, answer } if *request == wanted => Some(*answer),
        _ => None,
    })
}

fn next_fetch(out: &[Output]) -> Option<FollowerFetch> {
    out.iter().rev().find_map(|output| match output {
        Output::FetchFromLeader(fetch) => Some(*fetch),
        _ => None,
    })
}

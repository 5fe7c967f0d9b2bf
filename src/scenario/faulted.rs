//! A cell under faults: the driver on a thread of its own, the faults on this one.
//!
//! This thread starts processes again, and the kernel kills them when the thread that started them
//! ends: so it is the run's main thread.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::protocol::StrBytes;

use crate::config::workload::Workload;
use crate::driver::error::DriverError;
use crate::driver::outcome::CellOutcome;
use crate::driver::run::run_cell;
use crate::driver::spec::CellSpec;
use crate::driver::{self, Phase};
use crate::measure::failover::Failover;
use crate::measure::{clock, threads};
use crate::node::client::{Client, ClientError};
use crate::results::schema;
use crate::types::{MonotonicTime, PartitionId, UncleanRecovery};
use crate::wire::{ElectLeadersRequest, ElectLeadersTopic, Request, Response};

use super::cluster::{Cluster, ClusterError};
use super::describe::PartitionDescription;
use super::injector::Injector;
use super::leader_watch;
use super::member::Member;
use super::progress::Progress;
use super::run::RunError;

/// Longest sleep: the end of the driver and of nodes is looked for this often.
const POLL: Duration = Duration::from_millis(20);
/// How long the operator tries.
const OPERATOR_PATIENCE: Duration = Duration::from_secs(30);
/// How long a broker may take to answer the operator.
const ASK_PATIENCE: Duration = Duration::from_secs(5);
const ELECT_LEADERS_VERSION: i16 = 3;
const LONGEST_LOG_BALANCED: i8 = 2;
/// How long all brokers may take to be in the cluster before a cell and after its faults.
const COMPLETE_PATIENCE: Duration = Duration::from_secs(60);

/// What came of a cell.
pub(super) struct Driven {
    /// What was measured.
    pub(super) outcome: CellOutcome,
    /// What happened to the cluster.
    pub(super) events: Vec<schema::Event>,
    /// What followed each loss of the leader.
    pub(super) failovers: Vec<Failover>,
}

impl Driven {
    /// Of a cell without faults.
    pub(super) fn undisturbed(outcome: CellOutcome) -> Driven {
        Driven { outcome, events: Vec::new(), failovers: Vec::new() }
    }
}

/// Runs a cell and the workload's faults with it; afterwards every node is up again and every
/// partition has a leader, if its strategy lets it.
///
/// # Errors
/// [`RunError`]: the cell could not be run, or a node does not come back.
pub(super) fn drive(
    cluster: &mut Cluster,
    spec: &CellSpec,
    workload: &Workload,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<Driven, RunError> {
    cluster.await_complete(COMPLETE_PATIENCE)?;
    let mut injector = Injector::new(workload, spec, progress);
    let controllers: Vec<SocketAddr> =
        cluster.controllers().iter().filter_map(Member::address).collect();
    let is_over = AtomicBool::new(false);
    let (outcome, decisions) = thread::scope(|scope| {
        let watch = || leader_watch::decisions(&controllers, &spec.topic, &is_over);
        let watch = threads::start_in(scope, "leader watch", watch).map_err(RunError::Thread)?;
        let outcome = load(cluster, spec, &mut injector, stop, progress);
        let needs_operator = workload.cluster.unclean_recovery == UncleanRecovery::Manual;
        if outcome.is_ok() && needs_operator {
            operate(cluster, spec, &mut injector);
        }
        is_over.store(true, Ordering::Relaxed);
        let decisions = watch.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, RunError>((outcome?, decisions))
    })?;
    let failovers = leader_watch::failovers(injector.losses(), &decisions, &outcome.leaders);
    let events = injector.into_events(outcome.measured_from);
    Ok(Driven { outcome, events, failovers })
}

/// The load and the faults, until all brokers are back.
fn load(
    cluster: &mut Cluster,
    spec: &CellSpec,
    injector: &mut Injector<'_>,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<CellOutcome, RunError> {
    let halt = AtomicBool::new(false);
    let bootstrap = cluster.bootstrap();
    let (outcome, failure) = thread::scope(|scope| {
        let (tells, told) = mpsc::channel();
        let halt = &halt;
        let run = move || run_and_tell(bootstrap, spec, halt, progress, &tells);
        let cell = threads::start_in(scope, "driver", run).map_err(RunError::Thread)?;
        let mut failure = None;
        let mut measured_from = None;
        while !cell.is_finished() {
            let step = match measured_from {
                Some(from) => act(injector, cluster, from),
                None => {
                    measured_from = told.recv_timeout(POLL).ok();
                    cluster.check_running().map_err(ClusterError::from)
                }
            };
            if let Err(error) = step {
                failure.get_or_insert(error);
            }
            halt.store(failure.is_some() || stop.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let outcome = cell.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok::<_, RunError>((outcome, failure))
    })?;
    injector.end(cluster)?;
    if let Some(error) = failure {
        return Err(error.into());
    }
    let outcome = outcome?;
    cluster.await_complete(COMPLETE_PATIENCE)?;
    Ok(outcome)
}

/// Plays the operator whom the Manual strategy waits for: once all brokers are back, has the longest
/// log elected where there is no leader.
fn operate(cluster: &Cluster, spec: &CellSpec, injector: &mut Injector<'_>) {
    let deadline = Instant::now() + OPERATOR_PATIENCE;
    let leaderless = || {
        let partitions = cluster.ask(Some(&spec.topic)).unwrap_or_default().partitions;
        let is_leaderless = |(_, one): &(i32, PartitionDescription)| one.leader.is_none();
        let found = (0..).zip(partitions).filter(is_leaderless);
        found.map(|(index, _)| PartitionId(index)).collect::<Vec<_>>()
    };
    let mut is_told = false;
    while let waiting = leaderless()
        && !waiting.is_empty()
        && Instant::now() < deadline
    {
        if !is_told {
            let what = "the operator has the longest log elected, as Manual asks for";
            injector.note("elect-leaders", what.to_owned());
            is_told = true;
        }
        // What is refused or lost is asked for again.
        let _ = elect_longest_log(cluster, &spec.topic, waiting);
        thread::sleep(POLL);
    }
}

fn elect_longest_log(
    cluster: &Cluster,
    topic: &str,
    partitions: Vec<PartitionId>,
) -> Result<Response, ClientError> {
    let topic = StrBytes::from_string(topic.to_owned());
    let request = Request::ElectLeaders(ElectLeadersRequest {
        election_type: LONGEST_LOG_BALANCED,
        topics: Some(vec![ElectLeadersTopic { name: topic, partitions, desired_leaders: None }]),
        timeout_ms: i32::try_from(ASK_PATIENCE.as_millis()).unwrap_or(i32::MAX),
    });
    let mut client = Client::connect(&cluster.bootstrap().to_string(), ASK_PATIENCE)?;
    client.ask(ELECT_LEADERS_VERSION, &request)
}

/// Runs the cell; tells once when its measured part begins.
fn run_and_tell(
    bootstrap: SocketAddr,
    spec: &CellSpec,
    halt: &AtomicBool,
    progress: &Progress,
    tells: &mpsc::Sender<MonotonicTime>,
) -> Result<CellOutcome, DriverError> {
    let mut is_told = false;
    let mut hear = |now: driver::Progress| {
        progress.cell_goes_on(now);
        if !is_told && !matches!(now.phase, Phase::Describing | Phase::Connecting) {
            let elapsed_ns = u64::try_from(now.elapsed.as_nanos()).unwrap_or(u64::MAX);
            let began = MonotonicTime(clock::now().0.saturating_sub(elapsed_ns));
            // Nobody listens once the faults have failed.
            let _ = tells.send(began.plus(spec.warmup));
            is_told = true;
        }
    };
    run_cell(bootstrap, spec, halt, &mut hear)
}

/// Does what is due and sleeps until more may be.
fn act(
    injector: &mut Injector<'_>,
    cluster: &mut Cluster,
    measured_from: MonotonicTime,
) -> Result<(), ClusterError> {
    let due_in = |injector: &Injector<'_>| {
        injector.next_at().map(|at| measured_from.plus(at).since(clock::now()))
    };
    while due_in(injector).is_some_and(|left| left.is_zero()) {
        injector.step(cluster, measured_from)?;
    }
    cluster.look()?;
    cluster.check_running()?;
    thread::sleep(due_in(injector).unwrap_or(POLL).min(POLL));
    Ok(())
}

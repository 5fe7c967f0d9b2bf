//! Sets the controller path against what this machine allows, in one run: a write and sync of the
//! same bytes, and a loopback round trip of the same frames.
//!
//! Controllers are child processes of this program with real sockets and real files; one voter and
//! three voters run at the same time, all on the same disk. The sides take turns, round by round, so
//! that a change of the machine's mood hits all of them; a ratio is the median over the rounds.

mod parts;
mod render;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::config::node::ControllerConfig;
use crate::config::{ConfigError, defaults};
use crate::environment::scratch::{Scratch, ScratchError};
use crate::node::controller::{Workbench, WorkbenchError, seed};
use crate::types::{BrokerId, ErrorCode};

use self::parts::{Loopback, SyncedFile, cold_read, median, median_ratio, timed};
use super::child::{Child, ChildError, Launch, free_addresses};
use super::settings::CONTROLLER_ADDRESS;

pub use render::render;

/// Most that an AlterPartition may take with one voter, in write+sync plus loopback.
pub const ONE_VOTER_RATIO_MAX: f64 = 1.6;
/// Most that it may take with three.
pub const THREE_VOTERS_RATIO_MAX: f64 = 2.2;
/// Least partition changes a second, batched.
pub const CHANGES_PER_S_MIN: f64 = 5_000.0;
/// Most that a start may take, in reads of the snapshot.
pub const START_RATIO_MAX: f64 = 5.0;

const CLUSTER_ID: &str = "bench-controller";
/// Each side's turn in a round.
const TURN: usize = 100;
/// Turns before the first one that counts.
const WARM_UP_ROUNDS: usize = 1;
/// Partitions in one AlterPartition when throughput is asked for.
const BATCH_PARTITIONS: usize = 500;
const THROUGHPUT_DURATION: Duration = Duration::from_secs(3);
/// What a snapshot holds when starts are timed.
pub const SNAPSHOT_PARTITIONS: usize = 100_000;
/// Starts, and reads of the file, in turns.
const STARTS: usize = 15;
/// What one AlterPartition of one partition appends (one record batch of one change), sends and gets:
/// the larger of its two kinds, as system calls show them.
const APPENDED_BYTES: usize = 107;
const REQUEST_BYTES: usize = 114;
const ANSWER_BYTES: usize = 68;
/// How long a node may take to listen, and a quorum to find its leader.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// What was found. Times are medians over the rounds, of medians within a round.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchController {
    /// Rounds that count.
    pub rounds: usize,
    /// Write and sync of as many bytes as one AlterPartition appends.
    pub write_sync_us: f64,
    /// Round trip of frames as large as AlterPartition's.
    pub loopback_us: f64,
    /// AlterPartition of one partition.
    pub one_voter_us: f64,
    /// The same with three voters.
    pub three_voters_us: f64,
    /// To write+sync plus loopback of the same round.
    pub one_voter_ratio: f64,
    /// To write+sync plus loopback of the same round.
    pub three_voters_ratio: f64,
    /// Partition changes a second with one voter.
    pub changes_per_s: f64,
    /// The same with three voters.
    pub three_voters_changes_per_s: f64,
    /// Size of the snapshot.
    pub snapshot_bytes: u64,
    /// Reading the snapshot, its pages dropped from the page cache before.
    pub read_ms: f64,
    /// From the start of the process to its first line, the snapshot's pages dropped before.
    pub start_ms: f64,
    /// The latter to the former, turn by turn.
    pub start_ratio: f64,
}

/// The comparison could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchControllerError {
    /// No rounds, no medians.
    #[error("rounds = 0: must be at least 1")]
    NoRounds,
    /// No folder for the files.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A file or socket of the floor failed.
    #[error("{what}: {source}")]
    Floor {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A node's configuration could not be written down.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A node failed.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A controller answered wrongly.
    #[error(transparent)]
    Workbench(#[from] WorkbenchError),
    /// Three voters did not agree on a leader.
    #[error("no active controller among three voters within {} s", PATIENCE.as_secs())]
    NoLeader,
}

type Result<T> = std::result::Result<T, BenchControllerError>;

impl BenchController {
    /// The bars that were missed, in words.
    pub fn shortfalls(&self) -> Vec<String> {
        let above = |what: &str, ratio: f64, max: f64| {
            (ratio > max).then(|| format!("{what} {ratio:.2} above {max}"))
        };
        let throughput = self.changes_per_s < CHANGES_PER_S_MIN;
        let throughput = throughput
            .then(|| format!("{:.0} changes/s below {CHANGES_PER_S_MIN}", self.changes_per_s));
        [
            above("one voter", self.one_voter_ratio, ONE_VOTER_RATIO_MAX),
            above("three voters", self.three_voters_ratio, THREE_VOTERS_RATIO_MAX),
            throughput,
            above("start", self.start_ratio, START_RATIO_MAX),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Runs everything in `directory`, in one folder that is removed afterwards, with `executable` (this
/// program) as controllers. About half a minute.
///
/// # Errors
/// [`BenchControllerError`].
pub fn run(executable: &Path, directory: &Path, rounds: usize) -> Result<BenchController> {
    if rounds == 0 {
        return Err(BenchControllerError::NoRounds);
    }
    let scratch = Scratch::create(directory)?;
    let nodes = Nodes { executable, folder: scratch.path() };
    let mut found = latencies(&nodes, rounds)?;
    starts(&nodes, &mut found)?;
    Ok(found)
}

struct Nodes<'a> {
    executable: &'a Path,
    folder: &'a Path,
}

fn latencies(nodes: &Nodes<'_>, rounds: usize) -> Result<BenchController> {
    let mut alone = nodes.start("alone", 100, Vec::new())?;
    let address = alone.listening(PATIENCE)?;
    let mut one = Workbench::prepare(address, CLUSTER_ID, BATCH_PARTITIONS)?;
    let (mut voters, addresses) = nodes.start_three()?;
    let mut three = prepare_any(&mut voters, &addresses)?;
    let mut file = SyncedFile::create(nodes.folder, APPENDED_BYTES)?;
    let mut loopback = Loopback::open(REQUEST_BYTES, ANSWER_BYTES)?;

    let mut sides: [Vec<f64>; 4] = Default::default();
    for round in 0..WARM_UP_ROUNDS + rounds {
        let taken = [
            timed(TURN, || file.append())?,
            timed(TURN, || loopback.exchange())?,
            timed(TURN, || Ok(one.alter(1)?))?,
            timed(TURN, || Ok(three.alter(1)?))?,
        ];
        if round >= WARM_UP_ROUNDS {
            sides.iter_mut().zip(taken).for_each(|(side, us)| side.push(us));
        }
    }
    let changes_per_s = throughput(&mut one)?;
    let three_voters_changes_per_s = throughput(&mut three)?;
    let [write_sync, round_trip, one, three] = sides;
    let floor: Vec<f64> = write_sync.iter().zip(&round_trip).map(|(a, b)| a + b).collect();
    Ok(BenchController {
        rounds,
        one_voter_ratio: median_ratio(&one, &floor),
        three_voters_ratio: median_ratio(&three, &floor),
        write_sync_us: median(write_sync),
        loopback_us: median(round_trip),
        one_voter_us: median(one),
        three_voters_us: median(three),
        changes_per_s,
        three_voters_changes_per_s,
        snapshot_bytes: 0,
        read_ms: 0.0,
        start_ms: 0.0,
        start_ratio: 0.0,
    })
}

/// Whichever of three voters is the active controller; that takes an election.
fn prepare_any(voters: &mut [Child], addresses: &[SocketAddr]) -> Result<Workbench> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        for (voter, &address) in voters.iter_mut().zip(addresses) {
            voter.check_running()?;
            match Workbench::prepare(address, CLUSTER_ID, BATCH_PARTITIONS) {
                Err(WorkbenchError::Refused { error: ErrorCode::NotController, .. }) => {}
                prepared => return Ok(prepared?),
            }
        }
        std::thread::sleep(POLL);
    }
    Err(BenchControllerError::NoLeader)
}

fn throughput(bench: &mut Workbench) -> Result<f64> {
    let started = Instant::now();
    let mut changes = 0;
    while started.elapsed() < THROUGHPUT_DURATION {
        bench.alter(BATCH_PARTITIONS)?;
        changes += BATCH_PARTITIONS;
    }
    Ok(changes as f64 / started.elapsed().as_secs_f64())
}

fn starts(nodes: &Nodes<'_>, found: &mut BenchController) -> Result<()> {
    let data_dir = nodes.folder.join("seeded");
    fs::create_dir(&data_dir).map_err(floor("create a folder"))?;
    let snapshot = seed(&data_dir, CLUSTER_ID, BrokerId(100), SNAPSHOT_PARTITIONS)?;
    found.snapshot_bytes = fs::metadata(&snapshot).map_err(floor("look at the snapshot"))?.len();
    let (mut reads, mut starts) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        reads.push(cold_read(&snapshot)?.as_secs_f64() * 1e3);
        parts::drop_pages(&snapshot)?;
        let started = Instant::now();
        let mut controller = nodes.start("seeded", 100, Vec::new())?;
        controller.listening(PATIENCE)?;
        starts.push(started.elapsed().as_secs_f64() * 1e3);
        controller.ask_to_stop();
        controller.stopped(Instant::now() + PATIENCE);
    }
    found.start_ratio = median_ratio(&starts, &reads);
    found.read_ms = median(reads);
    found.start_ms = median(starts);
    Ok(())
}

impl Nodes<'_> {
    fn start(&self, name: &str, id: i32, voters: Vec<(BrokerId, SocketAddr)>) -> Result<Child> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let own = voters.iter().find(|(voter, _)| voter.0 == id).map(|&(_, address)| address);
        let config = ControllerConfig {
            node_id: BrokerId(id),
            cluster_id: CLUSTER_ID.to_owned(),
            listen: own.unwrap_or(any),
            data_dir: PathBuf::from(name),
            // Nobody sends heartbeats here.
            session_timeout: Duration::from_secs(3600),
            metadata_append_linger: Duration::ZERO,
            commit_delay: Duration::ZERO,
            request_bytes_max: defaults::REQUEST_BYTES_MAX as usize,
            voters,
            election_timeout: defaults::ELECTION_TIMEOUT,
            snapshot_interval_entries: defaults::SNAPSHOT_INTERVAL_ENTRIES,
            metrics_listen: None,
            election: defaults::ELECTION,
        };
        let data_dir = self.folder.join(name);
        fs::create_dir_all(&data_dir).map_err(floor("create a folder"))?;
        let file = self.folder.join(format!("{name}.toml"));
        fs::write(&file, config.to_toml()?).map_err(floor("write a configuration"))?;
        Ok(Child::start(Launch {
            name: name.to_owned(),
            executable: self.executable.to_owned(),
            role: "controller",
            config: file,
            log: self.folder.join(format!("{name}.log")),
            takes_orders: false,
        })?)
    }

    fn start_three(&self) -> Result<(Vec<Child>, Vec<SocketAddr>)> {
        let addresses = free_addresses(CONTROLLER_ADDRESS, 3).map_err(floor("find a free port"))?;
        let voters: Vec<_> = (101..).map(BrokerId).zip(addresses.iter().copied()).collect();
        let start = |&(id, _): &(BrokerId, SocketAddr)| {
            self.start(&format!("voter-{id}"), id.0, voters.clone())
        };
        let mut children = voters.iter().map(start).collect::<Result<Vec<_>>>()?;
        children.iter_mut().try_for_each(|child| child.listening(PATIENCE).map(drop))?;
        Ok((children, addresses))
    }
}

fn floor(what: &'static str) -> impl Fn(io::Error) -> BenchControllerError {
    move |source| BenchControllerError::Floor { what, source }
}

//! A whole workload: floors, then block by block a fresh cluster and its cells, then floors again.
//!
//! What was measured is kept whatever happens later: an interrupt or a failed node makes cells
//! partial, never the run empty. Only what this run created is removed.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::config::cells::{Block, Cell};
use crate::config::workload::{Fault, Pacing, Workload};
use crate::driver::error::DriverError;
use crate::driver::outcome::CellOutcome;
use crate::driver::run::run_cell;
use crate::driver::schedule::RateError;
use crate::driver::spec::CellSpec;
use crate::driver::{self, Phase};
use crate::environment::{
    DeviceCounters, DirectIoUnavailable, Environment, FloorError, HostSample, LimitFacts,
    NotEnoughSpace, ProcessUse, SyncPath, UringUnavailable, direct_io, require_free_space,
    require_locked_memory, try_flushes, uring_available, write_back,
};
use crate::measure::clock::BothClocks;
use crate::measure::histogram::PERCENTILES;
use crate::results::measured::Measured;
use crate::results::{described, schema};
use crate::types::{EngineKind, ErrorCode};

use super::audit;
use super::book::{Book, Origin};
use super::cell::{self, Surroundings};
use super::cluster::{Cluster, ClusterError, Plan};
use super::faulted::{self, Driven};
use super::floors::RunFloors;
use super::isr_events::IsrEvents;
use super::progress::Progress;
use super::reason::with_sources;
use super::saturation;

/// How long brokers may take to register before a topic of full replication can be made.
const REGISTER_PATIENCE: Duration = Duration::from_secs(20);
/// What a loop disk holds beside the planned bytes: its file system's own, and recovery's segments.
const LOOP_DISK_SPARE_BYTES: u64 = 256 << 20;
/// Between two attempts to create the first topic.
const REGISTER_POLL: Duration = Duration::from_millis(20);

/// What to run where.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The experiment.
    pub workload: Workload,
    /// Holds the brokers' data; a folder is made in it and removed again.
    pub data_dir: PathBuf,
    /// This program, started again for each node.
    pub executable: PathBuf,
    /// A random UUID.
    pub run_id: String,
    /// Whether the least this machine allows is measured before and after.
    pub floors: bool,
    /// The nodes serve metrics on the ports that follow, if it is there.
    pub metrics: Option<SocketAddr>,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The data directory cannot be used.
    #[error("data directory {}: cannot create a folder in it", directory.display())]
    DataDirectory {
        /// Which.
        directory: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The data directory is too small.
    #[error(transparent)]
    Space(#[from] NotEnoughSpace),
    /// A direct mode was asked for where there is none.
    #[error("durability {mode} is asked for, but {source}")]
    Direct {
        /// The first such mode.
        mode: &'static str,
        /// Why.
        source: DirectIoUnavailable,
    },
    /// The driver needs io_uring.
    #[error(transparent)]
    Uring(#[from] UringUnavailable),
    /// The floors could not be measured.
    #[error(transparent)]
    Floor(#[from] FloorError),
    /// The first cluster failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The first cell failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A rate cannot be kept.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The system gives no thread.
    #[error(transparent)]
    Thread(std::io::Error),
}

/// Checks that `workload` can run in `data_dir`, before anything is started.
///
/// # Errors
/// [`RunError`], naming the directory and what is missing.
pub fn preflight(workload: &Workload, data_dir: &Path) -> Result<(), RunError> {
    uring_available(rings(workload))?;
    if workload.matrix.engines.contains(&EngineKind::Glommio) {
        require_locked_memory(LimitFacts::capture().locked_memory)?;
    }
    if let Some(mode) = workload.matrix.durabilities.iter().find(|mode| mode.is_direct()) {
        direct_io(data_dir).map_err(|source| RunError::Direct { mode: mode.name(), source })?;
    }
    Ok(require_free_space(data_dir, workload.planned_bytes())?)
}

/// Rings there are at once: one a shard (glommio's are told of by itself), and the driver's.
fn rings(workload: &Workload) -> usize {
    workload.cluster.brokers * workload.cluster.shards + 1
}

/// Runs the workload on embedded clusters until it is over or `stop` is set.
///
/// Call it on the main thread: the kernel kills the nodes when the calling thread ends.
///
/// # Errors
/// [`RunError`] if not even one cell could be measured.
pub fn run(
    settings: &Settings,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Result<schema::RunResult, RunError> {
    let workload = &settings.workload;
    let origin = Origin {
        workload,
        run_id: &settings.run_id,
        // This one too.
        processes: workload.cluster.controllers + workload.cluster.brokers + 1,
        started: (SystemTime::now(), Instant::now()),
        clocks: BothClocks::read(),
    };
    let folder = RunFolder::create(&settings.data_dir, &settings.run_id)?;
    preflight(workload, &settings.data_dir)?;
    let environment = Environment::capture(&settings.data_dir);
    let mut book = Book::new(workload);
    if workload.matrix.durabilities.iter().any(|mode| mode.is_synced()) {
        book.power_loss_doubt = try_flushes(folder.path());
        if let Some(doubt) = &book.power_loss_doubt {
            progress.note(&format!("syncs are not shown to survive power loss: {doubt}"));
        }
    }
    let before = floors_before(settings, folder.path(), stop, progress)?;
    run_rounds(settings, folder.path(), stop, progress, &mut book)?;
    let floors = floors_after(settings, folder.path(), stop, progress, before, &mut book);
    Ok(book.result(&origin, &environment, &floors, stop.load(Ordering::Relaxed)))
}

/// Nothing if floors are not asked for, or the run is stopped meanwhile.
fn floors_before(
    settings: &Settings,
    folder: &Path,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<RunFloors, FloorError> {
    if !settings.floors {
        return Ok(RunFloors::default());
    }
    progress.note("measuring the floor of this machine");
    match RunFloors::measure(&settings.workload, folder, stop) {
        Err(_) if stop.load(Ordering::Relaxed) => Ok(RunFloors::default()),
        measured => measured,
    }
}

/// Both floors together, or the one before if there is no other.
fn floors_after(
    settings: &Settings,
    folder: &Path,
    stop: &AtomicBool,
    progress: &Progress,
    before: RunFloors,
    book: &mut Book,
) -> RunFloors {
    if stop.load(Ordering::Relaxed) || !settings.floors {
        return before;
    }
    progress.note("measuring the floor again");
    match RunFloors::measure(&settings.workload, folder, stop) {
        Ok(after) => before.merged(after),
        Err(FloorError::Stopped) => before,
        // The cells are measured; this is no reason to lose them.
        Err(error) => {
            let reason = with_sources(&error);
            book.warnings.push(format!("the floor is of before the cells only: {reason}"));
            before
        }
    }
}

fn run_rounds(
    settings: &Settings,
    folder: &Path,
    stop: &AtomicBool,
    progress: &mut Progress,
    book: &mut Book,
) -> Result<(), RunError> {
    for round in settings.workload.rounds() {
        for (index, block) in round.blocks.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let block_folder = folder.join(format!("repeat-{}-block-{index}", round.repeat));
            let place = Place { settings, folder: &block_folder, repeat: round.repeat };
            let Err(error) = run_block(&place, block, stop, progress, book) else { continue };
            // With nothing measured yet the failure is the run's; later it is the block's. Whoever stops
            // the run may have stopped its nodes with the same signal.
            if book.is_empty() && !stop.load(Ordering::Relaxed) {
                return Err(error);
            }
            let reason = with_sources(&error);
            for cell in &block.cells {
                if book.repeats[cell.index].iter().all(|done| done.repeat != round.repeat) {
                    book.failures[cell.index] = Some(reason.clone());
                }
            }
        }
    }
    Ok(())
}

/// Where and when a block runs.
struct Place<'a> {
    settings: &'a Settings,
    folder: &'a Path,
    repeat: usize,
}

fn run_block(
    place: &Place<'_>,
    block: &Block,
    stop: &AtomicBool,
    progress: &mut Progress,
    book: &mut Book,
) -> Result<(), RunError> {
    let workload = &place.settings.workload;
    let loses_page_cache = workload.faults.iter().any(Fault::is_page_cache_loss);
    let plan = Plan {
        executable: &place.settings.executable,
        folder: place.folder.to_owned(),
        settings: &place.settings.workload.cluster,
        engine: block.engine,
        durability: block.durability,
        variant: block.cluster,
        relayed: workload.faults.iter().any(Fault::is_of_network),
        fault_control: workload.faults.iter().any(|fault| fault.kind.is_of_storage()),
        loop_disk_bytes: loses_page_cache.then(|| workload.planned_bytes() + LOOP_DISK_SPARE_BYTES),
        metrics: place.settings.metrics,
    };
    if let Some(bar_text) = place.folder.file_name() {
        progress.note(&format!(
            "starting {} ({}, {})",
            bar_text.to_string_lossy(),
            block.durability,
            block.engine.name()
        ));
    }
    let mut cluster = Cluster::start(&plan)?;
    let outcome = run_cells(place, block, &mut cluster, stop, progress, book);
    let mut complaints = cluster.stop();
    let files = Cluster::events_files(&plan);
    let mut events = IsrEvents::read(files.iter().map(PathBuf::as_path));
    complaints.append(&mut events.complaints);
    for cell in &block.cells {
        let told = events.take(&cell::topic(cell, place.repeat));
        book.add_events(cell, place.repeat, told);
    }
    for complaint in complaints {
        book.warnings.push(format!("{}: {complaint}", block.durability));
    }
    if outcome.is_ok() {
        // Room for the next block; what is left is removed with the run's folder.
        let _ = fs::remove_dir_all(place.folder);
    }
    outcome
}

fn run_cells(
    place: &Place<'_>,
    block: &Block,
    cluster: &mut Cluster,
    stop: &AtomicBool,
    progress: &mut Progress,
    book: &mut Book,
) -> Result<(), RunError> {
    for planned in &block.cells {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !find_saturation(place, planned, cluster, stop, progress, book)? {
            continue;
        }
        let planned = &book.resolved(planned);
        let Some(mut measured) = run_one(place, planned, cluster, stop, progress)? else {
            return Ok(());
        };
        // The driver only saw connections go; a node that ended is the reason.
        let running = cluster.check_running();
        if let Err(error) = &running {
            measured.cut_short = Some(with_sources(error));
        }
        book.repeats[planned.index].push(measured);
        running.map_err(ClusterError::from)?;
    }
    Ok(())
}

/// Makes sure that the rate of `planned` is known. Unset if it cannot be, or the run was stopped.
fn find_saturation(
    place: &Place<'_>,
    planned: &Cell,
    cluster: &mut Cluster,
    stop: &AtomicBool,
    progress: &mut Progress,
    book: &mut Book,
) -> Result<bool, RunError> {
    let Pacing::Share { arrival, .. } = planned.pacing else { return Ok(true) };
    if book.saturation(planned).is_none() {
        let workload = &place.settings.workload;
        let name = described::cell_name(workload, planned);
        let mut number = 0;
        let probe = (arrival, workload.load.saturation_probe);
        let found = saturation::search(probe, |pacing| {
            number += 1;
            progress.note(&saturation::describe(&name, pacing));
            let spec = cell::probe_spec(workload, planned, pacing, number)?;
            // Nobody knows yet how much it will write.
            let most = workload.planned_cell_bytes(&Cell { pacing: Pacing::Max, ..*planned });
            require_free_space(&place.settings.data_dir, most)?;
            settle(place);
            match drive(cluster, &spec, stop, progress) {
                Ok(outcome) => Ok(Some(outcome)),
                Err(RunError::Driver(DriverError::Stopped)) => Ok(None),
                Err(error) => Err(error),
            }
        })?;
        let Some(found) = found else { return Ok(false) };
        if found.rate_per_s.is_none() {
            progress.note(&format!("{name}: no rate was sustained: its shares are not run"));
        }
        book.add_saturation(planned, found);
    }
    let resolved = book.resolved(planned);
    let workload = &place.settings.workload;
    let failure = match resolved.pacing.rate_per_s() {
        None => Some(saturation::NOT_FOUND.to_owned()),
        Some(_) => {
            let bytes = workload.planned_cell_bytes(&resolved);
            require_free_space(&place.settings.data_dir, bytes).err().map(|error| error.to_string())
        }
    };
    let may_run = failure.is_none();
    if !may_run {
        book.failures[planned.index] = failure;
    }
    Ok(may_run)
}

/// What was written before must not be written during the next cell. If that fails, the cell shows
/// it: its brokers write to the same file system.
fn settle(place: &Place<'_>) {
    let _ = write_back(&place.settings.data_dir);
}

/// `None` if it was stopped before its load began.
fn run_one(
    place: &Place<'_>,
    planned: &Cell,
    cluster: &mut Cluster,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> Result<Option<Measured>, RunError> {
    let workload = &place.settings.workload;
    let spec = cell::spec(workload, planned, place.repeat)?;
    let name = described::cell_name(workload, planned);
    progress.cell_begins(&name, place.repeat);
    progress.watch_partitions(cluster.bootstrap(), &spec.topic);
    let data_dir = &place.settings.data_dir;
    settle(place);
    let before = (HostSample::sample(), DeviceCounters::sample(data_dir));
    let driven = if workload.faults.is_empty() {
        drive(cluster, &spec, stop, progress).map(Driven::undisturbed)
    } else {
        faulted::drive(cluster, &spec, workload, stop, progress)
    };
    let Driven { outcome, events, failovers } = match driven {
        Ok(driven) => driven,
        Err(RunError::Driver(DriverError::Stopped)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let sent = DeviceCounters::sample(data_dir).zip(before.1).map(|(now, then)| now.since(&then));
    let needed = cell::flushes_needed(workload, planned, &outcome.counts);
    let power_loss_doubt = (planned.durability.is_synced())
        .then(|| SyncPath::capture(data_dir).doubt(planned.durability, needed, sent.as_ref()))
        .flatten();
    let surroundings = Surroundings {
        nodes: nodes(cluster),
        device: sent.map_or_else(|| "unknown".into(), |sent| sent.to_json()),
        power_loss_doubt,
        contamination: HostSample::sample().since(&before.0).to_json(),
        events,
        failovers,
        check: None,
    };
    let history = outcome.history.clone();
    let mut measured = cell::measured(place.repeat, workload.load.duration, outcome, surroundings);
    if let Some(history) = history {
        progress.note(&format!("{name}: reading every replica back"));
        let promise = audit::promise(workload, planned);
        match audit::audit(cluster, &spec, &history, promise) {
            Ok(verdict) => measured.check = Some(cell::check(promise, verdict)),
            Err(error) => measured.cut_short = Some(with_sources(&error)),
        }
    }
    let p50 = measured.acknowledged.percentile_ns(&PERCENTILES[0]).map(Duration::from_nanos);
    progress.cell_is_over(&name, place.repeat, p50);
    Ok(Some(measured))
}

/// Runs the cell, again and again while brokers are still registering.
fn drive(
    cluster: &mut Cluster,
    spec: &CellSpec,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<CellOutcome, RunError> {
    let deadline = Instant::now() + REGISTER_PATIENCE;
    let bootstrap = cluster.bootstrap();
    let mut is_told = false;
    loop {
        let halt = AtomicBool::new(false);
        let mut show = |now: driver::Progress| {
            progress.cell_goes_on(now);
            // A node that ended leaves a topic that never gets ready; under load the run goes on and
            // shows what the loss does to it.
            let setting_up = matches!(now.phase, Phase::Describing | Phase::Connecting);
            let running = cluster.check_running();
            if let (Err(error), false) = (&running, is_told) {
                progress.event(&with_sources(error));
                is_told = true;
            }
            let lost = setting_up && running.is_err();
            halt.store(lost || stop.load(Ordering::Relaxed), Ordering::Relaxed);
        };
        let error = match run_cell(bootstrap, spec, &halt, &mut show) {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
        cluster.check_running().map_err(ClusterError::from)?;
        let registering = matches!(
            error,
            DriverError::TopicRefused { code: ErrorCode::InvalidReplicationFactor, .. }
        );
        if !registering || Instant::now() > deadline || stop.load(Ordering::Relaxed) {
            return Err(error.into());
        }
        thread::sleep(REGISTER_POLL);
    }
}

fn nodes(cluster: &Cluster) -> Vec<schema::Node> {
    let driver = ("driver".to_owned(), ProcessUse::of(std::process::id()));
    cluster
        .usage()
        .into_iter()
        .chain([driver])
        .map(|(name, process)| schema::Node { name, process: process.to_json() })
        .collect()
}

/// The run's own folder in the data directory, removed when the run is over.
struct RunFolder(PathBuf);

impl RunFolder {
    fn create(data_dir: &Path, run_id: &str) -> Result<RunFolder, RunError> {
        let path = data_dir.join(format!("ackmark-run-{run_id}"));
        match fs::create_dir(&path) {
            Ok(()) => Ok(RunFolder(path)),
            Err(source) => Err(RunError::DataDirectory { directory: data_dir.to_owned(), source }),
        }
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        // Its name says whose it is, if it cannot be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

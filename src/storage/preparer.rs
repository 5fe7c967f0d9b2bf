//! The background thread of a process's logs: makes next segments ready and seals finished ones.
//!
//! Both would stall a shard for milliseconds to seconds. Preparing is throttled; sealing (sync the
//! old segment, write its index, move the recovery point) goes ahead of it. A log never waits for
//! this thread: a segment that is not ready in time is prepared by the log itself, and counted.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, select, unbounded};

use crate::measure::threads;
use crate::types::{FilePreparation, LeaderEpoch, Offset};

use super::aligned::Chunk;
use super::disk_faults::DiskFaults;
use super::error::chain;
use super::index::Index;
use super::segment::{PIECE_BYTES, index_path, reserve};
use super::{StorageError, checkpoint, device};

/// Filling speed while a log is in no hurry: about a tenth of what a plain SSD writes (0.7 to
/// 0.8 GB/s on the machine of spec/io.md), so that a measured write seldom queues behind it.
const FILL_BYTES_PER_SECOND: u64 = 64 << 20;

/// Suffix of a segment prepared ahead. Its base offset is known at the roll only, when it is
/// renamed.
pub(super) const PREPARED_SUFFIX: &str = ".prepared";

/// Counts prepared files, so that no two of a process share a name.
static PREPARED_COUNT: AtomicU64 = AtomicU64::new(0);

/// A path for the next prepared segment in `directory`, never used before by this process.
pub(super) fn prepared_path(directory: &Path) -> PathBuf {
    let count = PREPARED_COUNT.fetch_add(1, Ordering::Relaxed);
    directory.join(format!("next-{}-{count}{PREPARED_SUFFIX}", std::process::id()))
}

/// What a segment file shall be.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentSpec {
    pub(super) capacity_bytes: u64,
    pub(super) preparation: FilePreparation,
    pub(super) direct: bool,
    pub(super) block_bytes: usize,
}

/// A file ready to become a segment.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) path: PathBuf,
    /// For the engine; with O_DIRECT if the spec says so.
    pub(super) file: File,
    /// Buffered.
    pub(super) maintenance: File,
}

/// Creates and fills a file at `path` and makes its name durable; `pause` is called between pieces.
pub(super) fn prepare(
    spec: SegmentSpec,
    path: &Path,
    mut pause: impl FnMut(),
) -> Result<Prepared, StorageError> {
    let fault = |source| StorageError::io("prepare the segment", path)(source);
    let file = device::open_segment(path, true, spec.direct)?;
    match spec.preparation {
        FilePreparation::Reserved => reserve(&file, spec.capacity_bytes).map_err(fault)?,
        FilePreparation::ZeroFilled => {
            reserve(&file, spec.capacity_bytes).map_err(fault)?;
            let zeros = zeros(spec);
            let mut at = 0;
            while at < spec.capacity_bytes {
                let length = (spec.capacity_bytes - at).min(zeros.len() as u64);
                file.write_all_at(&zeros[..length as usize], at).map_err(fault)?;
                if !spec.direct {
                    // Piece by piece: one sync at the end would send all of it at once.
                    file.sync_data().map_err(fault)?;
                }
                at += length;
                pause();
            }
        }
    }
    file.sync_all().map_err(fault)?;
    if let Some(directory) = path.parent() {
        device::sync_directory(directory)?;
    }
    let maintenance = device::open_segment(path, false, false)?;
    Ok(Prepared { path: path.to_path_buf(), file, maintenance })
}

/// One aligned piece of zeros.
fn zeros(spec: SegmentSpec) -> Bytes {
    let mut chunk = Chunk::allocate(PIECE_BYTES, device::memory_alignment(spec.block_bytes));
    chunk.pad_to(PIECE_BYTES);
    chunk.view(0..PIECE_BYTES)
}

/// A segment ordered ahead of need.
#[derive(Debug)]
pub(super) struct Order {
    spec: SegmentSpec,
    path: PathBuf,
    result: Mutex<Outcome>,
    is_urgent: AtomicBool,
    /// Urgent orders of the process that are not done.
    urgent: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Outcome {
    Pending,
    Ready(Prepared),
    /// Failed or taken: the log tries itself, and gets the error itself.
    Unavailable,
}

impl Order {
    /// Fills at full speed from now on.
    pub(super) fn hurry(&self) {
        if !self.is_urgent.swap(true, Ordering::Relaxed) {
            self.urgent.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The file, if it is ready. If not, the order is void and its file goes.
    pub(super) fn take(&self) -> Option<Prepared> {
        match std::mem::replace(&mut *lock(&self.result), Outcome::Unavailable) {
            Outcome::Ready(prepared) => Some(prepared),
            Outcome::Pending | Outcome::Unavailable => None,
        }
    }

    fn fill(&self, pause: impl FnMut()) {
        if matches!(*lock(&self.result), Outcome::Pending) {
            let prepared = prepare(self.spec, &self.path, pause);
            let mut result = lock(&self.result);
            match prepared {
                Ok(prepared) if matches!(*result, Outcome::Pending) => {
                    *result = Outcome::Ready(prepared);
                }
                _ => {
                    // Best effort: a file left over is removed when the log is next opened.
                    drop(fs::remove_file(&self.path));
                    *result = Outcome::Unavailable;
                }
            }
        }
        if self.is_urgent.swap(true, Ordering::Relaxed) {
            self.urgent.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What a log shares with the background thread.
#[derive(Debug)]
pub(super) struct Fence {
    state: Mutex<FenceState>,
    has_failed: AtomicBool,
}

/// Whoever holds it may write the log's checkpoints.
#[derive(Debug)]
pub(super) struct FenceState {
    /// Grows when the log is cut or closed; seals ordered before are void.
    pub(super) generation: u64,
    /// As stored.
    pub(super) recovery_point: Offset,
    failure: Option<String>,
}

impl Fence {
    /// For a log whose stored recovery point is, or is about to be, `recovery_point`.
    pub(super) fn new(recovery_point: Offset) -> Fence {
        let state = FenceState { generation: 0, recovery_point, failure: None };
        Fence { state: Mutex::new(state), has_failed: AtomicBool::new(false) }
    }

    /// Voids the seals ordered so far and keeps others from running.
    pub(super) fn void_seals(&self) -> MutexGuard<'_, FenceState> {
        let mut state = lock(&self.state);
        state.generation += 1;
        state
    }

    /// Why a seal failed, if one did.
    pub(super) fn failure(&self) -> Option<String> {
        if self.has_failed.load(Ordering::Acquire) {
            lock(&self.state).failure.clone()
        } else {
            None
        }
    }
}

/// A segment that gets no more appends and is written whole.
#[derive(Debug)]
pub(super) struct Seal {
    pub(super) directory: PathBuf,
    pub(super) segment_path: PathBuf,
    pub(super) file: File,
    pub(super) index: Arc<Index>,
    pub(super) end_offset: Offset,
    pub(super) end_position: u64,
    /// Epochs that start below `end_offset`.
    pub(super) epochs: Vec<(LeaderEpoch, Offset)>,
    pub(super) fence: Arc<Fence>,
    pub(super) generation: u64,
}

impl Seal {
    fn run(self) {
        let mut state = lock(&self.fence.state);
        if state.generation != self.generation || state.failure.is_some() {
            return;
        }
        match self.write() {
            Ok(()) => state.recovery_point = self.end_offset,
            Err(error) => {
                state.failure = Some(chain(&error));
                self.fence.has_failed.store(true, Ordering::Release);
            }
        }
    }

    /// The recovery point moves last: only over what is on the device.
    fn write(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(StorageError::io("sync the segment", &self.segment_path))?;
        self.index.store(&index_path(&self.segment_path), self.end_offset, self.end_position)?;
        checkpoint::store_epochs(&self.directory, &self.epochs)?;
        device::sync_directory(&self.directory)?;
        checkpoint::store_recovery_point(&self.directory, self.end_offset)?;
        device::sync_directory(&self.directory)
    }
}

/// Handle of the background thread; one thread serves all logs of a process. It ends when the last
/// handle is dropped.
#[derive(Clone, Debug)]
pub struct Preparer {
    orders: Sender<Arc<Order>>,
    seals: Sender<Seal>,
    urgent: Arc<AtomicUsize>,
    faults: Option<Arc<DiskFaults>>,
}

impl Preparer {
    /// The same thread, for logs whose writes can be made to fail.
    pub fn with_faults(self, faults: Arc<DiskFaults>) -> Preparer {
        Preparer { faults: Some(faults), ..self }
    }

    /// What the writes of the logs it serves are told; `None` if they cannot be made to fail.
    pub(super) fn faults(&self) -> Option<&DiskFaults> {
        self.faults.as_deref()
    }

    /// Starts the thread.
    ///
    /// Errors: [`StorageError::Io`] if the system gives no thread.
    pub fn start() -> Result<Preparer, StorageError> {
        let (orders, ordered) = unbounded();
        let (seals, to_seal) = unbounded();
        let urgent = Arc::new(AtomicUsize::new(0));
        let worker = Worker { orders: ordered, seals: to_seal, urgent: Arc::clone(&urgent) };
        threads::start("log-preparer", move || worker.run())
            .map_err(StorageError::io("start the preparer thread", Path::new("log-preparer")))?;
        Ok(Preparer { orders, seals, urgent, faults: None })
    }

    pub(super) fn order(&self, spec: SegmentSpec, path: PathBuf) -> Arc<Order> {
        let order = Arc::new(Order {
            spec,
            path,
            result: Mutex::new(Outcome::Pending),
            is_urgent: AtomicBool::new(false),
            urgent: Arc::clone(&self.urgent),
        });
        // A thread that is gone leaves the order pending; the log then prepares by itself.
        drop(self.orders.send(Arc::clone(&order)));
        order
    }

    pub(super) fn seal(&self, seal: Seal) {
        // A seal that is not made leaves more to scan at the next start, nothing else.
        drop(self.seals.send(seal));
    }
}

struct Worker {
    orders: Receiver<Arc<Order>>,
    seals: Receiver<Seal>,
    urgent: Arc<AtomicUsize>,
}

impl Worker {
    fn run(&self) {
        loop {
            select! {
                recv(self.seals) -> seal => match seal {
                    Ok(seal) => seal.run(),
                    Err(_) => return,
                },
                recv(self.orders) -> order => match order {
                    Ok(order) => order.fill(|| self.pause()),
                    Err(_) => return,
                },
            }
        }
    }

    /// Keeps the filling speed, or seals meanwhile what is waiting.
    fn pause(&self) {
        let is_urgent = self.urgent.load(Ordering::Relaxed) > 0;
        let pause = if is_urgent { Duration::ZERO } else { piece_time() };
        match self.seals.recv_timeout(pause) {
            Ok(seal) => seal.run(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(pause),
        }
    }
}

fn piece_time() -> Duration {
    Duration::from_nanos(PIECE_BYTES as u64 * 1_000_000_000 / FILL_BYTES_PER_SECOND)
}

/// A panic of the other side is not this side's: what the lock guards is whole at all times.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For tests that look at what the background thread left behind.
#[cfg(test)]
mod waits {
    use std::time::Instant;

    use super::*;

    fn wait_for(what: &str, is_there: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_there() {
            assert!(Instant::now() < deadline, "{what} does not come");
            thread::yield_now();
        }
    }

    impl Preparer {
        /// Waits until the background thread brought the log to `until`.
        pub(in super::super) fn wait_until(
            &self,
            fence: &Fence,
            until: impl Fn(&FenceState) -> bool,
        ) {
            wait_for("the seal", || until(&lock(&fence.state)));
        }
    }

    impl FenceState {
        pub(in super::super) fn has_failed(&self) -> bool {
            self.failure.is_some()
        }
    }

    impl Order {
        /// Waits until the file is ready.
        pub(in super::super) fn wait_ready(&self) {
            wait_for("the segment", || matches!(*lock(&self.result), Outcome::Ready(_)));
        }
    }
}

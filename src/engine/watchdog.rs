//! Notices from outside when a shard's loop has stopped turning, and ends the process loudly.
//!
//! A loop that sleeps for ever looks like a quiet one. So each watched loop promises to turn at
//! least every [`TURN_INTERVAL_MAX`], and one thread per process counts its own ticks without a
//! turn. It counts ticks rather than time: a stopped or suspended process is not a stalled shard.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::measure::threads;

/// The longest a watched loop may sleep before it turns once.
pub const TURN_INTERVAL_MAX: Duration = Duration::from_secs(1);
/// Exit status of a process that was ended because one of its shards had stalled.
pub const STALL_EXIT_CODE: i32 = 86;

/// Disks under writeback stall a blocking call for seconds; half a minute is no longer a disk.
const STILL_TICKS_MAX: u32 = 30;

/// Kept by a watched loop; dropping it ends the watch.
#[derive(Debug)]
pub struct Heartbeat {
    turns: Arc<AtomicU64>,
}

impl Heartbeat {
    /// Says that the loop has turned. Costs one relaxed atomic addition.
    pub fn beat(&self) {
        self.turns.fetch_add(1, Ordering::Relaxed);
    }
}

/// Watches the calling loop under `name` from now on, by the process's one watchdog thread.
///
/// # Errors
/// The system gives no thread.
pub fn watch(name: String) -> io::Result<Heartbeat> {
    static WATCHDOG: Mutex<Option<Watchdog>> = Mutex::new(None);
    let mut watchdog = WATCHDOG.lock().unwrap_or_else(PoisonError::into_inner);
    let running = match watchdog.take() {
        Some(running) => running,
        None => Watchdog::start(TURN_INTERVAL_MAX, STILL_TICKS_MAX)?,
    };
    Ok(watchdog.insert(running).watch(name))
}

struct Watchdog {
    watched: Arc<Mutex<Vec<Watched>>>,
}

struct Watched {
    name: String,
    turns: Arc<AtomicU64>,
    turns_seen: u64,
    still_ticks: u32,
}

impl Watchdog {
    fn start(tick: Duration, still_ticks_max: u32) -> io::Result<Watchdog> {
        let watched = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&watched);
        threads::start("watchdog", move || {
            loop {
                thread::sleep(tick);
                let mut watched = shared.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(name) = first_stalled(&mut watched, still_ticks_max) {
                    end_process(&name, tick * still_ticks_max);
                }
            }
        })?;
        Ok(Watchdog { watched })
    }

    fn watch(&self, name: String) -> Heartbeat {
        let turns = Arc::new(AtomicU64::new(0));
        let heartbeat = Heartbeat { turns: Arc::clone(&turns) };
        let watched = Watched { name, turns, turns_seen: 0, still_ticks: 0 };
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).push(watched);
        heartbeat
    }
}

/// One tick over all loops; forgets those whose [`Heartbeat`] was dropped.
fn first_stalled(watched: &mut Vec<Watched>, still_ticks_max: u32) -> Option<String> {
    watched.retain(|watched| Arc::strong_count(&watched.turns) > 1);
    watched.iter_mut().for_each(Watched::tick);
    watched.iter().find(|watched| watched.still_ticks >= still_ticks_max).map(|it| it.name.clone())
}

impl Watched {
    fn tick(&mut self) {
        let turns = self.turns.load(Ordering::Relaxed);
        self.still_ticks = if turns == self.turns_seen { self.still_ticks + 1 } else { 0 };
        self.turns_seen = turns;
    }
}

fn end_process(name: &str, stalled: Duration) -> ! {
    let message = format!(
        "ackmark: shard \"{name}\" has not turned for {stalled:?}: its event loop is stuck; \
         ending this process with status {STALL_EXIT_CODE}\n"
    );
    // Not through std's stderr: a stuck thread may hold its lock.
    // SAFETY: `message` outlives the call and its length is its own.
    unsafe { libc::write(libc::STDERR_FILENO, message.as_ptr().cast(), message.len()) };
    // SAFETY: _exit(2) takes no pointers. Not `exit`: a handler may wait for the stuck thread.
    unsafe { libc::_exit(STALL_EXIT_CODE) }
}

#[cfg(test)]
mod tests;

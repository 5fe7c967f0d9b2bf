//! Measures the parts of the floor, each by the simplest code that does the act, at a steady pace.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Barrier, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use crate::measure::{clock, threads};
use crate::types::{DurabilityMode, FilePreparation};

use super::super::pace::Pace;
use super::super::pattern::{Pattern, PatternFile};
use super::super::samples::Samples;
use super::super::{DirectIo, direct_io};
use super::peer::Peer;
use super::{DurableFloor, FloorSettings};

/// A produce answer for one partition is about this long.
const ANSWER_BYTES: usize = 64;

/// Acts at the start of each part whose times do not count: connections, caches and extents warm.
const WARM_UP_COUNT: u64 = 10;

/// Block of writes in a mode that needs no alignment: the page, since that is what a sync writes.
const PAGE_BYTES: usize = 4096;

fn act_count(settings: &FloorSettings) -> u64 {
    Pace::new(settings.rate_per_second).ticks_in(settings.part_duration)
}

/// Runs `act` at the pace, first for warm-up, then for its times.
fn paced(
    settings: &FloorSettings,
    mut act: impl FnMut() -> io::Result<Duration>,
) -> io::Result<Samples> {
    let mut pace = Pace::new(settings.rate_per_second);
    let mut timed = |_| {
        pace.wait();
        act()
    };
    for index in 0..WARM_UP_COUNT {
        timed(index)?;
    }
    (0..act_count(settings)).map(timed).collect()
}

/// R(n): the requester waits for its tick, sends to `n` peers in turn, and blocks until each has
/// answered. No samples for no peers.
pub(super) fn round_trip(settings: &FloorSettings, peers: usize) -> io::Result<Samples> {
    if peers == 0 {
        return Ok(Samples::default());
    }
    let start = |_| Peer::start(settings.record_bytes.max(1), ANSWER_BYTES);
    let mut peers: Vec<Peer> = (0..peers).map(start).collect::<io::Result<_>>()?;
    let request = vec![0; settings.record_bytes.max(1)];
    let mut answer = [0; ANSWER_BYTES];
    paced(settings, || {
        let sent = clock::now();
        for peer in &mut peers {
            peer.connection.write_all(&request)?;
        }
        for peer in &mut peers {
            peer.connection.read_exact(&mut answer)?;
        }
        Ok(clock::now().since(sent))
    })
}

/// W: the file grows, as a segment does in page-cache mode.
pub(super) fn page_cache_write(settings: &FloorSettings, folder: &Path) -> io::Result<Samples> {
    let write_bytes = settings.record_bytes.max(1);
    let mut file = PatternFile::create(Pattern {
        path: folder.join("page-cache"),
        mode: DurabilityMode::PageCache,
        preparation: FilePreparation::Reserved,
        write_bytes,
        file_bytes: write_bytes as u64 * (act_count(settings) + WARM_UP_COUNT),
    })?;
    paced(settings, || Ok(file.write_next()?.total()))
}

/// D(1), then D(brokers), on files of their own.
pub(super) fn durable(
    settings: &FloorSettings,
    folder: &Path,
    mode: DurabilityMode,
) -> io::Result<DurableFloor> {
    let block_bytes = if mode.is_direct() {
        direct_io(folder)
            .map(|DirectIo { block_bytes, .. }| block_bytes)
            .map_err(io::Error::other)?
    } else {
        PAGE_BYTES
    };
    let write_bytes = settings.record_bytes.max(1).next_multiple_of(block_bytes);
    let create = |index: usize| {
        PatternFile::create(Pattern {
            path: folder.join(format!("{}-{index}", mode.name())),
            mode,
            preparation: FilePreparation::ZeroFilled,
            write_bytes,
            file_bytes: write_bytes as u64 * (act_count(settings) + WARM_UP_COUNT),
        })
    };
    let mut files: Vec<PatternFile> =
        (0..settings.broker_count.max(1)).map(create).collect::<io::Result<_>>()?;
    let alone = paced(settings, || Ok(files[0].write_next()?.total()))?;
    let together = write_together(settings, files)?;
    Ok(DurableFloor { mode, write_bytes, alone, together })
}

/// One thread per file; a barrier releases all of them at each tick. A thread that failed keeps
/// coming to the barrier, so that the others are not left waiting there.
fn write_together(settings: &FloorSettings, files: Vec<PatternFile>) -> io::Result<Samples> {
    let ticks = WARM_UP_COUNT + act_count(settings);
    // Held until every thread is there: without one of them the barrier would never open.
    let all_there = RwLock::new(false);
    let mut waits = all_there.write().unwrap_or_else(PoisonError::into_inner);
    let all_there = &all_there;
    let barrier = Barrier::new(files.len() + 1);
    let barrier = &barrier;
    let mut pace = Pace::new(settings.rate_per_second);
    let times: io::Result<Vec<io::Result<Vec<Duration>>>> = thread::scope(|scope| {
        let write_all = |mut file: PatternFile| {
            let mut times = Ok(Vec::new());
            if !*all_there.read().unwrap_or_else(PoisonError::into_inner) {
                return times;
            }
            for _ in 0..ticks {
                barrier.wait();
                if let Ok(so_far) = &mut times {
                    match file.write_next() {
                        Ok(time) => so_far.push(time.total()),
                        Err(error) => times = Err(error),
                    }
                }
            }
            times
        };
        let start = |file| threads::start_in(scope, "floor writer", move || write_all(file));
        let writers = files.into_iter().map(start).collect::<io::Result<Vec<_>>>();
        *waits = writers.is_ok();
        drop(waits);
        let writers = writers?;
        for _ in 0..ticks {
            pace.wait();
            barrier.wait();
        }
        let died = |_| Err(io::Error::other("thread died"));
        Ok(writers.into_iter().map(|writer| writer.join().unwrap_or_else(died)).collect())
    });
    let counted = |times: io::Result<Vec<Duration>>| {
        times.map(|times| times.into_iter().skip(WARM_UP_COUNT as usize))
    };
    let times: Vec<_> = times?.into_iter().map(counted).collect::<io::Result<_>>()?;
    Ok(times.into_iter().flatten().collect())
}

/// How late this host wakes a sleeping thread.
pub(super) fn timer_overshoot(settings: &FloorSettings) -> Samples {
    let mut pace = Pace::new(settings.rate_per_second);
    (0..act_count(settings)).map(|_| pace.wait()).collect()
}

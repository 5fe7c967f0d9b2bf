//! One measured cell as an [`App`]: creates its topic, connects, and takes the load through its
//! phases.
//!
//! Phases: describing → connecting → running (warm-up, then the measured part) → draining →
//! finished. All connections are up before the load begins, so that every partition enters each
//! phase together (spec/measurement.md M11, M12).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::BytesMut;

use crate::driver::batcher::Batcher;
use crate::driver::consumer;
use crate::driver::error::DriverError;
use crate::driver::fetcher::Fetchers;
use crate::driver::load::LoadMode;
use crate::driver::metadata::{MetadataClient, View};
use crate::driver::outcome::CellOutcome;
use crate::driver::payload::Payload;
use crate::driver::producer::{Producers, Round};
use crate::driver::recorder::{Measured, Recorder};
use crate::driver::spec::CellSpec;
use crate::driver::tracker::Tracker;
use crate::engine::{App, ConnectionId, Event, Io};
use crate::measure::clock;
use crate::measure::histogram::LatencyHistogram;
use crate::types::{Acks, MonotonicTime, PartitionId};

/// From the last connection's coming up to the load's begin: lets what connecting started settle.
const BEGIN_PAUSE: Duration = Duration::from_millis(5);

/// How often a stop is looked for, progress told, and a connection attempt looked after.
const TICK: Duration = Duration::from_millis(100);

/// Where a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The topic is created and its leaders waited for.
    Describing,
    /// The leaders are connected to.
    Connecting,
    /// Load without measurement.
    WarmUp,
    /// Load with measurement.
    Measuring,
    /// No new load; answers are waited for.
    Draining,
    /// Over.
    Finished,
}

/// What a cell tells of itself while it runs, every tenth of a second.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Where it is.
    pub phase: Phase,
    /// Since the load began.
    pub elapsed: Duration,
    /// Warm-up and measured part together.
    pub load_length: Duration,
    /// Measured records sent.
    pub records_sent: u64,
    /// Measured records acknowledged.
    pub records_acknowledged: u64,
    /// Measured records given up.
    pub records_failed: u64,
    /// Produce requests without an answer.
    pub in_flight_batches: usize,
    /// Intended send to acknowledgement, of the measured part so far. A look into it takes some ten
    /// microseconds of the load's own thread.
    pub acknowledged: &'a LatencyHistogram,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    began: MonotonicTime,
    measured_from: MonotonicTime,
    load_until: MonotonicTime,
    drain_until: MonotonicTime,
}

/// One cell on its way.
pub struct Cell<'a> {
    spec: &'a CellSpec,
    bootstrap: SocketAddr,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(Progress<'_>),
    phase: Phase,
    setup_until: MonotonicTime,
    tick_at: MonotonicTime,
    metadata: Option<MetadataClient>,
    producers: Producers,
    fetchers: Option<Fetchers>,
    trackers: Vec<Tracker>,
    recorder: Recorder,
    batcher: Option<Batcher>,
    times: Option<Times>,
    unready: Option<View>,
    end: Option<End>,
}

/// How a cell ended.
enum End {
    Measured { at: MonotonicTime, interrupted: bool },
    Failed(DriverError),
}

impl<'a> Cell<'a> {
    /// A cell that has not started.
    ///
    /// Errors: [`DriverError::Spec`].
    pub fn new(
        bootstrap: SocketAddr,
        spec: &'a CellSpec,
        stop: &'a AtomicBool,
        progress: &'a mut dyn FnMut(Progress<'_>),
    ) -> Result<Cell<'a>, DriverError> {
        spec.check()?;
        let mut recorder = Recorder::new(Measured {
            duration: spec.duration,
            acks: spec.acks,
            clock: clock::clock_id(),
            consume: spec.consume,
            keep_acknowledgements: spec.keep_acknowledgements,
        });
        if spec.keep_history {
            recorder.keep_history(spec.partitions);
        }
        let tracked = if spec.consume { spec.partitions } else { 0 };
        Ok(Cell {
            spec,
            bootstrap,
            stop,
            progress,
            phase: Phase::Describing,
            setup_until: MonotonicTime::ZERO,
            tick_at: MonotonicTime::ZERO,
            metadata: None,
            producers: Producers::new(spec),
            fetchers: spec.consume.then(|| Fetchers::new(spec)),
            trackers: (0..tracked).map(|_| Tracker::new()).collect(),
            recorder,
            batcher: None,
            times: None,
            unready: None,
            end: None,
        })
    }

    /// What came of it.
    pub fn into_result(self) -> Result<CellOutcome, DriverError> {
        let asked_records_per_s = match self.spec.load {
            LoadMode::OpenLoop { rate, .. } => Some(rate.records_per_s()),
            LoadMode::ClosedLoop { .. } | LoadMode::MaxThroughput => None,
        };
        match self.end {
            Some(End::Measured { at, interrupted }) => {
                Ok(self.recorder.finish(at, asked_records_per_s, interrupted))
            }
            Some(End::Failed(error)) => Err(error),
            None => Err(DriverError::Stopped),
        }
    }

    fn fail(&mut self, error: DriverError) {
        self.phase = Phase::Finished;
        self.end = Some(End::Failed(error));
    }

    fn on_view(&mut self, io: &mut dyn Io, view: View) {
        let now = io.now();
        let Some(metadata) = &mut self.metadata else { return };
        if self.phase == Phase::Describing && !view.not_ready.is_empty() {
            metadata.refresh(now);
            self.unready = Some(view);
            return;
        }
        if view.leaders.contains(&None) {
            metadata.refresh(now);
        }
        if let Some(leaders) = self.recorder.leaders(PartitionId(0)) {
            leaders.learned(view.leaders.first().copied().flatten(), now);
        }
        self.producers.apply(io, &view);
        if let Some(fetchers) = &mut self.fetchers {
            fetchers.apply(io, &view);
        }
        if self.phase == Phase::Describing {
            self.phase = Phase::Connecting;
        }
    }

    fn on_frame(
        &mut self,
        io: &mut dyn Io,
        connection: ConnectionId,
        frame: BytesMut,
        received: MonotonicTime,
    ) {
        if let Some(metadata) = self.metadata.as_mut().filter(|client| client.owns(connection)) {
            match metadata.on_frame(frame, received) {
                Ok(Some(view)) => self.on_view(io, view),
                Ok(None) => {}
                // Once the load runs it asks again instead: brokers come and go in a fault test.
                Err(error) if self.times.is_none() => self.fail(error),
                Err(_) => {}
            }
            return;
        }
        if self.producers.owns(connection) {
            let recorder = &mut self.recorder;
            let mut round = Round { io, recorder, trackers: &mut self.trackers };
            self.producers.on_frame(&mut round, connection, frame, received);
        } else if let Some(fetchers) = &mut self.fetchers {
            let broker = fetchers.broker_of(connection);
            for partition in fetchers.on_frame(io, connection, frame, received) {
                if let Some(tracker) = self.trackers.get_mut(partition.partition.0 as usize) {
                    let seed = self.spec.seed;
                    let recorder = &mut self.recorder;
                    if let (Some(leaders), Some(broker), Some(told)) =
                        (recorder.leaders(partition.partition), broker, partition.high_watermark)
                    {
                        leaders.told(connection.0, broker, told, received);
                    }
                    consumer::take_in(recorder, tracker, &partition, seed, connection, received);
                }
            }
            for partition in fetchers.take_cut_short() {
                if let Some(tracker) = self.trackers.get_mut(partition.0 as usize) {
                    tracker.restart();
                }
            }
        }
    }

    fn on_closed(&mut self, io: &mut dyn Io, connection: ConnectionId) {
        let now = io.now();
        if let Some(metadata) = self.metadata.as_mut().filter(|client| client.owns(connection)) {
            metadata.on_closed(now);
            return;
        }
        let recorder = &mut self.recorder;
        let mut round = Round { io, recorder, trackers: &mut self.trackers };
        if !self.producers.on_closed(&mut round, connection)
            && let Some(fetchers) = &mut self.fetchers
        {
            fetchers.on_closed(connection, now);
        }
    }

    fn on_connected(&mut self, connection: ConnectionId) {
        if let Some(metadata) = self.metadata.as_mut().filter(|client| client.owns(connection)) {
            metadata.on_connected();
        } else if !self.producers.on_connected(connection)
            && let Some(fetchers) = &mut self.fetchers
        {
            fetchers.on_connected(connection);
        }
    }

    /// Work before the load: connections, and the end of patience.
    fn set_up(&mut self, io: &mut dyn Io, now: MonotonicTime) {
        if now >= self.setup_until {
            let error = self.setup_failure();
            self.fail(error);
            return;
        }
        if self.phase != Phase::Connecting {
            return;
        }
        self.producers.reopen(io, now);
        if let Some(fetchers) = &mut self.fetchers {
            fetchers.reopen(io, now);
        }
        let fetchers_are_up = self.fetchers.as_ref().is_none_or(Fetchers::are_up);
        if self.producers.are_up() && fetchers_are_up {
            self.begin(now.plus(BEGIN_PAUSE));
        }
    }

    fn setup_failure(&self) -> DriverError {
        let (topic, waited) = (self.spec.topic.clone(), self.spec.setup_timeout);
        if self.phase == Phase::Connecting {
            return DriverError::Unreachable { topic, waited };
        }
        let unready = self.unready.as_ref().and_then(|view| view.not_ready.first());
        match (unready, &self.metadata) {
            (Some(partition), _) => DriverError::NotReady { topic, partition: *partition, waited },
            (None, Some(metadata)) => DriverError::Bootstrap {
                address: self.bootstrap,
                waiting_for: metadata.waiting_for(),
                waited,
            },
            (None, None) => DriverError::Stopped,
        }
    }

    fn begin(&mut self, at: MonotonicTime) {
        let measured_from = at.plus(self.spec.warmup);
        let load_until = measured_from.plus(self.spec.duration);
        let drain_until = load_until.plus(self.spec.drain_timeout);
        self.times = Some(Times { began: at, measured_from, load_until, drain_until });
        let payload = Payload::new(self.spec.seed, self.spec.record_bytes, self.spec.compressible);
        self.batcher = Some(Batcher::new(payload, self.spec.batch_bytes, at));
        self.producers.begin(at);
        self.recorder.begin(measured_from);
        // Told at once: whoever acts along with the load takes its zero from there.
        self.tick_at = at;
        self.phase = Phase::WarmUp;
    }

    /// Work while the load runs or drains.
    fn run(&mut self, io: &mut dyn Io, now: MonotonicTime, times: Times) {
        let fetchers_are_stale = self.fetchers.as_mut().is_some_and(Fetchers::take_is_stale);
        if (self.producers.take_is_stale() || fetchers_are_stale)
            && let Some(metadata) = &mut self.metadata
        {
            metadata.refresh(now);
        }
        if now < times.began {
            return;
        }
        if let Some(batcher) = &mut self.batcher {
            let recorder = &mut self.recorder;
            let mut round = Round { io, recorder, trackers: &mut self.trackers };
            self.producers.pump(&mut round, batcher);
        }
        if let Some(fetchers) = &mut self.fetchers {
            fetchers.pump(io, |partition| self.trackers[partition].next_offset(), now);
        }
        self.phase = match self.phase {
            Phase::WarmUp if now >= times.measured_from => Phase::Measuring,
            Phase::WarmUp | Phase::Measuring if now >= times.load_until => Phase::Draining,
            phase => phase,
        };
        if self.phase == Phase::Draining && (self.is_drained(now) || now >= times.drain_until) {
            self.finish(now, false);
        }
    }

    /// Whether nothing is left to wait for: all answered, and all that must arrive has arrived.
    fn is_drained(&self, now: MonotonicTime) -> bool {
        let is_consumed = |tracker: &Tracker| match self.spec.acks {
            Acks::None => tracker.has_all_sent(),
            Acks::Leader | Acks::All => tracker.has_all_acknowledged(),
        };
        self.producers.is_done(now) && self.trackers.iter().all(is_consumed)
    }

    fn finish(&mut self, now: MonotonicTime, interrupted: bool) {
        let warmup_ns = u64::try_from(self.spec.warmup.as_nanos()).unwrap_or(u64::MAX);
        self.producers.abandon(&mut self.recorder, warmup_ns);
        let fetch_errors = self.fetchers.as_ref().map_or(0, Fetchers::error_count);
        self.recorder.fetches_failed(fetch_errors);
        self.phase = Phase::Finished;
        self.end = Some(End::Measured { at: now, interrupted });
    }

    fn on_tick(&mut self, now: MonotonicTime) {
        self.tick_at = now.plus(TICK);
        let began = self.times.map_or(now, |times| times.began);
        let counts = self.recorder.counts();
        (self.progress)(Progress {
            phase: self.phase,
            elapsed: now.since(began),
            load_length: self.spec.warmup + self.spec.duration,
            records_sent: counts.records_sent,
            records_acknowledged: counts.records_acknowledged,
            records_failed: counts.records_failed,
            in_flight_batches: self.producers.in_flight_batches(),
            acknowledged: self.recorder.acknowledged_latency(),
        });
        if self.stop.load(Ordering::Relaxed) {
            match self.times {
                Some(_) => self.finish(now, true),
                None => self.fail(DriverError::Stopped),
            }
        }
    }
}

impl App for Cell<'_> {
    fn start(&mut self, io: &mut dyn Io) {
        let now = io.now();
        self.setup_until = now.plus(self.spec.setup_timeout);
        self.tick_at = now.plus(TICK);
        self.metadata = Some(MetadataClient::create_topic(io, self.bootstrap, self.spec));
    }

    fn on_event(&mut self, io: &mut dyn Io, event: Event) {
        if self.phase == Phase::Finished {
            return;
        }
        match event {
            Event::Frame { connection, frame, received } => {
                self.on_frame(io, connection, frame, received);
            }
            Event::Connected { connection } => self.on_connected(connection),
            Event::Closed { connection, .. } => self.on_closed(io, connection),
            Event::Deadline
            | Event::Woken
            | Event::Accepted { .. }
            | Event::Written { .. }
            | Event::Read { .. } => {}
        }
    }

    fn on_batch_end(&mut self, io: &mut dyn Io) {
        if self.phase == Phase::Finished {
            return;
        }
        let now = io.now();
        if let Some(metadata) = &mut self.metadata
            && let Err(error) = metadata.on_tick(io, now)
        {
            self.fail(error);
            return;
        }
        match self.times {
            Some(times) => self.run(io, now, times),
            None => self.set_up(io, now),
        }
        if now >= self.tick_at && self.phase != Phase::Finished {
            self.on_tick(now);
        }
    }

    fn deadline(&self) -> Option<MonotonicTime> {
        let metadata = self.metadata.as_ref().and_then(MetadataClient::deadline);
        let Some(times) = self.times else {
            return [Some(self.setup_until), Some(self.tick_at), metadata]
                .into_iter()
                .flatten()
                .min();
        };
        let phase_end = match self.phase {
            Phase::WarmUp => times.measured_from,
            Phase::Measuring => times.load_until,
            _ => times.drain_until,
        };
        if !self.producers.has_begun() {
            return [Some(times.began), metadata].into_iter().flatten().min();
        }
        let fetchers = self.fetchers.as_ref().and_then(Fetchers::deadline);
        let load = [self.producers.deadline(), fetchers, metadata];
        load.into_iter().flatten().chain([phase_end, self.tick_at]).min()
    }

    fn is_finished(&self) -> bool {
        self.phase == Phase::Finished
    }
}

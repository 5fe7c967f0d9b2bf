//! Reads a topic back to its end, as an [`App`], into a [`Ledger`].
//!
//! A partition is read up to its high watermark and up to the end of what was acknowledged in it.
//! Where the log ends before that, the reader waits its patience out (a restarted cluster may still
//! be catching up), and what is not there is missing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::driver::error::{DriverError, ReadBackFailure};
use crate::driver::fetcher::Fetchers;
use crate::driver::ledger::{Ledger, Verification};
use crate::driver::metadata::{MetadataClient, View};
use crate::driver::spec::CellSpec;
use crate::engine::{App, Event, Io};
use crate::record;
use crate::types::{MonotonicTime, Offset, PartitionId};
use crate::wire::FetchPartitionResponse;

/// How often a stop is looked for.
const TICK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
struct Position {
    next: Offset,
    high_watermark: Option<Offset>,
}

/// One reading back on its way.
pub struct ReadBack<'a> {
    spec: &'a CellSpec,
    bootstrap: SocketAddr,
    stop: &'a AtomicBool,
    metadata: Option<MetadataClient>,
    fetchers: Fetchers,
    positions: Vec<Position>,
    ledger: Ledger,
    /// When there was progress last: patience runs from here.
    progress_at: MonotonicTime,
    tick_at: MonotonicTime,
    is_finished: bool,
    error: Option<DriverError>,
}

impl<'a> ReadBack<'a> {
    /// A reading back of the topic of `spec` that has not started.
    pub fn new(
        bootstrap: SocketAddr,
        spec: &'a CellSpec,
        ledger: Ledger,
        stop: &'a AtomicBool,
    ) -> ReadBack<'a> {
        let position = Position { next: Offset::ZERO, high_watermark: None };
        ReadBack {
            spec,
            bootstrap,
            stop,
            metadata: None,
            fetchers: Fetchers::new(spec),
            positions: vec![position; spec.partitions as usize],
            ledger,
            progress_at: MonotonicTime::ZERO,
            tick_at: MonotonicTime::ZERO,
            is_finished: false,
            error: None,
        }
    }

    /// What came of it.
    pub fn into_result(self) -> Result<Verification, DriverError> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.ledger.close()),
        }
    }

    fn fail(&mut self, error: DriverError) {
        self.error = Some(error);
        self.is_finished = true;
    }

    fn on_view(&mut self, io: &mut dyn Io, view: &View) {
        if view.leaders.contains(&None)
            && let Some(metadata) = &mut self.metadata
        {
            metadata.refresh(io.now());
        }
        self.fetchers.apply(io, view);
    }

    fn take_in(&mut self, partition: &FetchPartitionResponse, received: MonotonicTime) {
        let index = partition.partition.0 as usize;
        let Some(position) = self.positions.get(index).copied() else { return };
        if position.high_watermark != partition.high_watermark {
            self.progress_at = received;
        }
        let mut next = position.next;
        for chunk in &partition.records {
            for batch in record::batches(chunk) {
                let Ok((header, range)) = batch else {
                    // Nothing behind it can be found: the log does not read on.
                    let partition = partition.partition;
                    let reason = ReadBackFailure::NotBatches;
                    self.fail(DriverError::ReadBack { partition, reason });
                    return;
                };
                if header.end_offset() > next {
                    self.take_in_batch(partition.partition, &header, &chunk[range], next);
                    next = header.end_offset();
                    self.progress_at = received;
                }
            }
        }
        self.positions[index] = Position { next, high_watermark: partition.high_watermark };
    }

    fn take_in_batch(
        &mut self,
        partition: PartitionId,
        header: &record::BatchHeader,
        batch: &[u8],
        from: Offset,
    ) {
        let is_sound = record::check_crc(batch, header).is_ok();
        let records = record::records(batch).ok().filter(|_| is_sound);
        let Some(records) = records else {
            self.ledger.found_corrupt(u64::from(header.record_count.unsigned_abs()));
            return;
        };
        for record in records {
            match record {
                Ok(record) => {
                    let offset = header.base_offset.plus(i64::from(record.offset_delta));
                    if offset >= from {
                        self.ledger.found(partition, offset, record.value);
                    }
                }
                Err(_) => self.ledger.found_corrupt(1),
            }
        }
    }

    /// Whether `partition` was read to its end.
    fn is_read(&self, partition: PartitionId, position: &Position) -> bool {
        let end = position.high_watermark.max(Some(self.ledger.acknowledged_end(partition)));
        position.high_watermark.is_some() && Some(position.next) >= end
    }

    fn partitions(&self) -> impl Iterator<Item = (PartitionId, &Position)> {
        (0_i32..).map(PartitionId).zip(&self.positions)
    }

    /// The end, if it is reached or patience is.
    fn look_for_end(&mut self, now: MonotonicTime) {
        if self.partitions().all(|(partition, position)| self.is_read(partition, position)) {
            self.is_finished = true;
            return;
        }
        if now < self.progress_at.plus(self.spec.setup_timeout) {
            return;
        }
        let unknown = self.partitions().find(|(_, position)| position.high_watermark.is_none());
        match unknown.map(|(partition, _)| partition) {
            Some(partition) => {
                let reason = ReadBackFailure::NoAnswer(self.spec.setup_timeout);
                self.fail(DriverError::ReadBack { partition, reason });
            }
            None => self.is_finished = true,
        }
    }
}

impl App for ReadBack<'_> {
    fn start(&mut self, io: &mut dyn Io) {
        self.progress_at = io.now();
        self.metadata = Some(MetadataClient::describe_topic(io, self.bootstrap, self.spec));
    }

    fn on_event(&mut self, io: &mut dyn Io, event: Event) {
        let now = io.now();
        let Some(metadata) = &mut self.metadata else { return };
        match event {
            Event::Frame { connection, frame, received } if metadata.owns(connection) => {
                match metadata.on_frame(frame, received) {
                    Ok(Some(view)) => self.on_view(io, &view),
                    Ok(None) => {}
                    Err(error) => self.fail(error),
                }
            }
            Event::Frame { connection, frame, received } => {
                for partition in self.fetchers.on_frame(io, connection, frame, received) {
                    self.take_in(&partition, received);
                }
            }
            Event::Connected { connection } if metadata.owns(connection) => metadata.on_connected(),
            Event::Connected { connection } => self.fetchers.on_connected(connection),
            Event::Closed { connection, .. } if metadata.owns(connection) => {
                metadata.on_closed(now);
            }
            Event::Closed { connection, .. } => self.fetchers.on_closed(connection, now),
            Event::Deadline
            | Event::Woken
            | Event::Accepted { .. }
            | Event::Written { .. }
            | Event::Read { .. } => {}
        }
    }

    fn on_batch_end(&mut self, io: &mut dyn Io) {
        let now = io.now();
        if self.is_finished {
            return;
        }
        self.tick_at = now.plus(TICK);
        if let Some(metadata) = &mut self.metadata {
            if self.fetchers.take_is_stale() {
                metadata.refresh(now);
            }
            if let Err(error) = metadata.on_tick(io, now) {
                self.fail(error);
                return;
            }
        }
        self.fetchers.pump(io, |partition| self.positions[partition].next, now);
        self.look_for_end(now);
        if self.stop.load(Ordering::Relaxed) {
            self.fail(DriverError::Stopped);
        }
    }

    fn deadline(&self) -> Option<MonotonicTime> {
        let metadata = self.metadata.as_ref().and_then(MetadataClient::deadline);
        [metadata, self.fetchers.deadline()].into_iter().flatten().chain([self.tick_at]).min()
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

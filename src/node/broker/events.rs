//! Where a broker's events go: from the shards through a bounded channel to a thread that appends
//! them to a file, one JSON object a line. A shard never waits: what does not fit is counted.
//!
//! The file lies outside the data directory, so that what a fault takes from the log it leaves here.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

use super::BrokerError;
use crate::measure::isr::IsrEvent;
use crate::measure::threads;
use crate::node::tell;

/// Events between a shard and the disk: all partitions of a broker changing at once fit.
const EVENTS_MAX: usize = 4096;

/// A shard's end.
pub(super) struct EventSink {
    sender: Option<Sender<IsrEvent>>,
    lost: u64,
}

impl EventSink {
    /// For a broker that keeps no events.
    pub(super) fn nowhere() -> EventSink {
        EventSink { sender: None, lost: 0 }
    }

    /// Into `sender`, which may be full.
    pub(super) fn to(sender: Sender<IsrEvent>) -> EventSink {
        EventSink { sender: Some(sender), lost: 0 }
    }

    /// Whether anybody listens.
    pub(super) fn is_open(&self) -> bool {
        self.sender.is_some()
    }

    pub(super) fn tell(&mut self, event: IsrEvent) {
        let Some(sender) = &self.sender else { return };
        let event = IsrEvent { lost_before: self.lost, ..event };
        self.lost = match sender.try_send(event) {
            Ok(()) => 0,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.lost + 1,
        };
    }
}

/// The file's end.
pub(super) struct EventWriter {
    sender: Sender<IsrEvent>,
    thread: JoinHandle<()>,
}

impl EventWriter {
    /// Appends to `file`, which is made if there is none.
    pub(super) fn start(file: &Path) -> Result<EventWriter, BrokerError> {
        let system = |operation| move |source| BrokerError::System { operation, source };
        let opened = OpenOptions::new().create(true).append(true).open(file);
        let opened = opened.map_err(system("open events_file"))?;
        let (sender, receiver) = bounded(EVENTS_MAX);
        let thread = threads::start("events", move || write_all(opened, &receiver))
            .map_err(system("write events"))?;
        Ok(EventWriter { sender, thread })
    }

    /// An end for a shard.
    pub(super) fn sink(&self) -> EventSink {
        EventSink::to(self.sender.clone())
    }

    /// Waits until everything told is written; every sink must be gone.
    pub(super) fn finish(self) {
        drop(self.sender);
        // A panic there has been reported; events are no reason to fail a broker.
        let _ = self.thread.join();
    }
}

/// Each event at once, in one write: a killed process leaves whole lines.
fn write_all(mut file: File, events: &Receiver<IsrEvent>) {
    let mut failed = false;
    for event in events {
        let Ok(mut line) = serde_json::to_vec(&event) else { continue };
        line.push(b'\n');
        if let (Err(error), false) = (file.write_all(&line), failed) {
            failed = true;
            tell(format_args!("events_file: {error}: later events may be missing"));
        }
    }
}

//! What a person and a scraper see of a run while it goes on: a view on a terminal or plain lines,
//! and metrics over HTTP.
//!
//! Reading order: `state` (pure: what a run's updates add up to), `lines` and `view` (that as
//! text), [`terminal`] (taking a terminal and giving it back), `metrics`. All of it happens on
//! threads of its own; the run only sends updates ([`crate::scenario::progress`]).

mod lines;
mod metrics;
mod state;
pub mod terminal;
mod view;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crossbeam::channel::{self, Receiver, RecvTimeoutError, Sender};

use crate::node::exporter;
use crate::scenario::progress::{Progress, SNAPSHOT_INTERVAL, Update, stand_back};

use self::state::State;
use self::terminal::Terminal;

/// How a run is to be shown.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The workload's name.
    pub workload: String,
    /// Cells of the run, repeats counted.
    pub steps: usize,
    /// Plain lines even on a terminal.
    pub plain: bool,
    /// Where to serve metrics, if anywhere; port 0 picks one.
    pub metrics_listen: Option<SocketAddr>,
}

/// Why a run cannot be shown as asked.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The address for metrics cannot be had.
    #[error("--metrics-listen {address}: cannot listen there")]
    Metrics {
        /// As asked.
        address: SocketAddr,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The host has no thread to spare.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

/// A run that is shown. Dropping it shows what is left and gives the terminal back.
#[derive(Debug)]
pub struct Live {
    updates: Sender<Update>,
    is_watched: bool,
    metrics: Option<SocketAddr>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Begins to show.
    ///
    /// # Errors
    /// [`LiveError`]; then the terminal is as it was.
    pub fn start(settings: &Settings) -> Result<Live, LiveError> {
        let state = State::new(&settings.workload, settings.steps, Instant::now());
        let state = Arc::new(Mutex::new(state));
        let serve = |address| {
            let state = state.clone();
            exporter::spawn(address, move || metrics::render(&held(&state)))
                .map_err(|source| LiveError::Metrics { address, source })
        };
        let metrics = settings.metrics_listen.map(serve).transpose()?;
        held(&state).metrics = metrics;
        let terminal = if settings.plain { None } else { Terminal::take() };
        let is_watched = terminal.is_some() || metrics.is_some();
        let (updates, told) = channel::unbounded();
        let show = move || show(&told, &state, terminal);
        let thread = thread::Builder::new().name("live".to_owned()).spawn(show);
        let thread = Some(thread.map_err(LiveError::Thread)?);
        Ok(Live { updates, is_watched, metrics, thread })
    }

    /// The run's side.
    pub fn progress(&self) -> Progress {
        Progress::new(self.updates.clone(), self.is_watched)
    }

    /// Where metrics are served.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.updates.send(Update::Finished);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so, and the terminal was given back.
            let _ = thread.join();
        }
    }
}

fn show(told: &Receiver<Update>, state: &Mutex<State>, mut terminal: Option<Terminal>) {
    stand_back();
    let mut next_frame = Instant::now();
    loop {
        match told.recv_deadline(next_frame) {
            Ok(Update::Finished) | Err(RecvTimeoutError::Disconnected) => break,
            Ok(update) => {
                let mut state = held(state);
                if terminal.is_none() {
                    lines::show(&update, state.steps);
                }
                state.apply(update, Instant::now());
            }
            Err(RecvTimeoutError::Timeout) => {
                next_frame = Instant::now() + SNAPSHOT_INTERVAL;
                if let Some(terminal) = &mut terminal {
                    let state = held(state);
                    terminal.draw(|frame| view::draw(frame, &state, Instant::now()));
                }
            }
        }
    }
}

/// The state is plain data: one that a panic left half-changed is still worth showing.
fn held(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

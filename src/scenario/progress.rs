//! What a person sees while a run goes on: one moving line on a terminal, plain lines otherwise.
//! Always on standard error; standard output is for results.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::driver::{Phase, Progress as CellProgress};

/// Shows how far a run is. Never writes while a cell is measured unless it is a terminal's one line.
pub struct Progress {
    bar: Option<ProgressBar>,
    steps: usize,
    step: usize,
}

impl Progress {
    /// For a run of `steps` cells, repeats counted.
    pub fn new(steps: usize) -> Progress {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} {msg}");
            let bar = ProgressBar::with_draw_target(
                Some(steps as u64),
                ProgressDrawTarget::stderr_with_hz(4),
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Progress { bar, steps, step: 0 }
    }

    /// Says what is done between cells.
    pub fn note(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => line(text),
        }
    }

    /// A cell begins.
    pub fn cell_begins(&mut self, name: &str, repeat: usize) {
        self.step += 1;
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{name}, repeat {}", repeat + 1));
        }
    }

    /// A cell goes on; called ten times a second.
    pub fn cell_goes_on(&self, name: &str, progress: CellProgress) {
        if let Some(bar) = &self.bar {
            let phase = match progress.phase {
                Phase::Describing | Phase::Connecting => "setting up",
                Phase::WarmUp => "warming up",
                Phase::Measuring => "measuring",
                Phase::Draining => "draining",
                Phase::Finished => "done",
            };
            bar.set_message(format!(
                "{name}: {phase} {:.1} of {:.1} s",
                progress.elapsed.min(progress.load_length).as_secs_f64(),
                progress.load_length.as_secs_f64()
            ));
        }
    }

    /// A cell is over; `p50` is absent where the sample is too small for it.
    pub fn cell_is_over(&self, name: &str, repeat: usize, p50: Option<Duration>) {
        match &self.bar {
            Some(bar) => bar.inc(1),
            None => {
                let p50 = p50.map_or("n/a".to_owned(), |p50| {
                    format!("{:.1} us", p50.as_nanos() as f64 / 1e3)
                });
                let (step, steps) = (self.step, self.steps);
                line(&format!("[{step}/{steps}] {name}, repeat {}: ack p50 {p50}", repeat + 1));
            }
        }
    }

    /// The run is over: the moving line goes.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn line(text: &str) {
    // Nobody reads it then.
    let _ = writeln!(io::stderr(), "{text}");
}

//! What a child says on standard error: read from a pipe, so that neither a full disk nor a limit on
//! its files keeps its last words from the message about its end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::process::ChildStderr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::measure::threads;

/// Bytes of its words that are kept; a message repeats less.
const KEPT_BYTES: usize = 16 << 10;
/// Lines that a message repeats.
const LINES_MAX: usize = 12;
/// How long the words of a child that has ended are waited for: its pipe may be held open by a
/// process that it started.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(super) struct LastWords {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    heard: Mutex<Heard>,
    has_ended: Condvar,
}

#[derive(Debug, Default)]
struct Heard {
    text: Vec<u8>,
    is_over: bool,
}

impl LastWords {
    /// Listens on a thread of its own until the other end is closed, and copies what it hears to
    /// `log`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn keep(output: Option<ChildStderr>, log: File) -> io::Result<LastWords> {
        let shared = Arc::new(Shared::default());
        let listener = shared.clone();
        threads::start("child's last words", move || {
            if let Some(output) = output {
                listener.listen(output, log);
            }
            listener.held().is_over = true;
            listener.has_ended.notify_all();
        })?;
        Ok(LastWords { shared })
    }

    /// Its last lines until now, led by `:\n`; empty if it said nothing.
    pub(super) fn so_far(&self) -> String {
        last_lines(&self.shared.held().text)
    }

    /// As [`LastWords::so_far`] for a child that has ended: all it said is waited for.
    pub(super) fn at_the_end(&self) -> String {
        let heard = self.shared.held();
        let over = self.shared.has_ended.wait_timeout_while(heard, END_PATIENCE, |it| !it.is_over);
        let (heard, _) = over.unwrap_or_else(PoisonError::into_inner);
        last_lines(&heard.text)
    }
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listen(&self, mut output: ChildStderr, mut log: File) {
        let mut buffer = [0; 4 << 10];
        loop {
            let said = match output.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => &buffer[..length],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let mut heard = self.held();
            heard.text.extend_from_slice(said);
            let surplus = heard.text.len().saturating_sub(KEPT_BYTES);
            heard.text.drain(..surplus);
            drop(heard);
            // The disk may be full, which may be what the child is telling; the words are kept above.
            let _ = log.write_all(said);
        }
    }
}

fn last_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
    if last.is_empty() { String::new() } else { format!(":\n  {}", last.join("\n  ")) }
}

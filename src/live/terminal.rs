//! Taking the terminal for the view, and giving it back however the process ends.
//!
//! The terminal stays in line mode, so that Ctrl-C is a signal as ever; only echo, and the key that
//! would stop the process in the middle of a measurement, are off. Standard error is drawn on:
//! standard output is for results.

use std::env;
use std::io::{self, BufWriter, IsTerminal, Stderr, Write};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use rustix::process::getpgrp;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr,
};

/// How long the way back waits for a picture that is being drawn, perhaps by the thread that
/// panicked.
const DRAWING_TIME_MAX: Duration = Duration::from_millis(200);

/// The terminal as it was, while the view has it.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
/// Held while a picture is drawn.
static DRAWING: Mutex<()> = Mutex::new(());
/// Whether pictures may be drawn.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, taken. Dropping it gives it back.
pub(super) struct Terminal {
    inner: ratatui::Terminal<CrosstermBackend<BufWriter<Stderr>>>,
}

impl Terminal {
    /// Takes the terminal: `None` if standard output or error is not one that a picture can be drawn
    /// on, or if this process is in its background.
    pub(super) fn take() -> Option<Terminal> {
        let stderr = io::stderr();
        let is_dumb = env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        // A background process that sets the terminal's modes is stopped for it.
        let in_front = || tcgetpgrp(io::stderr()).is_ok_and(|group| group == getpgrp());
        if is_dumb || !stderr.is_terminal() || !io::stdout().is_terminal() || !in_front() {
            return None;
        }
        let before = tcgetattr(&stderr).ok()?;
        let mut during = before.clone();
        during.local_modes.remove(LocalModes::ECHO);
        during.special_codes[SpecialCodeIndex::VSUSP] = 0;
        restore_on_panic();
        *held(&BEFORE) = Some(before);
        IS_TAKEN.store(true, Ordering::SeqCst);
        let taken = tcsetattr(&stderr, OptionalActions::Now, &during).is_ok()
            && execute!(io::stderr(), EnterAlternateScreen, Hide).is_ok();
        let backend = CrosstermBackend::new(BufWriter::new(stderr));
        let inner = taken.then(|| ratatui::Terminal::new(backend).ok()).flatten();
        if inner.is_none() {
            restore();
        }
        inner.map(|inner| Terminal { inner })
    }

    /// Draws one picture, unless the terminal was given back already.
    pub(super) fn draw(&mut self, picture: impl FnOnce(&mut Frame<'_>)) {
        let _drawing = held(&DRAWING);
        if IS_TAKEN.load(Ordering::SeqCst) {
            // A terminal that went away has nobody to tell.
            let _ = self.inner.draw(picture);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether the view has the terminal.
pub fn is_taken() -> bool {
    IS_TAKEN.load(Ordering::SeqCst)
}

/// Gives the terminal back; nothing if it is not taken. For every way out of the process.
pub fn restore() {
    let before = held(&BEFORE).take();
    let Some(before) = before else { return };
    IS_TAKEN.store(false, Ordering::SeqCst);
    let _drawing = drawn();
    // There is no better terminal to say on that this one failed.
    let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
    let _ = tcsetattr(io::stderr(), OptionalActions::Now, &before);
    let _ = io::stderr().flush();
}

/// Waits until no picture is being drawn.
fn drawn() -> Option<MutexGuard<'static, ()>> {
    let deadline = Instant::now() + DRAWING_TIME_MAX;
    loop {
        match DRAWING.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A panic's message is written before anything is unwound: it must not land on the view.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let say = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            say(info);
        }));
    });
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const OWN: &str = "a_panic_gives_the_terminal_back_before_it_speaks";
    const ON_A_TERMINAL: &str = "ACKMARK_TEST_ON_A_TERMINAL";

    /// Runs itself once more, on a terminal.
    #[test]
    fn a_panic_gives_the_terminal_back_before_it_speaks() {
        if env::var_os(ON_A_TERMINAL).is_some() {
            let _taken = Terminal::take().expect("a terminal to draw on");
            panic!("on purpose");
        }
        let program = env::current_exe().expect("this test's own file");
        let itself = format!("{} {OWN} --nocapture --test-threads=1", program.display());
        let output = Command::new("script")
            .args(["--quiet", "--command", &itself, "/dev/null"])
            .env(ON_A_TERMINAL, "yes")
            .env("TERM", "xterm")
            .stdin(Stdio::null())
            .output()
            .expect("script is part of every Linux");
        let told = String::from_utf8_lossy(&output.stdout);
        let taken = told.find("\u{1b}[?1049h").expect("it was taken");
        let given_back = told.find("\u{1b}[?1049l").expect("it was given back");
        let said = told.find("on purpose").expect("the panic said so");
        assert!(taken < given_back && given_back < said, "{told}");
    }
}

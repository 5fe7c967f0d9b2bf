//! One node of a cluster over several lives: its process, where it listens, whether it is meant to
//! run.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::measure::clock;
use crate::types::{BrokerId, MonotonicTime};

use super::child::{Child, ChildError, Launch};

/// How long a node may take to obey an order.
const ORDER_PATIENCE: Duration = Duration::from_secs(30);
/// How long a node whose disk was made to fail may take until it notices and ends.
const FAILURE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at one that is to end.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// One node. Dropping it kills its process.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: BrokerId,
    launch: Launch,
    state: State,
    /// Where it listens, or did when it last ran.
    address: Option<SocketAddr>,
}

#[derive(Debug)]
enum State {
    Running(Child),
    /// By SIGSTOP.
    Paused(Child),
    /// Asked to stop, or made to fail; perhaps over.
    Stopping(Child),
    Down,
}

impl Member {
    /// Starts the process; it is not waited for: see [`Member::listen`].
    pub(super) fn start(id: BrokerId, launch: Launch) -> Result<Member, ChildError> {
        let child = Child::start(launch.clone())?;
        Ok(Member { id, launch, state: State::Running(child), address: None })
    }

    /// Waits until it says where it listens, if it runs and has not said so yet.
    pub(super) fn listen(&mut self, patience: Duration) -> Result<(), ChildError> {
        if let (State::Running(child), None) = (&mut self.state, self.address) {
            self.address = Some(child.listening(patience)?);
        }
        Ok(())
    }

    /// Takes note of where it listens if it said so by now, and of the end of one that was to end.
    pub(super) fn look(&mut self) {
        if let State::Stopping(child) = &mut self.state
            && child.check_running().is_err()
        {
            self.address = None;
        }
        if let (State::Running(child), None) = (&mut self.state, self.address) {
            self.address = child.has_announced();
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.launch.name
    }

    /// Where its process, which may be paused or about to end, still listens.
    pub(super) fn listens_at(&self) -> Option<SocketAddr> {
        self.address.filter(|_| !matches!(self.state, State::Down))
    }

    /// Where it listens, if it runs and answers.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.address.filter(|_| self.is_up())
    }

    /// Whether it runs, as far as was done to it from here.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Running(_))
    }

    fn child(&self) -> Option<&Child> {
        match &self.state {
            State::Running(child) | State::Paused(child) | State::Stopping(child) => Some(child),
            State::Down => None,
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child().map(Child::pid)
    }

    /// Whether it still runs, if it is meant to.
    pub(super) fn check_running(&mut self) -> Result<(), ChildError> {
        match &mut self.state {
            State::Running(child) | State::Paused(child) => child.check_running(),
            State::Stopping(_) | State::Down => Ok(()),
        }
    }

    /// SIGKILL. Gives the instant.
    pub(super) fn kill(&mut self) -> MonotonicTime {
        let at = clock::now();
        // Dropping a child kills it and waits for its end.
        self.state = State::Down;
        at
    }

    /// SIGSTOP. Gives the instant.
    pub(super) fn pause(&mut self) -> MonotonicTime {
        self.change(|state| match state {
            State::Running(mut child) => {
                child.pause();
                State::Paused(child)
            }
            other => other,
        })
    }

    /// SIGCONT. Gives the instant.
    pub(super) fn resume(&mut self) -> MonotonicTime {
        self.change(|state| match state {
            State::Paused(mut child) => {
                child.resume();
                State::Running(child)
            }
            other => other,
        })
    }

    /// SIGTERM; returns at once. Gives the instant.
    pub(super) fn ask_to_stop(&mut self) -> MonotonicTime {
        self.resume();
        self.change(|state| match state {
            State::Running(mut child) => {
                child.ask_to_stop();
                State::Stopping(child)
            }
            other => other,
        })
    }

    fn change(&mut self, to: impl FnOnce(State) -> State) -> MonotonicTime {
        self.state = to(std::mem::replace(&mut self.state, State::Down));
        clock::now()
    }

    /// Waits for the end of a node that was asked to stop, kills it at `deadline`; a complaint if
    /// it did not end in an orderly way.
    pub(super) fn stopped(&mut self, deadline: Instant) -> Option<String> {
        let State::Stopping(child) = std::mem::replace(&mut self.state, State::Down) else {
            return None;
        };
        child.stopped(deadline)
    }

    /// Its process if there is one, on its way again if it was paused.
    pub(super) fn into_child(mut self) -> Option<Child> {
        self.resume();
        match self.state {
            State::Running(child) | State::Paused(child) | State::Stopping(child) => Some(child),
            State::Down => None,
        }
    }

    /// Gives the node an order and waits until it is obeyed. Gives the instant.
    pub(super) fn order(&mut self, line: &str) -> Result<MonotonicTime, ChildError> {
        match &mut self.state {
            State::Running(child) => child.order(line, ORDER_PATIENCE)?,
            State::Paused(_) | State::Stopping(_) | State::Down => {}
        }
        Ok(clock::now())
    }

    /// Its end is expected from now on: it was made to fail.
    pub(super) fn expect_end(&mut self) {
        self.change(|state| match state {
            State::Running(child) => State::Stopping(child),
            other => other,
        });
    }

    /// How a node that was made to fail ended, in its own words; kills one that did not.
    pub(super) fn failed(&mut self) -> String {
        let State::Stopping(mut child) = std::mem::replace(&mut self.state, State::Down) else {
            return "it was down".to_owned();
        };
        let deadline = Instant::now() + FAILURE_PATIENCE;
        while child.check_running().is_ok() && Instant::now() < deadline {
            thread::sleep(LOOK_AGAIN);
        }
        match child.check_running() {
            Err(error) => {
                let words = error.to_string();
                let (first, last) = (words.lines().next(), words.lines().next_back());
                format!("{} {}", first.unwrap_or_default(), last.unwrap_or_default().trim())
            }
            Ok(()) => "it did not end by itself, and was killed".to_owned(),
        }
    }

    /// Starts a node that is down, on its old data; returns at once. Gives the instant.
    pub(super) fn restart(&mut self) -> Result<MonotonicTime, ChildError> {
        let at = clock::now();
        if let State::Down = self.state {
            self.address = None;
            self.state = State::Running(Child::start(self.launch.clone())?);
        }
        Ok(at)
    }
}

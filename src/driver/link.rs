//! One connection to one broker that is meant to stay up: opened, and reopened after a pause.
//!
//! Leaves to others what is sent over it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::engine::{ConnectionId, Io};
use crate::types::MonotonicTime;

/// Pause before a lost connection is tried again: long enough not to burn the CPU that a restarting
/// broker needs, short against any outage worth reporting.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down { retry_at: MonotonicTime },
    Connecting(ConnectionId),
    Up(ConnectionId),
}

/// A connection to `address`.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    state: State,
    next_correlation_id: i32,
}

impl Link {
    /// Starts to connect.
    pub fn open(io: &mut dyn Io, address: SocketAddr) -> Link {
        let state = State::Connecting(io.connect(address));
        Link { address, state, next_correlation_id: 0 }
    }

    /// Where to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether `connection` is this link's present one.
    pub fn owns(&self, connection: ConnectionId) -> bool {
        match self.state {
            State::Connecting(own) | State::Up(own) => own == connection,
            State::Down { .. } => false,
        }
    }

    /// The connection, if it can carry requests now.
    pub fn up(&self) -> Option<ConnectionId> {
        match self.state {
            State::Up(connection) => Some(connection),
            State::Connecting(_) | State::Down { .. } => None,
        }
    }

    /// The engine says that the connection is up.
    pub fn on_connected(&mut self) {
        if let State::Connecting(connection) = self.state {
            self.state = State::Up(connection);
        }
    }

    /// The next reopening goes to `address` instead.
    pub fn redirect(&mut self, address: SocketAddr) {
        self.address = address;
    }

    /// It listens at `address` now. If that is elsewhere and the connection is down, the pause after
    /// an attempt at the old place has no meaning any more.
    pub fn moved_to(&mut self, address: SocketAddr) {
        if address != self.address
            && let State::Down { retry_at } = &mut self.state
        {
            *retry_at = MonotonicTime::ZERO;
        }
        self.redirect(address);
    }

    /// The engine says that the connection is gone.
    pub fn on_closed(&mut self, now: MonotonicTime) {
        self.state = State::Down { retry_at: now.plus(RECONNECT_PAUSE) };
    }

    /// Gives the connection up: it is closed, and reopened after the pause.
    pub fn give_up(&mut self, io: &mut dyn Io, now: MonotonicTime) {
        if let State::Connecting(connection) | State::Up(connection) = self.state {
            io.close(connection);
        }
        self.on_closed(now);
    }

    /// Reopens if the pause is over.
    pub fn reopen_if_due(&mut self, io: &mut dyn Io, now: MonotonicTime) {
        if self.reopen_at().is_some_and(|at| at <= now) {
            self.state = State::Connecting(io.connect(self.address));
        }
    }

    /// When [`Link::reopen_if_due`] has something to do.
    pub fn reopen_at(&self) -> Option<MonotonicTime> {
        match self.state {
            State::Down { retry_at } => Some(retry_at),
            State::Connecting(_) | State::Up(_) => None,
        }
    }

    /// A correlation id that no unanswered request of this link has.
    pub fn correlation_id(&mut self) -> i32 {
        let id = self.next_correlation_id;
        self.next_correlation_id = id.wrapping_add(1) & i32::MAX;
        id
    }
}

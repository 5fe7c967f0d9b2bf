//! Connections: accepting, reading frames, sending, and ending. Each operation's completion comes back
//! to the function named after what happened.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use io_uring::{opcode, types};

use super::Uring;
use super::operation::Operation;
use crate::engine::framing::{FrameReader, SendQueue};
use crate::engine::{CloseReason, ConnectionId, Event, socket};
use crate::types::MonotonicTime;

/// Wait after an accept that failed for want of resources.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
/// Pieces handed to one `sendmsg`; more simply take another call.
const SEND_PIECES_MAX: usize = 64;

/// The slot is in the low bits, the number of the opening above them: unique, yet found in one step.
pub(super) const CONNECTION_SLOT_BITS: u32 = 20;

/// A slot number no connection ever has.
pub(super) const NO_SLOT: usize = (1 << CONNECTION_SLOT_BITS) - 1;

pub(super) fn slot_of(connection: ConnectionId) -> usize {
    connection.0 as usize & NO_SLOT
}

/// One connection. It lives until no operation in flight refers to it.
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    socket: OwnedFd,
    reader: FrameReader,
    pub(super) queue: SendQueue,
    /// Set once the connection can carry data.
    is_up: bool,
    /// No more reads are started while set.
    pub(super) is_paused: bool,
    receive_in_flight: bool,
    pub(super) poll_in_flight: bool,
    /// `close` was called: end as soon as the queue is empty.
    pub(super) closes_when_sent: bool,
    /// The app has been told; only operations in flight keep the slot.
    is_closed: bool,
    pub(super) last_progress: MonotonicTime,
}

impl Uring {
    pub(super) fn accept_next(&mut self, listener: RawFd) {
        let accept =
            opcode::Accept::new(types::Fd(listener), std::ptr::null_mut(), std::ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build();
        let key = self.operations.start(Operation::Accept { listener });
        self.ring.push(accept, key);
    }

    pub(super) fn accepted(&mut self, listener: RawFd, result: i32, now: MonotonicTime) {
        if result >= 0 {
            // SAFETY: a non-negative accept result is a new descriptor nobody else owns.
            let socket = unsafe { OwnedFd::from_raw_fd(result) };
            if socket::set_no_delay(&socket).is_ok() {
                let connection = self.add_connection(socket, now);
                self.events.push_back(Event::Accepted { connection });
                self.come_up(connection);
            }
        }
        match -result {
            // Out of descriptors or memory: at once it would only fail again.
            libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => {
                self.accepts_paused.push(listener);
                self.wake_for_housekeeping(now.plus(ACCEPT_PAUSE));
            }
            _ => self.accept_next(listener),
        }
    }

    pub(super) fn add_connection(&mut self, socket: OwnedFd, now: MonotonicTime) -> ConnectionId {
        let slot = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections_opened += 1;
        let id = ConnectionId(self.connections_opened << CONNECTION_SLOT_BITS | slot as u64);
        self.connections[slot] = Some(Connection {
            id,
            socket,
            reader: FrameReader::new(self.limits.frame_bytes_max),
            queue: SendQueue::new(),
            is_up: false,
            is_paused: false,
            receive_in_flight: false,
            poll_in_flight: false,
            closes_when_sent: false,
            is_closed: false,
            last_progress: now,
        });
        id
    }

    pub(super) fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(slot_of(id))?.as_mut().filter(|connection| connection.id == id)
    }

    pub(super) fn open_connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connection(id).filter(|connection| !connection.is_closed)
    }

    pub(super) fn connected(&mut self, id: ConnectionId, result: i32, now: MonotonicTime) {
        let Some(connection) = self.connection(id) else { return };
        connection.poll_in_flight = false;
        if connection.is_closed {
            self.free_if_idle(id);
        } else if result < 0 {
            self.finish_connection(id, CloseReason::Error(io::Error::from_raw_os_error(-result)));
        } else {
            connection.last_progress = now;
            self.events.push_back(Event::Connected { connection: id });
            self.come_up(id);
        }
    }

    fn come_up(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connection(id) {
            connection.is_up = true;
        }
        self.receive_next(id);
        self.flush(id);
    }

    pub(super) fn receive_next(&mut self, id: ConnectionId) {
        let Some(connection) = self.open_connection(id) else { return };
        if connection.receive_in_flight || connection.is_paused || !connection.is_up {
            return;
        }
        let spare = connection.reader.spare();
        let receive = opcode::Recv::new(
            types::Fd(connection.socket.as_raw_fd()),
            spare.as_mut_ptr().cast(),
            u32::try_from(spare.len()).unwrap_or(u32::MAX),
        )
        .build();
        connection.receive_in_flight = true;
        let key = self.operations.start(Operation::Receive { connection: id });
        self.ring.push(receive, key);
    }

    pub(super) fn received(&mut self, id: ConnectionId, result: i32, now: MonotonicTime) {
        let Some(connection) = self.connection(id) else { return };
        connection.receive_in_flight = false;
        if connection.is_closed {
            self.free_if_idle(id);
            return;
        }
        let Ok(length) = usize::try_from(result) else {
            match -result {
                libc::EINTR | libc::EAGAIN => self.receive_next(id),
                error => self
                    .finish_connection(id, CloseReason::Error(io::Error::from_raw_os_error(error))),
            }
            return;
        };
        if length == 0 {
            self.finish_connection(id, CloseReason::Orderly);
            return;
        }
        connection.last_progress = now;
        // SAFETY: the kernel has written `length` bytes into the spare room it was given.
        unsafe { connection.reader.received(length) };
        self.deliver_frames(id, now);
        self.receive_next(id);
    }

    fn deliver_frames(&mut self, id: ConnectionId, now: MonotonicTime) {
        while let Some(connection) = self.open_connection(id) {
            match connection.reader.next_frame() {
                Ok(Some(frame)) => {
                    self.events.push_back(Event::Frame { connection: id, frame, received: now });
                }
                Ok(None) => {
                    if connection.reader.is_mid_frame() {
                        self.wake_for_housekeeping(now.plus(self.limits.half_frame_idle_max));
                    }
                    return;
                }
                Err(length) => {
                    self.finish_connection(id, CloseReason::BadFrameLength(length));
                }
            }
        }
    }

    pub(super) fn flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.open_connection(id) else { return };
        if !connection.is_up || connection.poll_in_flight {
            return;
        }
        while !connection.queue.is_empty() {
            let mut pieces = [io::IoSlice::new(&[]); SEND_PIECES_MAX];
            let count = connection.queue.io_slices(&mut pieces);
            let sent = socket::send_now(&connection.socket, &pieces[..count]);
            match sent {
                Ok(0) => return self.wait_until_writable(id),
                Ok(length) => connection.queue.advance(length),
                Err(error) => return self.finish_connection(id, CloseReason::Error(error)),
            }
        }
        if connection.closes_when_sent {
            self.finish_connection(id, CloseReason::Orderly);
        }
    }

    fn wait_until_writable(&mut self, id: ConnectionId) {
        let Some(connection) = self.open_connection(id) else { return };
        connection.poll_in_flight = true;
        let poll =
            opcode::PollAdd::new(types::Fd(connection.socket.as_raw_fd()), libc::POLLOUT as u32)
                .build();
        let key = self.operations.start(Operation::Writable { connection: id });
        self.ring.push(poll, key);
    }

    pub(super) fn writable(&mut self, id: ConnectionId, now: MonotonicTime) {
        let Some(connection) = self.connection(id) else { return };
        connection.poll_in_flight = false;
        if connection.is_closed {
            self.free_if_idle(id);
        } else {
            connection.last_progress = now;
            self.flush(id);
        }
    }

    /// Tells the app and lets go of the socket as soon as nothing in flight uses it.
    pub(super) fn finish_connection(&mut self, id: ConnectionId, reason: CloseReason) {
        let Some(connection) = self.open_connection(id) else { return };
        connection.is_closed = true;
        connection.queue.clear();
        socket::shut_down(&connection.socket);
        self.events.push_back(Event::Closed { connection: id, reason });
        self.free_if_idle(id);
    }

    fn free_if_idle(&mut self, id: ConnectionId) {
        let idle = self
            .connection(id)
            .is_some_and(|c| c.is_closed && !c.receive_in_flight && !c.poll_in_flight);
        if idle {
            self.connections[slot_of(id)] = None;
        }
    }

    /// Ends connections stuck in the middle of a frame, or closing towards a peer that does not read.
    pub(super) fn close_idle(&mut self, now: MonotonicTime) {
        for slot in 0..self.connections.len() {
            let Some(connection) = &self.connections[slot] else { continue };
            let is_stuck = connection.reader.is_mid_frame() || connection.closes_when_sent;
            if connection.is_closed || !is_stuck || connection.is_paused {
                continue;
            }
            let (id, due) =
                (connection.id, connection.last_progress.plus(self.limits.half_frame_idle_max));
            if due <= now {
                self.finish_connection(id, CloseReason::Idle);
            } else {
                self.wake_for_housekeeping(due);
            }
        }
    }
}

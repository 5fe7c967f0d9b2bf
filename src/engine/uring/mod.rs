//! The `uring` engine: one io_uring per shard carries disk, sockets, wake-ups and the deadline.
//!
//! Hot path: one `io_uring_enter` per batch of events (it submits, waits and carries the timeout),
//! inline `sendmsg` for answers, no lock, no allocation per frame beyond the read buffer. It sleeps
//! in the kernel whenever there is nothing to do; it never spins.

mod connections;
mod operation;
mod ring;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use io_uring::{opcode, types};

use self::connections::{CONNECTION_SLOT_BITS, Connection, NO_SLOT, slot_of};
use self::operation::{Operation, Operations};
use self::ring::Ring;
use super::helper::{self, Helper};
use super::{
    App, CloseReason, ConnectionId, EngineError, Event, FileId, Io, Limits, OperationId, Route,
    Waker, Write, affinity, socket,
};
use crate::measure::clock;
use crate::types::{MonotonicTime, Sync};

/// Which io_uring set-up was obtained, for the report.
pub use self::ring::SetupFlags;

/// Hosts `app` on the calling thread until it is finished, pinned to `cpu` if one is given, and
/// gives it back.
pub fn run<A: App>(mut app: A, limits: Limits, cpu: Option<usize>) -> Result<A, EngineError> {
    if let Some(cpu) = cpu {
        affinity::pin_to(cpu).map_err(|source| failed("sched_setaffinity", source))?;
    }
    let mut uring = Uring::new(limits)?;
    match catch_unwind(AssertUnwindSafe(|| host(&mut app, &mut uring))) {
        Ok(hosted) => hosted.and_then(|()| uring.shut_down()).map(|()| app),
        Err(panic) => {
            // The kernel may still write into the buffers of what is in flight.
            std::mem::forget(uring);
            Err(EngineError::panicked("uring", &*panic))
        }
    }
}

fn host<A: App>(app: &mut A, uring: &mut Uring) -> Result<(), EngineError> {
    app.start(uring);
    loop {
        while let Some(event) = uring.events.pop_front() {
            app.on_event(uring, event);
        }
        app.on_batch_end(uring);
        if !uring.events.is_empty() {
            continue;
        }
        if app.is_finished() {
            return Ok(());
        }
        uring.turn(app.deadline())?;
    }
}

/// What the kernel grants here, without starting anything.
pub fn probe() -> Result<SetupFlags, EngineError> {
    Ring::new().map(|ring| ring.flags())
}

fn failed(operation: &'static str, source: io::Error) -> EngineError {
    EngineError::Io { engine: "uring", operation, source }
}

struct File {
    file: OwnedFd,
    in_flight: usize,
    closes_when_idle: bool,
    is_direct: bool,
}

struct Uring {
    ring: Ring,
    limits: Limits,
    operations: Operations,
    connections: Vec<Option<Connection>>,
    connections_opened: u64,
    /// Before `files`, since fields are dropped in order: its drop waits for the writes handed over,
    /// and their descriptors must stay open until then.
    helper: Option<Helper>,
    files: Vec<Option<File>>,
    events: VecDeque<Event>,
    waker: Waker,
    completions: Vec<(u64, i32)>,
    /// Listeners whose last accept failed for want of resources.
    accepts_paused: Vec<RawFd>,
    housekeeping_at: Option<MonotonicTime>,
}

impl Uring {
    fn new(limits: Limits) -> Result<Uring, EngineError> {
        let waker = Waker::new().map_err(|source| failed("eventfd", source))?;
        let mut uring = Uring {
            ring: Ring::new()?,
            limits,
            operations: Operations::new(),
            connections: Vec::new(),
            connections_opened: 0,
            files: Vec::new(),
            events: VecDeque::with_capacity(256),
            waker,
            helper: None,
            completions: Vec::with_capacity(256),
            accepts_paused: Vec::new(),
            housekeeping_at: None,
        };
        uring.watch_waker();
        Ok(uring)
    }

    /// Submits what is queued, sleeps until something happens or `deadline`, and turns completions
    /// into events.
    fn turn(&mut self, deadline: Option<MonotonicTime>) -> Result<(), EngineError> {
        let wake_at = match (deadline, self.housekeeping_at) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.ring.submit_and_wait(wake_at.map(|at| at.since(clock::now())))?;
        let now = clock::now();
        self.reap(now);
        if deadline.is_some_and(|at| at <= now) {
            self.events.push_back(Event::Deadline);
        }
        if self.housekeeping_at.is_some_and(|at| at <= now) {
            self.housekeeping_at = None;
            for listener in std::mem::take(&mut self.accepts_paused) {
                self.accept_next(listener);
            }
            self.close_idle(now);
        }
        Ok(())
    }

    fn wake_for_housekeeping(&mut self, at: MonotonicTime) {
        self.housekeeping_at = Some(self.housekeeping_at.map_or(at, |known| known.min(at)));
    }

    fn reap(&mut self, now: MonotonicTime) {
        let mut completions = std::mem::take(&mut self.completions);
        self.ring.completions(&mut completions);
        for (key, result) in completions.drain(..) {
            self.complete(key, result, now);
        }
        self.completions = completions;
    }

    fn complete(&mut self, key: u64, result: i32, now: MonotonicTime) {
        let Some(operation) = self.operations.finish(key) else { return };
        match operation {
            Operation::Accept { listener } => self.accepted(listener, result, now),
            Operation::Connect { connection, .. } => self.connected(connection, result, now),
            Operation::Receive { connection } => self.received(connection, result, now),
            Operation::Writable { connection } => self.writable(connection, now),
            Operation::Woken => self.woken(),
            Operation::Write { operation, file, data } => {
                self.release_file(file);
                self.written(operation, outcome(result, data.len()), now);
            }
            Operation::LinkedWrite { sync, data } => {
                self.operations.linked_write_done(sync, outcome(result, data.len()));
            }
            Operation::LinkedSync { operation, file, write } => {
                self.release_file(file);
                // A failed write cancels its sync: the write's error is the cause, the sync's the echo.
                let result = write.unwrap_or(Ok(())).and_then(|()| outcome(result, 0));
                self.written(operation, result, now);
            }
            Operation::Read { operation, file, mut buffer, pad } => {
                self.release_file(file);
                let result = usize::try_from(result)
                    .map_err(|_| io::Error::from_raw_os_error(-result))
                    .map(|length| {
                        let mut bytes = buffer.split_off(pad);
                        bytes.truncate(length);
                        bytes
                    });
                self.events.push_back(Event::Read { operation, result });
            }
        }
    }

    fn written(&mut self, operation: OperationId, result: io::Result<()>, now: MonotonicTime) {
        self.events.push_back(Event::Written { operation, result, completed: now });
    }

    fn woken(&mut self) {
        self.waker.drain();
        let mut done = Vec::new();
        if let Some(helper) = &mut self.helper {
            helper.drain(&mut done);
        }
        for completion in done {
            self.release_file(completion.file);
            self.written(completion.operation, completion.result, completion.completed);
        }
        self.events.push_back(Event::Woken);
        self.watch_waker();
    }

    fn watch_waker(&mut self) {
        let poll =
            opcode::PollAdd::new(types::Fd(self.waker.as_raw_fd()), libc::POLLIN as u32).build();
        let key = self.operations.start(Operation::Woken);
        self.ring.push(poll, key);
    }

    fn use_file(&mut self, file: FileId) -> Option<RawFd> {
        let entry = self.files.get_mut(file.0 as usize)?.as_mut()?;
        if entry.closes_when_idle {
            return None;
        }
        entry.in_flight += 1;
        Some(entry.file.as_raw_fd())
    }

    fn release_file(&mut self, file: FileId) {
        let slot = &mut self.files[file.0 as usize];
        if let Some(entry) = slot {
            entry.in_flight -= 1;
            if entry.closes_when_idle && entry.in_flight == 0 {
                *slot = None;
            }
        }
    }

    fn write_async(&mut self, fd: RawFd, write: Write) {
        let Write { operation, file, position, data, sync, .. } = write;
        let fsync = || opcode::Fsync::new(types::Fd(fd)).flags(types::FsyncFlags::DATASYNC).build();
        if data.is_empty() {
            let key = self.operations.start(Operation::LinkedSync { operation, file, write: None });
            self.ring.push(fsync(), key);
            return;
        }
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let entry = opcode::Write::new(types::Fd(fd), data.as_ptr(), length).offset(position);
        match sync {
            Sync::None | Sync::Dsync => {
                let flags = if sync == Sync::Dsync { libc::RWF_DSYNC } else { 0 };
                let key = self.operations.start(Operation::Write { operation, file, data });
                self.ring.push(entry.rw_flags(flags).build(), key);
            }
            Sync::Fdatasync => {
                let sync_key =
                    self.operations.start(Operation::LinkedSync { operation, file, write: None });
                let write_key =
                    self.operations.start(Operation::LinkedWrite { sync: sync_key, data });
                self.ring.push_linked((entry.build(), write_key), (fsync(), sync_key));
            }
        }
    }

    /// Ends every connection and waits for what is in flight: its buffers belong to the kernel.
    fn shut_down(&mut self) -> Result<(), EngineError> {
        for slot in 0..self.connections.len() {
            if let Some(connection) = &self.connections[slot] {
                let id = connection.id;
                self.finish_connection(id, CloseReason::Orderly);
            }
        }
        // What was handed to the disk gets there; only waiting is cancelled.
        while self.operations.uses_disk() {
            self.discard_completions()?;
        }
        self.ring.cancel_all(&mut self.operations);
        while !self.operations.is_idle() {
            self.discard_completions()?;
        }
        Ok(())
    }

    fn discard_completions(&mut self) -> Result<(), EngineError> {
        self.ring.submit_and_wait(None)?;
        let mut completions = Vec::new();
        self.ring.completions(&mut completions);
        for (key, _) in completions {
            self.operations.finish(key);
        }
        Ok(())
    }
}

fn outcome(result: i32, expected: usize) -> io::Result<()> {
    match usize::try_from(result) {
        Err(_) => Err(io::Error::from_raw_os_error(-result)),
        Ok(length) if length == expected => Ok(()),
        Ok(_) => Err(io::Error::from(io::ErrorKind::WriteZero)),
    }
}

impl Io for Uring {
    fn now(&self) -> MonotonicTime {
        clock::now()
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let (listener, bound) = socket::listener(address)?;
        let fd = self.operations.keep_listener(listener);
        self.accept_next(fd);
        Ok(bound)
    }

    fn connect(&mut self, address: SocketAddr) -> ConnectionId {
        let now = clock::now();
        let stream = match socket::stream(address) {
            Ok(stream) => stream,
            Err(error) => {
                self.connections_opened += 1;
                // A slot number no connection has: nothing but the event below refers to it.
                let id =
                    ConnectionId(self.connections_opened << CONNECTION_SLOT_BITS | NO_SLOT as u64);
                self.events
                    .push_back(Event::Closed { connection: id, reason: CloseReason::Error(error) });
                return id;
            }
        };
        let fd = stream.as_raw_fd();
        let id = self.add_connection(stream, now);
        if let Some(connection) = self.connection(id) {
            connection.poll_in_flight = true;
        }
        let raw = Box::new(socket::RawAddress::new(address));
        let entry = opcode::Connect::new(types::Fd(fd), raw.as_ptr(), raw.length()).build();
        let key = self.operations.start(Operation::Connect { connection: id, _address: raw });
        self.ring.push(entry, key);
        id
    }

    fn send(&mut self, connection: ConnectionId, head: Bytes, payload: &[Bytes]) {
        let Some(open) = self.open_connection(connection) else { return };
        open.queue.push_frame(head, payload);
        self.flush(connection);
    }

    fn unsent_bytes(&self, connection: ConnectionId) -> usize {
        match self.connections.get(slot_of(connection)) {
            Some(Some(open)) if open.id == connection => open.queue.bytes(),
            _ => 0,
        }
    }

    fn pause_reading(&mut self, connection: ConnectionId, paused: bool) {
        let now = clock::now();
        let Some(open) = self.open_connection(connection) else { return };
        open.is_paused = paused;
        open.last_progress = now;
        if !paused {
            self.receive_next(connection);
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        let idle_max = self.limits.half_frame_idle_max;
        let Some(open) = self.open_connection(connection) else { return };
        open.closes_when_sent = true;
        if open.queue.is_empty() {
            self.finish_connection(connection, CloseReason::Orderly);
        } else {
            self.wake_for_housekeeping(clock::now().plus(idle_max));
        }
    }

    fn register_file(&mut self, file: OwnedFd, direct: bool) -> FileId {
        self.files.push(Some(File {
            file,
            in_flight: 0,
            closes_when_idle: false,
            is_direct: direct,
        }));
        FileId(self.files.len() as u64 - 1)
    }

    fn close_file(&mut self, file: FileId) {
        if let Some(slot) = self.files.get_mut(file.0 as usize) {
            match slot {
                Some(entry) if entry.in_flight > 0 => entry.closes_when_idle = true,
                _ => *slot = None,
            }
        }
    }

    fn submit_write(&mut self, write: Write) -> Option<io::Result<()>> {
        let Some(fd) = self.use_file(write.file) else {
            let error = Err(io::Error::from_raw_os_error(libc::EBADF));
            if write.route == Route::Inline {
                return Some(error);
            }
            self.written(write.operation, error, clock::now());
            return None;
        };
        match write.route {
            Route::Inline => {
                let result = helper::perform(&write, fd);
                self.release_file(write.file);
                return Some(result);
            }
            Route::Helper => {
                let helper = match self.helper.take() {
                    Some(helper) => Ok(helper),
                    None => Helper::start(self.waker.clone()),
                };
                match helper {
                    Ok(helper) => self.helper.insert(helper).submit(write, fd),
                    Err(error) => {
                        self.release_file(write.file);
                        self.written(write.operation, Err(error), clock::now());
                    }
                }
            }
            Route::Async => self.write_async(fd, write),
        }
        None
    }

    fn submit_now(&mut self) {
        self.ring.submit();
    }

    fn submit_read(&mut self, operation: OperationId, file: FileId, position: u64, length: usize) {
        let is_direct =
            self.files.get(file.0 as usize).and_then(Option::as_ref).is_some_and(|f| f.is_direct);
        let Some(fd) = self.use_file(file) else {
            let result = Err(io::Error::from_raw_os_error(libc::EBADF));
            self.events.push_back(Event::Read { operation, result });
            return;
        };
        let (mut buffer, pad) = operation::read_buffer(length, is_direct);
        let target = buffer[pad..].as_mut_ptr();
        let entry =
            opcode::Read::new(types::Fd(fd), target, length as u32).offset(position).build();
        let key = self.operations.start(Operation::Read { operation, file, buffer, pad });
        self.ring.push(entry, key);
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

//! What the tasks of one shard share: the event queue, the connections, the files; and [`Io`].

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};

use ::glommio::Task;
use ::glommio::timer::Timer;
use bytes::Bytes;
use futures_io::AsyncRead;

use super::super::helper::{self, Helper};
use super::super::watchdog::TURN_INTERVAL_MAX;
use super::super::{
    CloseReason, ConnectionId, Event, FileId, Io, Limits, OperationId, Route, Waker, Write, socket,
};
use super::connection::{self, Connection};
use super::file::{File, ProbedDevices};
use crate::measure::clock;
use crate::types::{MonotonicTime, Sync};

/// Wake-ups taken off the socket at once: 512 calls of `wake` become one event.
const PULSE_BYTES_MAX: usize = 4096;

pub(super) struct Shard {
    pub(super) limits: Limits,
    events: RefCell<VecDeque<Event>>,
    /// The task that waits for events or, at the end, for tasks.
    sleeper: Cell<Option<task::Waker>>,
    connections: RefCell<BTreeMap<ConnectionId, Rc<Connection>>>,
    connections_opened: Cell<u64>,
    files: RefCell<BTreeMap<FileId, Rc<File>>>,
    files_opened: Cell<u64>,
    probed_devices: ProbedDevices,
    /// Second descriptors of the listening sockets.
    listeners: RefCell<Vec<OwnedFd>>,
    /// Tasks that end by themselves once their connection or operation is done.
    tasks_running: Cell<usize>,
    /// Tasks that run until the shard ends: accepting, watching wake-ups.
    services: RefCell<Vec<Task<()>>>,
    waker: Waker,
    helper: RefCell<Option<Helper>>,
    /// The files of the writes handed to the helper thread, which ends them in order.
    helper_files: RefCell<VecDeque<Rc<File>>>,
}

impl Shard {
    /// Must be called on the executor.
    pub(super) fn new(limits: Limits) -> io::Result<Rc<Shard>> {
        let (waker, watched) = Waker::over_socket()?;
        let shard = Rc::new(Shard {
            limits,
            events: RefCell::default(),
            sleeper: Cell::default(),
            connections: RefCell::default(),
            connections_opened: Cell::new(0),
            files: RefCell::default(),
            files_opened: Cell::new(0),
            probed_devices: ProbedDevices::default(),
            listeners: RefCell::default(),
            tasks_running: Cell::new(0),
            services: RefCell::default(),
            waker,
            helper: RefCell::new(None),
            helper_files: RefCell::default(),
        });
        shard.serve(watch(Rc::clone(&shard), watched, |shard| shard.push(Event::Woken)));
        Ok(shard)
    }

    pub(super) fn push(&self, event: Event) {
        self.events.borrow_mut().push_back(event);
        self.wake_sleeper();
    }

    pub(super) fn take_event(&self) -> Option<Event> {
        self.events.borrow_mut().pop_front()
    }

    pub(super) fn has_events(&self) -> bool {
        !self.events.borrow().is_empty()
    }

    /// Returns when there are events, or for the heartbeat; adds the deadline's event if it has
    /// passed. Lets every runnable task run once in any case.
    pub(super) async fn sleep(&self, deadline: Option<MonotonicTime>) {
        let limit = deadline.map_or(TURN_INTERVAL_MAX, |at| at.since(clock::now()));
        if self.has_events() || limit.is_zero() {
            yield_now().await;
        } else {
            let mut timer = Timer::new(limit.min(TURN_INTERVAL_MAX));
            poll_fn(|context| {
                if self.has_events() || Pin::new(&mut timer).poll(context).is_ready() {
                    return Poll::Ready(());
                }
                self.sleeper.set(Some(context.waker().clone()));
                Poll::Pending
            })
            .await;
        }
        if deadline.is_some_and(|at| at <= clock::now()) {
            self.push(Event::Deadline);
        }
    }

    /// Runs `task` until it ends by itself; the shard's end waits for it.
    pub(super) fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        self.tasks_running.set(self.tasks_running.get() + 1);
        let shard = Rc::clone(self);
        ::glommio::spawn_local(async move {
            task.await;
            shard.tasks_running.set(shard.tasks_running.get() - 1);
            shard.wake_sleeper();
        })
        .detach();
    }

    /// Runs `task` until the shard ends.
    fn serve(&self, task: impl Future<Output = ()> + 'static) {
        self.services.borrow_mut().push(::glommio::spawn_local(task));
    }

    fn wake_sleeper(&self) {
        if let Some(sleeper) = self.sleeper.take() {
            sleeper.wake();
        }
    }

    // --- connections -----------------------------------------------------------------------------

    pub(super) fn add_connection(&self) -> Rc<Connection> {
        let id = ConnectionId(self.connections_opened.get());
        self.connections_opened.set(id.0 + 1);
        let connection = Rc::new(Connection::new(id));
        self.connections.borrow_mut().insert(id, Rc::clone(&connection));
        connection
    }

    /// Tells the app, once, and lets go of the socket.
    pub(super) fn finish(&self, connection: &Connection, reason: CloseReason) {
        if self.connections.borrow_mut().remove(&connection.id).is_some() {
            connection.retire();
            self.push(Event::Closed { connection: connection.id, reason });
        }
    }

    fn connection(&self, id: ConnectionId) -> Option<Rc<Connection>> {
        self.connections.borrow().get(&id).cloned()
    }

    // --- files -----------------------------------------------------------------------------------

    fn file(&self, id: FileId) -> io::Result<Rc<File>> {
        let file = self.files.borrow().get(&id).cloned();
        file.ok_or_else(|| io::Error::from_raw_os_error(libc::EBADF))
    }

    fn written(&self, operation: OperationId, result: io::Result<()>) {
        self.push(Event::Written { operation, result, completed: clock::now() });
    }

    fn write(self: &Rc<Self>, file: Rc<File>, write: Write) {
        match (write.route, write.sync) {
            (Route::Async, _) if file.is_direct => {
                let shard = Rc::clone(self);
                self.spawn(async move {
                    let result = file.write(&write).await;
                    shard.written(write.operation, result);
                    File::release(file).await;
                });
            }
            // A ring would hand a buffered write to a worker thread: pwrite costs a tenth of that.
            (Route::Async, Sync::None) => {
                let result = helper::perform(&write, file.fd.as_raw_fd());
                self.written(write.operation, result);
            }
            _ => self.write_by_helper(file, write),
        }
    }

    fn write_by_helper(self: &Rc<Self>, file: Rc<File>, write: Write) {
        if self.helper.borrow().is_none() {
            let (waker, watched) = match Waker::over_socket() {
                Ok(pair) => pair,
                Err(error) => return self.written(write.operation, Err(error)),
            };
            match Helper::start(waker) {
                Ok(helper) => *self.helper.borrow_mut() = Some(helper),
                Err(error) => return self.written(write.operation, Err(error)),
            }
            self.serve(watch(Rc::clone(self), watched, Shard::take_completions));
        }
        if let Some(helper) = self.helper.borrow_mut().as_mut() {
            helper.submit(write, file.fd.as_raw_fd());
            self.helper_files.borrow_mut().push_back(file);
        }
    }

    fn take_completions(self: &Rc<Self>) {
        let mut done = Vec::new();
        if let Some(helper) = self.helper.borrow_mut().as_mut() {
            helper.drain(&mut done);
        }
        for completion in done {
            self.written(completion.operation, completion.result);
            if let Some(file) = self.helper_files.borrow_mut().pop_front() {
                self.spawn(File::release(file));
            }
        }
    }

    // --- the end ---------------------------------------------------------------------------------

    /// Ends every connection and task; waits for the disk operations in flight, whose buffers
    /// belong to the kernel.
    pub(super) async fn shut_down(self: &Rc<Self>) {
        let connections = std::mem::take(&mut *self.connections.borrow_mut());
        connections.values().for_each(|connection| connection.retire());
        // An accept in the ring would keep the port open after close(2).
        self.listeners.borrow().iter().for_each(socket::shut_down);
        let services = std::mem::take(&mut *self.services.borrow_mut());
        for service in services {
            service.cancel().await;
        }
        drop(self.helper.borrow_mut().take());
        poll_fn(|context| {
            if self.tasks_running.get() == 0 {
                return Poll::Ready(());
            }
            self.sleeper.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
        self.helper_files.borrow_mut().clear();
        let files = std::mem::take(&mut *self.files.borrow_mut());
        for file in files.into_values() {
            File::release(file).await;
        }
    }
}

/// Lets every task that is runnable now run before this one goes on.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Calls `on_wake` whenever a [`Waker`] over a socket was used.
async fn watch(shard: Rc<Shard>, watched: UnixStream, on_wake: fn(&Rc<Shard>)) {
    // SAFETY: the descriptor is a stream socket that was owned by `watched` alone.
    let mut stream =
        unsafe { ::glommio::net::UnixStream::from_raw_fd(OwnedFd::from(watched).into_raw_fd()) };
    let mut pulses = [0_u8; PULSE_BYTES_MAX];
    loop {
        match poll_fn(|context| Pin::new(&mut stream).poll_read(context, &mut pulses)).await {
            Ok(_) => on_wake(&shard),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // A shard that cannot be woken any more must not look like a quiet one.
            Err(error) => panic!("reading the shard's wake-ups: {error}"),
        }
    }
}

impl Io for Rc<Shard> {
    fn now(&self) -> MonotonicTime {
        clock::now()
    }

    fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let (listener, bound) = socket::listener(address)?;
        self.listeners.borrow_mut().push(listener.try_clone()?);
        self.serve(connection::accept(Rc::clone(self), listener));
        Ok(bound)
    }

    fn connect(&mut self, address: SocketAddr) -> ConnectionId {
        let connection = self.add_connection();
        let id = connection.id;
        self.spawn(connection::connect(Rc::clone(self), connection, address));
        id
    }

    fn send(&mut self, connection: ConnectionId, head: Bytes, payload: &[Bytes]) {
        if let Some(connection) = self.connection(connection) {
            connection.send(self, head, payload);
        }
    }

    fn unsent_bytes(&self, connection: ConnectionId) -> usize {
        self.connections.borrow().get(&connection).map_or(0, |it| it.unsent_bytes())
    }

    fn pause_reading(&mut self, connection: ConnectionId, paused: bool) {
        if let Some(connection) = self.connection(connection) {
            connection.pause_reading(paused);
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some(connection) = self.connection(connection) {
            connection.close(self);
        }
    }

    fn register_file(&mut self, file: OwnedFd, direct: bool) -> FileId {
        let id = FileId(self.files_opened.get());
        self.files_opened.set(id.0 + 1);
        let file = File::new(file, direct, Rc::clone(&self.probed_devices));
        self.files.borrow_mut().insert(id, Rc::new(file));
        id
    }

    fn close_file(&mut self, file: FileId) {
        let file = self.files.borrow_mut().remove(&file);
        if let Some(file) = file {
            self.spawn(File::release(file));
        }
    }

    fn submit_write(&mut self, write: Write) -> Option<io::Result<()>> {
        let file = self.file(write.file);
        if write.route == Route::Inline {
            return Some(file.and_then(|file| helper::perform(&write, file.fd.as_raw_fd())));
        }
        match file {
            Ok(file) => Shard::write(self, file, write),
            Err(error) => self.written(write.operation, Err(error)),
        }
        None
    }

    fn submit_read(&mut self, operation: OperationId, file: FileId, position: u64, length: usize) {
        let shard = Rc::clone(self);
        match self.file(file) {
            Err(error) => self.push(Event::Read { operation, result: Err(error) }),
            Ok(file) => self.spawn(async move {
                let result = file.read(position, length).await;
                shard.push(Event::Read { operation, result });
                File::release(file).await;
            }),
        }
    }

    fn waker(&self) -> Waker {
        self.waker.clone()
    }
}

//! One TCP connection: accepting, connecting, the task that reads, the task that writes the rest.
//!
//! Sending is tried at once on the socket itself; only what it does not take waits for the writing
//! task, which is started when that first happens. Both tasks share one glommio stream.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::glommio::net::{Preallocated, TcpListener, TcpStream};
use ::glommio::timer::Timer;
use bytes::Bytes;
use futures_io::{AsyncBufRead, AsyncWrite};

use super::super::framing::{FrameReader, SendQueue};
use super::super::{CloseReason, ConnectionId, Event, socket};
use super::file::io_error;
use super::shard::Shard;
use crate::measure::clock;

/// What one read takes off a socket at most. Above a segment of 64 KiB and a frame around it: a read
/// that fills its buffer costs a pass over the rings.
const READ_BYTES_MAX: usize = 256 * 1024;
/// Pieces handed to one `sendmsg`; more simply take another call.
const SEND_PIECES_MAX: usize = 64;
/// A timer so short that it has expired when glommio looks, which it does only after a pass over its
/// rings.
const RING_PASS: Duration = Duration::from_micros(1);
/// Pause after a failed accept: out of descriptors, the next one would fail at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// For system calls glommio does not offer; set when the connection is up.
    socket: OnceCell<OwnedFd>,
    /// The same socket; there while the connection is up.
    stream: RefCell<Option<TcpStream<Preallocated>>>,
    queue: RefCell<SendQueue>,
    is_paused: Cell<bool>,
    /// `close` was called: ends when the queue is empty.
    is_closing: Cell<bool>,
    /// The app has been told that it ended.
    is_gone: Cell<bool>,
    /// The socket takes no more; the writing task waits until it does.
    is_blocked: Cell<bool>,
    has_writing_task: Cell<bool>,
    reading_task: Cell<Option<Waker>>,
    writing_task: Cell<Option<Waker>>,
}

/// What came of waiting for the socket.
enum Progress {
    /// Bytes were moved; `ring_is_due` when the socket may well have more.
    Moved {
        ring_is_due: bool,
    },
    Ended(CloseReason),
    Gone,
}

impl Connection {
    pub(super) fn new(id: ConnectionId) -> Connection {
        Connection {
            id,
            socket: OnceCell::new(),
            stream: RefCell::new(None),
            queue: RefCell::new(SendQueue::new()),
            is_paused: Cell::new(false),
            is_closing: Cell::new(false),
            is_gone: Cell::new(false),
            is_blocked: Cell::new(false),
            has_writing_task: Cell::new(false),
            reading_task: Cell::new(None),
            writing_task: Cell::new(None),
        }
    }

    pub(super) fn send(self: &Rc<Self>, shard: &Rc<Shard>, head: Bytes, payload: &[Bytes]) {
        self.queue.borrow_mut().push_frame(head, payload);
        self.flush(shard);
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.queue.borrow().bytes()
    }

    pub(super) fn pause_reading(&self, paused: bool) {
        self.is_paused.set(paused);
        wake(&self.reading_task);
    }

    pub(super) fn close(self: &Rc<Self>, shard: &Rc<Shard>) {
        self.is_closing.set(true);
        if self.queue.borrow().is_empty() {
            return shard.finish(self, CloseReason::Orderly);
        }
        // From now on it minds how long the peer takes nothing.
        wake(&self.writing_task);
    }

    /// Ends both directions and both tasks. Called by the shard, which tells the app.
    pub(super) fn retire(&self) {
        self.is_gone.set(true);
        self.queue.borrow_mut().clear();
        // A poll in the ring keeps the socket open after close(2): the peer would learn nothing.
        if let Some(socket) = self.socket.get() {
            socket::shut_down(socket);
        }
        drop(self.stream.borrow_mut().take());
        wake(&self.reading_task);
        wake(&self.writing_task);
    }

    /// Takes over an open stream and its [`own_socket`] and starts to read; `event` tells the app.
    fn come_up(
        self: &Rc<Self>,
        shard: &Rc<Shard>,
        (stream, socket): (TcpStream, OwnedFd),
        event: Event,
    ) {
        let buffered = stream.buffered_with(Preallocated::new(READ_BYTES_MAX));
        *self.stream.borrow_mut() = Some(buffered);
        self.socket.get_or_init(|| socket);
        shard.push(event);
        shard.spawn(read(Rc::clone(shard), Rc::clone(self)));
        self.flush(shard);
    }

    /// Sends what the socket takes now and leaves the rest to the writing task.
    fn flush(self: &Rc<Self>, shard: &Rc<Shard>) {
        let Some(socket) = self.socket.get() else { return };
        if self.is_blocked.get() || self.is_gone.get() {
            return;
        }
        let sent = send_now(socket, &mut self.queue.borrow_mut());
        if let Err(error) = sent {
            return shard.finish(self, CloseReason::Error(error));
        }
        if !self.queue.borrow().is_empty() {
            self.is_blocked.set(true);
            wake(&self.writing_task);
            if !self.has_writing_task.replace(true) {
                shard.spawn(write(Rc::clone(shard), Rc::clone(self)));
            }
        } else if self.is_closing.get() {
            shard.finish(self, CloseReason::Orderly);
        }
    }

    /// Waits for bytes and hands them to `reader`.
    async fn fill(&self, reader: &mut FrameReader, idle_max: Duration) -> Progress {
        let mut idle = None;
        poll_fn(|context| self.poll_fill(context, reader, (&mut idle, idle_max))).await
    }

    fn poll_fill(
        &self,
        context: &mut Context<'_>,
        reader: &mut FrameReader,
        (idle, idle_max): (&mut Option<Timer>, Duration),
    ) -> Poll<Progress> {
        self.reading_task.set(Some(context.waker().clone()));
        let mut stream = self.stream.borrow_mut();
        let Some(stream) = stream.as_mut() else { return Poll::Ready(Progress::Gone) };
        if self.is_paused.get() || self.is_closing.get() {
            *idle = None;
            return Poll::Pending;
        }
        match Pin::new(&mut *stream).poll_fill_buf(context) {
            Poll::Ready(Ok([])) => Poll::Ready(Progress::Ended(CloseReason::Orderly)),
            Poll::Ready(Ok(bytes)) => {
                let length = bytes.len();
                reader.extend(bytes);
                Pin::new(stream).consume(length);
                Poll::Ready(Progress::Moved { ring_is_due: length == READ_BYTES_MAX })
            }
            Poll::Ready(Err(error)) => Poll::Ready(Progress::from(error)),
            Poll::Pending if reader.is_mid_frame() => poll_idle(context, idle, idle_max),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Waits until the socket takes something of the queue again.
    async fn make_room(&self, idle_max: Duration) -> Progress {
        let mut idle = None;
        poll_fn(|context| self.poll_room(context, (&mut idle, idle_max))).await
    }

    fn poll_room(
        &self,
        context: &mut Context<'_>,
        (idle, idle_max): (&mut Option<Timer>, Duration),
    ) -> Poll<Progress> {
        self.writing_task.set(Some(context.waker().clone()));
        let mut stream = self.stream.borrow_mut();
        let Some(stream) = stream.as_mut() else { return Poll::Ready(Progress::Gone) };
        if !self.is_blocked.get() {
            return Poll::Pending;
        }
        let mut queue = self.queue.borrow_mut();
        let mut first = [IoSlice::new(&[])];
        queue.io_slices(&mut first);
        match Pin::new(stream).poll_write(context, &first[0]) {
            Poll::Ready(Ok(length)) => {
                queue.advance(length);
                Poll::Ready(Progress::Moved { ring_is_due: false })
            }
            Poll::Ready(Err(error)) => Poll::Ready(Progress::from(error)),
            Poll::Pending if self.is_closing.get() => poll_idle(context, idle, idle_max),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl From<io::Error> for Progress {
    fn from(error: io::Error) -> Progress {
        match error.kind() {
            io::ErrorKind::Interrupted => Progress::Moved { ring_is_due: false },
            _ => Progress::Ended(CloseReason::Error(error)),
        }
    }
}

/// Ends the connection when `idle` has run out, counted from the first call.
fn poll_idle(
    context: &mut Context<'_>,
    idle: &mut Option<Timer>,
    idle_max: Duration,
) -> Poll<Progress> {
    let timer = idle.get_or_insert_with(|| Timer::new(idle_max));
    Pin::new(timer).poll(context).map(|_| Progress::Ended(CloseReason::Idle))
}

fn wake(task: &Cell<Option<Waker>>) {
    if let Some(task) = task.take() {
        task.wake();
    }
}

/// Sends from the front of `queue` until it is empty or the socket takes no more.
fn send_now(socket: &OwnedFd, queue: &mut SendQueue) -> io::Result<()> {
    while !queue.is_empty() {
        let mut pieces = [IoSlice::new(&[]); SEND_PIECES_MAX];
        let count = queue.io_slices(&mut pieces);
        let sent = socket::send_now(socket, &pieces[..count])?;
        if sent == 0 {
            break;
        }
        queue.advance(sent);
    }
    Ok(())
}

/// A second descriptor of the stream's socket, set up as every engine does.
fn own_socket(stream: &TcpStream) -> io::Result<OwnedFd> {
    // glommio accepts without CLOEXEC: child processes would keep the connection open.
    // SAFETY: F_SETFD takes no pointers, and `stream` keeps the descriptor open.
    if unsafe { libc::fcntl(stream.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `stream` keeps the descriptor open for the length of this function.
    let socket = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) }.try_clone_to_owned()?;
    socket::set_no_delay(&socket)?;
    Ok(socket)
}

/// Accepts until it is cancelled.
pub(super) async fn accept(shard: Rc<Shard>, listener: OwnedFd) {
    // SAFETY: the descriptor is a listening socket, and handed over.
    let listener = unsafe { TcpListener::from_raw_fd(listener.into_raw_fd()) };
    loop {
        let accepted = listener.accept().await.map_err(io_error);
        let accepted = accepted.and_then(|stream| own_socket(&stream).map(|own| (stream, own)));
        match accepted {
            Ok(parts) => {
                let connection = shard.add_connection();
                let event = Event::Accepted { connection: connection.id };
                connection.come_up(&shard, parts, event);
            }
            Err(_) => drop(Timer::new(ACCEPT_PAUSE).await),
        }
    }
}

/// Connects, unless the connection is closed first.
pub(super) async fn connect(shard: Rc<Shard>, connection: Rc<Connection>, address: SocketAddr) {
    let mut opening = pin!(TcpStream::connect(address));
    let opened = poll_fn(|context| {
        if connection.is_gone.get() {
            return Poll::Ready(None);
        }
        connection.reading_task.set(Some(context.waker().clone()));
        opening.as_mut().poll(context).map(Some)
    });
    let Some(opened) = opened.await else { return };
    let opened = opened.map_err(io_error);
    match opened.and_then(|stream| own_socket(&stream).map(|own| (stream, own))) {
        Ok(parts) => {
            let event = Event::Connected { connection: connection.id };
            connection.come_up(&shard, parts, event);
        }
        Err(error) => shard.finish(&connection, CloseReason::Error(error)),
    }
}

/// Reads frames until the connection ends.
async fn read(shard: Rc<Shard>, connection: Rc<Connection>) {
    let mut reader = FrameReader::new(shard.limits.frame_bytes_max);
    loop {
        match connection.fill(&mut reader, shard.limits.half_frame_idle_max).await {
            Progress::Gone => return,
            Progress::Ended(reason) => return shard.finish(&connection, reason),
            Progress::Moved { ring_is_due } => {
                if let Err(length) = deliver(&shard, &connection, &mut reader) {
                    return shard.finish(&connection, CloseReason::BadFrameLength(length));
                }
                // A sender that fills every read would keep this task runnable and glommio away
                // from its rings, and thus from the disk's completions.
                if ring_is_due {
                    Timer::new(RING_PASS).await;
                }
            }
        }
    }
}

fn deliver(shard: &Shard, connection: &Connection, reader: &mut FrameReader) -> Result<(), i32> {
    let (connection, received) = (connection.id, clock::now());
    while let Some(frame) = reader.next_frame()? {
        shard.push(Event::Frame { connection, frame, received });
    }
    Ok(())
}

/// Writes what the socket did not take at once, whenever it takes more.
async fn write(shard: Rc<Shard>, connection: Rc<Connection>) {
    loop {
        match connection.make_room(shard.limits.half_frame_idle_max).await {
            Progress::Gone => return,
            Progress::Ended(reason) => return shard.finish(&connection, reason),
            Progress::Moved { .. } => {
                connection.is_blocked.set(false);
                connection.flush(&shard);
            }
        }
    }
}

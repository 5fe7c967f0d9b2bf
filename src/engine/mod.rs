//! One event loop per shard: sockets, disk, wake-ups and one deadline, as events to one [`App`].
//!
//! The boundary is narrow on purpose. An engine moves bytes and knows no rule, no log format and no
//! Kafka message beyond the four-byte length in front of a frame; an [`App`] knows no engine. The
//! same broker, driver and log writer therefore run under every engine in this room.

mod affinity;
mod direct_write;
mod error;
pub mod framing;
pub mod glommio;
pub mod helper;
mod socket;
pub mod uring;
mod waker;
pub mod watchdog;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use bytes::{Bytes, BytesMut};

pub use self::affinity::allowed_cpus;
pub use self::direct_write::passes_page_cache;
pub use self::error::EngineError;
pub use self::waker::Waker;
use crate::types::{MonotonicTime, Sync};

/// A connection; never reused within one engine, so a late event cannot hit a newer connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A file handed to the engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// Chosen by the app, given back with the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// Who runs the blocking calls of a [`Write`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// The engine's asynchronous I/O.
    Async,
    /// The shard's helper thread (one per shard, started at first use).
    Helper,
    /// The shard's own thread, before `submit_write` returns.
    Inline,
}

/// One positioned write and its sync.
#[derive(Debug)]
pub struct Write {
    /// Comes back in [`Event::Written`].
    pub operation: OperationId,
    /// Where to.
    pub file: FileId,
    /// Byte position in the file; block-aligned for files opened with O_DIRECT.
    pub position: u64,
    /// The bytes; may be empty when only a sync is wanted. Memory, position and length are
    /// block-aligned for files opened with O_DIRECT.
    pub data: Bytes,
    /// What follows the bytes.
    pub sync: Sync,
    /// Who makes the calls.
    pub route: Route,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum CloseReason {
    /// The peer closed it, or this side asked to.
    Orderly,
    /// A frame length was negative or above the limit; nothing was allocated for it.
    BadFrameLength(i32),
    /// Nothing arrived in the middle of a frame for longer than the idle limit.
    Idle,
    /// The socket failed.
    Error(io::Error),
}

/// What an engine tells its app.
#[derive(Debug)]
pub enum Event {
    /// The deadline the app gave has passed.
    Deadline,
    /// Another thread called [`Waker::wake`] (several calls may become one event).
    Woken,
    /// A peer connected to `listener`'s address.
    Accepted {
        /// The new connection; it is read from at once.
        connection: ConnectionId,
    },
    /// A connection asked for with [`Io::connect`] is up; it is read from at once.
    Connected {
        /// The connection.
        connection: ConnectionId,
    },
    /// One whole frame, without its length prefix.
    Frame {
        /// Where it came from.
        connection: ConnectionId,
        /// The frame's bytes; freezing them costs no copy.
        frame: BytesMut,
        /// When the read that completed the frame came back.
        received: MonotonicTime,
    },
    /// The connection is gone (also the answer to a connect that failed). No event follows for it.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
    /// A write is done. Completions may come out of order.
    Written {
        /// As given.
        operation: OperationId,
        /// A short write is an error here, never a silent success.
        result: io::Result<()>,
        /// When the completion was seen.
        completed: MonotonicTime,
    },
    /// A read is done.
    Read {
        /// As given.
        operation: OperationId,
        /// The bytes read; shorter than asked for only at the end of the file.
        result: io::Result<BytesMut>,
    },
}

/// Limits an app sets once.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest frame accepted (Kafka `socket.request.max.bytes`).
    pub frame_bytes_max: usize,
    /// A half-received frame with no progress for this long closes the connection.
    pub half_frame_idle_max: std::time::Duration,
}

/// A program that lives on one shard.
///
/// Hot path: an app must not block, and must not allocate per record.
pub trait App {
    /// Called once, on the shard's thread, before any event.
    fn start(&mut self, io: &mut dyn Io);
    /// Handles one event.
    fn on_event(&mut self, io: &mut dyn Io, event: Event);
    /// Called after every batch of events: the place to start what the batch made possible, such
    /// as the next commit group.
    fn on_batch_end(&mut self, io: &mut dyn Io);
    /// When [`Event::Deadline`] is wanted; asked before every sleep.
    fn deadline(&self) -> Option<MonotonicTime>;
    /// Whether the loop should return; asked before every sleep.
    fn is_finished(&self) -> bool;
}

/// What an engine does for its app. All methods return at once (but for [`Route::Inline`]).
pub trait Io {
    /// A fresh reading of the one monotonic clock.
    fn now(&self) -> MonotonicTime;
    /// Listens on `address` (port 0 picks one) with SO_REUSEPORT, so that each shard of a process
    /// accepts its share; returns the bound address.
    fn listen(&mut self, address: SocketAddr) -> io::Result<SocketAddr>;
    /// Starts to connect; ends with [`Event::Connected`] or [`Event::Closed`].
    fn connect(&mut self, address: SocketAddr) -> ConnectionId;
    /// Sends one frame: the engine puts the length in front, then `head`, then `payload` in order.
    /// What the socket does not take at once is queued; see [`Io::unsent_bytes`]. Ignored for a
    /// connection that is gone.
    fn send(&mut self, connection: ConnectionId, head: Bytes, payload: &[Bytes]);
    /// Bytes queued because the socket did not take them.
    fn unsent_bytes(&self, connection: ConnectionId) -> usize;
    /// Stops or resumes reading from a connection (backpressure). Frames already read whole are
    /// still delivered.
    fn pause_reading(&mut self, connection: ConnectionId, paused: bool);
    /// Closes after what is queued was sent, or at once if the peer does not take it.
    fn close(&mut self, connection: ConnectionId);
    /// Gives a file to the engine. `direct` says it was opened with O_DIRECT.
    fn register_file(&mut self, file: OwnedFd, direct: bool) -> FileId;
    /// Closes the file once its operations in flight are done.
    fn close_file(&mut self, file: FileId);
    /// Starts a write. [`Event::Written`] follows in all cases, but for [`Route::Inline`]: its
    /// result is returned here and no event follows.
    fn submit_write(&mut self, write: Write) -> Option<io::Result<()>>;
    /// Hands what was submitted to the kernel now; otherwise that happens once the app has handled
    /// the whole batch of events. Nothing to do for an engine that hands over at once.
    fn submit_now(&mut self) {}
    /// Starts a read of `length` bytes at `position` (aligned as for writes if the file is direct).
    fn submit_read(&mut self, operation: OperationId, file: FileId, position: u64, length: usize);
    /// A handle other threads use to deliver [`Event::Woken`].
    fn waker(&self) -> Waker;
}

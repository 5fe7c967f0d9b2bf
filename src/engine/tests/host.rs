//! An app that does what the test's thread tells it and tells what it sees.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, bounded, unbounded};

use super::{LIMITS, Run};
use crate::engine::{App, ConnectionId, EngineError, Event, Io, Limits, Waker};
use crate::types::MonotonicTime;

/// Long enough for a busy machine; a test that waits this long has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

type Command = Box<dyn FnOnce(&mut Remote, &mut dyn Io) + Send>;

/// The app.
pub(super) struct Remote {
    commands: Receiver<Command>,
    events: Sender<Event>,
    wakers: Sender<Waker>,
    pub(super) deadline: Option<MonotonicTime>,
    pub(super) is_finished: bool,
    batch_is_open: bool,
}

impl App for Remote {
    fn start(&mut self, io: &mut dyn Io) {
        self.wakers.send(io.waker()).unwrap();
    }

    fn on_event(&mut self, io: &mut dyn Io, event: Event) {
        self.batch_is_open = true;
        match event {
            Event::Woken => {
                while let Ok(command) = self.commands.try_recv() {
                    command(self, io);
                }
            }
            Event::Deadline => {
                // One that was taken back in the same batch may still fire.
                if let Some(deadline) = self.deadline.take() {
                    assert!(io.now() >= deadline, "the deadline fired early");
                    self.events.send(event).unwrap();
                }
            }
            other => drop(self.events.send(other)),
        }
    }

    fn on_batch_end(&mut self, _: &mut dyn Io) {
        self.batch_is_open = false;
    }

    fn deadline(&self) -> Option<MonotonicTime> {
        assert!(!self.batch_is_open, "the loop sleeps without having ended its batch");
        self.deadline
    }

    fn is_finished(&self) -> bool {
        self.is_finished
    }
}

/// The test's end of a [`Remote`] that runs on a thread of its own.
pub(super) struct Host {
    commands: Sender<Command>,
    waker: Waker,
    events: Receiver<Event>,
    seen: VecDeque<Event>,
    thread: Option<JoinHandle<Result<Remote, EngineError>>>,
}

impl Host {
    pub(super) fn start(engine: Run) -> Host {
        Host::with_limits(engine, LIMITS)
    }

    pub(super) fn with_limits(engine: Run, limits: Limits) -> Host {
        let (commands, received) = unbounded();
        let (events_out, events) = unbounded();
        let (wakers_out, wakers) = bounded(1);
        let remote = Remote {
            commands: received,
            events: events_out,
            wakers: wakers_out,
            deadline: None,
            is_finished: false,
            batch_is_open: false,
        };
        let thread = thread::spawn(move || engine(remote, limits, None));
        let waker = wakers.recv_timeout(PATIENCE).expect("the engine did not start its app");
        Host { commands, waker, events, seen: VecDeque::new(), thread: Some(thread) }
    }

    /// Runs `command` in the app and gives its result back.
    pub(super) fn call<R: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Remote, &mut dyn Io) -> R + Send + 'static,
    ) -> R {
        let (result_out, result) = bounded(1);
        let run: Command =
            Box::new(move |remote, io| result_out.send(command(remote, io)).unwrap());
        self.commands.send(run).unwrap();
        self.waker.wake();
        result.recv_timeout(PATIENCE).expect("the app was not woken")
    }

    /// The first event, seen already or still to come, that `select` takes; others stay.
    pub(super) fn wait<R>(&mut self, mut select: impl FnMut(&mut Event) -> Option<R>) -> R {
        for index in 0..self.seen.len() {
            if let Some(result) = select(&mut self.seen[index]) {
                self.seen.remove(index);
                return result;
            }
        }
        loop {
            let mut event =
                self.events.recv_timeout(PATIENCE).expect("the event awaited did not come");
            if let Some(result) = select(&mut event) {
                return result;
            }
            self.seen.push_back(event);
        }
    }

    /// Waits until the app sees `condition`.
    pub(super) fn wait_until(
        &self,
        condition: impl Fn(&mut dyn Io) -> bool + Clone + Send + 'static,
    ) {
        let start = std::time::Instant::now();
        loop {
            let condition = condition.clone();
            if self.call(move |_, io| condition(io)) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "the condition awaited did not come true");
            thread::yield_now();
        }
    }

    /// Ends the app and the engine; gives back the events nobody waited for.
    pub(super) fn finish(self) -> Vec<Event> {
        self.call(|remote, _| remote.is_finished = true);
        self.join()
    }

    /// Waits for the end of an app that was told to finish.
    pub(super) fn join(mut self) -> Vec<Event> {
        let thread = self.thread.take().expect("it is taken only here");
        if let Err(error) = thread.join().expect("the engine panicked") {
            panic!("the engine ended with: {error}");
        }
        self.seen.extend(self.events.try_iter());
        self.seen.drain(..).collect()
    }

    // --- connections -----------------------------------------------------------------------------

    pub(super) fn listen(&self) -> SocketAddr {
        self.call(|_, io| io.listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))).unwrap()
    }

    pub(super) fn accepted(&mut self) -> ConnectionId {
        self.wait(|event| match event {
            Event::Accepted { connection } => Some(*connection),
            _ => None,
        })
    }

    /// A plain blocking socket to the host, and the host's name for it.
    pub(super) fn peer(&mut self) -> (TcpStream, ConnectionId) {
        let address = self.listen();
        self.peer_of(address)
    }

    pub(super) fn peer_of(&mut self, address: SocketAddr) -> (TcpStream, ConnectionId) {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        (stream, self.accepted())
    }

    pub(super) fn frame_from(&mut self, from: ConnectionId) -> Vec<u8> {
        self.wait(|event| match event {
            Event::Frame { connection, frame, .. } if *connection == from => Some(frame.to_vec()),
            Event::Closed { connection, reason } if *connection == from => {
                panic!("closed ({reason:?}) while a frame was awaited")
            }
            _ => None,
        })
    }

    /// Frames of a connection that came without being waited for.
    pub(super) fn frames_seen(&mut self, from: ConnectionId) -> usize {
        self.seen.extend(self.events.try_iter());
        let is_from = |event: &&Event| matches!(event, Event::Frame { connection, .. } if *connection == from);
        self.seen.iter().filter(is_from).count()
    }

    pub(super) fn send(&self, to: ConnectionId, frame: Vec<u8>) {
        self.call(move |_, io| io.send(to, frame.into(), &[]));
    }

    pub(super) fn echo_one(&mut self, connection: ConnectionId) {
        let frame = self.frame_from(connection);
        self.send(connection, frame);
    }
}

impl Drop for Host {
    /// Ends the engine of a test that has failed; its thread ends by itself.
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.commands.send(Box::new(|remote, _| remote.is_finished = true));
            self.waker.wake();
        }
    }
}

//! The harness's own TCP relay: every connection between nodes, and from clients to brokers, runs
//! through it, and each directed link can be cut or slowed by itself.
//!
//! A cut link passes no byte, and no connection is made over it; like packets that are dropped and
//! sent again, what was on its way arrives when the link is whole again. Nothing tells the ends.
//! What a real network does besides (resets, a window that closes because acknowledgements are
//! lost) is not imitated.
//!
//! Who dials is known from the door for the controllers' doors, of which each broker has its own, and
//! from the client id in the first request for the brokers' doors, which all share.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::measure::threads;
use crate::types::BrokerId;

/// Doors listen on a loopback address of their own: no connection starts from it and takes a port.
const DOORS_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 200);
/// Bytes read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks held per connection and direction; beyond, the sender feels it.
const CHUNKS_MAX: usize = 256;
/// As the broker calls itself in its requests.
const BROKER_CLIENT_ID: &[u8] = b"ackmark-broker-";
/// Length prefix, API key, version, correlation id, length of the client id.
const HEAD_BYTES: usize = 14;
/// Longer client ids are nobody's here.
const CLIENT_ID_BYTES_MAX: usize = 256;
/// The API keys that begin a connection of heartbeats: BrokerRegistration, BrokerHeartbeat.
const HEARTBEAT_APIS: [[u8; 2]; 2] = [[0, 62], [0, 63]];
/// Where a request's API key is: behind its length.
const API_KEY: std::ops::Range<usize> = 4..6;
/// Before a target that refuses is tried again.
const DIAL_AGAIN: Duration = Duration::from_millis(20);
const DIAL_ATTEMPTS: u32 = 3;
/// Connections that wait to be let in.
const BACKLOG: u32 = 1024;

/// Somebody connections start from or lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// A broker or a controller: node ids are unique.
    Node(BrokerId),
    /// Everybody else: the load.
    Clients,
}

/// What a directed link does to bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Nothing passes.
    pub is_cut: bool,
    /// Nothing passes that a broker asks a controller on the connection of its heartbeats: they, its
    /// registration, its ISR proposals. The metadata log has a connection of its own.
    pub cuts_heartbeats: bool,
    /// Everything arrives this much later, to the millisecond.
    pub delay: Duration,
}

/// The switches of all directed links, shared between the harness and the relay's thread.
#[derive(Clone, Default)]
struct Switches(Arc<Mutex<Links>>);

/// By sender and receiver.
type Links = HashMap<(End, End), watch::Sender<LinkState>>;

impl Switches {
    fn with<T>(&self, from: End, to: End, act: impl FnOnce(&watch::Sender<LinkState>) -> T) -> T {
        let mut links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(links.entry((from, to)).or_insert_with(|| watch::channel(LinkState::default()).0))
    }

    fn watch(&self, from: End, to: End) -> watch::Receiver<LinkState> {
        self.with(from, to, watch::Sender::subscribe)
    }
}

struct Door {
    from: Option<End>,
    to: End,
    address: SocketAddr,
    /// Bound and not listening: keeps the port while the door is closed.
    _reserved: TcpSocket,
    /// Set while the door is open; dropping it closes the door.
    open: Option<(SocketAddr, tokio::task::AbortHandle)>,
}

/// The relay. Dropping it closes every door and connection.
pub struct Relay {
    /// Of the event loop, which runs on a thread of its own until `_running` is dropped.
    runtime: tokio::runtime::Handle,
    _running: oneshot::Sender<()>,
    switches: Switches,
    doors: Vec<Door>,
}

impl std::fmt::Debug for Relay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Relay of {} doors", self.doors.len())
    }
}

impl Relay {
    /// A relay without doors, on a thread of its own.
    ///
    /// # Errors
    /// The system's, if there is no thread or event loop to be had.
    pub fn start() -> io::Result<Relay> {
        // Not the runtime's own threads: it panics where the system gives it none.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel::<()>();
        threads::start("relay", move || drop(runtime.block_on(ended)))?;
        Ok(Relay {
            runtime: handle,
            _running: running,
            switches: Switches::default(),
            doors: Vec::new(),
        })
    }

    /// A new door to `to`, for `from` alone or, without it, for everybody. Nobody is let in until
    /// [`Relay::lead`] says where `to` listens.
    ///
    /// # Errors
    /// No port can be had.
    pub fn door(&mut self, from: Option<End>, to: End) -> io::Result<SocketAddr> {
        let reserved = bind(SocketAddr::from((DOORS_ADDRESS, 0)))?;
        let address = reserved.local_addr()?;
        self.doors.push(Door { from, to, address, _reserved: reserved, open: None });
        Ok(address)
    }

    /// The doors to `to` lead to `target` from now on; without one they are closed, and whoever
    /// comes is refused as by a host without a listener.
    ///
    /// # Errors
    /// The system's.
    pub fn lead(&mut self, to: End, target: Option<SocketAddr>) -> io::Result<()> {
        for door in self.doors.iter_mut().filter(|door| door.to == to) {
            if door.open.as_ref().map(|(target, _)| *target) == target {
                continue;
            }
            if let Some((_, accepting)) = door.open.take() {
                accepting.abort();
            }
            let Some(target) = target else { continue };
            let _entered = self.runtime.enter();
            let listener = bind(door.address)?.listen(BACKLOG)?;
            let passage =
                Passage { switches: self.switches.clone(), from: door.from, to: door.to, target };
            let accepting = self.runtime.spawn(accept(listener, passage));
            door.open = Some((target, accepting.abort_handle()));
        }
        Ok(())
    }

    /// Where clients reach `to` through the relay.
    pub fn address(&self, to: End) -> Option<SocketAddr> {
        self.doors.iter().find(|door| door.to == to && door.from.is_none()).map(|door| door.address)
    }

    /// Changes the link from `from` to `to`: the bytes that `from` sends, whoever dialled.
    pub fn switch(&self, from: End, to: End, change: impl FnOnce(&mut LinkState)) {
        self.switches.with(from, to, |link| link.send_modify(change));
    }
}

/// A socket that shares its port with others of this user: a door's reserve with its listener.
fn bind(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// What connections through one door have in common.
#[derive(Clone)]
struct Passage {
    switches: Switches,
    from: Option<End>,
    to: End,
    target: SocketAddr,
}

async fn accept(listener: TcpListener, passage: Passage) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(carry(stream, passage.clone()))),
            // File descriptors may have run out.
            Err(_) => sleep(DIAL_AGAIN).await,
        }
    }
}

/// One connection, from its first byte to its end.
async fn carry(mut caller: TcpStream, passage: Passage) {
    let Passage { switches, from, to, target } = passage;
    let mut first = Vec::new();
    let from = match from {
        Some(from) => from,
        None => match identify(&mut caller, &mut first).await {
            Ok(from) => from,
            Err(_) => return,
        },
    };
    let (mut there, mut back) = (switches.watch(from, to), switches.watch(to, from));
    // A connection is made by packets in both directions.
    let passes = |link: &LinkState| !link.is_cut;
    if there.wait_for(passes).await.is_err() || back.wait_for(passes).await.is_err() {
        return;
    }
    let Some(callee) = dial(target).await else { return };
    // Answers must not wait for more of their kind.
    let _ = (caller.set_nodelay(true), callee.set_nodelay(true));
    let (caller_reads, caller_writes) = caller.into_split();
    let (callee_reads, callee_writes) = callee.into_split();
    // The end of either direction ends both: nobody here half-closes.
    tokio::select! {
        () = pump(caller_reads, callee_writes, there, first) => {}
        () = pump(callee_reads, caller_writes, back, Vec::new()) => {}
    }
}

/// Reads the head of the first request into `first`; the client id in it says who calls.
async fn identify(caller: &mut TcpStream, first: &mut Vec<u8>) -> io::Result<End> {
    first.resize(HEAD_BYTES, 0);
    caller.read_exact(first).await?;
    let length = i16::from_be_bytes([first[HEAD_BYTES - 2], first[HEAD_BYTES - 1]]);
    let length = usize::try_from(length).unwrap_or(0);
    if length > CLIENT_ID_BYTES_MAX {
        return Ok(End::Clients);
    }
    first.resize(HEAD_BYTES + length, 0);
    caller.read_exact(&mut first[HEAD_BYTES..]).await?;
    Ok(caller_named(&first[HEAD_BYTES..]))
}

fn caller_named(client_id: &[u8]) -> End {
    let number = client_id.strip_prefix(BROKER_CLIENT_ID);
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.map_or(End::Clients, |id| End::Node(BrokerId(id)))
}

async fn dial(target: SocketAddr) -> Option<TcpStream> {
    for _ in 0..DIAL_ATTEMPTS {
        if let Ok(stream) = TcpStream::connect(target).await {
            return Some(stream);
        }
        sleep(DIAL_AGAIN).await;
    }
    None
}

/// Carries one direction until it ends. Chunks wait in `queue` until they are due and the link is
/// whole.
async fn pump(
    mut reads: OwnedReadHalf,
    mut writes: OwnedWriteHalf,
    mut link: watch::Receiver<LinkState>,
    first: Vec<u8>,
) {
    let mut queue: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
    // Known with the first bytes; until then some are read.
    let mut is_of_heartbeats = None;
    if !first.is_empty() {
        is_of_heartbeats = Some(begins_heartbeats(&first));
        queue.push_back((Instant::now() + link.borrow().delay, first));
    }
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut has_ended = false;
    while !(has_ended && queue.is_empty()) {
        let LinkState { is_cut, cuts_heartbeats, delay } = *link.borrow_and_update();
        let is_cut = is_cut || cuts_heartbeats && is_of_heartbeats == Some(true);
        let due = queue.front().map(|(due, _)| *due);
        let has_due = due.is_some() && !is_cut;
        tokio::select! {
            biased;
            changed = link.changed() => if changed.is_err() { return },
            () = sleep_until(due.unwrap_or_else(Instant::now)), if has_due => {
                let Some((_, bytes)) = queue.pop_front() else { continue };
                if writes.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            read = reads.read(&mut buffer), if !is_cut && !has_ended && queue.len() < CHUNKS_MAX => {
                if let Ok(read @ 1..) = read {
                    is_of_heartbeats.get_or_insert_with(|| begins_heartbeats(&buffer[..read]));
                }
                let is_held = cuts_heartbeats && is_of_heartbeats == Some(true);
                match read {
                    Ok(0) | Err(_) => has_ended = true,
                    Ok(read) if queue.is_empty() && delay.is_zero() && !is_held => {
                        if writes.write_all(&buffer[..read]).await.is_err() {
                            return;
                        }
                    }
                    Ok(read) => queue.push_back((Instant::now() + delay, buffer[..read].to_vec())),
                }
            }
        }
    }
}

/// Whether a connection's first bytes are those of a broker that registers or sends heartbeats.
fn begins_heartbeats(first: &[u8]) -> bool {
    first.get(API_KEY).is_some_and(|key| HEARTBEAT_APIS.iter().any(|api| api == key))
}

#[cfg(test)]
mod tests;

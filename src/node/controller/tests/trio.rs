//! Three voters, each on a thread of its own, with links between them that can be cut.

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::process::{CLUSTER, Client, Process, config};
use crate::config::node::ControllerConfig;
use crate::node::controller::metadata_log::MetadataLog;
use crate::node::controller::{QuorumView, describe_quorum, metadata_log};
use crate::protocol::metadata::ClusterMetadata;
use crate::types::{BrokerId, ErrorCode, Offset};

const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Trio {
    dir: tempfile::TempDir,
    addresses: [SocketAddr; 3],
    /// From each voter to each other one.
    links: Vec<((usize, usize), Link)>,
    voters: [Option<Process>; 3],
    snapshot_interval_entries: u64,
}

impl Trio {
    pub(super) fn start(snapshot_interval_entries: u64) -> Trio {
        // Connections on this host start from 127.0.0.1: none takes a port here while a voter is down.
        let held = [(); 3].map(|()| TcpListener::bind("127.0.0.100:0").unwrap());
        let addresses = held.map(|listener| listener.local_addr().unwrap());
        let pairs = (0..3).flat_map(|from| (0..3).map(move |to| (from, to)));
        let links = pairs.filter(|(from, to)| from != to);
        let links = links.map(|(from, to)| ((from, to), Link::to(addresses[to]))).collect();
        let dir = tempfile::tempdir().unwrap();
        let voters = [None, None, None];
        let mut trio = Trio { dir, addresses, links, voters, snapshot_interval_entries };
        (0..3).for_each(|voter| trio.restart(voter));
        trio
    }

    pub(super) fn restart(&mut self, voter: usize) {
        let address = |to: usize| match self.links.iter().find(|(pair, _)| *pair == (voter, to)) {
            Some((_, link)) => link.address,
            None => self.addresses[voter],
        };
        self.voters[voter] = Some(Process::start(ControllerConfig {
            node_id: id(voter),
            listen: self.addresses[voter],
            voters: (0..3).map(|to| (id(to), address(to))).collect(),
            election_timeout: Duration::from_millis(400),
            snapshot_interval_entries: self.snapshot_interval_entries,
            ..config(&self.data_dir(voter))
        }));
    }

    pub(super) fn data_dir(&self, voter: usize) -> PathBuf {
        let path = self.dir.path().join(format!("voter-{voter}"));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(super) fn crash(&mut self, voter: usize) {
        self.voters[voter].take().unwrap().crash();
    }

    /// Cuts the links between one voter and the others, or mends them.
    pub(super) fn isolate(&self, voter: usize, isolated: bool) {
        let own = self.links.iter().filter(|((from, to), _)| *from == voter || *to == voter);
        own.for_each(|(_, link)| link.set_cut(isolated));
    }

    pub(super) fn connect(&self, voter: usize) -> Client {
        Client::connect(self.addresses[voter])
    }

    pub(super) fn view(&self, voter: usize) -> QuorumView {
        describe_quorum(self.addresses[voter], CLUSTER, PATIENCE).unwrap()
    }

    /// The active controller, other than `except`; waits for one.
    pub(super) fn active_but(&self, except: Option<usize>) -> usize {
        let candidates: Vec<usize> =
            (0..3).filter(|&v| Some(v) != except && self.voters[v].is_some()).collect();
        let is_active = |&&voter: &&usize| {
            let answer = self.connect(voter).fetch(Offset(0), 0, None);
            answer.error == ErrorCode::None
        };
        let mut active = None;
        wait("an active controller", || {
            active = candidates.iter().find(is_active).copied();
            active.is_some()
        });
        active.unwrap()
    }

    pub(super) fn active(&self) -> usize {
        self.active_but(None)
    }

    /// Waits until every voter has applied all there is.
    pub(super) fn settle(&self) {
        wait("equal ends", || {
            let end = self.view(self.active()).log_end;
            (0..3).all(|voter| {
                let view = self.view(voter);
                (view.log_end, view.committed) == (end, end)
            })
        });
    }

    /// Stops all voters; what is on the disk of each adds up to this.
    pub(super) fn into_stored(mut self) -> [ClusterMetadata; 3] {
        self.voters.iter_mut().for_each(|voter| voter.take().unwrap().stop());
        [0, 1, 2].map(|voter| stored(&self.data_dir(voter)))
    }
}

fn id(voter: usize) -> BrokerId {
    BrokerId(100 + voter as i32)
}

/// Snapshot and log of a stopped voter.
pub(super) fn stored(data_dir: &Path) -> ClusterMetadata {
    let directory = metadata_log::directory(data_dir).unwrap();
    let (mut metadata, point) = match crate::node::controller::raft::load_snapshot(&directory) {
        Some((metadata, point)) => (metadata, Some(point)),
        None => (ClusterMetadata::default(), None),
    };
    let (log, _) = MetadataLog::open(&directory, point).unwrap();
    for entry in log.kept(0..u64::MAX).filter(|entry| !entry.is_control) {
        super::process::apply(&mut metadata, &entry.batch);
    }
    metadata
}

pub(super) fn wait(what: &str, mut is_there: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A way to one voter that can be cut.
struct Link {
    address: SocketAddr,
    state: Arc<LinkState>,
}

#[derive(Default)]
struct LinkState {
    is_cut: AtomicBool,
    streams: Mutex<Vec<TcpStream>>,
}

impl Link {
    fn to(target: SocketAddr) -> Link {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<LinkState>::default();
        let accepted = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let streams = accepted.streams.lock().unwrap();
                if !accepted.is_cut.load(Ordering::SeqCst)
                    && let Ok(onward) = TcpStream::connect(target)
                {
                    join(stream, onward, streams);
                }
            }
        });
        Link { address, state }
    }

    fn set_cut(&self, is_cut: bool) {
        let mut streams = self.state.streams.lock().unwrap();
        self.state.is_cut.store(is_cut, Ordering::SeqCst);
        for stream in streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn join(one: TcpStream, other: TcpStream, mut streams: std::sync::MutexGuard<'_, Vec<TcpStream>>) {
    for (mut from, mut to) in [(&one, &other), (&other, &one)].map(|(from, to)| {
        from.set_nodelay(true).unwrap();
        (from.try_clone().unwrap(), to.try_clone().unwrap())
    }) {
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        });
    }
    streams.extend([one, other]);
}

//! A real cluster for tests: controllers (one, or three voters) and three brokers as processes of the built binary, on
//! loopback, in a temporary directory. Killed, by pid, when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use ackmark::config::node::{BrokerConfig, ControllerConfig, LogConfig};
use ackmark::driver::load::LoadMode;
use ackmark::driver::outcome::CellOutcome;
use ackmark::driver::run::{read_back, run_cell};
use ackmark::driver::schedule::{Arrivals, Rate};
use ackmark::driver::spec::{CellSpec, Retry};
use ackmark::measure::isr::IsrEvent;
use ackmark::node::controller::describe_quorum;
use ackmark::storage::default_route;
use ackmark::types::{Acks, BrokerId, DurabilityMode, EngineKind};
use ackmark::wire::{self, ApiKey, Request, Response};
use kafka_protocol::messages::MetadataRequest;

const BROKERS: i32 = 3;
const CONTROLLER_ID: i32 = 100;

/// How a test's cluster differs from the plain one.
#[derive(Clone, Copy)]
pub struct Shape {
    pub engine: EngineKind,
    pub durability: DurabilityMode,
    pub shards: usize,
    pub session_timeout: Duration,
    /// 1 or 3.
    pub controllers: usize,
}

impl Shape {
    pub fn plain(durability: DurabilityMode) -> Shape {
        Shape {
            engine: EngineKind::Uring,
            durability,
            shards: 1,
            // Long enough for a loaded machine's hiccups, short enough to wait for in a test.
            session_timeout: Duration::from_secs(2),
            controllers: 1,
        }
    }
}

struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(role: &str, config: &Path) -> Process {
        let log = std::fs::File::create(config.with_extension("log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ackmark"))
            .args([role, "--config"])
            .arg(config)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listening: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let said = std::fs::read_to_string(config.with_extension("log")).unwrap_or_default();
            panic!("{role} did not come up: {line}{said}")
        });
        let address = listening["listening"].as_str().unwrap().parse().unwrap();
        Process { child, address }
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running cluster.
pub struct Cluster {
    directory: tempfile::TempDir,
    shape: Shape,
    controllers: Vec<Process>,
    brokers: Vec<Process>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in self.brokers.iter_mut().chain(&mut self.controllers) {
            process.kill();
        }
    }
}

impl Cluster {
    pub fn start(shape: Shape) -> Cluster {
        // Not in /tmp: that may be a tmpfs, which has no disk for the direct modes.
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let addresses = free_addresses(shape.controllers);
        let controllers = (0..shape.controllers).map(|index| {
            let config = directory.path().join(format!("controller-{index}.toml"));
            let controller = controller_config(&config, index, &addresses, shape);
            std::fs::write(&config, controller.to_toml().unwrap()).unwrap();
            Process::start("controller", &config)
        });
        let controllers = controllers.collect();
        let mut cluster = Cluster { directory, shape, controllers, brokers: Vec::new() };
        for id in 1..=BROKERS {
            let config = cluster.broker_file(id);
            let broker = broker_config(&cluster, id).to_toml().unwrap();
            std::fs::write(&config, broker).unwrap();
            cluster.brokers.push(Process::start("broker", &config));
        }
        cluster.wait_until_complete();
        cluster
    }

    /// Waits until broker 1 knows all brokers as unfenced.
    fn wait_until_complete(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while live_brokers(self.address(1)) < BROKERS as usize {
            assert!(Instant::now() < deadline, "the brokers were not all unfenced");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn broker_file(&self, id: i32) -> PathBuf {
        self.directory.path().join(format!("broker-{id}.toml"))
    }

    /// Broker `id`'s address; brokers count from 1.
    pub fn address(&self, id: i32) -> SocketAddr {
        self.brokers[id as usize - 1].address
    }

    /// SIGKILL to whichever controller is active; gives its index.
    pub fn kill_active_controller(&mut self) -> usize {
        let active = self.active_controller();
        self.controllers[active].kill();
        active
    }

    /// Starts a controller that was killed, on its old data.
    pub fn restart_controller(&mut self, index: usize) {
        let config = self.directory.path().join(format!("controller-{index}.toml"));
        self.controllers[index] = Process::start("controller", &config);
    }

    /// The leader of the metadata log's voters, as it says itself; waits for one.
    pub fn active_controller(&self) -> usize {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            for (index, controller) in self.controllers.iter().enumerate() {
                let view = describe_quorum(controller.address, "test", Duration::from_secs(5));
                if view.is_ok_and(|view| view.leader == Some(view.node_id)) {
                    return index;
                }
            }
            assert!(Instant::now() < deadline, "no controller is active");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What broker `id` told of its ISRs until now, in whole lines.
    pub fn events(&self, id: i32) -> Vec<IsrEvent> {
        let file = self.directory.path().join(events_file(id));
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
    }

    /// SIGKILL.
    pub fn kill_broker(&mut self, id: i32) {
        self.brokers[id as usize - 1].kill();
    }

    /// Starts a broker that was killed, on its old data.
    pub fn restart_broker(&mut self, id: i32) {
        self.brokers[id as usize - 1] = Process::start("broker", &self.broker_file(id));
    }

    /// Whether a broker's process is still there.
    pub fn is_running(&mut self, id: i32) -> bool {
        self.brokers[id as usize - 1].child.try_wait().unwrap().is_none()
    }

    /// Resident memory of a broker now, in bytes.
    pub fn resident_bytes(&self, id: i32) -> u64 {
        let pid = self.brokers[id as usize - 1].child.id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Runs a cell against broker 1.
    pub fn run(&self, spec: &CellSpec) -> CellOutcome {
        let stop = AtomicBool::new(false);
        run_cell(self.address(1), spec, &stop, &mut |_| {}).unwrap_or_else(|e| panic!("{e}"))
    }

    /// Reads a cell's topic back and fails the test unless every acknowledged record is there,
    /// once, byte for byte.
    pub fn assert_nothing_lost(&self, bootstrap: i32, spec: &CellSpec, outcome: &CellOutcome) {
        let stop = AtomicBool::new(false);
        let found = read_back(self.address(bootstrap), spec, &outcome.acknowledged, &stop);
        let found = found.unwrap_or_else(|error| panic!("reading back: {error}"));
        assert!(found.is_sound(), "{found:?}");
        let told: u64 = outcome.acknowledged.iter().map(|batch| u64::from(batch.records)).sum();
        assert_eq!(found.acknowledged, told);
        assert!(found.acknowledged > 0, "nothing was acknowledged at all");
    }
}

/// Asks a broker how many brokers it would tell a client of.
fn live_brokers(address: SocketAddr) -> usize {
    const VERSION: i16 = 4;
    let mut stream = TcpStream::connect(address).unwrap();
    let request = Request::Metadata(MetadataRequest::default().with_topics(Some(Vec::new())));
    let frame = wire::encode_request(1, "test", VERSION, &request).unwrap();
    stream.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
    stream.write_all(&frame).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    match wire::parse_response(ApiKey::Metadata, VERSION, answer.into()).unwrap() {
        (_, Response::Metadata(metadata)) => metadata.brokers.len(),
        (_, other) => panic!("{other:?}"),
    }
}

/// Voters must know each other's ports before any listens; these were free a moment ago.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    held.iter().map(|listener| listener.local_addr().unwrap()).collect()
}

fn controller_config(
    file: &Path,
    index: usize,
    addresses: &[SocketAddr],
    shape: Shape,
) -> ControllerConfig {
    let id = |index: usize| BrokerId(CONTROLLER_ID + index as i32);
    let text = format!(
        "node_id = {}\ncluster_id = \"test\"\nlisten = \"{}\"\ndata_dir = \"controller-{index}\"\n",
        id(index),
        addresses[index],
    );
    let mut config = ControllerConfig::from_text(file, &text).unwrap();
    config.session_timeout = shape.session_timeout;
    if addresses.len() > 1 {
        config.voters = (0..).map(id).zip(addresses.iter().copied()).collect();
    }
    config
}

fn broker_config(cluster: &Cluster, id: i32) -> BrokerConfig {
    let addresses: Vec<String> =
        cluster.controllers.iter().map(|controller| controller.address.to_string()).collect();
    let text = format!(
        "node_id = {id}\ncluster_id = \"test\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"broker-{id}\"\n\
         controllers = \"{}\"\nlog.durability = \"page-cache\"\n",
        addresses.join(",")
    );
    let mut config = BrokerConfig::from_text(&cluster.broker_file(id), &text).unwrap();
    let shape = cluster.shape;
    config.node_id = BrokerId(id);
    config.events_file = Some(events_file(id));
    config.engine = shape.engine;
    config.shards = shape.shards;
    config.heartbeat_interval = shape.session_timeout / 8;
    config.log = LogConfig {
        durability: shape.durability,
        commit_route: default_route(shape.durability),
        segment_bytes: 2 << 20,
        memory_bytes: 1 << 20,
        ..config.log
    };
    config
}

/// Relative to the broker's own file.
fn events_file(id: i32) -> PathBuf {
    PathBuf::from(format!("broker-{id}.events.jsonl"))
}

/// A small open-loop cell that keeps its books.
pub fn small_cell(topic: &str, acks: Acks) -> CellSpec {
    CellSpec {
        topic: topic.to_owned(),
        partitions: 1,
        replication_factor: 3,
        topic_configs: vec![("min.insync.replicas".into(), "2".into())],
        acks,
        load: LoadMode::OpenLoop {
            rate: Rate::per_second(500.0).unwrap(),
            arrivals: Arrivals::Uniform,
        },
        record_bytes: 512,
        batch_bytes: 16_384,
        linger: Duration::ZERO,
        in_flight_max: 64,
        connections: 1,
        compressible: 0.0,
        seed: 11,
        warmup: Duration::from_millis(100),
        duration: Duration::from_millis(900),
        drain_timeout: Duration::from_secs(20),
        consume: true,
        keep_acknowledgements: true,
        retry: Retry::Never,
        request_timeout: Duration::from_secs(10),
        setup_timeout: Duration::from_secs(30),
    }
}

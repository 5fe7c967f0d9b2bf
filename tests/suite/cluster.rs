//! A real cluster for tests: controllers (one, or three voters) and three brokers as processes of the built binary, on
//! loopback, in a temporary directory. Killed, by pid, when dropped.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
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
use ackmark::wire::{Request, Response};
use kafka_protocol::messages::MetadataRequest;

use crate::client;
use crate::metrics::Metrics;

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
    pub election_timeout: Duration,
    pub replica_lag_time_max: Duration,
    /// Whether all nodes serve metrics.
    pub metrics: bool,
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
            election_timeout: Duration::from_secs(1),
            replica_lag_time_max: Duration::from_secs(30),
            metrics: false,
        }
    }
}

struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
    address: SocketAddr,
    metrics: Option<SocketAddr>,
}

impl Process {
    fn start(role: &str, config: &Path) -> Process {
        let log = std::fs::File::create(config.with_extension("log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ackmark"))
            .args([role, "--config"])
            .arg(config)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let listening: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            let said = std::fs::read_to_string(config.with_extension("log")).unwrap_or_default();
            panic!("{role} did not come up: {line}{said}")
        });
        let address = listening["listening"].as_str().unwrap().parse().unwrap();
        let metrics = listening["metrics"].as_str().map(|address| address.parse().unwrap());
        Process { child, said, address, metrics }
    }

    /// `STOP` or `CONT`.
    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(status.success(), "kill -s {name} {pid}");
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
    metrics: SocketAddr,
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
        let mut addresses = free_addresses(shape.controllers + 1);
        let metrics = addresses.remove(0);
        let controllers = (0..shape.controllers).map(|index| {
            let config = directory.path().join(format!("controller-{index}.toml"));
            let mut controller = controller_config(&config, index, &addresses, shape);
            controller.metrics_listen = (index == 0).then_some(metrics);
            std::fs::write(&config, controller.to_toml().unwrap()).unwrap();
            Process::start("controller", &config)
        });
        let controllers = controllers.collect();
        let mut cluster = Cluster { directory, shape, metrics, controllers, brokers: Vec::new() };
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

    /// SIGKILL to all controllers; gives their data directories.
    pub fn kill_controllers(&mut self) -> Vec<PathBuf> {
        self.controllers.iter_mut().for_each(Process::kill);
        let folder = |index| self.directory.path().join(format!("controller-{index}"));
        (0..self.controllers.len()).map(folder).collect()
    }

    /// Whether every voter has applied all there is.
    pub fn is_settled(&self) -> bool {
        let views = self.controllers.iter().map(|controller| {
            describe_quorum(controller.address, "test", Duration::from_secs(5)).unwrap()
        });
        let ends: Vec<_> = views.map(|view| (view.log_end, view.committed)).collect();
        ends.iter().all(|&(end, committed)| end == committed && end == ends[0].0)
    }

    /// Stops a broker where it stands (SIGSTOP), or lets it go on.
    pub fn pause_broker(&self, id: i32, paused: bool) {
        self.brokers[id as usize - 1].signal(if paused { "STOP" } else { "CONT" });
    }

    /// Runs the program with these arguments against a broker; gives its JSON.
    pub fn ask(&self, id: i32, arguments: &[&str]) -> serde_json::Value {
        self.ask_at(self.address(id), arguments)
    }

    /// As [`Cluster::ask`], against a controller.
    pub fn ask_controller(&self, index: usize, arguments: &[&str]) -> serde_json::Value {
        self.ask_at(self.controllers[index].address, arguments)
    }

    fn ask_at(&self, address: SocketAddr, arguments: &[&str]) -> serde_json::Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ackmark"));
        command.args(arguments).args(["--json", "--bootstrap", &address.to_string()]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Every partition of a topic as a broker knows it.
    pub fn partitions(&self, id: i32, topic: &str) -> Vec<serde_json::Value> {
        let answer = self.ask(id, &["topics", "--describe", "--topic", topic]);
        answer["topics"][0]["partitions"].as_array().unwrap().clone()
    }

    /// A broker's metrics.
    pub fn broker_metrics(&self, id: i32) -> Metrics {
        Metrics::scrape(self.brokers[id as usize - 1].metrics.unwrap())
    }

    /// A controller's metrics.
    pub fn controller_metrics(&self, index: usize) -> Metrics {
        Metrics::scrape(self.controllers[index].metrics.unwrap())
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

    /// SIGTERM, and the end it leads to: leaderships are handed over, the clean mark is left.
    pub fn stop_broker(&mut self, id: i32) {
        let process = &mut self.brokers[id as usize - 1];
        let pid = process.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = process.child.wait().unwrap();
        assert!(status.success(), "broker {id}: {status}");
    }

    /// SIGTERM to a broker whose disk fails every sync from now on; gives whether it says that it
    /// stopped well. It was restarted with [`Cluster::allow_disk_faults`] before.
    pub fn stop_broker_on_a_failing_disk(&mut self, id: i32) -> bool {
        let process = &mut self.brokers[id as usize - 1];
        let mut answer = String::new();
        writeln!(process.child.stdin.as_mut().unwrap(), "disk sync-error").unwrap();
        process.said.read_line(&mut answer).unwrap();
        assert_eq!(answer, "disk sync-error\n");
        process.signal("TERM");
        process.child.wait().unwrap().success()
    }

    /// From its next start on the broker's disk can be made to fail.
    pub fn allow_disk_faults(&self, id: i32) {
        let file = self.broker_file(id);
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("fault_control = true\n{text}")).unwrap();
    }

    /// A broker's log directory.
    pub fn data_dir(&self, id: i32) -> PathBuf {
        self.directory.path().join(format!("broker-{id}"))
    }

    /// Where the first controller listens.
    pub fn controller_address(&self) -> SocketAddr {
        self.controllers[0].address
    }

    /// Where the first controller serves its metrics.
    pub fn metrics_address(&self) -> SocketAddr {
        self.metrics
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
    let request = Request::Metadata(MetadataRequest::default().with_topics(Some(Vec::new())));
    match client::ask(address, VERSION, &request).expect("the broker answers") {
        Response::Metadata(metadata) => metadata.brokers.len(),
        other => panic!("{other:?}"),
    }
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// Voters must know each other's ports before any listens; these were free a moment ago. Connections
/// on this host start from 127.0.0.1: none takes a port here while its node is down.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.100:0").unwrap()).collect();
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
    config.election_timeout = shape.election_timeout;
    config.metrics_listen = shape.metrics.then(any_port);
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
    config.replica_lag_time_max = shape.replica_lag_time_max;
    config.metrics_listen = shape.metrics.then(any_port);
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
        drain_timeout: Duration::from_secs(60),
        consume: true,
        keep_acknowledgements: true,
        keep_history: false,
        retry: Retry::Never,
        request_timeout: Duration::from_secs(10),
        setup_timeout: Duration::from_secs(60),
        injected_slowdown: 0.0,
    }
}

/// Waits for a condition; `what` says for which if it does not come.
pub fn wait(what: &str, mut is_there: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_there() {
        assert!(Instant::now() < deadline, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

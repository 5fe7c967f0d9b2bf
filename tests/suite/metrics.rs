//! Metrics over HTTP, of every role, as Prometheus would scrape them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackmark::driver::spec::CellSpec;
use ackmark::types::{Acks, DurabilityMode};

use crate::cluster::{Cluster, Shape, small_cell, wait};

const TOPIC: &str = "measured";
const DESCRIBE: [&str; 2] = ["topics", "--describe"];
/// Figures of the controller that an ISR change moves.
const COUNTS: [&str; 6] = [
    "ackmark_controller_event_queue_time_seconds_count",
    "ackmark_controller_metadata_commit_seconds_count",
    "ackmark_controller_isr_shrinks_total",
    "ackmark_controller_isr_expands_total",
    "ackmark_controller_metadata_log_end_offset",
    "ackmark_controller_metadata_committed_offset",
];

/// One scrape.
pub struct Metrics(String);

impl Metrics {
    pub fn scrape(address: SocketAddr) -> Metrics {
        let answer = get(address, "Accept: application/openmetrics-text\r\n");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("content-type: application/openmetrics-text"), "{head}");
        assert!(body.ends_with("# EOF\n"), "{body}");
        Metrics(body.to_owned())
    }

    /// The sample of this name, labels included.
    pub fn value(&self, sample: &str) -> f64 {
        let line = self.0.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        let value = line.unwrap_or_else(|| panic!("no {sample} in\n{}", self.0));
        value.split(' ').next().unwrap().parse().unwrap()
    }

    fn families(&self) -> Vec<&str> {
        let types = self.0.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types.map(|line| line.split(' ').next().unwrap()).collect()
    }
}

/// Asks Prometheus' own linter, if it is here, about what is served to whoever accepts anything.
pub fn lint(address: SocketAddr) {
    let answer = get(address, "");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(body.contains("# TYPE "), "{answer}");
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut promtool = match promtool {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return eprintln!("SKIPPED: no promtool here (Debian: prometheus)");
        }
        other => other.unwrap(),
    };
    promtool.stdin.take().unwrap().write_all(body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.is_empty(), "{said}\nabout\n{body}");
}

fn get(address: SocketAddr, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\n{accept}Host: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn start() -> Cluster {
    Cluster::start(Shape {
        session_timeout: Duration::from_secs(3),
        replica_lag_time_max: Duration::from_millis(500),
        metrics: true,
        ..Shape::plain(DurabilityMode::PageCache)
    })
}

fn measured(acks: Acks) -> CellSpec {
    let strategy = ("unclean.recovery.strategy".to_owned(), "Balanced".to_owned());
    let mut spec = small_cell(TOPIC, acks);
    spec.topic_configs.push(strategy);
    CellSpec { consume: false, ..spec }
}

/// `docs/metrics.md` names every family there is, and none that is not.
#[test]
fn every_family_is_there_and_documented() {
    let cluster = start();
    cluster.run(&measured(Acks::All));
    let documented = include_str!("../../docs/metrics.md");
    let documented: Vec<&str> = documented.lines().filter_map(documented_family).collect();
    let scrapes = [cluster.controller_metrics(0), cluster.broker_metrics(1)];
    let mut told: Vec<&str> = scrapes.iter().flat_map(Metrics::families).collect();
    let mut documented = documented;
    told.sort_unstable();
    documented.sort_unstable();
    assert_eq!(told, documented);
    assert_eq!(cluster.broker_metrics(3).families(), scrapes[1].families());
}

/// The name in the first cell of a table's row.
fn documented_family(line: &str) -> Option<&str> {
    let name = line.strip_prefix("| `")?;
    name.split('`').next().filter(|name| name.contains('_'))
}

#[test]
fn figures_move_when_their_causes_happen() {
    let mut cluster = start();
    let spec = CellSpec {
        duration: Duration::from_secs(60),
        drain_timeout: Duration::from_secs(1),
        ..measured(Acks::Leader)
    };
    let (address, stop) = (cluster.address(1), AtomicBool::new(false));
    let leader = thread::scope(|scope| {
        let running =
            scope.spawn(|| ackmark::driver::run::run_cell(address, &spec, &stop, &mut |_| {}));
        let leader = under_load(&mut cluster);
        stop.store(true, Ordering::Relaxed);
        running.join().expect("the driver").unwrap_or_else(|error| panic!("{error}"));
        leader
    });
    without_a_leader(&mut cluster, leader);
}

fn followers(leader: i32) -> [i32; 2] {
    [leader % 3 + 1, (leader + 1) % 3 + 1]
}

fn of_controller(cluster: &Cluster, name: &str) -> f64 {
    cluster.controller_metrics(0).value(name)
}

fn wait_for(cluster: &Cluster, name: &str, expected: f64) {
    wait(&format!("{name} = {expected}"), || of_controller(cluster, name) == expected);
}

/// A follower comes and goes, then both die. Gives the leader.
fn under_load(cluster: &mut Cluster) -> i32 {
    wait_for(cluster, "kafka_replication_electable_replicas", 3.0);
    for (name, expected) in [
        ("kafka_replication_unclean_recovery_partitions", 0.0),
        ("kafka_replication_paused_partitions", 0.0),
        ("kafka_controller_offline_partitions", 0.0),
        ("kafka_controller_under_min_isr_partitions", 0.0),
        ("kafka_controller_active_brokers", 3.0),
        ("kafka_controller_fenced_brokers", 0.0),
        ("ackmark_controller_active_controller", 1.0),
        ("ackmark_controller_metadata_leader_epoch", 1.0),
    ] {
        wait_for(cluster, name, expected);
    }
    wait("the topic at broker 1", || !cluster.ask(1, &DESCRIBE)["topics"][0].is_null());
    let leader = cluster.partitions(1, TOPIC)[0]["leader"].as_i64().unwrap() as i32;
    let of_leader = |cluster: &Cluster, name: &str| {
        cluster.broker_metrics(leader).value(&format!("ackmark_broker_{name}"))
    };
    let before = cluster.controller_metrics(0);
    let before = COUNTS.map(|name| before.value(name));
    let [first, second] = followers(leader);

    cluster.pause_broker(second, true);
    wait("a shrink that the leader proposed", || of_leader(cluster, "isr_shrinks_total") >= 1.0);
    cluster.pause_broker(second, false);
    wait("an expansion that it proposed", || of_leader(cluster, "isr_expands_total") >= 1.0);
    let scrape = cluster.controller_metrics(0);
    for (name, before) in COUNTS.iter().zip(before) {
        assert!(scrape.value(name) > before, "{name}");
    }
    for stage in ["queue", "commit", "total"] {
        let name = format!("ackmark_controller_alter_partition_seconds_count{{stage=\"{stage}\"}}");
        assert!(scrape.value(&name) >= 2.0, "{name}");
    }
    assert_eq!(of_leader(cluster, "leaders"), 1.0);
    assert_eq!(of_leader(cluster, "replicas"), 1.0);
    assert_eq!(of_leader(cluster, "hwm_stall_seconds_total"), 0.0);

    // Under min ISR, what acks=1 writes waits for the high watermark.
    cluster.kill_broker(second);
    wait_for(cluster, "kafka_replication_electable_replicas", 2.0);
    cluster.kill_broker(first);
    wait_for(cluster, "kafka_controller_under_min_isr_partitions", 1.0);
    // The first is in the ELR now.
    wait_for(cluster, "kafka_replication_electable_replicas", 2.0);
    wait_for(cluster, "kafka_controller_fenced_brokers", 2.0);
    wait("under min ISR at the leader", || of_leader(cluster, "under_min_isr") == 1.0);
    wait("a stalled high watermark", || of_leader(cluster, "hwm_stalled") == 1.0);
    wait("stall time", || of_leader(cluster, "hwm_stall_seconds_total") > 0.0);
    leader
}

/// The leader dies too. Whoever comes back does so without its mark, so that nobody may lead:
/// recovery waits for all that may have been the last to, and under Manual for an operator.
fn without_a_leader(cluster: &mut Cluster, leader: i32) {
    cluster.kill_broker(leader);
    wait_for(cluster, "kafka_controller_offline_partitions", 1.0);
    cluster.restart_broker(leader);
    wait_for(cluster, "kafka_replication_electable_replicas", 1.0);
    cluster.kill_broker(leader);
    let [first, second] = followers(leader);
    cluster.restart_broker(first);
    wait_for(cluster, "kafka_replication_unclean_recovery_partitions", 1.0);
    let manual = "unclean.recovery.strategy=Manual";
    cluster.ask(first, &["topics", "--alter", "--topic", TOPIC, "--config", manual]);
    cluster.restart_broker(leader);
    cluster.restart_broker(second);
    wait_for(cluster, "kafka_replication_unclean_recovery_partitions", 0.0);
    wait_for(cluster, "kafka_replication_paused_partitions", 1.0);
    wait_for(cluster, "kafka_replication_electable_replicas", 0.0);
}

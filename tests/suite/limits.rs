//! What the system does not give: threads, open files, a parent. Real processes, each with limits of
//! its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::client::{ackmark, command, command_json, wait_for};

/// A user of nobody else's on the machine, so that only our own processes count.
const LONELY_USER: &str = "64123";

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: no {tool} here");
    }
    found
}

fn temporary() -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    open_to_all(folder.path());
    folder
}

fn open_to_all(folder: &Path) {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder, mode).unwrap();
}

/// A node's file, by role.
fn node_file(folder: &Path, role: &str, engine: &str) -> String {
    let rest = match role {
        "broker" => format!(
            "controllers = \"127.0.0.1:9\"\nengine = \"{engine}\"\nevents_file = \"events\"\n\
             fault_control = true\nmetrics_listen = \"127.0.0.1:0\"\n\
             [log]\ndurability = \"page-cache\"\n"
        ),
        _ => "metrics_listen = \"127.0.0.1:0\"\n".to_owned(),
    };
    let file = folder.join(format!("{role}.toml"));
    let text = "node_id = 1\ncluster_id = \"c\"\nlisten = \"127.0.0.1:0\"\ndata_dir = \"data\"\n";
    fs::write(&file, format!("{text}{rest}")).unwrap();
    file.display().to_string()
}

/// Its end, which must come.
fn ended(mut child: Child) -> Output {
    wait_for("the end of the process", || child.try_wait().unwrap());
    child.wait_with_output().unwrap()
}

#[test]
fn a_thread_that_cannot_start_ends_a_node_with_a_cause() {
    if !(has("prlimit") && has("setpriv")) {
        return;
    }
    for (role, engine) in [("controller", ""), ("broker", "uring"), ("broker", "glommio")] {
        let mut refusals = 0;
        for processes in 1..16 {
            let folder = temporary();
            let file = node_file(folder.path(), role, engine);
            let limit = format!("--nproc={processes}");
            let mut command = match is_root() {
                true => {
                    let mut command = Command::new("setpriv");
                    command.args(["--reuid", LONELY_USER, "--clear-groups", "prlimit", &limit]);
                    command
                }
                // This user has more processes than that: every thread is refused.
                false => {
                    let mut command = Command::new("prlimit");
                    command.arg(&limit);
                    command
                }
            };
            command.arg(env!("CARGO_BIN_EXE_ackmark"));
            command.args([role, "--config", &file, "--stop-with-stdin"]);
            // At an end at once: a node that got all its threads stops in order.
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let output = ended(command.spawn().unwrap());
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!said.contains("panicked at"), "{role} {engine} {processes}: {said}");
            if output.status.code() == Some(3) {
                assert!(said.contains("thread"), "{role} {engine} {processes}: {said}");
                assert!(said.contains("ulimit -u"), "{role} {engine} {processes}: {said}");
                refusals += 1;
            }
        }
        assert!(refusals > 0, "{role} {engine}: some limit was too low");
    }
}

#[test]
fn a_node_stops_in_order_when_whoever_started_it_is_gone() {
    for role in ["controller", "broker"] {
        let folder = temporary();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ackmark"))
            .args([role, "--config", &node_file(folder.path(), role, "uring"), "--stop-with-stdin"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening"), "{line}");
        assert_eq!(child.try_wait().unwrap(), None, "its input is open");
        drop(child.stdin.take());
        let output = ended(child);
        assert!(output.status.success(), "{role}: {output:?}");
    }
}

/// A cluster of one broker, with limits of its own.
struct Limited {
    child: Child,
    bootstrap: SocketAddr,
    broker: u32,
}

impl Limited {
    fn start(mut command: Command, folder: &Path) -> Limited {
        command.arg("cluster").arg(folder).args(["--brokers", "1", "--port", "0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut broker = None;
        loop {
            let mut line = String::new();
            if out.read_line(&mut line).unwrap() == 0 {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("it ended: {said}");
            }
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["broker-1", _, "pid", pid] => broker = pid.parse().ok(),
                ["ready:", "--bootstrap", address, ..] => {
                    let bootstrap = address.trim_end_matches(';').parse().unwrap();
                    return Limited { child, bootstrap, broker: broker.unwrap() };
                }
                _ => {}
            }
        }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn with_open_files(limit: &str) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={limit}")).arg(env!("CARGO_BIN_EXE_ackmark"));
    command
}

#[test]
fn more_partitions_than_open_files_suffice_for_are_refused_and_the_broker_goes_on() {
    if !has("prlimit") {
        return;
    }
    let parent = temporary();
    let folder = parent.path().join("kept");
    // Soft and hard: the soft one is raised.
    let cluster = Limited::start(with_open_files("32:256"), &folder);
    let limits = fs::read_to_string(format!("/proc/{}/limits", cluster.broker)).unwrap();
    let row = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(row.split_whitespace().nth(3), Some("256"), "{row}");

    let bootstrap = cluster.bootstrap.to_string();
    let create = |name: &str, partitions: &str| {
        let all = ["topics", "--bootstrap", &bootstrap, "--create", "--topic", name];
        ackmark(&[&all[..], &["--partitions", partitions, "--replication-factor", "1"]].concat())
    };
    let refused = create("many", "700");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    for words in ["POLICY_VIOLATION", "broker 1 may have 256 files open", "48 replicas", "ulimit"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let fits = create("few", "20");
    assert!(fits.status.success(), "{}", String::from_utf8_lossy(&fits.stderr));
    let refused = create("more", "29");
    assert!(!refused.status.success(), "20 are promised already");

    // Connections beyond its share are closed; those that are open go on.
    let most = 256 / 4 / 2 / 2;
    let open: Vec<_> =
        (0..most).map(|_| std::net::TcpStream::connect(cluster.bootstrap).unwrap()).collect();
    let mut one_more = std::net::TcpStream::connect(cluster.bootstrap).unwrap();
    let end = one_more.read(&mut [0]);
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    drop(open);
    wait_for("a connection", || {
        let all = ["topics", "--bootstrap", &bootstrap, "--describe", "--topic", "few"];
        ackmark(&all).status.success().then_some(())
    });
    drop(cluster);
    let mark = folder.join("broker-1/.kafka_cleanshutdown");
    assert!(mark.exists(), "all logs were closed");

    // On a directory that holds more than a lower limit lets it open, it says so and goes on.
    let cluster = Limited::start(with_open_files("40:40"), &folder);
    let log = wait_for("its words", || {
        let log = fs::read_to_string(folder.join("broker-1.log")).unwrap();
        log.contains("not served").then_some(log)
    });
    assert!(log.contains("may have 40 files open: raise the limit (`ulimit -n`"), "{log}");
    assert!(Path::new(&format!("/proc/{}/exe", cluster.broker)).exists(), "{log}");
    drop(cluster);
    assert!(!mark.exists(), "some were not even opened");
    let cluster = Limited::start(with_open_files("256:256"), &folder);
    let described = command_json(cluster.bootstrap, &["topics", "--describe", "--topic", "few"]);
    assert_eq!(described["topics"][0]["partitions"].as_array().map(Vec::len), Some(20));
    command(cluster.bootstrap, &["brokers"]);
}

#[test]
fn nodes_end_with_their_parent_though_the_death_signal_is_cleared() {
    if !(is_root() && has("setpriv") && Command::new("setcap").output().is_ok()) {
        eprintln!("SKIPPED: needs root and setcap");
        return;
    }
    let parent = temporary();
    let program = parent.path().join("ackmark");
    fs::copy(env!("CARGO_BIN_EXE_ackmark"), &program).unwrap();
    // exec(2) of a file that gives capabilities clears the parent-death signal.
    let given =
        Command::new("setcap").arg("cap_net_bind_service+ep").arg(&program).output().unwrap();
    if !given.status.success() {
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&given.stderr));
        return;
    }
    let folder = parent.path().join("kept");
    fs::create_dir(&folder).unwrap();
    open_to_all(&folder);
    let mut command = Command::new(&program);
    command.uid(LONELY_USER.parse().unwrap());
    let mut cluster = Limited::start(command, &folder);
    let broker = format!("/proc/{}/exe", cluster.broker);
    assert!(fs::symlink_metadata(&broker).is_ok(), "it runs");
    cluster.child.kill().unwrap();
    cluster.child.wait().unwrap();
    wait_for("the broker's end", || fs::read_link(&broker).is_err().then_some(()));
}

//! `ackmark cluster`: a cluster to operate on, stopped and started again.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::client::{ackmark, command, command_json, wait_for};

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    errors: BufReader<ChildStderr>,
    bootstrap: SocketAddr,
    /// Name and process id of each node.
    nodes: Vec<(String, String)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: &str, signal: &str) {
    assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
}

impl Running {
    fn start(folder: &Path) -> Running {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ackmark"))
            .arg("cluster")
            .arg(folder)
            .args(["--brokers", "2", "--port", "0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let errors = BufReader::new(child.stderr.take().unwrap());
        let mut nodes = Vec::new();
        loop {
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["ready:", "--bootstrap", address, ..] => {
                    let bootstrap = address.trim_end_matches(';').parse().unwrap();
                    return Running { child, out, errors, bootstrap, nodes };
                }
                [name, _, "pid", pid] => nodes.push((name.to_owned(), pid.to_owned())),
                _ => panic!("{line:?}"),
            }
        }
    }

    fn pid(&self, name: &str) -> &str {
        &self.nodes.iter().find(|(known, _)| known == name).unwrap().1
    }

    fn stop(mut self) -> String {
        signal(&self.child.id().to_string(), "-TERM");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        rest
    }
}

#[test]
fn a_kept_cluster_names_its_nodes_and_goes_on_where_it_was_stopped() {
    let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = parent.path().join("kept");
    let running = Running::start(&folder);
    let names: Vec<&str> = running.nodes.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["controller-100", "broker-1", "broker-2"]);
    wait_for("both brokers", || {
        let brokers = command_json(running.bootstrap, &["brokers"])["brokers"].clone();
        let active = brokers.as_array()?.iter().filter(|broker| broker["fenced"] == false).count();
        (active == 2).then_some(())
    });
    let create = ["topics", "--create", "--topic", "kept", "--replication-factor", "2"];
    assert_eq!(command(running.bootstrap, &create), "created topic kept\n");

    assert_eq!(running.stop(), "");

    // Ready means that clients are served: none is told to come again.
    let describe = ["topics", "--describe", "--topic", "kept"];
    let again = Running::start(&folder);
    let described = command_json(again.bootstrap, &describe);
    assert_eq!(described["topics"][0]["partitions"][0]["replicas"], json!([1, 2]));

    // Also after an end without any order, though the brokers' last processes count as alive until
    // their sessions have ended.
    let file = folder.join("controller-100.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("session_timeout = \"2s\"\n{text}")).unwrap();
    drop(again);
    let mut again = Running::start(&folder);
    let described = command_json(again.bootstrap, &describe);
    assert!(described["topics"][0]["partitions"][0]["leader"].as_i64() > Some(0), "{described}");
    assert_eq!(described["topics"][0]["partitions"][0]["replicas"], json!([1, 2]));

    // A node that ends is named, and how it is started again; the others go on.
    signal(again.pid("broker-2"), "-KILL");
    let mut said = String::new();
    while !said.contains("to start it again") {
        assert!(again.errors.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let file = folder.join("broker-2.toml");
    assert!(said.contains("broker-2 was ended by SIGKILL: "), "{said}");
    assert!(said.contains(&format!("ackmark broker --config {}", file.display())), "{said}");
    command_json(again.bootstrap, &["brokers"]);
}

#[test]
fn a_cluster_that_cannot_be_is_refused_in_words() {
    let parent = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let folder = parent.path().join("new").display().to_string();
    for (arguments, words) in [
        (["--controllers", "2"], "controllers = 2: must be 1 or 3"),
        (["--brokers", "0"], "brokers = 0: must be 1 to 100"),
        (["--port", "65500"], "port = 65500: must be 0 or at most 65335"),
    ] {
        let output = ackmark(&[&["cluster", &folder], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("ackmark: {words}\n"));
    }
    std::fs::write(parent.path().join("new/controller-100.toml"), "node_id = 1\n").unwrap();
    let output = ackmark(&["cluster", &folder]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("controller-100.toml") && said.contains("cluster_id"), "{said}");
}

//! A client we did not write, against a real cluster.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use ackmark::types::{Acks, DurabilityMode};

use crate::cluster::{Cluster, Shape, small_cell};

/// Says loudly that nothing was tested where kcat is missing (`.ci/run` installs it).
fn kcat_is_there() -> bool {
    let there = Command::new("kcat").arg("-V").output().is_ok();
    if !there {
        eprintln!("SKIPPED: kcat is not installed; clients other than our own were not tested");
    }
    there
}

fn kcat(cluster: &Cluster, args: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new("kcat")
        .args(["-b", &cluster.address(2).to_string()])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn kcat_lists_produces_and_consumes() {
    if !kcat_is_there() {
        return;
    }
    let cluster = Cluster::start(Shape::plain(DurabilityMode::Fsync));
    cluster.run(&small_cell("kcat", Acks::All));

    let listed = kcat(&cluster, &["-L", "-J"], b"");
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["brokers"].as_array().unwrap().len(), 3, "{listed}");
    let topic = &listed["topics"][0];
    assert_eq!(topic["topic"], "kcat");
    assert_eq!(topic["partitions"][0]["isrs"].as_array().unwrap().len(), 3, "{listed}");

    let lines: String = (0..1000).map(|i| format!("line {i}\n")).collect();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        kcat(&cluster, &["-P", "-t", "kcat", "-z", codec, "-X", "acks=all"], lines.as_bytes());
    }
    kcat(&cluster, &["-P", "-t", "kcat", "-X", "enable.idempotence=true"], lines.as_bytes());
    let consumed = kcat(&cluster, &["-C", "-t", "kcat", "-p", "0", "-o", "-6000", "-e", "-q"], b"");
    let consumed = String::from_utf8(consumed.stdout).unwrap();
    assert_eq!(consumed, lines.repeat(6));
}

//! On shell scripts instead of nodes.

use std::fs;
use std::path::Path;

use super::*;

/// A child that runs a shell script instead of a node: role and config become its arguments.
fn script(folder: &Path, text: &str) -> Child {
    let executable = folder.join("node.sh");
    fs::write(&executable, format!("#!/bin/sh\n{text}\n")).expect("a writable folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&executable, mode).expect("our own file");
    Child::start(Launch {
        name: "broker-1".to_owned(),
        executable,
        role: "broker",
        config: folder.join("broker-1.toml"),
        log: folder.join("broker-1.log"),
        takes_orders: true,
    })
    .expect("a shell starts")
}

const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_child_announces_itself_and_stops_when_asked() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text =
        r#"trap 'exit 0' TERM; echo '{"listening":"127.0.0.1:9"}'; while :; do sleep 0.01; done"#;
    let mut child = script(folder.path(), text);
    assert_eq!(child.listening(PATIENCE).expect("an address").port(), 9);
    child.check_running().expect("it waits to be stopped");
    child.ask_to_stop();
    assert_eq!(child.stopped(Instant::now() + PATIENCE), None);
}

#[test]
fn a_child_that_ends_is_reported_with_its_own_words() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut child = script(folder.path(), "echo 'no such disk' >&2; exit 3");
    let error = child.listening(PATIENCE).expect_err("it ended").to_string();
    assert_eq!(error, "broker-1 ended with exit status: 3:\n  no such disk");
}

#[test]
fn a_child_that_says_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut child = script(folder.path(), "echo hello; sleep 60");
    let error = child.listening(PATIENCE).expect_err("no address").to_string();
    assert_eq!(error, "broker-1 announced `hello`: must be {\"listening\":\"ip:port\"}");
}

#[test]
fn an_order_is_obeyed_once_it_is_said_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = r#"echo '{"listening":"127.0.0.1:9"}'; read a; echo "$a"; read b; echo no; read c"#;
    let mut child = script(folder.path(), text);
    child.listening(PATIENCE).expect("an address");
    child.order("disk full", PATIENCE).expect("said back");
    let error = child.order("disk none", PATIENCE).expect_err("not said back").to_string();
    assert!(error.contains("`no`"), "{error}");
}

#[test]
fn a_child_that_ignores_the_signal_is_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = r#"trap '' TERM; echo '{"listening":"127.0.0.1:9"}'; while :; do sleep 0.01; done"#;
    let mut child = script(folder.path(), text);
    child.listening(PATIENCE).expect("an address");
    child.ask_to_stop();
    let complaint = child.stopped(Instant::now()).expect("it had to be killed");
    assert_eq!(complaint, "broker-1 did not stop in time and was killed");
}

#[test]
fn last_words_are_repeated_though_the_disk_takes_none_of_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Every write to it fails as on a full disk.
    std::os::unix::fs::symlink("/dev/full", folder.path().join("broker-1.log")).expect("a link");
    let mut child = script(folder.path(), "echo 'no space left' >&2; exit 3");
    let error = child.listening(PATIENCE).expect_err("it ended").to_string();
    assert_eq!(error, "broker-1 ended with exit status: 3:\n  no space left");
}

#[test]
fn a_file_size_limit_that_ends_a_child_is_named_with_its_remedy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text =
        "cd \"${0%/*}\"; ulimit -c 0; ulimit -f 1; exec dd if=/dev/zero of=big bs=4096 count=9";
    let mut child = script(folder.path(), text);
    let error = child.listening(PATIENCE).expect_err("it ended").to_string();
    let first = error.lines().next().expect("a message");
    assert!(first.starts_with("broker-1 was ended by SIGXFSZ: a file reached"), "{error}");
    assert!(first.contains("ulimit -f"), "{error}");
}

#[test]
fn a_kill_is_laid_at_whose_door_it_belongs() {
    let killed = std::os::unix::process::ExitStatusExt::from_raw(libc::SIGKILL);
    let counts = |in_group, on_host| OomKills { in_group, on_host };
    let told = |was_killed, before, after| end::explain(killed, was_killed, before, after);
    let none = counts(Some(2), Some(7));
    assert_eq!(told(true, none, counts(Some(3), Some(8))), "was killed (SIGKILL)");
    assert!(told(false, none, none).contains("somebody sent it"));
    assert!(told(false, none, counts(Some(3), Some(8))).contains("memory.max"));
    assert!(told(false, none, counts(Some(2), Some(8))).contains("for want of memory meanwhile"));
    let unknown = counts(None, None);
    assert!(told(false, unknown, unknown).contains("somebody sent it"));
}

#[test]
fn a_child_is_told_to_stop_with_its_input_which_is_open_as_long_as_this_process_wants() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = r#"[ "$4" = --stop-with-stdin ] || exit 4
        echo '{"listening":"127.0.0.1:9"}'; read line; exit 7"#;
    let mut child = script(folder.path(), text);
    child.listening(PATIENCE).expect("an address");
    child.check_running().expect("its input is open");
    drop(child.process.stdin.take());
    let status = child.process.wait().expect("this process's child");
    assert_eq!(status.code(), Some(7), "the input ended");
}

#[test]
fn free_addresses_differ_and_can_be_had() {
    let found = free_addresses(Ipv4Addr::LOCALHOST, 8).expect("free ports");
    let distinct: std::collections::BTreeSet<_> = found.iter().collect();
    assert_eq!(distinct.len(), 8, "{found:?}");
}

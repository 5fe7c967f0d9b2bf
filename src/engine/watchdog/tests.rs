use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{STALL_EXIT_CODE, Watchdog, first_stalled};

const CHILD_MARK: &str = "ACKMARK_TEST_STALLS";

fn quiet_watchdog() -> Watchdog {
    Watchdog::start(Duration::from_secs(3600), u32::MAX).unwrap()
}

#[test]
fn a_loop_that_turns_is_never_stalled_and_one_that_stops_is_named() {
    let watchdog = quiet_watchdog();
    let (turning, stuck) = (watchdog.watch("turning".into()), watchdog.watch("stuck".into()));
    let mut watched = watchdog.watched.lock().unwrap();
    stuck.beat();
    for _ in 0..3 {
        turning.beat();
        assert_eq!(first_stalled(&mut watched, 3), None);
    }
    turning.beat();
    assert_eq!(first_stalled(&mut watched, 3).as_deref(), Some("stuck"));
}

#[test]
fn dropping_the_heartbeat_ends_the_watch() {
    let watchdog = quiet_watchdog();
    drop(watchdog.watch("gone".into()));
    let mut watched = watchdog.watched.lock().unwrap();
    assert_eq!(first_stalled(&mut watched, 1), None);
    assert!(watched.is_empty());
}

/// Does nothing unless the next test runs it in a child process.
#[test]
fn child_that_stalls() {
    if std::env::var_os(CHILD_MARK).is_some() {
        let _heartbeat =
            Watchdog::start(Duration::from_millis(5), 4).unwrap().watch("shard 7".into());
        thread::sleep(Duration::from_secs(600));
    }
}

#[test]
fn a_stalled_shard_ends_its_process_with_its_name() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "engine::watchdog::tests::child_that_stalls", "--nocapture"])
        .env(CHILD_MARK, "1")
        .output()
        .unwrap();
    assert_eq!(child.status.code(), Some(STALL_EXIT_CODE));
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(said.contains("shard \"shard 7\" has not turned for 20ms"), "{said}");
}

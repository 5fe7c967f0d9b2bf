//! Runs under faults on real child processes: what was planned happened, and when.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use ackmark::results::folder;
use ackmark::results::schema::{Event, RunResult, Status};

/// A cluster that notices a dead broker within a second.
const CLUSTER: &str = "[cluster]\nsegment_bytes = \"2MiB\"\nsession_timeout = \"1s\"\n\
                       heartbeat_interval = \"100ms\"\nreplica_fetch_backoff = \"50ms\"\n\
                       replica_lag_time_max = \"1s\"\n";

pub(super) struct Ended {
    /// Kept until the result was read.
    folder: tempfile::TempDir,
    status: Option<i32>,
    errors: String,
    /// What it printed.
    pub(super) output: String,
}

/// Runs a workload of one cell at 500 records a second: `rest` is all but its name and cluster.
fn run(rest: &str) -> Ended {
    run_on(CLUSTER, rest)
}

/// As [`run`], on another cluster.
fn run_on(cluster: &str, rest: &str) -> Ended {
    run_workload(&format!("name = \"t\"\n{cluster}{rest}"))
}

/// Runs a workload of the name `t`.
pub(super) fn run_workload(workload: &str) -> Ended {
    // Not in /tmp: that may be a tmpfs.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    fs::create_dir(folder.path().join("data")).expect("a writable folder");
    fs::write(folder.path().join("t.toml"), workload).expect("a writable folder");
    let output = Command::new(env!("CARGO_BIN_EXE_ackmark"))
        .args(["run", "t.toml", "--data", "data", "--out", "out"])
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (errors, output_text) = (text(output.stderr), text(output.stdout));
    // Seen if the test fails.
    eprintln!("the run ended with {}:\n{errors}\n{output_text}", output.status);
    Ended { folder, status: output.status.code(), errors, output: output_text }
}

impl Ended {
    pub(super) fn result(&self) -> RunResult {
        let told = || format!("{}\n{}", self.errors, self.output);
        let entries = fs::read_dir(self.folder.path().join("out/t"));
        let results: Vec<PathBuf> = entries
            .unwrap_or_else(|_| panic!("no result: {}", told()))
            .map(|entry| entry.expect("a readable folder").path())
            .collect();
        let result = folder::load(&results[0]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(self.status, Some(0), "{}", told());
        assert_eq!(result.status, Status::Complete, "{}", told());
        let left = fs::read_dir(self.folder.path().join("data")).expect("it was ours").count();
        assert_eq!(left, 0, "the run's folder is removed");
        result
    }

    /// The HTML report.
    fn report(&self) -> String {
        let stored = fs::read_dir(self.folder.path().join("out/t")).expect("a result");
        let folder = stored.map(|entry| entry.expect("a readable folder").path()).next();
        let status = Command::new(env!("CARGO_BIN_EXE_ackmark"))
            .arg("report")
            .arg(folder.expect("one result"))
            .args(["--html", "report.html"])
            .current_dir(self.folder.path())
            .status()
            .expect("the program starts");
        assert!(status.success());
        fs::read_to_string(self.folder.path().join("report.html")).expect("a report")
    }
}

/// The events, in the order of their plan, after a check that each began no sooner than it was
/// planned to, lasted, and is over.
fn events(result: &RunResult, planned: &[(&str, u64)]) -> Vec<Event> {
    let mut left = result.cells[0].repeats[0].events.clone();
    assert_eq!(left.len(), planned.len(), "{left:#?}");
    let mut taken = Vec::new();
    for (kind, planned_ms) in planned {
        let found = left.iter().position(|event| event.kind == *kind);
        let event = left.remove(found.unwrap_or_else(|| panic!("no {kind} in {left:#?}")));
        assert!(event.at_us >= planned_ms * 1_000, "before its time: {event:?}");
        assert!(event.until_us.is_some_and(|until_us| until_us > event.at_us), "{event:?}");
        taken.push(event);
    }
    taken
}

/// Records that were due when `event` began, warm-up included.
fn due_by(event: &Event) -> u64 {
    (event.at_us + 100_000) * 500 / 1_000_000
}

fn lasted_us(event: &Event) -> u64 {
    event.until_us.map_or(0, |until_us| until_us - event.at_us)
}

#[test]
fn processes_are_killed_paused_and_stopped_by_the_plan() {
    let ended = run("[load]\nwarmup = \"100ms\"\nduration = \"4s\"\nrepeats = 1\n\
                     request_timeout = \"1s\"\n[matrix]\nrate = [\"500/s\"]\n\
                     [[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat = \"300ms\"\nfor = \"300ms\"\n\
                     [[fault]]\nkind = \"pause\"\ntarget = \"active-controller\"\nat = \"1900ms\"\n\
                     for = \"200ms\"\n\
                     [[fault]]\nkind = \"stop\"\ntarget = \"broker-2\"\nat = \"2500ms\"\n");
    let result = ended.result();
    let events = events(&result, &[("kill", 300), ("pause", 1_900), ("stop", 2_500)]);
    assert!(events[0].what.contains("(leader) killed"), "{:?}", events[0]);
    assert!(events[1].what.starts_with("controller"), "{:?}", events[1]);
    assert!(lasted_us(&events[1]) >= 200_000, "as long as planned, however late: {events:?}");
    assert!(events[2].what.starts_with("broker-2 asked to stop"), "{:?}", events[2]);
    assert!(events[2].until_us.is_some_and(|until_us| until_us >= 4_000_000), "no end of its own");
    let page = ended.report();
    for event in &events {
        assert!(ended.errors.contains(&event.what), "told as it happened: {}", ended.errors);
        let mark = format!("data-kind=\"{}\"", event.kind);
        assert!(page.contains(&mark), "no {mark} in the time chart");
    }

    let cell = &result.cells[0];
    let counts = &cell.counts;
    let all = counts.acknowledged_records
        + counts.failed_records
        + counts.unanswered_records
        + counts.unsent_records;
    assert_eq!(counts.due_records, all, "{counts:?}");
    // Nothing is acknowledged without a leader: what fell due then came late, or not at all.
    let is_late = cell.latency.acknowledged.max_ns >= Some(100_000_000);
    assert!(is_late || counts.failed_records >= 50, "no outage: {counts:?}");
    assert_eq!(cell.repeats[0].nodes.len(), 5, "every node is up again at the end");
    let check = cell.repeats[0].check.as_ref().expect("every replica was read back");
    assert_eq!(check.violations, [""; 0]);
    assert_eq!(check.promised, ["acknowledged", "visible", "order"]);
    // The load found the next leader, and sent what fell due meanwhile.
    assert!(check.acknowledged > due_by(&events[0]) + 200, "{check:?} {:?}", cell.errors);
    assert!(check.acknowledged >= counts.acknowledged_records, "{check:?}");
    assert_eq!((check.lost, check.duplicated, check.duplicated_by_retries), (0, 0, 0), "{check:?}");
    let unknown = check.unknown_kept + check.unknown_lost;
    assert!(unknown >= counts.failed_records, "{check:?} {counts:?}");
}

#[test]
fn links_are_cut_one_way_and_both_ways_and_slowed() {
    let ended = run("[load]\nwarmup = \"100ms\"\nduration = \"4s\"\nrepeats = 1\n\
                     request_timeout = \"1s\"\n[matrix]\nrate = [\"500/s\"]\n\
                     [[fault]]\nkind = \"delay\"\ntarget = \"follower -> leader\"\nby = \"20ms\"\n\
                     at = \"200ms\"\nfor = \"300ms\"\n\
                     [[fault]]\nkind = \"cut\"\ntarget = \"follower -> leader\"\nat = \"800ms\"\n\
                     for = \"300ms\"\n\
                     [[fault]]\nkind = \"cut\"\ntarget = \"leader <-> all\"\nat = \"1500ms\"\n\
                     for = \"1500ms\"\n");
    let result = ended.result();
    let events = events(&result, &[("delay", 200), ("cut", 800), ("cut", 1_500)]);
    assert!(events[0].what.starts_with("delayed by 20ms in the relay: broker-"), "{events:?}");
    assert!(events[1].what.contains("(follower) to broker-"), "{events:?}");
    assert!(events[2].what.contains("(leader) and all others, both ways"), "{events:?}");
    assert!(result.warnings.iter().any(|warning| warning.contains("TCP relay")), "says so");

    let cell = &result.cells[0];
    let repeat = &cell.repeats[0];
    // Every acknowledgement waits for both followers, so it saw the delay; the cut held it longer.
    assert!(
        cell.latency.acknowledged.max_ns >= Some(200_000_000),
        "{:?}",
        cell.latency.acknowledged.max_ns
    );
    let check = repeat.check.as_ref().expect("every replica was read back");
    assert_eq!(check.violations, [""; 0]);
    assert!(check.acknowledged > due_by(&events[2]) + 100, "the load went on: {check:?}");
}

#[test]
fn a_fault_waits_for_somebody_to_have_its_role() {
    // Until the session of the dead leader ends, nobody leads.
    let ended = run("[load]\nwarmup = \"100ms\"\nduration = \"6s\"\nrepeats = 1\n\
                     request_timeout = \"1s\"\n[matrix]\nrate = [\"500/s\"]\n\
                     [[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat = \"300ms\"\nfor = \"2s\"\n\
                     [[fault]]\nkind = \"pause\"\ntarget = \"leader\"\nat = \"310ms\"\n\
                     for = \"400ms\"\n");
    let result = ended.result();
    let events = events(&result, &[("kill", 300), ("pause", 310)]);
    assert!(events[1].what.contains("(leader) paused"), "{events:?}");
    assert!(events[1].at_us > events[0].at_us + 100_000, "there was no leader: {events:?}");
    assert!(lasted_us(&events[1]) >= 400_000, "{events:?}");
    let check = result.cells[0].repeats[0].check.as_ref().expect("every replica was read back");
    assert_eq!((&check.violations, check.lost), (&Vec::new(), 0), "{check:?}");
}

#[test]
fn a_quorum_outlives_its_active_controller() {
    let ended = run("controllers = 3\n\
                     [load]\nwarmup = \"100ms\"\nduration = \"12s\"\nrepeats = 1\n\
                     request_timeout = \"1s\"\n[matrix]\nrate = [\"500/s\"]\n\
                     [[fault]]\nkind = \"cut\"\ntarget = \"active-controller <-> all\"\n\
                     at = \"200ms\"\n\
                     [[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat = \"400ms\"\nfor = \"500ms\"\n");
    let result = ended.result();
    let events = events(&result, &[("cut", 200), ("kill", 400)]);
    assert!(events[0].what.contains("(active-controller) and all others"), "{events:?}");
    let repeat = &result.cells[0].repeats[0];
    assert_eq!(repeat.nodes.len(), 7, "every node is up again at the end");
    // Only another controller makes another broker leader, and only brokers that give up the silent
    // one hear of it. Once the load is over the cut is too, so what is acknowledged then does not
    // count.
    let killed_in = events[1].at_us / 1_000_000;
    let meanwhile = repeat.intervals.iter().filter(|i| i.second > killed_in && i.second < 12);
    let acknowledged: u64 = meanwhile.map(|interval| interval.records).sum();
    assert!(acknowledged > 0, "{:?} {events:?}", repeat.intervals);
    let check = repeat.check.as_ref().expect("every replica was read back");
    assert_eq!((&check.violations, check.lost), (&Vec::new(), 0), "{check:?}");
}

/// Whether this user can mount a loop device; if not, says so.
pub(super) fn can_lose_page_cache() -> bool {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let tried = ackmark::faults::loop_disk::try_in(folder.path());
    if let Err(error) = &tried {
        eprintln!("SKIPPED: {error}");
    }
    tried.is_ok()
}

#[test]
fn a_lost_page_cache_costs_synced_modes_nothing() {
    if !can_lose_page_cache() {
        return;
    }
    let ended = run("[load]\nwarmup = \"100ms\"\nduration = \"3s\"\nrepeats = 1\n\
                     request_timeout = \"1s\"\n[matrix]\nrate = [\"500/s\"]\n\
                     durability = [\"direct-dsync\"]\n\
                     [[fault]]\nkind = \"page-cache-loss\"\ntarget = \"leader\"\nat = \"500ms\"\n\
                     for = \"300ms\"\n");
    let result = ended.result();
    let events = events(&result, &[("page-cache-loss", 500)]);
    assert!(events[0].what.contains("(leader) lost its page cache"), "{events:?}");
    assert!(result.warnings.iter().any(|warning| warning.contains("not the device's own cache")));
    let check = result.cells[0].repeats[0].check.as_ref().expect("every replica was read back");
    assert_eq!((&check.violations, check.lost), (&Vec::new(), 0), "{check:?}");
    assert_eq!(check.promised, ["acknowledged", "visible", "order"]);
    assert!(check.acknowledged > due_by(&events[0]) + 100, "the load went on: {check:?}");
}

#[test]
fn a_lost_page_cache_costs_the_page_cache_mode_what_it_acknowledged() {
    if !can_lose_page_cache() {
        return;
    }
    // One replica, so that nobody else has the records.
    let ended = run("replication_factor = 1\nmin_isr = 1\n\
                     [load]\nwarmup = \"100ms\"\nduration = \"2500ms\"\nrepeats = 1\n\
                     request_timeout = \"1s\"\n[matrix]\nrate = [\"500/s\"]\n\
                     durability = [\"page-cache\"]\n\
                     [[fault]]\nkind = \"page-cache-loss\"\ntarget = \"leader\"\nat = \"1s\"\n\
                     for = \"200ms\"\n");
    let result = ended.result();
    let check = result.cells[0].repeats[0].check.as_ref().expect("the replica was read back");
    assert!(check.lost > 0, "the loss is found: {check:?}");
    assert!(check.violations.is_empty(), "and promised by nobody: {check:?}");
    assert_eq!(check.promised, ["order"]);
}

#[test]
fn a_broker_that_cannot_write_ends_loudly_and_acknowledges_nothing_more() {
    let ended = run("[load]\nwarmup = \"100ms\"\nduration = \"6s\"\nrepeats = 1\n\
                     request_timeout = \"1s\"\n[matrix]\nrate = [\"500/s\"]\n\
                     durability = [\"fsync\"]\n\
                     [[fault]]\nkind = \"slow-sync\"\ntarget = \"leader\"\nby = \"30ms\"\n\
                     at = \"100ms\"\nfor = \"300ms\"\n\
                     [[fault]]\nkind = \"sync-error\"\ntarget = \"leader\"\nat = \"600ms\"\n\
                     for = \"1200ms\"\n\
                     [[fault]]\nkind = \"disk-full\"\ntarget = \"follower\"\nat = \"3500ms\"\n\
                     for = \"500ms\"\n");
    let result = ended.result();
    let planned = [("slow-sync", 100), ("sync-error", 600), ("disk-full", 3_500)];
    let events = events(&result, &planned);
    assert!(events[0].what.contains("(leader) syncs 30ms slower"), "{events:?}");
    for (event, words) in [(&events[1], "Input/output error"), (&events[2], "No space left")] {
        let ended = event.what.contains("ended with exit status: 3");
        assert!(ended && event.what.contains(words), "{event:?}");
    }
    let cell = &result.cells[0];
    assert!(cell.latency.acknowledged.max_ns >= Some(30_000_000), "the slow syncs show");
    let check = cell.repeats[0].check.as_ref().expect("every replica was read back");
    assert_eq!(check.violations, [""; 0]);
    assert!(check.acknowledged > due_by(&events[1]) + 300, "another leader went on: {check:?}");
}

/// Leader and follower are killed while the follower syncs, and the follower, without what it had
/// in memory, leads next. Had it acknowledged its log's end, or the leader its fetch offset, records
/// would be lost: those of the time since its last sync.
#[test]
fn what_a_pipelined_follower_has_not_synced_is_not_acknowledged() {
    // Only who is in sync leads: without the KIP's levels an unclean restart leaves the ISR alone.
    let ended = run_on(
        "[cluster]\nsegment_bytes = \"2MiB\"\nsession_timeout = \"1s\"\n\
         heartbeat_interval = \"100ms\"\nreplica_fetch_backoff = \"50ms\"\n\
         brokers = 2\nreplication_factor = 2\nmin_isr = 2\nfetch_pipeline = \"pipelined\"\n",
        "[election]\nelr_level = 0\n\
         [load]\nwarmup = \"200ms\"\nduration = \"3500ms\"\nrepeats = 1\n\
         request_timeout = \"1s\"\n\
         [matrix]\nacks = [\"all\"]\nrate = [\"500/s\"]\ndurability = [\"fsync\"]\n\
         [[fault]]\nkind = \"slow-sync\"\ntarget = \"follower\"\nby = \"10s\"\n\
         at = \"1s\"\nfor = \"2s\"\n\
         [[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat = \"1500ms\"\nfor = \"1500ms\"\n\
         [[fault]]\nkind = \"kill\"\ntarget = \"any-broker\"\nat = \"1900ms\"\nfor = \"100ms\"\n",
    );
    let result = ended.result();
    let events = &result.cells[0].repeats[0].events;
    let what: Vec<&str> = events.iter().map(|event| event.what.as_str()).collect();
    assert!(what.len() == 3 && what[1].contains("(leader) killed"), "{what:?}");
    let follower = what[0].split(' ').next().expect("a name");
    assert!(what[2].starts_with(follower), "the one that was left up: {what:?}");
    let check = result.cells[0].repeats[0].check.as_ref().expect("both were read back");
    assert_eq!((&check.violations, check.lost), (&Vec::new(), 0), "{check:?}");
    assert!(check.promised.iter().any(|promise| promise == "acknowledged"), "{check:?}");
    // The leader had stored and served them, so only the follower's sync was missing.
    assert!(check.unknown_lost >= 100, "its memory was not lost: {check:?}");
    assert!(check.acknowledged > 0, "nothing was promised: {check:?}");
}

#[test]
fn a_short_torture_loses_nothing_and_prints_its_seed_and_plan() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_ackmark"))
        .args(["torture", "--quick", "--seed", "3"])
        .current_dir(folder.path())
        .output()
        .expect("the program starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    assert!(text.contains("--seed 3") && text.contains("[[fault]]"), "{text}");
    assert!(text.contains(": 0 lost, 0 elsewhere, 0 duplicated"), "{text}");
    assert!(text.trim_end().ends_with("PASS"), "{text}");
    let left = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "nothing is left behind");
}

//! Whole runs on real child processes: a complete one, an interrupted one, one that loses a broker.
//!
//! All in page-cache mode, so that any temporary folder will do.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ackmark::measure::histogram::LatencyHistogram;
use ackmark::results::folder;
use ackmark::results::schema::{RunResult, Status};

struct Run {
    folder: tempfile::TempDir,
    process: Child,
}

struct Ended {
    /// Kept until the result was read.
    folder: tempfile::TempDir,
    status: Option<i32>,
    errors: String,
    output: String,
}

impl Run {
    /// Two cells a repeat, `repeats` times, each measured for `duration`.
    fn start(repeats: usize, duration: &str) -> Run {
        Run::start_on("", repeats, duration)
    }

    /// The same with more in the cluster's table, or after it.
    fn start_on(cluster: &str, repeats: usize, duration: &str) -> Run {
        Run::of(&format!(
            "name = \"t\"\n[cluster]\nsegment_bytes = \"2MiB\"\n{cluster}\
             [load]\nwarmup = \"100ms\"\nduration = \"{duration}\"\nrepeats = {repeats}\n\
             [matrix]\nacks = [1, \"all\"]\nrate = [\"500/s\"]\n"
        ))
    }

    /// A workload named `t`.
    fn of(workload: &str) -> Run {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir(folder.path().join("data")).expect("a writable folder");
        fs::write(folder.path().join("t.toml"), workload).expect("a writable folder");
        // Under nohup(1) the tests ignore SIGHUP, and so would the run.
        let process = Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_ackmark")])
            .args(["run", "t.toml", "--data", "data", "--out", "out"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Run { folder, process }
    }

    /// Waits for a line of progress that contains `text`, then does `act` with the process id.
    fn after(mut self, text: &str, act: impl FnOnce(u32)) -> Ended {
        let stderr = self.process.stderr.take().expect("it is piped");
        let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
        let mut errors = String::new();
        for line in lines.by_ref() {
            let found = line.contains(text);
            errors.push_str(&line);
            errors.push('\n');
            if found {
                break;
            }
        }
        act(self.process.id());
        for line in lines {
            errors.push_str(&line);
            errors.push('\n');
        }
        let mut output = String::new();
        let mut stdout = self.process.stdout.take().expect("it is piped");
        stdout.read_to_string(&mut output).expect("a report in UTF-8");
        let status = self.process.wait().expect("our own child").code();
        Ended { folder: self.folder, status, errors, output }
    }
}

impl Ended {
    fn results(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path().join("out/t")).expect("results were stored");
        entries.map(|entry| entry.expect("a readable folder").path()).collect()
    }

    fn result(&self) -> RunResult {
        let results = self.results();
        assert_eq!(results.len(), 1, "{}", self.errors);
        folder::load(&results[0]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn assert_data_is_gone(&self) {
        let left = fs::read_dir(self.folder.path().join("data")).expect("it was ours").count();
        assert_eq!(left, 0, "the run's folder is removed");
    }
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {pid}")])
        .status()
        .expect("a shell starts");
    assert!(status.success(), "no process {pid} to signal");
}

/// The process id of `ackmark broker` number `id` among the children of `parent`.
fn broker(parent: u32, id: usize) -> u32 {
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))
        .expect("the run is going on");
    let is_it = |pid: &&str| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&command).contains(&format!("broker-{id}.toml"))
    };
    let pid = children.split_whitespace().find(is_it);
    pid.expect("the broker is running").parse().expect("a process id")
}

#[test]
fn a_complete_run_is_stored_with_everything_it_measured() {
    let ended = Run::start(1, "1s").after("measuring the floor again", |_| {});
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.errors, ended.output);
    ended.assert_data_is_gone();
    let result = ended.result();
    assert_eq!(result.status, Status::Complete);
    assert_eq!(result.cells.len(), 2);
    for cell in &result.cells {
        let counts = &cell.counts;
        // A batch counts by its oldest record: where the driver is late as warm-up ends, the first
        // measured records leave in a batch of the warm-up.
        let due = counts.due_records;
        assert!((400..=500).contains(&due), "{}: {due}", cell.name);
        assert_eq!(counts.acknowledged_records, due, "{}", cell.name);
        assert_eq!(counts.consumed_records, due, "{}", cell.name);
        let latencies =
            [&cell.latency.acknowledged, &cell.latency.committed, &cell.latency.consumed];
        for latency in latencies {
            let text = latency.histogram_v2_deflate_base64.as_ref().expect("samples");
            let histogram = LatencyHistogram::from_base64(text).expect("our own format");
            assert_eq!(histogram.count() + latency.overflow_count, latency.count);
        }
        assert_eq!(cell.reconciliation.agrees, Some(true), "{:?}", cell.reconciliation);
        assert!(cell.floor.as_ref().is_some_and(|floor| floor.ratio.is_some()), "{}", cell.name);
        let isr = cell.isr.as_ref().expect("the brokers told of their leaderships");
        let told: Vec<&str> = isr.intervals.iter().map(|interval| &*interval.name).collect();
        assert_eq!(told, ["leader_first_append", "leader_first_commit"], "{}", cell.name);
        assert_eq!(isr.lost_events, 0);
        // The shutdown moves the leadership; that is no longer the cell's.
        assert_eq!(isr.events.len(), 2, "one leadership, one wait for the first commit: {isr:?}");
        assert_eq!(cell.repeats[0].nodes.len(), 5, "controller, three brokers, driver");
        let percentiles = format!("cell-{:03}-acknowledged.hgrm", cell.index);
        assert!(ended.results()[0].join(percentiles).exists());
    }
    assert!(ended.output.contains("where the ack p50 went"), "{}", ended.output);
}

/// One record at a time: without an acknowledgement beside the fetch that waits at the leader, a
/// pipelined follower's sync would be known only when that fetch times out.
#[test]
fn every_way_to_replicate_acknowledges_and_is_named_in_the_result() {
    let ended = Run::of(
        "name = \"t\"\n[cluster]\nsegment_bytes = \"2MiB\"\nreplica_fetch_wait_max = \"60s\"\n\
         commit_pipeline_depth = 2\ncommit_delay = \"2ms\"\n\
         [load]\nmode = \"closed\"\nwarmup = \"100ms\"\nduration = \"400ms\"\nrepeats = 1\n\
         [matrix]\ndurability = [\"fsync\"]\nhwm_gate = [\"kip966\", \"soft\"]\n\
         fetch_pipeline = [\"classic\", \"pipelined\"]\nserve_followers = [\"after\"]\n",
    )
    .after("measuring the floor again", |_| {});
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.errors, ended.output);
    let result = ended.result();
    let names: Vec<&str> = result.cells.iter().map(|cell| cell.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "acks=all fsync fetch.pipeline=classic hwm.gate=kip966",
            "acks=all fsync fetch.pipeline=classic hwm.gate=soft",
            "acks=all fsync fetch.pipeline=pipelined hwm.gate=kip966",
            "acks=all fsync fetch.pipeline=pipelined hwm.gate=soft",
        ]
    );
    for cell in &result.cells {
        let (counts, factors) = (&cell.counts, &cell.factors);
        assert!(counts.acknowledged_records > 0, "{}: {counts:?}", cell.name);
        assert_eq!(counts.unanswered_records, 0, "{}", cell.name);
        assert_eq!(cell.reconciliation.anomaly_count, 0, "{}", cell.name);
        assert_eq!((factors.commit_pipeline_depth, &*factors.commit_delay), (2, "2ms"));
        assert_eq!(factors.serve_followers, "after");
    }
}

/// How fast this machine is, and what else runs on it, is not the test's business: a search may
/// sustain nothing, and then says so. It is given a few more then.
#[test]
fn a_sweep_finds_what_is_sustained_and_runs_shares_of_it() {
    for _ in 0..5 {
        let ended = Run::of(
            "name = \"t\"\n[cluster]\nsegment_bytes = \"2MiB\"\n\
             [load]\nwarmup = \"50ms\"\nduration = \"200ms\"\nsaturation_probe = \"500ms\"\n\
             repeats = 2\n[matrix]\nrate = [\"10%\", \"5%\"]\n",
        )
        .after("measuring the floor again", |_| {});
        let result = ended.result();
        let [sweep] = &result.sweeps[..] else { panic!("{:?}", result.sweeps) };
        assert_eq!((&*sweep.name, &sweep.cells[..]), ("acks=all page-cache", &[1, 0][..]));
        let saturation = sweep.saturation.as_ref().expect("it was searched");
        let probes = &saturation.probes;
        assert_eq!(probes[0].asked_per_s, None, "the windows are filled first");
        let sustained = probes.iter().filter(|probe| probe.sustained);
        let best = sustained.filter_map(|probe| probe.asked_per_s).max();
        assert_eq!(best, saturation.rate_per_s, "{probes:?}");
        match saturation.rate_per_s {
            Some(found) => return assert_shares(&ended, &result, found),
            None => assert_not_found(&ended, &result),
        }
    }
    println!("SKIPPED: this machine sustains no rate, so no share of one was run");
}

fn assert_shares(ended: &Ended, result: &RunResult, found: u64) {
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.errors, ended.output);
    let reason = result.sweeps[0].knee_absent_reason.as_deref();
    assert_eq!(reason, Some("needs 4 rates with samples, there are 2"));
    for (cell, percent) in result.cells.iter().zip([10, 5]) {
        assert_eq!(cell.name, format!("acks=all page-cache {percent}%"));
        assert_eq!(cell.factors.rate_percent, Some(percent));
        assert_eq!(cell.factors.rate_per_s, Some(found * u64::from(percent) / 100));
        assert_eq!(cell.repeats.len(), 2, "{:?}", cell.status_reason);
        assert!(cell.counts.acknowledged_records > 0);
    }
}

fn assert_not_found(ended: &Ended, result: &RunResult) {
    assert_eq!(ended.status, Some(3), "{}\n{}", ended.errors, ended.output);
    for cell in &result.cells {
        assert_eq!((cell.factors.rate_per_s, cell.repeats.len()), (None, 0));
        let reason = cell.status_reason.as_deref().unwrap_or_default();
        assert!(reason.contains("no rate was sustained"), "{reason}");
    }
}

#[test]
fn a_run_on_three_controllers_and_other_rules_completes() {
    let cluster = "controllers = 3\nalter_partition_batched = false\n[election]\nelr_level = 0\n";
    let run = Run::start_on(cluster, 1, "300ms");
    let ended = run.after("measuring the floor again", |_| {});
    assert_eq!(ended.status, Some(0), "{}\n{}", ended.errors, ended.output);
    let result = ended.result();
    assert_eq!(result.status, Status::Complete);
    assert_eq!(result.workload.cluster["controllers"], 3);
    assert_eq!(result.workload.cluster["alter_partition_batched"], false);
    assert_eq!(result.workload.election["elr_level"], 0);
    let names: Vec<&str> =
        result.cells[0].repeats[0].nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names[..3], ["controller-100", "controller-101", "controller-102"]);
    assert_eq!(names.len(), 7);
}

#[test]
fn an_interrupted_run_keeps_what_it_measured() {
    for name in ["INT", "HUP"] {
        let ended = Run::start(500, "300ms").after("[1/1000]", |pid| signal(name, pid));
        assert_eq!(ended.status, Some(130), "{name}: {}\n{}", ended.errors, ended.output);
        ended.assert_data_is_gone();
        let result = ended.result();
        assert_eq!(result.status, Status::Partial);
        assert_eq!(result.status_reason.as_deref(), Some("interrupted"));
        assert!(result.cells[0].latency.acknowledged.count > 0);
        assert!(ended.output.contains("PARTIAL: interrupted"), "{}", ended.output);
    }
}

/// Bytes of all partitions' logs of broker `id` below `folder`.
fn log_bytes(folder: &Path, id: usize) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let bytes = |entry: fs::DirEntry| {
        let path = entry.path();
        let is_log = path.extension().is_some_and(|extension| extension == "log");
        let is_of_broker = path.to_string_lossy().contains(&format!("broker-{id}/"));
        match path.is_dir() {
            true => log_bytes(&path, id),
            false if is_log && is_of_broker => entry.metadata().map_or(0, |file| file.len()),
            false => 0,
        }
    };
    entries.filter_map(Result::ok).map(bytes).sum()
}

/// Waits until broker `id` has taken in `grown_bytes` more: the next cell is under load.
fn wait_for_load(data: &Path, id: usize, grown_bytes: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    // The last cell's topic may be deleted meanwhile, so what is there can shrink first.
    let mut least = log_bytes(data, id);
    loop {
        let now = log_bytes(data, id);
        least = least.min(now);
        if now >= least + grown_bytes {
            return;
        }
        assert!(Instant::now() < deadline, "no load reached broker {id}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_cell_that_loses_a_broker_under_load_keeps_its_samples() {
    let run = Run::start(2, "2s");
    let data = run.folder.path().join("data");
    let ended = run.after("[1/4]", |pid| {
        wait_for_load(&data, 2, 200 << 10);
        signal("KILL", broker(pid, 2));
    });
    assert_eq!(ended.status, Some(3), "{}\n{}", ended.errors, ended.output);
    let result = ended.result();
    assert_eq!(result.status, Status::Partial);
    let hit = &result.cells[1];
    assert_eq!(hit.repeats.len(), 2, "the repeat that was hit, and the next");
    assert_eq!(hit.status, Status::Partial);
    let reason = hit.status_reason.as_deref().unwrap_or_default();
    assert!(reason.contains("broker-2 was ended by SIGKILL: "), "{reason}");
    assert!(hit.latency.acknowledged.count > 0);
}

#[test]
fn a_run_that_loses_a_broker_says_so_and_keeps_the_rest() {
    let ended = Run::start(2, "2s").after("[1/4]", |pid| signal("KILL", broker(pid, 2)));
    assert_eq!(ended.status, Some(3), "{}\n{}", ended.errors, ended.output);
    ended.assert_data_is_gone();
    let result = ended.result();
    assert_eq!(result.status, Status::Partial);
    let reason = result.status_reason.as_deref().unwrap_or_default();
    assert!(reason.contains("broker-2 was ended by SIGKILL: "), "{reason}");
    assert_eq!(result.cells[0].repeats.len(), 2, "the cell before, and the next repeat");
}

#[test]
fn a_node_with_a_bad_file_is_refused_in_words() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = folder.path().join("broker.toml");
    fs::write(&config, "node_id = 1\n").expect("a writable folder");
    let output = Command::new(env!("CARGO_BIN_EXE_ackmark"))
        .args([Path::new("broker"), Path::new("--config"), &config])
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.ends_with("broker.toml:1:1: cluster_id: this key is needed\n"), "{message}");
}

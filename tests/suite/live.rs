//! Runs as they are seen from outside while they go on: metrics and their dashboard, the terminal
//! view, and what a run keeps when it is told to stop at this moment or that.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use ackmark::results::folder;
use ackmark::results::schema::{RunResult, Status};
use serde_json::Value;

/// Longer than anything here takes, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A closed loop has no floor to measure first.
const CLOSED: &str = "mode = \"closed\"\nin_flight_max = 1\n";

/// A few cells.
const SHORT: &str = "warmup = \"0s\"\nduration = \"700ms\"\nrepeats = 2";
/// Longer than any test, in cells of a second.
const LONG: &str = "warmup = \"0s\"\nduration = \"1s\"\nrepeats = 1000";

/// A folder with a data directory and a workload: acks 1 and all, `load` beside.
fn folder(load: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    let workload = format!(
        "name = \"t\"\n[cluster]\nsegment_bytes = \"2MiB\"\n[load]\n{load}\n\
         [matrix]\nacks = [1, \"all\"]\n{}",
        if load.contains("closed") { "" } else { "rate = [\"500/s\"]\n" }
    );
    fs::write(folder.path().join("t.toml"), workload).unwrap();
    folder
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ackmark"));
    command.args(["run", "t.toml", "--data", "data", "--out", "out"]).current_dir(folder);
    command
}

fn signal(name: &str, pid: u32) {
    let kill = format!("kill -{name} {pid}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// Waits until `ready` gives something; `None` if it does not.
fn patiently<T>(mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let value = ready();
        if value.is_some() || Instant::now() >= deadline {
            return value;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until `ready` gives something.
fn until<T>(what: &str, ready: impl FnMut() -> Option<T>) -> T {
    patiently(ready).unwrap_or_else(|| panic!("{what} did not come"))
}

const REQUEST: &[u8] =
    b"GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: application/openmetrics-text\r\n\r\n";

/// The text at `http://ADDRESS/metrics`, if somebody serves it.
fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.write_all(REQUEST).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    Some(body.to_owned())
}

/// The value of a metric without labels.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// A run whose driver serves metrics.
struct Run {
    folder: tempfile::TempDir,
    process: Child,
    lines: BufReader<std::process::ChildStderr>,
    metrics: String,
}

impl Run {
    fn start(load: &str, metrics_listen: &str) -> Run {
        let folder = folder(load);
        let mut process = command(folder.path())
            .args(["--metrics-listen", metrics_listen])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap());
        let mut run = Run { folder, process, lines, metrics: String::new() };
        let line = run.line("metrics at http://");
        let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
        run.metrics = address.unwrap().to_owned();
        run
    }

    /// The next line of progress that contains `text`.
    fn line(&mut self, text: &str) -> String {
        let mut all = String::new();
        loop {
            let begin = all.len();
            assert!(self.lines.read_line(&mut all).unwrap() > 0, "no {text} in:\n{all}");
            if all[begin..].contains(text) {
                return all[begin..].trim_end().to_owned();
            }
        }
    }

    /// Waits until the metrics contain all of `texts`.
    fn metrics_with(&mut self, texts: &[&str]) -> String {
        let mut last = None;
        let found = patiently(|| {
            last = scrape(&self.metrics);
            last.clone().filter(|told| texts.iter().all(|text| told.contains(text)))
        });
        found.unwrap_or_else(|| panic!("{texts:?} did not come, but:\n{last:?}\n{}", self.killed()))
    }

    /// Ends the run at once; all it had to say.
    fn killed(&mut self) -> String {
        let status = self.process.try_wait();
        self.process.kill().unwrap();
        let mut lines = format!("ended before: {status:?}\n");
        self.lines.read_to_string(&mut lines).unwrap();
        lines
    }

    fn signal(&self, name: &str) {
        signal(name, self.process.id());
    }

    /// The exit status, and the result if one was stored.
    fn end(mut self) -> (Option<i32>, RunResult) {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        let output = self.process.wait_with_output().unwrap();
        let left = fs::read_dir(self.folder.path().join("data")).unwrap().count();
        assert_eq!(left, 0, "the run's folder is removed");
        let results = results(self.folder.path());
        assert_eq!(results.len(), 1, "{rest}");
        let result = folder::load(&results[0]).unwrap_or_else(|error| panic!("{error}"));
        (output.status.code(), result)
    }
}

fn results(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("out/t")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Five ports in a row that are free, below those that connections are given.
fn free_ports() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let spread = u16::try_from(std::process::id() % 1_000).unwrap() * 20;
    loop {
        let base = 10_000 + (spread + NEXT.fetch_add(5, Ordering::Relaxed)) % 20_000;
        if (base..base + 5).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return base;
        }
    }
}

/// What a query may ask for, by the TYPE lines of an exporter.
fn series(exported: &str, names: &mut BTreeSet<String>) {
    for line in exported.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_sum", "_count"],
            "gauge" => &[""],
            other => panic!("{name} is a {other}"),
        };
        names.extend(endings.iter().map(|ending| format!("{name}{ending}")));
    }
}

/// The metrics that the queries of a dashboard name.
fn queried(dashboard: &Value, names: &mut BTreeSet<String>) {
    match dashboard {
        Value::Object(object) => {
            for (key, value) in object {
                if let ("expr", Value::String(query)) = (key.as_str(), value) {
                    let words = query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                    let is_metric =
                        |word: &&str| word.starts_with("ackmark_") || word.starts_with("kafka_");
                    names.extend(words.filter(is_metric).map(str::to_owned));
                }
                queried(value, names);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| queried(value, names)),
        _ => {}
    }
}

#[test]
fn nodes_without_a_port_for_metrics_are_refused_before_the_run() {
    let folder = folder("duration = \"300ms\"");
    let output = command(folder.path())
        .args(["--metrics-listen", "127.0.0.1:65532"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("--metrics-listen 127.0.0.1:65532"), "{errors}");
    assert!(errors.contains("up to 65536") && errors.contains("port 65531"), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(!folder.path().join("out").exists());
}

#[test]
fn driver_brokers_and_controller_serve_what_the_dashboard_shows() {
    let base = free_ports();
    let at = |number: u16| format!("127.0.0.1:{}", base + number);
    let mut run = Run::start(&format!("{CLOSED}{LONG}"), &at(0));
    let driver = run.metrics_with(&[
        "ackmark_driver_phase{phase=\"measuring\"} 1",
        "ackmark_driver_cell{cell=\"acks=",
        "ackmark_driver_partition_isr{partition=\"0\"} 3",
        "ackmark_driver_partition_high_watermark{partition=\"0\"}",
    ]);
    assert!(value(&driver, "ackmark_driver_sent_records_total").unwrap() > 0.0, "{driver}");
    let mut served = BTreeSet::new();
    for number in 0..5 {
        series(&scrape(&at(number)).expect("every process serves metrics"), &mut served);
        crate::metrics::lint(at(number).parse().unwrap());
    }
    let text = fs::read_to_string("docs/grafana/ackmark.json").unwrap();
    let mut shown = BTreeSet::new();
    queried(&serde_json::from_str(&text).unwrap(), &mut shown);
    assert!(shown.len() > 20, "{shown:?}");
    let unknown: Vec<&String> = shown.difference(&served).collect();
    assert!(unknown.is_empty(), "nobody serves {unknown:?}, but {served:#?}");
    run.signal("INT");
    let (status, result) = run.end();
    assert_eq!((status, result.status), (Some(130), Status::Partial));
}

/// Stops a run by `name` once `moment` has come; what it leaves is partial, and says so.
fn stopped(mode: &str, name: &str, moment: impl FnOnce(&mut Run)) -> RunResult {
    let load = format!("{mode}warmup = \"1s\"\nduration = \"1s\"\nrepeats = 100");
    let mut run = Run::start(&load, "127.0.0.1:0");
    moment(&mut run);
    run.signal(name);
    let (status, result) = run.end();
    assert_eq!(status, Some(130));
    assert_eq!(result.status, Status::Partial);
    assert!(result.is_interrupted(), "{:?}", result.status_reason);
    result
}

#[test]
fn a_run_stopped_before_its_first_cell_leaves_a_result_without_samples() {
    let result = stopped("", "TERM", |run| drop(run.line("measuring the floor of this machine")));
    assert_eq!(result.cells.len(), 2);
    assert!(result.cells.iter().all(|cell| cell.status == Status::Partial));
    assert_eq!(result.cells[0].latency.acknowledged.count, 0);
}

#[test]
fn a_run_stopped_in_a_warm_up_leaves_a_result_without_samples() {
    let result = stopped(CLOSED, "INT", |run| {
        run.metrics_with(&["ackmark_driver_phase{phase=\"warm_up\"} 1"]);
    });
    assert_eq!(result.cells[0].latency.acknowledged.count, 0);
    assert_eq!(result.cells[0].status_reason.as_deref(), Some("interrupted"));
}

#[test]
fn a_run_stopped_while_it_measures_leaves_what_it_measured() {
    let mut acknowledged = 0.0;
    let result = stopped("", "TERM", |run| {
        acknowledged = until("an acknowledgement", || {
            let told = scrape(&run.metrics)?;
            value(&told, "ackmark_driver_acknowledged_records_total").filter(|count| *count > 0.0)
        });
    });
    let cell = &result.cells[0];
    assert!(cell.counts.acknowledged_records as f64 >= acknowledged);
    assert!(cell.latency.acknowledged.count > 0);
    assert!(cell.counts.acknowledged_records < 1_000, "it was cut short");
}

/// At the end of a run it is luck whether a signal still finds something to stop. Whatever it finds,
/// what is stored and what the status says are the same.
#[test]
fn a_run_stopped_at_its_end_is_either_whole_or_marked() {
    let load = "warmup = \"50ms\"\nduration = \"300ms\"\nrepeats = 1";
    let at_the_floor = |run: &mut Run| drop(run.line("measuring the floor again"));
    let at_the_write = |run: &mut Run| {
        let folder = run.folder.path().to_owned();
        until("a result", || results(&folder).pop());
    };
    let moments: [&dyn Fn(&mut Run); 2] = [&at_the_floor, &at_the_write];
    for (index, moment) in moments.into_iter().enumerate() {
        let mut run = Run::start(load, "127.0.0.1:0");
        moment(&mut run);
        // At the write it may be over already.
        let pid = run.process.id();
        let _ = Command::new("sh").args(["-c", &format!("kill -INT {pid} 2>/dev/null")]).status();
        let (status, result) = run.end();
        match status {
            Some(0) => assert_eq!(result.status, Status::Complete),
            Some(130) => assert!(result.is_interrupted(), "{:?}", result.status_reason),
            other => panic!("{other:?}"),
        }
        assert!(index == 1 || status == Some(130), "there was a floor to stop");
        assert!(result.cells.iter().all(|cell| cell.latency.acknowledged.count > 0));
    }
}

/// Runs where a disk for results is full, with `redirect` in the shell that starts it. `None` where
/// nothing can be mounted.
fn on_a_full_disk(folder: &Path, redirect: &str) -> Option<(String, String)> {
    fs::create_dir(folder.join("out")).unwrap();
    fs::create_dir(folder.join("tmp")).unwrap();
    let script = format!("mount -t tmpfs -o size=16k none out && exec \"$@\" {redirect}");
    // A mount namespace of its own: nothing is left to unmount.
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .args([env!("CARGO_BIN_EXE_ackmark"), "run", "t.toml", "--data", "data", "--out", "out"])
        .env("TMPDIR", folder.join("tmp"))
        .current_dir(folder)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    if errors.contains("unshare") || errors.contains("mount:") {
        eprintln!("SKIPPED: no mount namespace here: {errors}");
        return None;
    }
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(errors.lines().last().unwrap().contains("No space left on device"), "{errors}");
    Some((String::from_utf8(output.stdout).unwrap(), errors))
}

fn assert_whole(result: &RunResult) {
    assert_eq!(result.status, Status::Complete);
    let counts = &result.cells[0].counts;
    assert!(counts.acknowledged_records > 0, "{counts:?}");
    assert_eq!(counts.acknowledged_records, counts.sent_records);
}

#[test]
fn a_full_disk_for_results_loses_nothing() {
    let folder = folder("warmup = \"50ms\"\nduration = \"300ms\"\nrepeats = 1");
    let Some((printed, errors)) = on_a_full_disk(folder.path(), "") else { return };
    let last = errors.lines().last().unwrap();
    assert!(last.contains("the result is on standard output"), "{last}");
    let (json, report) = printed.split_once('\n').unwrap();
    assert_whole(&serde_json::from_str(json).unwrap());
    assert!(report.contains("where the ack p50 went"), "{report}");
}

#[test]
fn a_full_disk_for_results_and_no_standard_output_lose_nothing() {
    for redirect in [">&-", ">/dev/full"] {
        let folder = folder("warmup = \"50ms\"\nduration = \"300ms\"\nrepeats = 1");
        let Some((_, errors)) = on_a_full_disk(folder.path(), redirect) else { return };
        let last = errors.lines().last().unwrap();
        let (_, kept) = last.split_once("the result is in ").expect(last);
        assert!(Path::new(kept).starts_with(folder.path().join("tmp")), "{last}");
        assert_whole(&folder::load(Path::new(kept)).unwrap());
    }
}

#[test]
fn two_runs_at_once_keep_a_result_each() {
    let folder = folder("warmup = \"50ms\"\nduration = \"300ms\"\nrepeats = 1");
    let runs: Vec<Child> = (0..2)
        .map(|_| {
            let mut command = command(folder.path());
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut run in runs {
        assert_eq!(run.wait().unwrap().code(), Some(0));
    }
    let results = results(folder.path());
    let ids: BTreeSet<String> =
        results.iter().map(|result| folder::load(result).unwrap().run_id).collect();
    assert_eq!((results.len(), ids.len()), (2, 2), "{results:?}");
}

const TAKEN: &str = "\u{1b}[?1049h";
const GIVEN_BACK: &str = "\u{1b}[?1049l";

/// A run in the view, to which `act` is done with its process id once it measures. What the terminal
/// was told, and whether it is in the modes that it was in.
fn viewed(load: &str, act: impl FnOnce(u32)) -> String {
    let folder = folder(load);
    let port = free_ports();
    let script = format!(
        "stty cols 100 rows 30; stty -a > before\n\
         sh -c 'echo $$ > pid; exec {} run t.toml --data data --out out \
         --metrics-listen 127.0.0.1:{port}'\n\
         echo status $?; stty -a > after; cmp before after && echo same modes\n",
        env!("CARGO_BIN_EXE_ackmark")
    );
    fs::write(folder.path().join("run.sh"), script).unwrap();
    // Under nohup(1) the tests ignore SIGHUP, and so would the run.
    let terminal = Command::new("env")
        .args(["--default-signal=HUP", "script"])
        .args(["--quiet", "--command", "sh run.sh", "/dev/null"])
        .env("TERM", "xterm")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script is part of every Linux");
    let address = format!("127.0.0.1:{port}");
    until("a partition", || {
        scrape(&address).filter(|told| told.contains("ackmark_driver_partition_isr{"))
    });
    let pid = fs::read_to_string(folder.path().join("pid")).unwrap();
    act(pid.trim().parse().unwrap());
    let told = terminal.wait_with_output().unwrap().stdout;
    String::from_utf8_lossy(&told).into_owned()
}

fn is_running(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).exists()
}

#[test]
fn the_terminal_is_given_back_however_a_run_ends() {
    let interrupt = |pid| signal("INT", pid);
    let insist = |pid| {
        until("the end", || {
            let _ = Command::new("sh").args(["-c", &format!("kill -INT {pid}")]).status();
            (!is_running(pid)).then_some(())
        });
    };
    let quit = |pid| signal("QUIT", pid);
    let hang_up = |pid| signal("HUP", pid);
    let finish = |_| {};
    let (long, short) = (&format!("{CLOSED}{LONG}"), &format!("{CLOSED}{SHORT}"));
    type Act<'a> = &'a dyn Fn(u32);
    let ends: [(&str, Act<'_>, &str); 5] = [
        (long, &interrupt, "status 130"),
        (long, &insist, "status 130"),
        (long, &quit, "status 131"),
        (long, &hang_up, "status 130"),
        (short, &finish, "status 0"),
    ];
    for (load, act, status) in ends {
        let told = viewed(load, act);
        let (before, during) = told.split_once(TAKEN).expect("the view is up");
        let (during, after) = during.split_once(GIVEN_BACK).expect("and down again");
        assert!(!before.contains("ackmark run"), "{before}");
        assert!(during.contains("ackmark run: t"), "{during}");
        assert!(during.contains("high watermark"), "{during}");
        assert!(!during.contains("records/s"), "the report is no part of the view");
        assert!(after.contains(status), "{status}: {after}");
        assert!(after.contains("same modes"), "{status}: {after}");
        let is_orderly = matches!(status, "status 0") || after.contains("PARTIAL");
        assert_eq!(is_orderly, after.contains("stored in out/t/"), "{status}: {after}");
    }
}

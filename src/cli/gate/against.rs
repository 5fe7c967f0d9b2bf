//! Two programs in turns: A B, B A, A B, … each as `ackmark run` of its own program, on the same
//! workload file, data directory and machine, so that what the machine does to one it does to both.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGTERM;

use crate::compare::gate::Judgement;
use crate::config::workload::Workload;
use crate::results::schema::RunResult;
use crate::results::{folder, time};
use crate::scenario::child::end_with_parent;
use crate::types::EngineKind;

use super::super::exit::{Exit, Failure};
use super::super::{run, say, share};

/// The workload that runs when none is named.
const WORKLOAD: &str = include_str!("../../../fixtures/workloads/gate.toml");

/// Between two looks at a run that goes on.
const POLL: Duration = Duration::from_millis(50);

/// Lines of a failed run's own words that are repeated.
const LAST_WORDS: usize = 5;

/// Only with --against
#[derive(Debug, Args)]
#[command(next_help_heading = "With --against")]
pub struct Arguments {
    /// Runs of each program
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u16).range(2..=1000))]
    rounds: u16,
    /// Holds the brokers' data during the runs
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    /// Holds the results, as OUT/gate-TIME/ROUND-SIDE
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Every cell of the workload once a run, about a second each
    #[arg(long)]
    quick: bool,
    /// Run every cell on this engine
    #[arg(long, value_parser = run::engine_parser())]
    engine: Option<EngineKind>,
    /// Slow this program's runs down, to test the gate
    #[arg(long, value_name = "PERCENT", value_parser = share::parse, hide = true)]
    inject_slowdown: Option<f64>,
}

/// What was run.
pub struct Session {
    /// Where everything is.
    pub folder: PathBuf,
    /// The results, (other program, this program).
    pub rounds: Vec<(RunResult, RunResult)>,
}

/// Which of the two programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Base,
    New,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Side::Base => "base",
            Side::New => "new",
        }
    }
}

impl Arguments {
    /// Whether this program's runs are slowed down on purpose.
    pub fn injects_slowdown(&self) -> bool {
        self.inject_slowdown.is_some()
    }

    /// Runs `program` and this one in turns until all rounds are done or `stop` is set.
    pub fn run(
        &self,
        program: &Path,
        workload: Option<&Path>,
        stop: &AtomicBool,
    ) -> Result<Session, Failure> {
        let mut session = Session { folder: self.folder()?, rounds: Vec::new() };
        let workload = self.workload(workload, &session.folder)?;
        let own = run::executable()?;
        for round in 0..self.rounds {
            say(&format!("round {} of {}", round + 1, self.rounds));
            // A B, B A, A B, …: whatever the first of a pair finds, each is first equally often.
            let order = match round % 2 {
                0 => [Side::Base, Side::New],
                _ => [Side::New, Side::Base],
            };
            let mut results = Vec::with_capacity(2);
            for side in order {
                let program = if side == Side::Base { program } else { &own };
                let place = session.folder.join(format!("round-{:02}-{}", round + 1, side.name()));
                let result = self.run_once(program, side, &workload, &place, stop)?;
                let Some(result) = result else { return Ok(session) };
                results.push((side, result));
            }
            results.sort_by_key(|(side, _)| *side == Side::New);
            let mut results = results.into_iter().map(|(_, result)| result);
            session.rounds.extend(results.next().zip(results.next()));
        }
        Ok(session)
    }

    fn folder(&self) -> Result<PathBuf, Failure> {
        fs::create_dir_all(&self.out).map_err(unusable("create", &self.out))?;
        let name = format!("gate-{}", time::folder_name(SystemTime::now()));
        folder::claim(&self.out, &name).map_err(|error| Failure::usage(&error))
    }

    /// Checks the workload once and puts a copy beside the results: what both programs ran.
    fn workload(&self, file: Option<&Path>, folder: &Path) -> Result<PathBuf, Failure> {
        let text = match file {
            Some(file) => fs::read_to_string(file).map_err(unusable("read", file))?,
            None => WORKLOAD.to_owned(),
        };
        let name = file.unwrap_or(Path::new("gate workload"));
        Workload::from_text(name, &text).map_err(|error| Failure::usage(&error))?;
        let copy = folder.join("workload.toml");
        fs::write(&copy, text).map_err(unusable("write", &copy))?;
        Ok(copy)
    }

    /// `None` if it was stopped.
    fn run_once(
        &self,
        program: &Path,
        side: Side,
        workload: &Path,
        place: &Path,
        stop: &AtomicBool,
    ) -> Result<Option<RunResult>, Failure> {
        fs::create_dir(place).map_err(unusable("create", place))?;
        let words = place.join("stderr.txt");
        let stderr = File::create(&words).map_err(unusable("create", &words))?;
        let mut command = Command::new(program);
        command.arg("run").arg(workload);
        command.args([OsStr::new("--data"), self.data.as_os_str()]);
        command.args([OsStr::new("--out"), place.as_os_str()]);
        if self.quick {
            command.arg("--quick");
        }
        if let Some(engine) = self.engine {
            command.args(["--engine", engine.name()]);
        }
        if let Some(share) = self.inject_slowdown.filter(|_| side == Side::New) {
            command.args(["--inject-slowdown", &format!("{}%", 100.0 * share)]);
        }
        // In a group of its own: an interrupt from the terminal reaches it once, through here.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        // It keeps what it has and goes, should this process be killed.
        end_with_parent(&mut command, SIGTERM);
        let child = command.spawn().map_err(unusable("start", program))?;
        let status = wait(child, stop).map_err(failed("wait for a run"))?;
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if !status.success() {
            return Err(run_failed(program, status, &words));
        }
        let result = only_folder(place).and_then(|name| only_folder(&name));
        let Some(result) = result else {
            let message = format!("{} left no result in {}", program.display(), place.display());
            return Err(Failure::invalid(message));
        };
        folder::load(&result).map(Some).map_err(|error| Failure::failed(&error))
    }
}

impl Session {
    /// Puts the judgement beside the results.
    pub fn keep(&self, judgement: &Judgement) -> Result<(), Failure> {
        let file = self.folder.join("gate.json");
        let json = serde_json::to_vec_pretty(judgement)
            .map_err(|error| Failure::invalid(format!("cannot write JSON: {error}")))?;
        fs::write(&file, json).map_err(failed("write the judgement"))?;
        say(&format!("stored in {}", self.folder.display()));
        Ok(())
    }
}

fn wait(mut child: Child, stop: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut is_told = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.load(Ordering::Relaxed) && !is_told {
            is_told = true;
            kill_process(Pid::from_child(&child), Signal::INT)?;
        }
        thread::sleep(POLL);
    }
}

/// The one folder in `folder`; `None` if there is not exactly one.
fn only_folder(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut folders = entries.filter(|path| path.is_dir());
    let first = folders.next()?;
    folders.next().is_none().then_some(first)
}

fn run_failed(program: &Path, status: ExitStatus, words: &Path) -> Failure {
    let text = fs::read(words).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LAST_WORDS)..].join("\n  ");
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    };
    let exit = if status.code() == Some(2) { Exit::Usage } else { Exit::Invalid };
    Failure { exit, message: format!("{} run ended with {how}:\n  {last}", program.display()) }
}

fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::invalid(format!("cannot {what}: {error}"))
}

fn unusable(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    let path = path.to_owned();
    move |error| Failure {
        exit: Exit::Usage,
        message: format!("cannot {what} {}: {error}", path.display()),
    }
}

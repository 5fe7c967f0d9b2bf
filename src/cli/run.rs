//! `ackmark run`: the whole experiment on this machine.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::config::workload::Workload;
use crate::results::schema::{RunResult, Status};
use crate::results::{folder, time};
use crate::scenario::reason::with_sources;
use crate::scenario::run::{self, RunError, Settings};
use crate::types::EngineKind;

use super::exit::{Exit, Failure};
use super::live::LiveArguments;
use super::{share, signals};

/// The workload that runs when none is named.
const DEFAULT_WORKLOAD: &str = include_str!("../../fixtures/workloads/default.toml");

/// Start a cluster on this machine, drive the workload, store the result and print the table
#[derive(Debug, Args)]
pub struct RunArguments {
    /// A workload file; without it the default workload: acks 1 and all under each durability mode
    #[arg(value_name = "WORKLOAD.toml")]
    workload: Option<PathBuf>,
    /// Holds the brokers' data during the run; what the run made in it is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    /// Holds the results, as OUT/NAME/TIME
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,
    /// Every cell of the workload once, about a second each; with faults at its full length
    #[arg(long)]
    quick: bool,
    /// Run every cell on this engine
    #[arg(long, value_parser = engine_parser())]
    engine: Option<EngineKind>,
    /// Hold every acknowledgement back by this share of its latency, to test a gate
    #[arg(long, value_name = "PERCENT", value_parser = share::parse, hide = true)]
    inject_slowdown: Option<f64>,
    #[command(flatten)]
    live: LiveArguments,
}

/// `uring` or `glommio`.
pub(super) fn engine_parser() -> impl TypedValueParser<Value = EngineKind> {
    PossibleValuesParser::new(["uring", "glommio"]).map(|name| match name.as_str() {
        "glommio" => EngineKind::Glommio,
        _ => EngineKind::Uring,
    })
}

/// `ackmark run`
pub fn run(arguments: &RunArguments) -> Result<Exit, Failure> {
    let stop = signals::stop_flag()?;
    let workload = workload(arguments)?;
    arguments.live.check(workload.cluster.brokers + workload.cluster.controllers)?;
    folder::prepare(&arguments.out, &workload.name).map_err(|error| Failure::usage(&error))?;
    if cfg!(debug_assertions) {
        super::say("ackmark: debug build: figures are not valid; use a release build");
    }
    let live = arguments.live.start(&workload)?;
    let settings = Settings {
        workload,
        data_dir: arguments.data.clone(),
        executable: executable()?,
        run_id: uuid::Uuid::new_v4().to_string(),
        floors: true,
        metrics: arguments.live.nodes_listen_after(),
    };
    let started = SystemTime::now();
    let outcome = run::run(&settings, &stop, &mut live.progress());
    drop(live);
    finish(&arguments.out, &time::folder_name(started), &outcome.map_err(failure)?)
}

/// Stores and prints a result. One that cannot be stored where it was asked for is kept elsewhere
/// and printed whole: a measurement is never lost to a full disk.
pub fn finish(out: &Path, folder_name: &str, result: &RunResult) -> Result<Exit, Failure> {
    let folder = match folder::write(out, folder_name, result) {
        Ok(folder) => folder,
        Err(error) => return Err(keep_elsewhere(folder_name, result, with_sources(&error))),
    };
    // What was stored is said even if nobody takes the report.
    let printed = super::print(&super::report::on_terminal(result));
    super::say(&format!("stored in {}", folder.display()));
    printed?;
    let violations = violations(result);
    violations.iter().for_each(|sentence| super::say(&format!("data is wrong: {sentence}")));
    Ok(match (result.is_interrupted(), is_valid(result)) {
        _ if !violations.is_empty() => Exit::DataWrong,
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::Invalid,
    })
}

/// On standard output if somebody reads it, else in the temporary directory, else among the errors.
fn keep_elsewhere(folder_name: &str, result: &RunResult, reason: String) -> Failure {
    let json = match serde_json::to_string(result) {
        Ok(json) => json,
        Err(error) => {
            return Failure::invalid(format!("{reason}; cannot write the result down: {error}"));
        }
    };
    if super::is_output_read() && super::print_all(&format!("{json}\n")).is_ok() {
        // The result is out; a report that does not follow it loses nothing.
        let _ = super::print(&super::report::on_terminal(result));
        let place = "the result is on standard output, in its first line";
        return Failure::invalid(format!("{reason}; {place}"));
    }
    let temporary = std::env::temp_dir().join("ackmark-results");
    let place = match folder::write(&temporary, folder_name, result) {
        Ok(folder) => format!("the result is in {}", folder.display()),
        Err(error) => {
            super::say(&json);
            format!("{}; the result is in the line before this", with_sources(&error))
        }
    };
    Failure::invalid(format!("{reason}; standard output takes none; {place}"))
}

/// What the checker found broken, with cell and repeat.
fn violations(result: &RunResult) -> Vec<String> {
    let mut sentences = Vec::new();
    for cell in &result.cells {
        for repeat in &cell.repeats {
            let broken = repeat.check.iter().flat_map(|check| &check.violations);
            let place = format!("{}, repeat {}", cell.name, repeat.repeat + 1);
            sentences.extend(broken.map(|sentence| format!("{place}: {sentence}")));
        }
    }
    sentences
}

/// Every cell ran to its end, has samples, and no record failed unless faults were asked for.
fn is_valid(result: &RunResult) -> bool {
    let is_sound = |cell: &crate::results::schema::Cell| {
        let samples = cell.factors.acks == "0" || cell.latency.acknowledged.count > 0;
        samples && (cell.errors.is_empty() || !result.workload.fault.is_empty())
    };
    result.status == Status::Complete && result.cells.iter().all(is_sound)
}

fn workload(arguments: &RunArguments) -> Result<Workload, Failure> {
    let workload = match &arguments.workload {
        Some(file) => Workload::from_file(file),
        None => Workload::from_text(Path::new("default workload"), DEFAULT_WORKLOAD),
    };
    let mut workload = workload.map_err(|error| Failure::usage(&error))?;
    if let Some(engine) = arguments.engine {
        workload = workload.on_engine(engine);
    }
    if let Some(share) = arguments.inject_slowdown {
        workload = workload.slowed_down(share);
    }
    Ok(if arguments.quick { workload.quick() } else { workload })
}

/// This program's own file.
pub(super) fn executable() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::invalid(format!("cannot find this program's own file: {error}")))
}

/// Whose fault it is that a run gave nothing.
pub fn failure(error: RunError) -> Failure {
    match error {
        RunError::DataDirectory { .. }
        | RunError::Space(_)
        | RunError::Direct { .. }
        | RunError::Uring(_) => Failure::usage(&error),
        RunError::Floor(_)
        | RunError::Cluster(_)
        | RunError::Driver(_)
        | RunError::Rate(_)
        | RunError::Thread(_) => Failure::failed(&error),
    }
}

//! `ackmark gate`: may this be merged? The exit status says (spec/measurement.md M50).

mod against;

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::compare::blocks::BlockError;
use crate::compare::comparable::Kind;
use crate::compare::gate::{self, Decision, Judgement, Limits};
use crate::compare::report::{self, Endpoints, Options, Report};
use crate::compare::text;
use crate::compare::verdict::Correction;
use crate::measure::histogram::{PERCENTILES, Percentile};
use crate::results::schema::RunResult;

use super::compare::{self, Common};
use super::exit::{Exit, Failure};
use super::{share, signals};

const EXIT_STATUS_HELP: &str = "\
Exit status: 0 no regression was found; 1 a regression; 2 bad arguments, or results that cannot be
compared; 3 a run is not valid, or nothing could be judged; 4 measured in another environment; 5 too
noisy to rule a regression out, with --fail-on-inconclusive; 130 interrupted.

A figure fails if it is surely worse by more than --same-within and, by the best estimate, by more
than the limit. On a noisy machine use --against: runs that alternate share the machine's moods.";

/// Fail on a regression: of a stored result against another, or of this program against another
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS_HELP)]
pub struct GateArguments {
    /// With --baseline: the result to judge. With --against: a workload file; without it a short
    /// closed-loop one
    #[arg(value_name = "NEW|WORKLOAD.toml", required_unless_present = "against")]
    input: Option<PathBuf>,
    /// A stored result to judge against
    #[arg(long, value_name = "RESULT", required_unless_present = "against")]
    baseline: Option<PathBuf>,
    /// Another ackmark program: run it and this one in turns, and judge this one
    #[arg(long, value_name = "PROGRAM", conflicts_with = "baseline")]
    against: Option<PathBuf>,
    /// Largest regression of a median, of p90 or of a rate
    #[arg(long, value_name = "PERCENT", value_parser = share::parse, default_value = "10%")]
    max_regression: f64,
    /// Largest regression of p95 and beyond
    #[arg(long, value_name = "PERCENT", value_parser = share::parse, default_value = "25%")]
    max_tail_regression: f64,
    /// Percentiles to judge by; several with commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "p50,p99",
          value_parser = percentile_parser())]
    percentiles: Vec<&'static Percentile>,
    /// Fail, with status 5, if it is too noisy to rule a regression out
    #[arg(long)]
    fail_on_inconclusive: bool,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    rounds: against::Arguments,
}

fn percentile_parser() -> impl TypedValueParser<Value = &'static Percentile> {
    PossibleValuesParser::new(PERCENTILES.map(|percentile| percentile.name)).map(|name| {
        let is_it = |percentile: &&Percentile| percentile.name == name;
        PERCENTILES.iter().find(is_it).unwrap_or(&PERCENTILES[0])
    })
}

/// `ackmark gate`
pub fn run(arguments: &GateArguments) -> Result<Exit, Failure> {
    match (&arguments.against, &arguments.baseline, &arguments.input) {
        (Some(program), _, workload) => {
            let stop = signals::stop_flag()?;
            let session = arguments.rounds.run(program, workload.as_deref(), &stop)?;
            if stop.load(Ordering::Relaxed) {
                let (done, folder) = (session.rounds.len(), session.folder.display());
                super::say(&format!("interrupted after {done} rounds; they are in {folder}"));
                return Ok(Exit::Interrupted);
            }
            let judgement = judge_rounds(arguments, &session.rounds)?;
            session.keep(&judgement)?;
            finish(arguments, &judgement)
        }
        (None, Some(baseline), Some(new)) => {
            let judgement = judge_stored(arguments, baseline, new)?;
            finish(arguments, &judgement)
        }
        (None, ..) => Err(Failure {
            exit: Exit::Usage,
            message: "gate needs --baseline RESULT NEW, or --against PROGRAM".to_owned(),
        }),
    }
}

fn judge_stored(
    arguments: &GateArguments,
    baseline: &std::path::Path,
    new: &std::path::Path,
) -> Result<Judgement, Failure> {
    let base = compare::load(baseline)?;
    let new = compare::load(new)?;
    let allowed = compare::allowed(&base, &new, &arguments.common.allow)?;
    check_sound("BASE", &base)?;
    check_sound("NEW", &new)?;
    let mut report = done(report::compare(&base, &new, &options(arguments)))?;
    report.allowed = allowed;
    Ok(gate::judge(report, limits(arguments)))
}

fn judge_rounds(
    arguments: &GateArguments,
    rounds: &[(RunResult, RunResult)],
) -> Result<Judgement, Failure> {
    let mut allow = arguments.common.allow.clone();
    if arguments.rounds.injects_slowdown() {
        allow.push(Kind::Slowdown);
    }
    let mut allowed = Vec::new();
    for (base, new) in rounds {
        allowed = compare::allowed(base, new, &allow)?;
        check_sound("BASE", base)?;
        check_sound("NEW", new)?;
    }
    let mut report = done(report::compare_rounds(rounds, &options(arguments)))?;
    report.allowed = allowed;
    Ok(gate::judge(report, limits(arguments)))
}

fn options(arguments: &GateArguments) -> Options {
    Options {
        same_within: arguments.common.same_within,
        seed: arguments.common.seed,
        correction: Correction::Holm,
        endpoints: Endpoints::Main,
        percentiles: arguments.percentiles.clone(),
    }
}

fn limits(arguments: &GateArguments) -> Limits {
    Limits {
        max_regression: arguments.max_regression,
        max_tail_regression: arguments.max_tail_regression,
    }
}

fn done(report: Result<Report, BlockError>) -> Result<Report, Failure> {
    report.map_err(|error| Failure::usage(&error))
}

fn check_sound(side: &str, result: &RunResult) -> Result<(), Failure> {
    match gate::unsound(result) {
        None => Ok(()),
        Some(why) => Err(Failure::invalid(format!("{side} cannot be judged by: {why}"))),
    }
}

fn finish(arguments: &GateArguments, judgement: &Judgement) -> Result<Exit, Failure> {
    match arguments.common.json {
        true => compare::print_json(judgement)?,
        false => super::print(&text::judgement(judgement))?,
    }
    Ok(match judgement.decision {
        Decision::Regression => Exit::Short,
        Decision::NotJudged => Exit::Invalid,
        Decision::Inconclusive if arguments.fail_on_inconclusive => Exit::Inconclusive,
        Decision::Inconclusive | Decision::Pass => Exit::Done,
    })
}

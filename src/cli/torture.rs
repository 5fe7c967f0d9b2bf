//! `ackmark torture`: random faults, again and again, until something breaks or time is up.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use crossbeam::channel::unbounded;

use crate::config::workload::Workload;
use crate::faults::loop_disk;
use crate::faults::torture::Round;
use crate::results::schema::{Check, RunResult, Status};
use crate::scenario::progress::Progress;
use crate::scenario::reason::with_sources;
use crate::scenario::run::{self, Settings};

use super::exit::{Exit, Failure};
use super::signals;

/// Load and faults of one round.
const ROUND: Duration = Duration::from_secs(30);
/// Under `--quick`, where there is one round.
const QUICK_ROUND: Duration = Duration::from_secs(5);

/// Mix all faults at random over syncing modes with acks=all, and check that nothing is lost
///
/// Each round is a workload on a fresh cluster; it is printed, so that it can be run by itself.
#[derive(Debug, Args)]
pub struct TortureArguments {
    /// How long; the round that is under way then is finished
    #[arg(long, value_name = "N", default_value_t = 10)]
    minutes: u64,
    /// Of all that is random; printed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// One round of a few seconds
    #[arg(long)]
    quick: bool,
    /// Holds the brokers' data during a round
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
}

/// `ackmark torture`
pub fn run(arguments: &TortureArguments) -> Result<Exit, Failure> {
    let stop = signals::stop_flag()?;
    let until = Instant::now() + Duration::from_secs(60 * arguments.minutes);
    let page_cache_loss = loop_disk::try_in(&arguments.data);
    let mut campaign = Campaign::default();
    if let Err(error) = &page_cache_loss {
        super::say(&format!("ackmark: no page-cache loss here: {}", with_sources(error)));
    }
    let can_lose_page_cache = page_cache_loss.is_ok();
    for number in 0.. {
        let length = if arguments.quick { QUICK_ROUND } else { ROUND };
        let round = Round { seed: arguments.seed, number, length, can_lose_page_cache };
        let text = round.workload();
        super::print(&format!(
            "# round {number} of `ackmark torture --seed {}`\n{text}\n",
            arguments.seed
        ))?;
        let workload = Workload::from_text(Path::new("torture"), &text);
        let settings = Settings {
            workload: workload.map_err(|error| Failure::usage(&error))?,
            data_dir: arguments.data.clone(),
            executable: super::run::executable()?,
            run_id: uuid::Uuid::new_v4().to_string(),
            floors: false,
            metrics: None,
        };
        // A round tells what happened once it is over; nobody listens before.
        let mut progress = Progress::new(unbounded().0, false);
        let result = run::run(&settings, &stop, &mut progress).map_err(super::run::failure)?;
        super::print(&campaign.take_in(number, &result))?;
        let is_over = arguments.quick || Instant::now() >= until;
        if is_over || stop.load(Ordering::Relaxed) || campaign.is_broken() {
            break;
        }
    }
    super::print(&campaign.summary(arguments.seed))?;
    Ok(match () {
        () if campaign.violations > 0 => Exit::DataWrong,
        () if stop.load(Ordering::Relaxed) => Exit::Interrupted,
        () if campaign.is_broken() => Exit::Invalid,
        () => Exit::Done,
    })
}

/// What the rounds so far add up to.
#[derive(Default)]
struct Campaign {
    rounds: u64,
    faults: u64,
    skipped: u64,
    violations: usize,
    /// Rounds that could not be run or checked to their end.
    unfinished: u64,
    total: Check,
}

impl Campaign {
    /// Adds a round; gives its lines.
    fn take_in(&mut self, number: u64, result: &RunResult) -> String {
        let mut text = String::new();
        self.rounds += 1;
        if result.status != Status::Complete {
            self.unfinished += 1;
            let reason = result.status_reason.as_deref().unwrap_or("no reason given");
            text.push_str(&format!("round {number} was not finished: {reason}\n"));
        }
        let repeats = result.cells.iter().flat_map(|cell| &cell.repeats);
        for repeat in repeats {
            for event in &repeat.events {
                let is_skipped = event.kind == "skipped";
                self.skipped += u64::from(is_skipped);
                self.faults += u64::from(!is_skipped);
                let until_ms = event.until_us.map_or(String::new(), |until_us| {
                    format!(" to {:.3} s", until_us as f64 / 1e6)
                });
                text.push_str(&format!(
                    "  {:.3} s{until_ms}  {}\n",
                    event.at_us as f64 / 1e6,
                    event.what
                ));
            }
            let Some(check) = &repeat.check else { continue };
            self.violations += check.violations.len();
            self.add(check);
            text.push_str(&format!("  {}\n", line(check)));
            for sentence in &check.violations {
                text.push_str(&format!("  DATA IS WRONG: {sentence}\n"));
            }
        }
        text
    }

    fn add(&mut self, check: &Check) {
        let total = &mut self.total;
        total.acknowledged += check.acknowledged;
        total.lost += check.lost;
        total.moved += check.moved;
        total.duplicated += check.duplicated;
        total.duplicated_by_retries += check.duplicated_by_retries;
        total.reordered += check.reordered;
        total.high_watermark_steps_back += check.high_watermark_steps_back;
        total.divergent_partitions += check.divergent_partitions;
        total.phantom += check.phantom;
        total.damaged += check.damaged;
        total.visible_lost += check.visible_lost;
        total.unknown_kept += check.unknown_kept;
        total.unknown_lost += check.unknown_lost;
    }

    fn is_broken(&self) -> bool {
        self.violations > 0 || self.unfinished > 0
    }

    fn summary(&self, seed: u64) -> String {
        format!(
            "torture with seed {seed}: {} rounds, {} faults injected, {} skipped\n{}\n{}\n",
            self.rounds,
            self.faults,
            self.skipped,
            line(&self.total),
            if self.is_broken() { "FAIL" } else { "PASS" },
        )
    }
}

fn line(check: &Check) -> String {
    format!(
        "{} records acknowledged: {} lost, {} elsewhere, {} duplicated, {} reordered, {} damaged, \
         {} never sent, {} seen and gone; {} partitions diverge; high watermark went back {} times; \
         {} of unknown outcome, {} of them kept",
        check.acknowledged,
        check.lost,
        check.moved,
        check.duplicated + check.duplicated_by_retries,
        check.reordered,
        check.damaged,
        check.phantom,
        check.visible_lost,
        check.divergent_partitions,
        check.high_watermark_steps_back,
        check.unknown_kept + check.unknown_lost,
        check.unknown_kept,
    )
}

//! All cells of two results set against each other, or of rounds in which both sides alternated.

use serde::Serialize;

use crate::measure::histogram::{PERCENTILES, Percentile};
use crate::results::schema::{Cell, RunResult};

use super::blocks::{BlockError, Blocks, Endpoint, complete_repeats, per_repeat, whole_run};
use super::comparable::Obstacle;
use super::interval::{CONFIDENCE, Estimate};
use super::row::{CellBlocks, Pair, Row, rows};
use super::verdict::{self, Correction};

/// Version of what `--json` prints.
const REPORT_VERSION: u32 = 1;

/// What is compared, and how strictly.
#[derive(Clone, Debug)]
pub struct Options {
    /// Changes up to this share do not matter: 0.03 for 3 %.
    pub same_within: f64,
    /// Of the draws; the same seed gives the same report.
    pub seed: u64,
    /// How false calls are held down.
    pub correction: Correction,
    /// Which end points.
    pub endpoints: Endpoints,
    /// Which percentiles.
    pub percentiles: Vec<&'static Percentile>,
}

/// Which end points of each cell are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoints {
    /// All that have samples.
    All,
    /// The acknowledgement, or the consumer's where nothing is acknowledged.
    Main,
}

impl Options {
    /// Everything, for a table that is looked over.
    pub fn everything(same_within: f64, seed: u64) -> Options {
        Options {
            same_within,
            seed,
            correction: Correction::FalseDiscovery,
            endpoints: Endpoints::All,
            percentiles: PERCENTILES.iter().collect(),
        }
    }
}

/// Two sides set against each other.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Version of this structure.
    pub report_version: u32,
    /// What was there before.
    pub base: Side,
    /// What is judged.
    pub new: Side,
    /// Whether blocks of both sides belong together pairwise.
    pub paired: bool,
    /// What the intervals cover, a share.
    pub confidence: f64,
    /// Largest change called `same`, a share.
    pub same_within: f64,
    /// Seed of the draws.
    pub seed: u64,
    /// What stood against the comparison and was allowed.
    pub allowed: Vec<Obstacle>,
    /// Cells of both, in the order of NEW.
    pub cells: Vec<CellReport>,
    /// Cells that NEW does not have.
    pub only_in_base: Vec<String>,
    /// Cells that BASE does not have.
    pub only_in_new: Vec<String>,
}

/// One side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The workload's name.
    pub workload: String,
    /// Which runs.
    pub run_ids: Vec<String>,
    /// When the first of them began.
    pub started_at: String,
    /// The version that measured.
    pub version: String,
}

/// One cell of both sides.
#[derive(Clone, Debug, Serialize)]
pub struct CellReport {
    /// Its name in NEW.
    pub name: String,
    /// Its figures.
    pub rows: Vec<Row>,
}

/// Sets `new` against `base`; their repeats are the blocks.
///
/// # Errors
/// [`BlockError`]
pub fn compare(base: &RunResult, new: &RunResult, options: &Options) -> Result<Report, BlockError> {
    let mut pairs = Vec::new();
    for cell in &new.cells {
        let Some(other) = twin(base, cell) else { continue };
        pairs.push(Pair {
            name: cell.name.clone(),
            has_rate: has_rate(cell),
            base: repeats_of(other)?,
            new: repeats_of(cell)?,
        });
    }
    Ok(report(&[(base, new)], pairs, false, options))
}

/// Sets both sides of alternating runs against each other; each round is a pair of blocks.
///
/// # Errors
/// [`BlockError`]
///
/// # Panics
/// Without rounds.
pub fn compare_rounds(
    rounds: &[(RunResult, RunResult)],
    options: &Options,
) -> Result<Report, BlockError> {
    let mut pairs = Vec::new();
    for cell in &rounds[0].1.cells {
        let of = |result| twin(result, cell);
        let found: Vec<(&Cell, &Cell)> =
            rounds.iter().filter_map(|(base, new)| of(base).zip(of(new))).collect();
        if found.is_empty() {
            continue;
        }
        pairs.push(Pair {
            name: cell.name.clone(),
            has_rate: has_rate(cell),
            base: runs_of(found.iter().map(|(base, _)| *base))?,
            new: runs_of(found.iter().map(|(_, new)| *new))?,
        });
    }
    let sides: Vec<_> = rounds.iter().map(|(base, new)| (base, new)).collect();
    Ok(report(&sides, pairs, true, options))
}

fn twin<'a>(result: &'a RunResult, cell: &Cell) -> Option<&'a Cell> {
    result.cells.iter().find(|other| other.factors == cell.factors)
}

fn has_rate(cell: &Cell) -> bool {
    cell.factors.load_mode != "open"
}

fn repeats_of(cell: &Cell) -> Result<CellBlocks, BlockError> {
    let blocks = |endpoint| Ok(Blocks::new(&per_repeat(cell, endpoint)?));
    let [acknowledged, committed, consumed] = Endpoint::ALL.map(blocks);
    Ok(CellBlocks {
        latencies: [acknowledged?, committed?, consumed?],
        rates: complete_repeats(cell).map(|repeat| repeat.achieved_per_s).collect(),
    })
}

fn runs_of<'a>(cells: impl Iterator<Item = &'a Cell> + Clone) -> Result<CellBlocks, BlockError> {
    let blocks = |endpoint| {
        let runs = cells.clone().map(|cell| whole_run(cell, endpoint));
        Ok(Blocks::new(&runs.collect::<Result<Vec<_>, _>>()?))
    };
    let [acknowledged, committed, consumed] = Endpoint::ALL.map(blocks);
    Ok(CellBlocks {
        latencies: [acknowledged?, committed?, consumed?],
        rates: cells.map(|cell| cell.rate.achieved_per_s).collect(),
    })
}

fn report(
    sides: &[(&RunResult, &RunResult)],
    pairs: Vec<Pair>,
    paired: bool,
    options: &Options,
) -> Report {
    let (base, new) = sides[0];
    let missing = |from: &RunResult, other: &RunResult| -> Vec<String> {
        let cells = from.cells.iter().filter(|cell| twin(other, cell).is_none());
        cells.map(|cell| cell.name.clone()).collect()
    };
    let cell =
        |pair: &Pair| CellReport { name: pair.name.clone(), rows: rows(pair, paired, options) };
    let mut cells: Vec<CellReport> = pairs.iter().map(cell).collect();
    judge(&mut cells, options);
    Report {
        report_version: REPORT_VERSION,
        base: side(sides.iter().map(|(base, _)| *base)),
        new: side(sides.iter().map(|(_, new)| *new)),
        paired,
        confidence: CONFIDENCE,
        same_within: options.same_within,
        seed: options.seed,
        allowed: Vec::new(),
        cells,
        only_in_base: missing(base, new),
        only_in_new: missing(new, base),
    }
}

fn side<'a>(runs: impl Iterator<Item = &'a RunResult> + Clone) -> Side {
    let first = runs.clone().next();
    let of_first = |text: fn(&RunResult) -> &str| first.map_or("", text).to_owned();
    Side {
        workload: of_first(|run| &run.workload.name),
        started_at: of_first(|run| &run.started_at),
        version: of_first(|run| &run.tool.version),
        run_ids: runs.map(|run| run.run_id.clone()).collect(),
    }
}

/// Gives all rows their verdicts, corrected for how many there are.
fn judge(cells: &mut [CellReport], options: &Options) {
    let mut judged: Vec<(&mut Row, Estimate)> = cells
        .iter_mut()
        .flat_map(|cell| &mut cell.rows)
        .filter_map(|row| row.estimate.map(|estimate| (row, estimate)))
        .collect();
    let plain: Vec<f64> = judged
        .iter()
        .map(|(_, estimate)| verdict::probability(estimate, options.same_within))
        .collect();
    let adjusted = options.correction.adjust(&plain);
    for ((row, estimate), probability) in judged.iter_mut().zip(adjusted) {
        row.probability = Some(probability);
        row.verdict = verdict::verdict(estimate, probability, options.same_within);
    }
}

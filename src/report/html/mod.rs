//! One HTML file that shows results to a colleague: no script, no network, no second file.
//!
//! Reading order: `groups` (which cells belong on one chart), [`chart`] (axes and lines), then a file
//! per part of the page: `summary`, `doubts`, `curves`, `ladder`, `load`, `breakdown`, `isr`,
//! `timeline`, `cells`, `environment`. The page's own text is in `templates/`.
//!
//! Every figure names its place in result.json: the JSON pointer is the nearest `data-at` plus
//! `data-of`, and `data-value` is the number found there. `make report-check` follows them all.

mod breakdown;
mod cells;
pub mod chart;
mod curves;
pub(in crate::report) mod doubts;
mod environment;
mod figure;
mod groups;
mod isr;
mod ladder;
mod load;
mod summary;
mod timeline;

use askama::Template;

use crate::report::origin;
use crate::results::schema::{RunResult, Status};

use self::groups::Group;

/// A result and where it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// As the reader knows it: a path.
    pub name: &'a str,
    /// What was measured.
    pub result: &'a RunResult,
}

/// Slices of one group that are shown unfolded; of a long row of rates a reader wants the first, and
/// the load curve.
const SLICES_OPEN_MAX: usize = 2;

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    title: String,
    runs: Vec<Run>,
}

#[derive(Template)]
#[template(path = "run.html")]
struct Run {
    id: String,
    name: String,
    source: String,
    started_at: String,
    host: String,
    shape: String,
    partial: Option<String>,
    /// Place on the page, name and number of events of each cell that has any.
    eventful: Vec<(String, String, usize)>,
    doubts: Vec<String>,
    groups: Vec<GroupView>,
    overview: cells::Overview,
    stages: Vec<(String, String)>,
    cells: Vec<cells::CellView>,
    environment: environment::EnvironmentView,
}

/// Everything about the cells that share all factors but rate and series.
struct GroupView {
    id: String,
    label: String,
    sentences: Vec<String>,
    load: Option<load::LoadView>,
    slices: Vec<SliceView>,
}

/// One rate of a group.
struct SliceView {
    label: String,
    open: bool,
    curves: Option<curves::CurvesView>,
    ladder: Option<ladder::LadderView>,
    breakdown: Option<breakdown::StackView>,
}

/// The whole page.
pub fn render(sources: &[Source<'_>]) -> String {
    let names: Vec<&str> =
        sources.iter().map(|source| source.result.workload.name.as_str()).collect();
    let page = Page {
        title: format!("ackmark: {}", names.join(", ")),
        runs: sources.iter().enumerate().map(|(index, source)| run(index, source)).collect(),
    };
    page.render().expect("the templates only format text in memory")
}

fn run(index: usize, source: &Source<'_>) -> Run {
    let result = source.result;
    let id = format!("r{index}");
    let groups = groups::of(&result.cells);
    let scale = curves::scale(&result.cells);
    Run {
        name: result.workload.name.clone(),
        source: source.name.to_owned(),
        started_at: result.started_at.replace('T', " ").replace('Z', " UTC"),
        host: origin::host(result),
        shape: environment::shape(result),
        partial: (result.status == Status::Partial).then(|| {
            result.status_reason.clone().unwrap_or("not all cells were measured".to_owned())
        }),
        eventful: cells::eventful(&id, result),
        doubts: doubts::of(result),
        groups: groups
            .iter()
            .enumerate()
            .map(|(number, group)| {
                let load = load::view(group, &result.sweeps);
                group_view(&id, number, group, load, scale.as_ref())
            })
            .collect(),
        overview: cells::overview(&id, result),
        stages: breakdown::meanings(&result.cells),
        cells: result.cells.iter().map(|cell| cells::view(&id, cell, result.cells.len())).collect(),
        environment: environment::view(result),
        id,
    }
}

fn group_view(
    run: &str,
    number: usize,
    group: &Group<'_>,
    load: Option<load::LoadView>,
    scale: Option<&chart::LogScale>,
) -> GroupView {
    let slices = group.slices();
    let open_all = slices.len() <= SLICES_OPEN_MAX;
    let slice_view = |(index, slice): (usize, &groups::Slice<'_>)| SliceView {
        label: slice.label(),
        open: open_all || index == 0,
        curves: scale.and_then(|scale| curves::view(slice, scale)),
        ladder: ladder::view(slice),
        breakdown: breakdown::stacks(slice),
    };
    GroupView {
        id: format!("{run}-g{number}"),
        label: group.label.clone(),
        sentences: summary::sentences(group, load.as_ref()),
        slices: slices.iter().enumerate().map(slice_view).collect(),
        load,
    }
}

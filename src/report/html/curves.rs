//! Latency by percentile, one line per series: how much slower the unlucky are.

use crate::results::curve::{self, Point};
use crate::results::schema::Cell;

use super::chart::{Chart, Line, LogScale, Tick, path, round_latency};
use super::figure::Figure;
use super::groups::{Entry, Slice};

/// The percentile axis is at least this long: up to p99.
const DECADES_MIN: f64 = 2.0;

/// A chart and the numbers of its lines.
pub struct CurvesView {
    /// The chart.
    pub chart: Chart,
    /// A row a line.
    pub rows: Vec<CurveRow>,
}

/// The numbers of one line.
pub struct CurveRow {
    /// Of its line.
    pub class: String,
    /// Series name.
    pub name: String,
    /// Where the figures stand.
    pub at: String,
    /// The cell's place on the page: `r0-c3`, without the run.
    pub cell: usize,
    /// p50, p99, p99.9, longest.
    pub figures: Vec<Figure>,
    /// Samples.
    pub count: u64,
}

/// One latency axis for all of a run's curves, so that charts can be compared at a glance; `None`
/// without samples.
pub fn scale(cells: &[Cell]) -> Option<LogScale> {
    let ends = |cell: &Cell| {
        let points = points(cell);
        let ends = [points.first().copied(), points.last().copied()];
        ends.into_iter().flatten().map(|point| point.value_ns as f64)
    };
    LogScale::of(cells.iter().flat_map(ends))
}

/// A damaged histogram was refused when the result was loaded; here it is a missing line.
fn points(cell: &Cell) -> Vec<Point> {
    curve::points(&cell.latency.acknowledged).unwrap_or_default()
}

/// The curves of a slice; `None` if none of its cells has samples enough.
pub fn view(slice: &Slice<'_>, scale: &LogScale) -> Option<CurvesView> {
    let curves: Vec<(&Entry<'_>, Vec<Point>)> =
        slice.entries.iter().map(|entry| (entry, points(entry.cell))).collect();
    let deepest = curves
        .iter()
        .filter_map(|(_, points)| points.last())
        .map(|point| decades(point.quantile))
        .reduce(f64::max)?
        .max(DECADES_MIN);
    let line = |(entry, points): &(&Entry<'_>, Vec<Point>)| Line {
        class: slice.series(entry).class.clone(),
        path: path(points.iter().map(|point| {
            Some((decades(point.quantile) / deepest, scale.share(point.value_ns as f64)))
        })),
        values: String::new(),
    };
    let names: Vec<&str> =
        slice.entries.iter().map(|entry| slice.series(entry).name.as_str()).collect();
    Some(CurvesView {
        chart: Chart {
            description: format!(
                "Acknowledgement latency by percentile for {}, {}; the table below has the numbers",
                names.join(", "),
                slice.label()
            ),
            y_title: "latency, intended send to acknowledged (log)".to_owned(),
            x_title: "percentile (log: each step has a tenth of the records beyond it)".to_owned(),
            y_ticks: scale.y_ticks(round_latency),
            x_ticks: percentile_ticks(deepest),
            lines: curves.iter().map(line).collect(),
            marks: Vec::new(),
        },
        rows: slice.entries.iter().map(|entry| row(slice, entry)).collect(),
    })
}

fn row(slice: &Slice<'_>, entry: &Entry<'_>) -> CurveRow {
    let cell = entry.cell;
    let acknowledged = &cell.latency.acknowledged;
    let percentile = |name: &str| Figure::percentile(acknowledged, name, "");
    CurveRow {
        class: slice.series(entry).class.clone(),
        name: slice.series(entry).name.clone(),
        at: format!("/cells/{}/latency/acknowledged", cell.index),
        cell: cell.index,
        figures: vec![
            percentile("p50"),
            percentile("p99"),
            percentile("p99.9"),
            Figure::latency(acknowledged.max_ns, "max_ns"),
        ],
        count: acknowledged.count,
    }
}

/// The x axis: tenfold steps towards 100 %.
fn decades(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

fn percentile_ticks(deepest: f64) -> Vec<Tick> {
    let named = [(0.0, "0"), (0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")];
    let deep = [(0.9999, "p99.99"), (0.999_99, "p99.999"), (0.999_999, "p99.9999")];
    let ticks = named.into_iter().chain(deep);
    let tick = |(quantile, label): (f64, &str)| Tick {
        at: decades(quantile) / deepest,
        label: label.to_owned(),
    };
    // The first label would touch p50's on a long axis.
    ticks.map(tick).filter(|tick| tick.at <= 1.0 + 1e-9).skip(1).collect()
}

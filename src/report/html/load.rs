//! Latency against offered rate, what each line sustains, and its knee. Both stand in the result.

use crate::report::numbers;
use crate::results::schema::Cell;
use crate::results::sweeps::Sweep;

use super::chart::{Chart, Line, LogScale, Tick, dots, path, round_latency, thin_labels};
use super::figure::{Figure, micros};
use super::groups::Group;
use super::ladder::p;

/// With more rates than this, round values mark the axis instead of the rates.
const RATE_TICKS_MAX: usize = 10;

/// One percentile against the rate, and the knees.
pub struct LoadView {
    /// p50, then p99 where there is one.
    pub charts: Vec<(String, Chart)>,
    /// A row a series.
    pub rows: Vec<LoadRow>,
}

/// Where one series bends.
pub struct LoadRow {
    /// Of its line.
    pub class: String,
    /// Series name.
    pub name: String,
    /// Where its figures stand.
    pub at: String,
    /// The rate at the knee, if there is one.
    pub knee_per_s: Option<u64>,
    /// What it sustains, the knee's rate, mean latency there; where there is no knee, why.
    pub figures: Vec<Figure>,
}

/// One rate of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    offered: f64,
    cell: usize,
    p50: Option<u64>,
    p99: Option<u64>,
}

/// The load curves of a group of the result that has these `sweeps`; `None` with fewer than two
/// rates.
pub fn view(group: &Group<'_>, sweeps: &[Sweep]) -> Option<LoadView> {
    let series: Vec<Vec<Point>> =
        (0..group.series.len()).map(|series| points(group, series)).collect();
    let mut rates: Vec<f64> = series.iter().flatten().map(|point| point.offered).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if rates.len() < 2 {
        return None;
    }
    let found: Vec<Option<(usize, &Sweep)>> =
        series.iter().map(|points| sweep_of(points, sweeps)).collect();
    let knees: Vec<Option<usize>> =
        found.iter().map(|found| Some((*found)?.1.knee?.cell)).collect();
    let charts = [("p50", Point::p50 as fn(&Point) -> Option<u64>), ("p99", Point::p99)]
        .into_iter()
        .filter_map(|(name, of)| {
            Some((name.to_owned(), chart(group, name, of, &series, &knees, &rates)?))
        })
        .collect();
    let rows = group.series.iter().zip(&found).filter_map(|(series, found)| {
        let (index, sweep) = (*found)?;
        Some(LoadRow {
            class: series.class.clone(),
            name: series.name.clone(),
            at: format!("/sweeps/{index}"),
            knee_per_s: sweep.knee.map(|knee| knee.rate_per_s),
            figures: figures(sweep),
        })
    });
    Some(LoadView { charts, rows: rows.collect() })
}

/// The sweep that these cells are of, and its place.
fn sweep_of<'s>(points: &[Point], sweeps: &'s [Sweep]) -> Option<(usize, &'s Sweep)> {
    let cell = points.first()?.cell;
    sweeps.iter().enumerate().find(|(_, sweep)| sweep.cells.contains(&cell))
}

fn figures(sweep: &Sweep) -> Vec<Figure> {
    let none = || Figure::shown("–");
    let rate = |rate_per_s: u64, of: &str| {
        Figure::stored(numbers::count(rate_per_s as f64), of, rate_per_s)
    };
    let sustained = sweep.saturation.as_ref().and_then(|saturation| saturation.rate_per_s);
    let sustained = sustained.map_or_else(none, |found| rate(found, "saturation/rate_per_s"));
    match (sweep.knee, &sweep.knee_absent_reason) {
        (Some(knee), _) => {
            let mean = Figure::stored(micros(knee.mean_ns as u64), "knee/mean_ns", knee.mean_ns);
            vec![sustained, rate(knee.rate_per_s, "knee/rate_per_s"), mean]
        }
        (None, reason) => {
            let reason = reason.clone().unwrap_or_default();
            vec![sustained, Figure::shown("none").with_hint(reason), none()]
        }
    }
}

impl Point {
    fn p50(&self) -> Option<u64> {
        self.p50
    }

    fn p99(&self) -> Option<u64> {
        self.p99
    }
}

/// A series by rate, ascending.
fn points(group: &Group<'_>, series: usize) -> Vec<Point> {
    let point = |cell: &Cell| {
        let offered = cell.rate.asked_per_s.filter(|_| !cell.repeats.is_empty())?;
        Some(Point { offered, cell: cell.index, p50: p(cell, "p50"), p99: p(cell, "p99") })
    };
    let own = group.entries.iter().filter(|entry| entry.series == series);
    let mut points: Vec<Point> = own.filter_map(|entry| point(entry.cell)).collect();
    points.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    points
}

fn chart(
    group: &Group<'_>,
    name: &str,
    of: fn(&Point) -> Option<u64>,
    series: &[Vec<Point>],
    knees: &[Option<usize>],
    rates: &[f64],
) -> Option<Chart> {
    let y = LogScale::of(series.iter().flatten().filter_map(of).map(|value| value as f64))?;
    let (low, high) = (rates[0], rates[rates.len() - 1]);
    let x = |rate: f64| 0.03 + 0.94 * (rate / low).ln() / (high / low).ln();
    let place = |point: &Point| of(point).map(|value| (x(point.offered), y.share(value as f64)));
    let mut lines = Vec::new();
    for ((points, knee), series) in series.iter().zip(knees).zip(&group.series) {
        let values: Vec<String> = points
            .iter()
            .filter_map(|point| of(point).map(|value| format!("{}:{value}", point.offered)))
            .collect();
        let (class, values) = (series.class.clone(), values.join(" "));
        lines.push(Line { class, path: path(points.iter().map(place)), values });
        let class = format!("{} dot", series.class);
        lines.push(Line {
            class,
            path: dots(points.iter().filter_map(place)),
            values: String::new(),
        });
        if let Some(knee) = knee {
            let at_knee = points.iter().filter(|point| point.cell == *knee).filter_map(place);
            let class = format!("{} knee", series.class);
            lines.push(Line { class, path: dots(at_knee), values: String::new() });
        }
    }
    let marked = match rates.len() {
        0..=RATE_TICKS_MAX => rates.to_vec(),
        _ => LogScale::of(rates.iter().copied())?.round_values(),
    };
    let within = marked.iter().filter(|rate| (low..=high).contains(rate));
    let tick = |rate: &f64| Tick { at: x(*rate), label: numbers::count(*rate) };
    Some(Chart {
        description: format!(
            "{name} of the acknowledgement latency against the offered rate, {}",
            group.label
        ),
        y_title: format!("{name} acknowledged (log)"),
        x_title: "records/s offered (log); a large dot is the knee".to_owned(),
        y_ticks: y.y_ticks(round_latency),
        x_ticks: thin_labels(within.map(tick).collect()),
        lines,
        marks: Vec::new(),
    })
}

//! Latency against offered rate, and the knee: the last rate the system took without strain.

use crate::results::schema::Cell;

use super::chart::{Chart, Line, LogScale, Tick, dots, path, round_latency, thin_labels};
use super::groups::Group;
use super::ladder::p;
use crate::report::numbers;

/// A rate is past the knee if its latency is this many times the least at any lower rate.
const STRAIN: f64 = 2.0;

/// Or if less than this share of it was acknowledged.
const ACHIEVED_SHARE_MIN: f64 = 0.98;

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
    /// As found.
    pub knee: Knee,
    /// The same for a reader.
    pub verdict: String,
}

/// Where strain begins among the rates that were offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knee {
    /// The last rate without strain, and the first with it.
    Between(f64, f64),
    /// No strain up to the highest rate.
    NotReached(f64),
    /// Already the lowest rate was too much.
    BelowLowest(f64),
}

/// One rate of one series.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    offered: f64,
    achieved: f64,
    p50: Option<u64>,
    p99: Option<u64>,
}

/// The load curves of a group; `None` with fewer than two rates.
pub fn view(group: &Group<'_>) -> Option<LoadView> {
    let series: Vec<Vec<Point>> =
        (0..group.series.len()).map(|series| points(group, series)).collect();
    let mut rates: Vec<f64> = series.iter().flatten().map(|point| point.offered).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if rates.len() < 2 {
        return None;
    }
    let knees: Vec<Option<Knee>> = series.iter().map(|points| knee(points)).collect();
    let charts = [("p50", Point::p50 as fn(&Point) -> Option<u64>), ("p99", Point::p99)]
        .into_iter()
        .filter_map(|(name, of)| {
            Some((name.to_owned(), chart(group, name, of, &series, &knees, &rates)?))
        })
        .collect();
    let rows = group.series.iter().zip(&knees).filter_map(|(series, knee)| {
        let knee = (*knee)?;
        let (class, name) = (series.class.clone(), series.name.clone());
        Some(LoadRow { class, name, knee, verdict: knee.in_words() })
    });
    Some(LoadView { charts, rows: rows.collect() })
}

impl Point {
    fn p50(&self) -> Option<u64> {
        self.p50
    }

    fn p99(&self) -> Option<u64> {
        self.p99
    }

    fn kept_up(&self) -> bool {
        self.achieved >= ACHIEVED_SHARE_MIN * self.offered
    }
}

impl Knee {
    fn in_words(self) -> String {
        let shown = numbers::count;
        match self {
            Knee::Between(good, bad) => {
                format!("{} records/s; strained at {}", shown(good), shown(bad))
            }
            Knee::NotReached(highest) => format!("none up to {} records/s", shown(highest)),
            Knee::BelowLowest(lowest) => format!("below {} records/s, the lowest", shown(lowest)),
        }
    }
}

/// A series by rate, ascending.
fn points(group: &Group<'_>, series: usize) -> Vec<Point> {
    let point = |cell: &Cell| {
        let offered = cell.rate.asked_per_s.filter(|_| !cell.repeats.is_empty())?;
        let achieved = cell.rate.achieved_per_s;
        Some(Point { offered, achieved, p50: p(cell, "p50"), p99: p(cell, "p99") })
    };
    let own = group.entries.iter().filter(|entry| entry.series == series);
    let mut points: Vec<Point> = own.filter_map(|entry| point(entry.cell)).collect();
    points.sort_by(|a, b| a.offered.total_cmp(&b.offered));
    points
}

/// The knee by p99, by p50 where a sample is too small; `None` without points.
fn knee(points: &[Point]) -> Option<Knee> {
    let all_have_p99 = points.iter().all(|point| point.p99.is_some());
    let latency = |point: &Point| if all_have_p99 { point.p99 } else { point.p50 };
    let mut least: Option<u64> = None;
    let mut last_good: Option<f64> = None;
    for point in points {
        let own = latency(point);
        let strained =
            own.zip(least).is_some_and(|(own, least)| own as f64 > STRAIN * least as f64);
        if strained || !point.kept_up() {
            return Some(last_good.map_or(Knee::BelowLowest(point.offered), |good| {
                Knee::Between(good, point.offered)
            }));
        }
        least = least.into_iter().chain(own).min();
        last_good = Some(point.offered);
    }
    last_good.map(Knee::NotReached)
}

fn chart(
    group: &Group<'_>,
    name: &str,
    of: fn(&Point) -> Option<u64>,
    series: &[Vec<Point>],
    knees: &[Option<Knee>],
    rates: &[f64],
) -> Option<Chart> {
    let y = LogScale::of(series.iter().flatten().filter_map(of).map(|value| value as f64))?;
    let (low, high) = (rates[0].ln(), rates[rates.len() - 1].ln());
    let x = |rate: f64| 0.03 + 0.94 * (rate.ln() - low) / (high - low);
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
        if let Some(Knee::Between(good, _)) = knee {
            let at_knee = points.iter().filter(|point| point.offered == *good).filter_map(place);
            let class = format!("{} knee", series.class);
            lines.push(Line { class, path: dots(at_knee), values: String::new() });
        }
    }
    let tick = |rate: &f64| Tick { at: x(*rate), label: numbers::count(*rate) };
    Some(Chart {
        description: format!(
            "{name} of the acknowledgement latency against the offered rate, {}",
            group.label
        ),
        y_title: format!("{name} acknowledged (log)"),
        x_title: "records/s offered (log); a large dot is the knee".to_owned(),
        y_ticks: y.y_ticks(round_latency),
        x_ticks: thin_labels(rates.iter().map(tick).collect()),
        lines,
        marks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(offered: f64, achieved: f64, p99: u64) -> Point {
        Point { offered, achieved, p50: Some(p99 / 2), p99: Some(p99) }
    }

    #[test]
    fn the_knee_is_the_last_rate_without_strain() {
        let easy = [point(1e3, 1e3, 100), point(2e3, 2e3, 90), point(4e3, 4e3, 150)];
        assert_eq!(knee(&easy), Some(Knee::NotReached(4e3)));
        let bends = [easy[0], easy[1], easy[2], point(8e3, 8e3, 181)];
        assert_eq!(knee(&bends), Some(Knee::Between(4e3, 8e3)), "more than twice the least, 90");
        let behind = [easy[0], point(2e3, 1.9e3, 100)];
        assert_eq!(knee(&behind), Some(Knee::Between(1e3, 2e3)), "not all of it was acknowledged");
        assert_eq!(knee(&[point(1e3, 500.0, 100)]), Some(Knee::BelowLowest(1e3)));
        assert_eq!(knee(&[]), None);
    }

    #[test]
    fn without_a_p99_everywhere_the_median_decides() {
        let mut points = [point(1e3, 1e3, 800), point(2e3, 2e3, 2_000)];
        points[0].p99 = None;
        assert_eq!(knee(&points), Some(Knee::Between(1e3, 2e3)), "1000 is more than twice 400");
    }
}

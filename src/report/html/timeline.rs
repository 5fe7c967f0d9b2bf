//! Latency over time, repeat after repeat, with what happened meanwhile.

use crate::results::schema::{Cell, Event, Interval, Repeat};

use super::chart::{
    Chart, Line, LinearScale, LogScale, Mark, dots, path, round_latency, stagger, thin_labels,
};
use super::figure::micros;

/// Points per line: more cannot be told apart.
const POINTS_MAX: usize = 120;

/// Points of all cells together, to keep the page of many cells small; and what each gets at least.
const POINTS_OF_ALL_MAX: usize = 4_000;
const POINTS_MIN: usize = 24;

/// The chart and its events in words.
pub struct TimelineView {
    /// p50, p99 and the slowest record, by the second.
    pub chart: Chart,
    /// Marks of the chart by their flags.
    pub events: Vec<EventView>,
    /// What a point stands for, and the worst of them.
    pub caption: String,
}

/// One event.
pub struct EventView {
    /// As on the chart's flag.
    pub flag: String,
    /// When, in words.
    pub when: String,
    /// What.
    pub what: String,
    /// For machines.
    pub kind: String,
    /// Its place in result.json.
    pub at: String,
    /// As stored.
    pub at_us: u64,
}

/// One drawn point: the worst of one or more seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Point {
    at_s: f64,
    p50: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
}

/// A cell, one of `cells`, over time; `None` if it has fewer than two seconds in all.
pub fn view(cell: &Cell, cells: usize) -> Option<TimelineView> {
    let count: usize = cell.repeats.iter().map(|repeat| repeat.intervals.len()).sum();
    if count < 2 {
        return None;
    }
    let seconds_per_point =
        count.div_ceil((POINTS_OF_ALL_MAX / cells.max(1)).clamp(POINTS_MIN, POINTS_MAX));
    let starts = starts(&cell.repeats);
    let points: Vec<Vec<Point>> = cell
        .repeats
        .iter()
        .zip(&starts)
        .map(|(repeat, start_s)| thinned(&repeat.intervals, *start_s, seconds_per_point))
        .collect();
    let x = LinearScale { high: starts.last().copied().unwrap_or(0.0).max(1.0) };
    let y = LogScale::of(values(&points).map(|value| value as f64))?;
    let line = |class: &str, of: fn(&Point) -> Option<u64>| {
        let place =
            |point: &Point| of(point).map(|value| (x.share(point.at_s), y.share(value as f64)));
        let with_breaks = points.iter().flat_map(|repeat| repeat.iter().map(place).chain([None]));
        let values: Vec<String> =
            points.iter().flatten().filter_map(of).map(|value| value.to_string()).collect();
        Line { class: class.to_owned(), path: path(with_breaks), values: values.join(" ") }
    };
    let slowest = points
        .iter()
        .flatten()
        .filter_map(|point| point.max.map(|value| (x.share(point.at_s), y.share(value as f64))));
    let events = events(cell, &starts);
    let mut marks: Vec<Mark> = dividers(&starts, &x).collect();
    marks.extend(events.iter().map(|(event, from_s, to_s)| Mark {
        from: x.share(*from_s),
        to: x.share(*to_s),
        label: event.flag.clone(),
        level: 0,
    }));
    stagger(&mut marks);
    let chart = Chart {
        description: format!("Latency of {} by the second", cell.name),
        y_title: "acknowledged (log)".to_owned(),
        x_title: match cell.repeats.len() {
            1 => "seconds since the measured part began".to_owned(),
            _ => "measured seconds, repeats one after another".to_owned(),
        },
        y_ticks: y.y_ticks(round_latency),
        x_ticks: thin_labels(x.x_ticks(|value| value.to_string())),
        lines: vec![
            Line { class: "max dot".to_owned(), path: dots(slowest), values: String::new() },
            line("p99", |point| point.p99),
            line("p50", |point| point.p50),
        ],
        marks,
    };
    let caption = caption(cell, seconds_per_point);
    Some(TimelineView {
        chart,
        events: events.into_iter().map(|(view, _, _)| view).collect(),
        caption,
    })
}

/// Where each repeat begins on the common axis, and last where the last one ends.
fn starts(repeats: &[Repeat]) -> Vec<f64> {
    let mut starts = vec![0.0];
    let mut end = 0.0;
    for repeat in repeats {
        let seconds = repeat.intervals.last().map_or(0.0, |last| last.second as f64 + 1.0);
        end += repeat.measured_s.max(seconds.min(repeat.measured_s.ceil()));
        starts.push(end);
    }
    starts
}

/// One point per `seconds` seconds, each statistic the worst of them: percentiles are never averaged.
fn thinned(intervals: &[Interval], start_s: f64, seconds: usize) -> Vec<Point> {
    let worst = |chunk: &[Interval]| {
        let first = chunk.first()?;
        let middle_s = first.second as f64 + chunk.len() as f64 / 2.0;
        Some(Point {
            at_s: start_s + middle_s,
            p50: chunk.iter().filter_map(|interval| interval.p50_ns).max(),
            p99: chunk.iter().filter_map(|interval| interval.p99_ns).max(),
            max: chunk.iter().filter_map(|interval| interval.max_ns).max(),
        })
    };
    intervals.chunks(seconds.max(1)).filter_map(worst).collect()
}

fn values(points: &[Vec<Point>]) -> impl Iterator<Item = u64> + '_ {
    points.iter().flatten().flat_map(|point| [point.p50, point.p99, point.max]).flatten()
}

/// Between repeats.
fn dividers<'a>(starts: &'a [f64], x: &'a LinearScale) -> impl Iterator<Item = Mark> + 'a {
    let inner = starts.iter().skip(1).take(starts.len().saturating_sub(2));
    inner.map(|start_s| {
        let at = x.share(*start_s);
        Mark { from: at, to: at, label: String::new(), level: 0 }
    })
}

/// All events with their begin and end on the common axis.
fn events(cell: &Cell, starts: &[f64]) -> Vec<(EventView, f64, f64)> {
    let several = cell.repeats.len() > 1;
    let mut views = Vec::new();
    for (index, (repeat, start_s)) in cell.repeats.iter().zip(starts).enumerate() {
        for (number, event) in repeat.events.iter().enumerate() {
            let from_s = start_s + event.at_us as f64 / 1e6;
            let to_s = event.until_us.map_or(from_s, |until| start_s + until as f64 / 1e6);
            let view = EventView {
                flag: (views.len() + 1).to_string(),
                when: when(event, repeat.repeat, several),
                what: event.what.clone(),
                kind: event.kind.clone(),
                at: format!("/cells/{}/repeats/{index}/events/{number}", cell.index),
                at_us: event.at_us,
            };
            views.push((view, from_s, to_s));
        }
    }
    views
}

fn when(event: &Event, repeat: usize, several: bool) -> String {
    let seconds = |time_us: u64| format!("{:.3}", time_us as f64 / 1e6);
    let until = event.until_us.map_or(String::new(), |until| format!(" to {}", seconds(until)));
    let of = if several { format!(" of repeat {repeat}") } else { String::new() };
    format!("{}{until} s{of}", seconds(event.at_us))
}

fn caption(cell: &Cell, seconds_per_point: usize) -> String {
    let with_max =
        |(repeat, interval): (usize, &Interval)| Some((interval.max_ns?, repeat, *interval));
    let all = cell
        .repeats
        .iter()
        .flat_map(|repeat| repeat.intervals.iter().map(move |interval| (repeat.repeat, interval)));
    let worst = all.filter_map(with_max).max_by_key(|(max_ns, _, _)| *max_ns);
    let point = match seconds_per_point {
        1 => "A point is one second.".to_owned(),
        many => format!("A point is the worst of {many} seconds."),
    };
    let worst = worst.map_or(String::new(), |(max_ns, repeat, interval)| {
        format!(
            " Slowest record: {} in second {} of repeat {repeat}.",
            micros(max_ns),
            interval.second
        )
    });
    format!("{point}{worst}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(second: u64, p99_ns: Option<u64>) -> Interval {
        Interval { second, records: 1, p50_ns: None, p99_ns, max_ns: Some(second * 10) }
    }

    #[test]
    fn thinning_keeps_the_worst() {
        let intervals = [interval(0, Some(5)), interval(1, Some(9)), interval(2, None)];
        let points = thinned(&intervals, 100.0, 2);
        assert_eq!(points.len(), 2);
        let first = Point { at_s: 101.0, p50: None, p99: Some(9), max: Some(10) };
        assert_eq!(points[0], first);
        assert_eq!(points[1], Point { at_s: 102.5, p50: None, p99: None, max: Some(20) });
    }
}

//! A line chart that fits any width and theme: the plot is an SVG stretched to its box with lines
//! that keep their thickness; text is HTML placed by percent, so it keeps its size; colours are
//! classes. No chart crate does that, and a drawing with fixed text is unreadable on a phone.
//!
//! Knows nothing of results. Coordinates are thousandths of the plot, y downwards.

use std::fmt::Write;

use askama::Template;

/// Width and height of the SVG's own coordinates.
const SIDE: f64 = 1000.0;

/// Labels closer than this share of the plot's width are left out.
const X_LABELS_APART: f64 = 0.13;

/// The same for the flags of marks, and rows they may stand in.
const FLAGS_APART: f64 = 0.09;
const FLAG_LEVELS: usize = 3;

/// Decades up to which 2 and 5 get a label, too.
const DECADES_FINE_MAX: f64 = 2.4;

/// A chart, ready to be drawn.
#[derive(Debug, Template)]
#[template(path = "chart.html")]
pub struct Chart {
    /// What it shows, for who does not see it.
    pub description: String,
    /// Above the y axis, with the unit.
    pub y_title: String,
    /// Below the x axis, with the unit.
    pub x_title: String,
    /// Labels and grid lines.
    pub y_ticks: Vec<Tick>,
    /// Labels and grid lines.
    pub x_ticks: Vec<Tick>,
    /// Drawn in order, later ones above.
    pub lines: Vec<Line>,
    /// What happened, along x.
    pub marks: Vec<Mark>,
}

/// A labelled place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Tick {
    /// Share of the axis from left or from top.
    pub at: f64,
    /// Empty for a grid line only.
    pub label: String,
}

/// One series.
#[derive(Debug)]
pub struct Line {
    /// CSS classes: colour and dash.
    pub class: String,
    /// SVG path data.
    pub path: String,
    /// The numbers it was drawn from, for machines; may be empty.
    pub values: String,
}

/// A time, or a span of time, that stands out.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Share of the x axis.
    pub from: f64,
    /// Share of the x axis; equal to `from` for an instant.
    pub to: f64,
    /// Short; the text below the chart explains it. Empty for a mere divider.
    pub label: String,
    /// How far down the label stands, 0 to 2: see [`stagger`].
    pub level: usize,
}

impl Chart {
    /// The grid as one path.
    fn grid(&self) -> String {
        let mut path = String::new();
        for tick in &self.y_ticks {
            let _ = write!(path, "M0 {}H1000", place(tick.at));
        }
        for tick in &self.x_ticks {
            let _ = write!(path, "M{} 0V1000", place(tick.at));
        }
        path
    }
}

impl Tick {
    fn percent(&self) -> String {
        percent(self.at)
    }
}

impl Mark {
    fn percent(&self) -> String {
        percent(self.from)
    }

    fn x(&self) -> i64 {
        place(self.from)
    }

    fn width(&self) -> i64 {
        place(self.to) - place(self.from)
    }
}

/// A logarithmic axis, its ends on 1, 2 or 5 times a power of ten.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogScale {
    low: f64,
    high: f64,
}

impl LogScale {
    /// The smallest one that holds `values`; `None` if none of them is positive.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<LogScale> {
        let (low, high) = values
            .into_iter()
            .filter(|value| *value > 0.0)
            .fold((f64::MAX, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        (high > 0.0).then(|| {
            let (low, high) = (round_down(low), round_up(high));
            LogScale { low, high: if high > low { high } else { round_up(low * 1.01) } }
        })
    }

    /// Share of the axis from its low end, held within it.
    pub fn share(&self, value: f64) -> f64 {
        let value = value.max(self.low);
        ((value / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    /// Ticks from the top for a y axis: powers of ten, and 2 and 5 between them on a short axis.
    pub fn y_ticks(&self, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let fine = (self.high / self.low).log10() <= DECADES_FINE_MAX;
        let tick = |value: f64| {
            let power = mantissa(value) == 1;
            let label = if fine || power { label(value) } else { String::new() };
            Tick { at: 1.0 - self.share(value), label }
        };
        self.round_values()
            .into_iter()
            .filter(|value| fine || mantissa(*value) == 1)
            .map(tick)
            .collect()
    }

    /// The round values from end to end.
    pub fn round_values(&self) -> Vec<f64> {
        let mut values = vec![self.low];
        let mut value = self.low;
        while value < self.high * 0.999 {
            value = round_up(value * 1.01);
            values.push(value);
        }
        values
    }
}

/// 1, 2 or 5 times a power of ten, not above `value`.
fn round_down(value: f64) -> f64 {
    let power = 10_f64.powf((value * (1.0 + 1e-9)).log10().floor());
    let factor = [5.0, 2.0].into_iter().find(|factor| factor * power <= value * (1.0 + 1e-9));
    power * factor.unwrap_or(1.0)
}

/// 1, 2 or 5 times a power of ten, not below `value`.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf((value * (1.0 - 1e-9)).log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= value * (1.0 - 1e-9));
    power * factor.unwrap_or(10.0)
}

fn mantissa(round: f64) -> u32 {
    let power = 10_f64.powf((round * (1.0 + 1e-9)).log10().floor());
    (round / power).round() as u32
}

/// A linear axis from zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearScale {
    /// Its end; above zero.
    pub high: f64,
}

impl LinearScale {
    /// Share of the axis.
    pub fn share(&self, value: f64) -> f64 {
        (value / self.high).clamp(0.0, 1.0)
    }

    /// About six steps of a round size.
    pub fn x_ticks(&self, label: impl Fn(f64) -> String) -> Vec<Tick> {
        let step = round_up(self.high / 6.0);
        let count = (self.high / step * (1.0 + 1e-9)).floor() as u32;
        let value = |index: u32| f64::from(index) * step;
        (0..=count)
            .map(|index| Tick { at: self.share(value(index)), label: label(value(index)) })
            .collect()
    }
}

/// Blanks labels that would touch the one before.
pub fn thin_labels(mut ticks: Vec<Tick>) -> Vec<Tick> {
    let mut last = f64::MIN;
    for tick in ticks.iter_mut().filter(|tick| !tick.label.is_empty()) {
        if tick.at - last < X_LABELS_APART {
            tick.label.clear();
        } else {
            last = tick.at;
        }
    }
    ticks
}

/// Puts each label on the first level where it does not touch the one before; marks ascend.
pub fn stagger(marks: &mut [Mark]) {
    let mut last = [f64::MIN; FLAG_LEVELS];
    for mark in marks.iter_mut().filter(|mark| !mark.label.is_empty()) {
        let free = last.iter().position(|last| mark.from - last >= FLAGS_APART);
        mark.level = free.unwrap_or(FLAG_LEVELS - 1);
        last[mark.level] = mark.from;
    }
}

/// A line through points given as shares from left and from *bottom*; `None` breaks it. A point
/// without neighbours becomes a dot.
pub fn path(points: impl IntoIterator<Item = Option<(f64, f64)>>) -> String {
    let mut path = String::new();
    let mut drawn = 0;
    for point in points {
        let Some((x, y)) = point else {
            end_run(&mut path, drawn);
            drawn = 0;
            continue;
        };
        let (x, y) = (place(x), place(1.0 - y));
        let _ = match drawn {
            0 => write!(path, "M{x} {y}"),
            _ => write!(path, " {x} {y}"),
        };
        drawn += 1;
    }
    end_run(&mut path, drawn);
    path
}

/// Dots at the points: sub-paths without length that round caps make visible.
pub fn dots(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (x, y) in points {
        let _ = write!(path, "M{} {}h0", place(x), place(1.0 - y));
    }
    path
}

fn end_run(path: &mut String, drawn: usize) {
    if drawn == 1 {
        path.push_str("h0");
    }
}

fn place(share: f64) -> i64 {
    (share * SIDE).round() as i64
}

/// A share as CSS wants it: `12.3%`.
pub fn percent(share: f64) -> String {
    let tenths = (share * SIDE).round() / 10.0;
    format!("{tenths}%")
}

/// A round latency for an axis: `500 ns`, `20 µs`, `1 s`.
pub fn round_latency(value_ns: f64) -> String {
    let (divisor, unit) = match value_ns {
        value if value < 999.5 => (1.0, "ns"),
        value if value < 999.5e3 => (1e3, "µs"),
        value if value < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}\u{a0}{unit}", (value_ns / divisor).round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_axis_ends_on_round_values_around_all_of_them() {
        let scale = LogScale::of([66_431.0, 5_907_458.0, 0.0]).expect("positive values");
        assert_eq!(scale, LogScale { low: 50_000.0, high: 10_000_000.0 });
        let labels: Vec<String> = scale
            .y_ticks(round_latency)
            .into_iter()
            .map(|tick| tick.label.replace('\u{a0}', " "))
            .collect();
        let expected = ["50 µs", "100 µs", "200 µs", "500 µs", "1 ms", "2 ms", "5 ms", "10 ms"];
        assert_eq!(labels, expected);
        assert!(LogScale::of([0.0]).is_none());
        let one = LogScale::of([1000.0]).expect("positive");
        assert!(one.high > one.low);
        let wide = LogScale::of([1_000.0, 2e9]).expect("positive");
        assert_eq!(wide.y_ticks(round_latency).len(), 7, "powers of ten only");
    }

    #[test]
    fn shares_run_from_end_to_end() {
        let scale = LogScale::of([10.0, 1000.0]).expect("positive");
        assert_eq!(scale.share(10.0), 0.0);
        assert!((scale.share(100.0) - 0.5).abs() < 1e-9);
        assert_eq!(scale.share(1e9), 1.0);
        assert_eq!(scale.share(0.0), 0.0);
    }

    #[test]
    fn lines_break_and_single_points_show() {
        let points = [Some((0.0, 0.0)), Some((0.5, 1.0)), None, Some((1.0, 0.5))];
        assert_eq!(path(points), "M0 1000 500 0M1000 500h0");
        assert_eq!(dots([(0.5, 0.5)]), "M500 500h0");
    }

    #[test]
    fn labels_keep_apart() {
        let tick = |at: f64| Tick { at, label: "x".to_owned() };
        let kept: Vec<bool> = thin_labels(vec![tick(0.0), tick(0.05), tick(0.2)])
            .iter()
            .map(|tick| !tick.label.is_empty())
            .collect();
        assert_eq!(kept, [true, false, true]);
    }

    #[test]
    fn flags_step_aside() {
        let flag = |from: f64| Mark { from, to: from, label: "1".to_owned(), level: 0 };
        let mut marks = [flag(0.1), flag(0.12), flag(0.3), flag(0.31), flag(0.32)];
        stagger(&mut marks);
        assert_eq!(marks.map(|mark| mark.level), [0, 1, 0, 1, 2]);
    }

    #[test]
    fn a_time_axis_has_round_steps() {
        let ticks = LinearScale { high: 5.4 }.x_ticks(|value| value.to_string());
        let labels: Vec<&str> = ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, ["0", "1", "2", "3", "4", "5"]);
    }
}

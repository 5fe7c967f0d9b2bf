//! A history as one HTML file: no network, no script, light and dark, a chart per series.

use std::fmt::Write as _;

use super::series::{Point, Series};
use super::text;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 150.0;
/// Room for the labels of the axis on the left, and around the chart.
const LEFT: f64 = 88.0;
const MARGIN: f64 = 12.0;

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #fff; --soft: #767676; --line: #2459a8;
  --level: #b06a00; --worse: #b3261e; --better: #1a7f37; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --paper: #16181c; --soft: #9a9a9a;
  --line: #8ab4f8; --level: #f2b35d; --worse: #ff8a80; --better: #7ee2a0; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 44rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; } h3 { margin: 1rem 0 0; font-size: 1rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font: 15px system-ui, sans-serif; fill: var(--soft); }
.axis { stroke: var(--soft); stroke-width: 0.5; } .range { stroke: var(--line); opacity: 0.35; }
circle { fill: var(--line); } .level { stroke: var(--level); stroke-width: 2; fill: none; }
.step { stroke: var(--soft); stroke-dasharray: 3 3; }
.worse { color: var(--worse); } .better { color: var(--better); } .note { color: var(--soft); }
ul { padding-left: 1.2rem; }
";

/// The page.
pub fn render(workload: &str, series: &[Series]) -> String {
    let name = escaped(workload);
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name} over time</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>{name} over time</h1>\n"
    );
    page.push_str(&summary(series));
    let mut cell = String::new();
    for one in series {
        let heading = format!("{} · {}", one.cell, one.machine_name);
        if heading != cell {
            let _ = writeln!(page, "<h2>{}</h2>", escaped(&heading));
            cell = heading;
        }
        page.push_str(&section(one));
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn summary(series: &[Series]) -> String {
    let mut items = String::new();
    for one in series {
        for step in &one.steps {
            let class = if step.is_worse { "worse" } else { "better" };
            let text = format!("{}, {}: {}", one.cell, one.figure, text::described(one, step));
            let _ = writeln!(items, "<li class=\"{class}\">{}</li>", escaped(&text));
        }
    }
    match items.is_empty() {
        true => "<p>No change of level was found.</p>\n".to_owned(),
        false => format!("<p>Changes of level:</p>\n<ul>\n{items}</ul>\n"),
    }
}

fn section(series: &Series) -> String {
    let note = match series.is_long_enough() {
        true => String::new(),
        false => format!(
            " <span class=\"note\">({} runs: too few to look for changes)</span>",
            series.points.len()
        ),
    };
    format!("<h3>{}{note}</h3>\n{}", escaped(&series.figure), chart(series))
}

/// From value and index to the chart's coordinates. The vertical axis starts at zero: half the
/// latency is half the height.
struct Scale {
    top: f64,
    step: f64,
}

impl Scale {
    fn of(series: &Series) -> Scale {
        let values = series.points.iter().map(|point| point.value);
        let top = 1.1 * values.fold(f64::MIN_POSITIVE, f64::max);
        let gaps = series.points.len().saturating_sub(1).max(1) as f64;
        Scale { top, step: (WIDTH - LEFT - MARGIN) / gaps }
    }

    fn x(&self, index: usize) -> f64 {
        LEFT + index as f64 * self.step
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value / self.top).min(1.0);
        MARGIN + (1.0 - share) * (HEIGHT - 2.0 * MARGIN)
    }
}

fn chart(series: &Series) -> String {
    let scale = Scale::of(series);
    let label = format!("{}, {}: {} runs", series.cell, series.figure, series.points.len());
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
        escaped(&label)
    );
    for share in [0.0, 0.5, 1.0] {
        let value = share * scale.top / 1.1;
        let y = scale.y(value);
        let _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"0\" y=\"{:.1}\">{}</text>",
            y + 5.0,
            text::value(series, value)
        );
    }
    for step in &series.steps {
        let x = scale.x(step.at) - scale.step / 2.0;
        let _ = writeln!(
            svg,
            "<line class=\"step\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{HEIGHT}\"><title>{}</title></line>",
            escaped(&text::described(series, step))
        );
    }
    svg.push_str(&levels(series, &scale));
    for (index, point) in series.points.iter().enumerate() {
        svg.push_str(&dot(series, &scale, index, point));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The medians between the changes.
fn levels(series: &Series, scale: &Scale) -> String {
    let Some(last) = series.steps.last() else { return String::new() };
    let mut from = 0;
    let mut svg = String::new();
    let parts = series.steps.iter().map(|step| (step.at, step.before));
    for (until, level) in parts.chain([(series.points.len(), last.after)]) {
        let y = scale.y(level);
        let _ = writeln!(
            svg,
            "<line class=\"level\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            scale.x(from),
            scale.x(until - 1)
        );
        from = until;
    }
    svg
}

fn dot(series: &Series, scale: &Scale, index: usize, point: &Point) -> String {
    let (x, y) = (scale.x(index), scale.y(point.value));
    let range = point.interval.map_or(String::new(), |(low, high)| {
        format!(
            "<line class=\"range\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/>",
            scale.y(low),
            scale.y(high)
        )
    });
    let title = format!(
        "{}, {}, {}, ackmark {}",
        text::value(series, point.value),
        point.started_at,
        text::commit(&point.commit),
        point.version
    );
    format!(
        "{range}<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{}</title></circle>\n",
        escaped(&title)
    )
}

/// Text inside HTML and its attributes.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

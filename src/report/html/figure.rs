//! One number of the page, with its place in result.json.

use askama::Template;

use crate::report::numbers;
use crate::results::schema::Latency;

/// A table cell with a number, or with why there is none.
#[derive(Clone, Debug, Template)]
#[template(
    ext = "html",
    source = "<td{% if let Some((of, value)) = place %} data-of=\"{{ of }}\" \
              data-value=\"{{ value }}\"{% endif %}{% if !hint.is_empty() %} title=\"{{ hint }}\"\
              {% endif %}>{{ text }}</td>"
)]
pub struct Figure {
    /// As shown.
    pub text: String,
    /// JSON pointer below the nearest `data-at`, without the leading slash, and the number there;
    /// none for a number computed on this page.
    place: Option<(String, String)>,
    hint: String,
}

impl Figure {
    /// A number that stands in result.json at `of`.
    pub fn stored(text: String, of: &str, value: impl ToString) -> Figure {
        Figure { text, place: Some((of.to_owned(), value.to_string())), hint: String::new() }
    }

    /// A number computed from others on the page, or no number.
    pub fn shown(text: impl Into<String>) -> Figure {
        Figure { text: text.into(), place: None, hint: String::new() }
    }

    /// What a reader sees on pointing at it.
    pub fn with_hint(self, hint: impl Into<String>) -> Figure {
        Figure { hint: hint.into(), ..self }
    }

    /// A stored latency.
    pub fn latency(value_ns: Option<u64>, of: &str) -> Figure {
        match value_ns {
            Some(value_ns) => Figure::stored(micros(value_ns), of, value_ns),
            None => Figure::shown(NONE),
        }
    }

    /// A stored percentile of the distribution at `at`, or how many samples it needs.
    pub fn percentile(latency: &Latency, name: &str, at: &str) -> Figure {
        let slash = if at.is_empty() { "" } else { "/" };
        match (latency.percentiles_ns.get(name), latency.percentiles_absent.get(name)) {
            (Some(value_ns), _) => {
                Figure::latency(Some(*value_ns), &format!("{at}{slash}percentiles_ns/{name}"))
            }
            (None, Some(reason)) if latency.count > 0 => {
                Figure::shown("n/a").with_hint(format!("{reason}; has {}", latency.count))
            }
            _ => Figure::shown(NONE),
        }
    }

    /// A stored ratio, two decimals.
    pub fn ratio(value: Option<f64>, of: &str) -> Figure {
        match value {
            Some(value) => Figure::stored(format!("{value:.2}"), of, value),
            None => Figure::shown(NONE),
        }
    }
}

/// Shown where a value does not exist.
pub const NONE: &str = "–";

/// As [`numbers::latency`], in the typographer's unit.
pub fn micros(value_ns: u64) -> String {
    numbers::latency(value_ns).replace(" us", "\u{a0}µs").replace(' ', "\u{a0}")
}

/// A difference of two latencies, signed.
pub fn difference(value_ns: u64, base_ns: u64) -> String {
    let sign = if value_ns < base_ns { '−' } else { '+' };
    format!("{sign}{}", micros(value_ns.abs_diff(base_ns)))
}

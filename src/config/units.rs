//! One written value → one meant value: durations, sizes, rates, counts, choices.
//!
//! Ambiguous input is refused, never guessed (spec/measurement.md M9): `k M G` are powers of 1000,
//! `Ki Mi Gi` powers of 1024, a duration and a rate always carry their unit. Errors are the part of
//! a message after the value: what would have been allowed.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// A value as written in TOML, before it is known what it should be.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// `3`
    Integer(i64),
    /// `3.0`, `nan`
    Float(f64),
    /// `true`
    Boolean(bool),
    /// `"64KiB"`
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Integer(value) => value.fmt(f),
            Scalar::Float(value) => value.fmt(f),
            Scalar::Boolean(value) => value.fmt(f),
            Scalar::Text(value) => write!(f, "\"{value}\""),
        }
    }
}

const DURATION_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

const SIZE_UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("B", 1),
    ("k", 1_000),
    ("kB", 1_000),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("Ki", 1 << 10),
    ("KiB", 1 << 10),
    ("Mi", 1 << 20),
    ("MiB", 1 << 20),
    ("Gi", 1 << 30),
    ("GiB", 1 << 30),
];

const DURATION_ALLOWED: &str =
    "must be a duration with units in falling order, such as \"500ms\", \"2s\" or \"1m30s\"";
const SIZE_ALLOWED: &str = "must be a size such as 1024, \"1k\" (1000 bytes) or \"64KiB\"; \
     units k M G, Ki Mi Gi, B optional";
const RATE_ALLOWED: &str = "must be records per second such as \"500/s\" or \"2k/s\"";

/// Largest share of the saturation a rate may be: beyond it a run only shows how a queue grows.
const SHARE_MAX_PERCENT: u64 = 200;

/// Largest rate accepted, records per second: above it a schedule step is under a nanosecond.
pub const RATE_MAX: u64 = 1_000_000_000;

/// `"1m30s"` → 90 s. Units fall from left to right and occur once; zero is a duration.
pub fn duration(value: &Scalar) -> Result<Duration, String> {
    let Scalar::Text(text) = value else { return Err(DURATION_ALLOWED.to_owned()) };
    duration_from_str(text)
}

/// As [`duration`], from plain text (command-line flags).
pub fn duration_from_str(text: &str) -> Result<Duration, String> {
    let refused = || DURATION_ALLOWED.to_owned();
    let mut rest = text;
    let mut total_ns: u64 = 0;
    let mut unit_before = u64::MAX;
    while !rest.is_empty() {
        let (digits, tail) = split_digits(rest);
        let unit_length = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_length);
        let unit_ns = lookup(&DURATION_UNITS, unit).ok_or_else(refused)?;
        if unit_ns >= unit_before {
            return Err(refused());
        }
        let count: u64 = digits.parse().map_err(|_| refused())?;
        total_ns = count
            .checked_mul(unit_ns)
            .and_then(|part| total_ns.checked_add(part))
            .ok_or_else(refused)?;
        unit_before = unit_ns;
        rest = tail;
    }
    if unit_before == u64::MAX {
        return Err(refused());
    }
    Ok(Duration::from_nanos(total_ns))
}

/// A duration above zero.
pub fn duration_above_zero(value: &Scalar) -> Result<Duration, String> {
    match duration(value)? {
        Duration::ZERO => Err("must be longer than 0".to_owned()),
        positive => Ok(positive),
    }
}

/// `"64KiB"` or a plain number of bytes → bytes. Negative numbers, fractions and exponents are
/// refused.
pub fn size(value: &Scalar) -> Result<u64, String> {
    let refused = || SIZE_ALLOWED.to_owned();
    match value {
        Scalar::Integer(bytes) => u64::try_from(*bytes).map_err(|_| refused()),
        Scalar::Text(text) => with_suffix(text, &SIZE_UNITS).ok_or_else(refused),
        Scalar::Float(_) | Scalar::Boolean(_) => Err(refused()),
    }
}

/// A size within `range` bytes.
pub fn size_in(range: RangeInclusive<u64>) -> impl Fn(&Scalar) -> Result<u64, String> {
    move |value| {
        let bytes = size(value)?;
        if range.contains(&bytes) {
            return Ok(bytes);
        }
        Err(format!("must be {} to {}", show_size(*range.start()), show_size(*range.end())))
    }
}

/// `"2k/s"` → 2000 records per second, 1 to [`RATE_MAX`]. Zero, negative numbers and NaN are
/// refused: no rate means "unlimited" or "never" here (spec/measurement.md M4).
pub fn rate(value: &Scalar) -> Result<u64, String> {
    let refused = || RATE_ALLOWED.to_owned();
    let Scalar::Text(text) = value else { return Err(refused()) };
    let number = text.strip_suffix("/s").ok_or_else(refused)?;
    let units = [("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let per_second = with_suffix(number, &units).ok_or_else(refused)?;
    if (1..=RATE_MAX).contains(&per_second) {
        return Ok(per_second);
    }
    Err("must be 1/s to 1G/s; for as fast as possible use load.mode = \"max\"".to_owned())
}

/// `"50%"` → 50, 1 to 200; `None` if it is no share at all.
pub fn share(value: &Scalar) -> Option<Result<u32, String>> {
    let Scalar::Text(text) = value else { return None };
    let number = text.strip_suffix('%')?;
    let percent = number.parse::<u64>().ok().filter(|n| (1..=SHARE_MAX_PERCENT).contains(n));
    let allowed =
        format!("must be 1% to {SHARE_MAX_PERCENT}% of the saturation, in whole percents");
    Some(percent.and_then(|percent| u32::try_from(percent).ok()).ok_or(allowed))
}

/// An integer within `range`.
pub fn count(range: RangeInclusive<u64>) -> impl Fn(&Scalar) -> Result<u64, String> {
    move |value| match value {
        Scalar::Integer(number) => u64::try_from(*number)
            .ok()
            .filter(|number| range.contains(number))
            .ok_or_else(|| format!("must be {} to {}", range.start(), range.end())),
        Scalar::Float(_) | Scalar::Boolean(_) | Scalar::Text(_) => {
            Err(format!("must be a whole number, {} to {}", range.start(), range.end()))
        }
    }
}

/// A ratio from 0 to 1.
pub fn ratio(value: &Scalar) -> Result<f64, String> {
    let number = match value {
        Scalar::Float(number) => *number,
        Scalar::Integer(0) => 0.0,
        Scalar::Integer(1) => 1.0,
        Scalar::Integer(_) | Scalar::Boolean(_) | Scalar::Text(_) => f64::NAN,
    };
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("must be 0.0 to 1.0".to_owned()) }
}

/// `true` or `false`.
pub fn flag(value: &Scalar) -> Result<bool, String> {
    match value {
        Scalar::Boolean(flag) => Ok(*flag),
        Scalar::Integer(_) | Scalar::Float(_) | Scalar::Text(_) => {
            Err("must be true or false".to_owned())
        }
    }
}

/// Any text.
pub fn text(value: &Scalar) -> Result<String, String> {
    match value {
        Scalar::Text(text) => Ok(text.clone()),
        Scalar::Integer(_) | Scalar::Float(_) | Scalar::Boolean(_) => {
            Err("must be text in quotes".to_owned())
        }
    }
}

/// One of the written values in `table`. Integers are compared by their decimal text.
pub fn choice<T: Copy>(table: &[(&str, T)]) -> impl Fn(&Scalar) -> Result<T, String> {
    move |value| {
        let written = match value {
            Scalar::Text(text) => text.clone(),
            Scalar::Integer(number) => number.to_string(),
            Scalar::Float(_) | Scalar::Boolean(_) => String::new(),
        };
        lookup(table, &written).ok_or_else(|| {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            format!("must be one of {}", names.join(", "))
        })
    }
}

/// A duration as [`duration`] reads it, in the largest units that lose nothing: `1m30s`, `500ms`.
pub fn show_duration(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut shown = String::new();
    for (name, unit_ns) in DURATION_UNITS.iter().rev() {
        let count = rest / unit_ns;
        rest %= unit_ns;
        if count > 0 {
            shown.push_str(&format!("{count}{name}"));
        }
    }
    shown
}

/// A size as [`size`] reads it, in the largest binary unit that loses nothing: `64KiB`, `1000B`.
pub fn show_size(bytes: u64) -> String {
    let binary = [(1u64 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in binary {
        if bytes > 0 && bytes.is_multiple_of(unit) {
            return format!("{}{name}", bytes / unit);
        }
    }
    format!("{bytes}B")
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

fn with_suffix(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (digits, unit) = split_digits(text);
    let count: u64 = digits.parse().ok()?;
    count.checked_mul(lookup(units, unit)?)
}

fn lookup<T: Copy>(table: &[(&str, T)], written: &str) -> Option<T> {
    table.iter().find(|(name, _)| *name == written).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str) -> Scalar {
        Scalar::Text(text.to_owned())
    }

    #[test]
    fn durations() {
        let cases = [
            ("500ms", Some(500_000_000)),
            ("2s", Some(2_000_000_000)),
            ("1m30s", Some(90_000_000_000)),
            ("0s", Some(0)),
            ("1h1ns", Some(3_600_000_000_001)),
            ("", None),
            ("1", None),
            ("1.5s", None),
            ("30s1m", None),
            ("1s1s", None),
            ("-1s", None),
            ("5 s", None),
            ("99999999999h", None),
        ];
        for (written, expected_ns) in cases {
            let got = duration(&text_of(written)).ok().map(|d| d.as_nanos());
            assert_eq!(got, expected_ns, "{written:?}");
        }
        assert!(duration(&Scalar::Integer(5)).is_err());
    }

    #[test]
    fn sizes() {
        let cases = [
            ("4k", Some(4_000)),
            ("4KiB", Some(4_096)),
            ("4Ki", Some(4_096)),
            ("4kB", Some(4_000)),
            ("1G", Some(1_000_000_000)),
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("4K", None),
            ("4KB", None),
            ("4.5k", None),
            ("1e3", None),
            ("-1", None),
            ("", None),
            ("k", None),
        ];
        for (written, expected) in cases {
            assert_eq!(size(&text_of(written)).ok(), expected, "{written:?}");
        }
        assert_eq!(size(&Scalar::Integer(1024)), Ok(1024));
        assert!(size(&Scalar::Integer(-1)).is_err());
    }

    #[test]
    fn rates_refuse_zero_negative_and_nan() {
        assert_eq!(rate(&text_of("500/s")), Ok(500));
        assert_eq!(rate(&text_of("1k/s")), Ok(1_000));
        for refused in ["0/s", "-1/s", "nan/s", "inf/s", "500", "1e3/s", "2G/s", "/s"] {
            assert!(rate(&text_of(refused)).is_err(), "{refused:?}");
        }
        assert!(rate(&Scalar::Float(f64::NAN)).is_err());
        assert!(rate(&Scalar::Integer(500)).is_err());
    }

    #[test]
    fn what_is_shown_reads_back() {
        for ns in [0, 1, 999, 1_000, 90_000_000_000, 3_600_000_000_001] {
            let shown = show_duration(Duration::from_nanos(ns));
            assert_eq!(duration(&text_of(&shown)).ok(), Some(Duration::from_nanos(ns)), "{shown}");
        }
        for bytes in [0, 1, 1_000, 1_024, 65_536, 3 << 30] {
            assert_eq!(size(&text_of(&show_size(bytes))), Ok(bytes), "{}", show_size(bytes));
        }
    }
}

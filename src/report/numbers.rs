//! Numbers for people: three significant digits, the unit that fits, the divisor stated by the
//! unit's name (`MB` is 10^6 bytes, `MiB` 2^20).

/// A part in the unit that fits `whole_ns`, without the unit: for sums that state it once.
pub fn part_of(whole_ns: u64, part_ns: u64) -> String {
    let divisor = match whole_ns {
        0..1_000 => 1.0,
        1_000..1_000_000 => 1e3,
        1_000_000..1_000_000_000 => 1e6,
        _ => 1e9,
    };
    significant(part_ns as f64 / divisor)
}

/// Nanoseconds in the unit that fits: `850 ns`, `7.40 us`, `74.0 us`, `1.23 ms`, `12.3 s`.
pub fn latency(value_ns: u64) -> String {
    let value = value_ns as f64;
    match value_ns {
        0..1_000 => format!("{value_ns} ns"),
        1_000..1_000_000 => unit_of(value / 1e3, "us", value / 1e6, "ms"),
        1_000_000..1_000_000_000 => unit_of(value / 1e6, "ms", value / 1e9, "s"),
        _ => format!("{} s", significant(value / 1e9)),
    }
}

/// `value unit`, or the next larger unit if rounding reaches 1000.
fn unit_of(value: f64, unit: &str, larger: f64, larger_unit: &str) -> String {
    if value >= 999.5 {
        format!("{} {larger_unit}", significant(larger))
    } else {
        format!("{} {unit}", significant(value))
    }
}

/// A rate (bigger is better) or a latency in nanoseconds, with its unit.
pub fn rate_or_latency(value: f64, is_rate: bool) -> String {
    match is_rate {
        true => format!("{} records/s", count(value)),
        false => latency(value as u64),
    }
}

/// Per-second counts: `500`, `2000`, `61.2k`, `1.50M`.
pub fn count(value: f64) -> String {
    if value < 9_999.5 {
        format!("{value:.0}")
    } else if value < 999_500.0 {
        format!("{}k", significant(value / 1e3))
    } else {
        format!("{}M", significant(value / 1e6))
    }
}

/// Decimal megabytes: `62.7 MB`.
pub fn megabytes(bytes: f64) -> String {
    format!("{} MB", significant(bytes / 1e6))
}

/// Binary mebibytes: `93.1 MiB`.
pub fn mebibytes(bytes: f64) -> String {
    format!("{} MiB", significant(bytes / f64::from(1 << 20)))
}

/// Three significant digits, at most two decimals.
pub fn significant(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_keep_three_digits_in_the_unit_that_fits() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (7_400, "7.40 us"),
            (74_000, "74.0 us"),
            (999_400, "999 us"),
            (999_600, "1.00 ms"),
            (1_234_567, "1.23 ms"),
            (123_456_789, "123 ms"),
            (999_999_999, "1.00 s"),
            (90_000_000_000, "90.0 s"),
        ];
        for (value_ns, expected) in cases {
            assert_eq!(latency(value_ns), expected);
        }
    }

    #[test]
    fn a_million_bytes_are_one_mb_and_0_95_mib() {
        assert_eq!(megabytes(1e6), "1.00 MB");
        assert_eq!(mebibytes(1e6), "0.95 MiB");
        assert_eq!(count(61_234.0), "61.2k");
        assert_eq!(count(2_000.4), "2000");
        assert_eq!(count(1_500_000.0), "1.50M");
    }
}

//! Wall-clock instants as text. Only for naming runs; durations never come from here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// UTC to the second, RFC 3339: `2026-11-30T08:31:08Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let (date, clock) = date_and_clock(time);
    format!("{date}T{:02}:{:02}:{:02}Z", clock[0], clock[1], clock[2])
}

/// The same as a folder's name, sortable and without colons: `2026-11-30T08-31-08Z`.
pub fn folder_name(time: SystemTime) -> String {
    rfc3339(time).replace(':', "-")
}

fn date_and_clock(time: SystemTime) -> (String, [u64; 3]) {
    let since_epoch = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (days, seconds) = (since_epoch / 86_400, since_epoch % 86_400);
    let (year, month, day) = civil(days);
    let clock = [seconds / 3_600, seconds / 60 % 60, seconds % 60];
    (format!("{year:04}-{month:02}-{day:02}"), clock)
}

/// Days since 1970-01-01 → year, month, day in the proleptic Gregorian calendar. Years are counted
/// from March, so that the leap day is the last of its year; 400 years have 146 097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_FROM_MARCH_0000: u64 = 719_468;
    let days = days + DAYS_FROM_MARCH_0000;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (4_102_444_800, "2100-01-01T00:00:00Z"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
        assert_eq!(folder_name(UNIX_EPOCH), "1970-01-01T00-00-00Z");
    }
}

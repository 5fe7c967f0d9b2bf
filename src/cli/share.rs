//! A share as typed: `10%`. A bare number is refused: it might mean 10 % or ten times.

const ALLOWED: &str = "must be a percentage such as \"10%\" or \"2.5%\", from 0% to 1000%";

/// `10%` → 0.1
pub fn parse(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if (0.0..=1_000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(ALLOWED.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_percentages_in_range_are_shares() {
        assert_eq!(parse("10%"), Ok(0.1));
        assert_eq!(parse("2.5 %"), Ok(0.025));
        for text in ["10", "0.1", "-1%", "nan%", "inf%", "1001%", "%", ""] {
            assert_eq!(parse(text), Err(ALLOWED.to_owned()), "{text}");
        }
    }
}

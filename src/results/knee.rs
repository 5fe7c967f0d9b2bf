//! Where a latency-versus-load curve bends: the load beyond which latency grows faster than what is
//! got for it.
//!
//! The criterion is Kleinrock's power, throughput over mean latency: it grows as long as more load is
//! worth its latency, and the knee is where it is greatest. It has no parameter to tune, and the mean
//! needs no minimum of samples and misses no slow one.

/// Fewest loads that make a curve.
pub const POINTS_MIN: usize = 4;

/// One load of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Records acknowledged per second.
    pub achieved_per_s: f64,
    /// Mean latency to the acknowledgement; `None` without samples.
    pub mean_ns: Option<f64>,
}

/// The index of the knee in `points`, which are in the order of their loads.
///
/// # Errors
/// Why there is none, in words.
pub fn knee(points: &[Point]) -> Result<usize, String> {
    let powers: Vec<(usize, f64)> = points
        .iter()
        .enumerate()
        .filter_map(|(index, point)| {
            let mean_ns = point.mean_ns.filter(|&mean_ns| mean_ns > 0.0)?;
            Some((index, point.achieved_per_s / mean_ns))
        })
        .collect();
    if powers.len() < POINTS_MIN {
        return Err(format!("needs {POINTS_MIN} rates with samples, there are {}", powers.len()));
    }
    let greatest = powers.iter().enumerate().max_by(|(_, (_, a)), (_, (_, b))| a.total_cmp(b));
    let Some((position, &(index, _))) = greatest else {
        return Err("there are no points".to_owned());
    };
    if position == 0 {
        return Err("latency grows faster than throughput from the lowest rate on".to_owned());
    }
    if position + 1 == powers.len() {
        return Err("throughput still grows faster than latency at the highest rate".to_owned());
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Vec<Point> {
        let point = |&(achieved_per_s, mean_ns)| Point { achieved_per_s, mean_ns: Some(mean_ns) };
        points.iter().map(point).collect()
    }

    #[test]
    fn the_knee_is_where_power_is_greatest() {
        // One server, 1 ms of service: mean latency 1 / (1 - load) ms; power is greatest at 0.5.
        let loads = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9];
        let queue: Vec<(f64, f64)> =
            loads.iter().map(|&load| (1e3 * load, 1e6 / (1.0 - load))).collect();
        assert_eq!(knee(&curve(&queue)), Ok(4));
        // Flat, then overloaded: the last good rate, whatever was asked after it.
        let flat = [(10.0, 5.0), (20.0, 5.0), (30.0, 6.0), (35.0, 500.0), (35.0, 900.0)];
        assert_eq!(knee(&curve(&flat)), Ok(2));
    }

    #[test]
    fn a_curve_without_a_knee_says_why() {
        let rising = [(10.0, 5.0), (20.0, 5.0), (30.0, 5.0), (40.0, 6.0)];
        let error = knee(&curve(&rising)).expect_err("it never bends");
        assert_eq!(error, "throughput still grows faster than latency at the highest rate");
        let falling = [(10.0, 5.0), (20.0, 50.0), (30.0, 500.0), (40.0, 5e3)];
        let error = knee(&curve(&falling)).expect_err("it is bent from the start");
        assert_eq!(error, "latency grows faster than throughput from the lowest rate on");
        assert_eq!(
            knee(&curve(&rising[..3])).expect_err("too few"),
            "needs 4 rates with samples, there are 3"
        );
    }

    #[test]
    fn a_rate_without_samples_is_passed_over() {
        let mut points = curve(&[(10.0, 5.0), (0.0, 1.0), (20.0, 5.0), (30.0, 9.0), (31.0, 90.0)]);
        points[1].mean_ns = None;
        assert_eq!(knee(&points), Ok(2));
    }
}

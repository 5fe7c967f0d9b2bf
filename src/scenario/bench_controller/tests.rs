use super::parts::{median, median_ratio};
use super::{BenchController, render};

fn good() -> BenchController {
    BenchController {
        rounds: 9,
        write_sync_us: 400.0,
        loopback_us: 30.0,
        one_voter_us: 500.0,
        three_voters_us: 800.0,
        one_voter_ratio: 1.16,
        three_voters_ratio: 1.86,
        changes_per_s: 90_000.0,
        three_voters_changes_per_s: 60_000.0,
        snapshot_bytes: 9 << 20,
        read_ms: 20.0,
        start_ms: 80.0,
        start_ratio: 4.0,
    }
}

#[test]
fn every_bar_is_said_when_it_is_missed() {
    assert!(render(&good()).ends_with("controller: PASS\n"));
    let bad = BenchController {
        one_voter_ratio: 1.61,
        three_voters_ratio: 2.5,
        changes_per_s: 4_999.0,
        start_ratio: 5.5,
        ..good()
    };
    let verdict = "controller: SHORT (one voter 1.61 above 1.6; three voters 2.50 above 2.2; \
                   4999 changes/s below 5000; start 5.50 above 5)\n";
    assert!(render(&bad).ends_with(verdict), "{}", render(&bad));
}

#[test]
fn medians_are_of_the_middle() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(median_ratio(&[2.0, 9.0, 4.0], &[1.0, 3.0, 1.0]), 3.0);
}

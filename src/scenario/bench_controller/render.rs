//! The comparison for a person, ending with the verdict.

use super::{
    BenchController, CHANGES_PER_S_MIN, ONE_VOTER_RATIO_MAX, SNAPSHOT_PARTITIONS, START_RATIO_MAX,
    THREE_VOTERS_RATIO_MAX,
};

/// The figures, how they were taken, and `controller: PASS` or `controller: SHORT (...)` as last line.
pub fn render(bench: &BenchController) -> String {
    let shortfalls = bench.shortfalls();
    let verdict = match shortfalls.is_empty() {
        true => "controller: PASS".to_owned(),
        false => format!("controller: SHORT ({})", shortfalls.join("; ")),
    };
    format!(
        "AlterPartition round trip, p50, microseconds (medians of {rounds} interleaved rounds)\n\
         \x20 write + fdatasync             {write_sync:>9.1}\n\
         \x20 loopback round trip           {loopback:>9.1}\n\
         \x20 one voter                     {one:>9.1}   {one_ratio:.2} x the sum of both (bar {ONE_VOTER_RATIO_MAX})\n\
         \x20 three voters                  {three:>9.1}   {three_ratio:.2} x the sum of both (bar {THREE_VOTERS_RATIO_MAX})\n\
         AlterPartition in batches, partition changes per second (bar {CHANGES_PER_S_MIN} with one voter)\n\
         \x20 one voter                     {changes:>9.0}\n\
         \x20 three voters                  {three_changes:>9.0}\n\
         Start with {SNAPSHOT_PARTITIONS} partitions in a snapshot of {mib:.1} MiB, milliseconds, not in the page cache\n\
         \x20 read of the file              {read:>9.1}\n\
         \x20 process start to first line   {start:>9.1}   {start_ratio:.2} x the read (bar {START_RATIO_MAX})\n\
         Controllers are child processes on one disk and these CPUs; ratios are medians over rounds.\n\
         {verdict}\n",
        rounds = bench.rounds,
        write_sync = bench.write_sync_us,
        loopback = bench.loopback_us,
        one = bench.one_voter_us,
        one_ratio = bench.one_voter_ratio,
        three = bench.three_voters_us,
        three_ratio = bench.three_voters_ratio,
        changes = bench.changes_per_s,
        three_changes = bench.three_voters_changes_per_s,
        mib = bench.snapshot_bytes as f64 / f64::from(1 << 20),
        read = bench.read_ms,
        start = bench.start_ms,
        start_ratio = bench.start_ratio,
    )
}

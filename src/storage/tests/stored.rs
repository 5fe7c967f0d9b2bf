//! Whoever reads a log's files without owning it sees what was appended, across segments and
//! padding, up to the first bad bytes.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use super::bench::{Bench, MODES};
use crate::storage::StoredBatches;

fn stored(bench: &Bench) -> Vec<bytes::Bytes> {
    let batches = StoredBatches::open(bench.directory.path()).expect("a directory");
    batches.map(|batch| batch.expect("readable").bytes).collect()
}

#[test]
fn everything_appended_is_read_in_every_mode() {
    for mode in MODES {
        let Some(mut bench) = Bench::of(mode) else { continue };
        assert!(stored(&bench).is_empty(), "{mode}");
        for _ in 0..12 {
            bench.append_some(20);
            bench.append(1, 60_000);
            bench.commit();
        }
        assert!(bench.segment_paths().len() > 1, "{mode}: across segments");
        let expected: Vec<_> = bench.batches.iter().map(|batch| batch.bytes.clone()).collect();
        assert!(stored(&bench) == expected, "{mode}");
    }
}

#[test]
fn the_log_ends_at_the_first_bytes_that_are_not_its_next_batch() {
    let mode = MODES[0];
    let Some(mut bench) = Bench::of(mode) else { return };
    for _ in 0..5 {
        bench.append(1, 1000);
    }
    bench.commit();
    let sizes: Vec<usize> = bench.batches.iter().map(|batch| batch.bytes.len()).collect();
    let third = (sizes[0] + sizes[1]) as u64;
    let file = OpenOptions::new().write(true).open(&bench.segment_paths()[0]).expect("a segment");
    file.write_all_at(&99_i64.to_be_bytes(), third).expect("written");
    assert_eq!(stored(&bench).len(), 2);
}

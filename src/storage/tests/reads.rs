//! Reads, from memory and from disk.

use crate::config::node::LogConfig;
use crate::types::{DurabilityMode, Offset};

use super::super::{DiskRead, Read, StorageError};
use super::bench::{Bench, MODES, config, inline};

#[test]
fn appended_batches_are_read_before_they_are_durable() {
    let mut bench = Bench::of(DurabilityMode::Fsync).expect("any directory");
    bench.append_some(5);
    assert_eq!(bench.log.durable_offset(), Offset::ZERO);
    bench.check_content();
    let mut out = Vec::new();
    let end = bench.log.log_end_offset();
    bench.log.read(Offset(0), end, usize::MAX, &mut out).expect("in range");
    assert_eq!(out.len(), 1, "neighbours are one range");
}

#[test]
fn memory_and_disk_give_the_same_answer_to_every_question() {
    for mode in MODES {
        // One segment: a disk read ends with its segment, a memory read does not.
        let config = LogConfig { memory_bytes: 8 << 20, segment_bytes: 1 << 20, ..config(mode) };
        let Some(mut memory) = Bench::new(config, 9) else { continue };
        for _ in 0..30 {
            memory.append_some(3);
            memory.commit();
        }
        let end = memory.log.log_end_offset();
        let mut answers = Vec::new();
        for from in 0..end.0 {
            for (until, bytes_max) in [(end, 5000), (Offset(from + 2), 1 << 20), (end, 0)] {
                answers.push(memory.read(Offset(from), until, bytes_max));
            }
        }
        assert_eq!(memory.log.memory_start_offset(), Offset::ZERO);
        memory.reopen(config);
        assert_eq!(memory.log.memory_start_offset(), end, "all on disk now");
        let mut answers = answers.into_iter();
        for from in 0..end.0 {
            for (until, bytes_max) in [(end, 5000), (Offset(from + 2), 1 << 20), (end, 0)] {
                let answer = memory.read(Offset(from), until, bytes_max);
                assert!(Some(answer) == answers.next(), "{mode}: {from} until {until} {bytes_max}");
            }
        }
    }
}

#[test]
fn a_read_gives_whole_batches_one_at_least_and_none_past_until() {
    let mut bench = Bench::of(DurabilityMode::PageCache).expect("any directory");
    bench.append(3, 1000);
    bench.append(3, 1000);
    let first = bench.batches[0].bytes.clone();
    assert_eq!(bench.read(Offset(1), Offset(6), 1), (first.to_vec(), Offset(3)), "from within");
    assert_eq!(bench.read(Offset(0), Offset(5), usize::MAX), (first.to_vec(), Offset(3)));
    assert_eq!(bench.read(Offset(3), Offset(5), usize::MAX), (Vec::new(), Offset(3)));
    assert_eq!(bench.read(Offset(6), Offset(6), usize::MAX), (Vec::new(), Offset(6)));
    let error = bench.log.read(Offset(7), Offset(8), 1, &mut Vec::new()).expect_err("past the end");
    assert!(matches!(error, StorageError::OffsetOutOfRange { .. }));
}

#[test]
fn a_batch_larger_than_any_read_comes_whole_from_disk() {
    let large = LogConfig {
        segment_bytes: 8 << 20,
        message_bytes_max: 4 << 20,
        ..inline(DurabilityMode::PageCache)
    };
    let mut bench = Bench::new(large, 2).expect("any directory");
    bench.append(2, 100);
    bench.append(1, 3 << 20);
    bench.append(1, 100);
    bench.commit();
    bench.check_content();
    bench.reopen(large);
    bench.check_content();
}

#[test]
fn memory_is_bounded_and_keeps_what_is_not_durable() {
    let mut bench = Bench::of(DurabilityMode::Fsync).expect("any directory");
    while bench.log.undurable_bytes() < 1 << 20 {
        bench.append_some(10);
        bench.start();
    }
    assert_eq!(bench.log.memory_start_offset(), Offset::ZERO, "nothing may go yet");
    bench.check_content();
    bench.commit();
    assert!(bench.log.memory_start_offset() > Offset::ZERO);
    bench.check_content();
    let kept = bench.log.log_end_offset().0 - bench.log.memory_start_offset().0;
    assert!(kept > 0, "the recent end stays");
}

#[test]
fn views_outlive_the_chunks_they_came_from() {
    let mut bench = Bench::new(inline(DurabilityMode::PageCache), 5).expect("any directory");
    bench.append(1, 1000);
    let mut held = Vec::new();
    bench.log.read(Offset(0), Offset(1), 1, &mut held).expect("in range");
    while bench.log.log_end_offset() < Offset(2000) {
        bench.append_some(5);
        bench.commit();
    }
    assert!(held[0] == bench.batches[0].bytes, "not overwritten by recycling");
    bench.check_content();
}

fn plan(bench: &Bench, from: Offset, until: Offset) -> DiskRead {
    match bench.log.read(from, until, 1 << 20, &mut Vec::new()).expect("in range") {
        Read::Disk(read) => read,
        Read::Memory { .. } => panic!("{from} is in memory"),
    }
}

#[test]
fn a_disk_read_that_does_not_find_its_batch_says_where() {
    let mut bench = Bench::of(DurabilityMode::PageCache).expect("any directory");
    bench.append_some(5);
    bench.commit();
    let end = bench.log.log_end_offset();
    bench.reopen(config(DurabilityMode::PageCache));
    let read = plan(&bench, Offset(0), end);
    let garbage = vec![0xab; read.length].into();
    let error = bench.log.complete_disk_read(&read, garbage, &mut Vec::new()).expect_err("garbage");
    assert!(error.to_string().contains("no batch with offset 0 at byte 0"), "{error}");
}

#[test]
fn a_disk_read_from_before_a_truncation_gives_nothing() {
    let mut bench = Bench::of(DurabilityMode::PageCache).expect("any directory");
    bench.append_some(5);
    bench.commit();
    let end = bench.log.log_end_offset();
    bench.reopen(config(DurabilityMode::PageCache));
    let read = plan(&bench, Offset(0), end);
    bench.log.truncate(&mut bench.disk, bench.batches[3].base_offset).expect("cut");
    let mut out = Vec::new();
    let stale = vec![0xab; read.length].into();
    let next = bench.log.complete_disk_read(&read, stale, &mut out).expect("nothing");
    assert_eq!((next, out.len()), (Offset(0), 0));
}

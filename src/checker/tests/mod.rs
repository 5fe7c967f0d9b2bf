//! Each violation planted by itself, and found by itself.

mod books;

use super::divergence::{Batch, Divergence, first_divergence};
use super::history::History;
use super::replica::{Found, Replica};
use super::verdict::{Promise, Replicas, Verdict, judge};
use crate::types::{BrokerId, Offset, PartitionId};

const P: PartitionId = PartitionId(0);
const ALL: Promise = Promise { acknowledged: true, visible: true, order: true };
const NOTHING: Promise = Promise { acknowledged: false, visible: false, order: false };

/// Ten records, each a batch, acknowledged at offsets 0 to 9 and seen by the consumer.
fn history() -> History {
    let mut history = History::new(1);
    for number in 0..10 {
        history.sent(P, number, 1, false);
        history.acknowledged(P, number, 1, Offset(number as i64));
        history.seen(P, number, 1, Offset(number as i64));
    }
    history
}

/// A log with these records at offsets 0, 1, …
fn log(numbers: &[u64]) -> Replica {
    let mut replica = Replica::default();
    for (offset, number) in numbers.iter().enumerate() {
        replica.found(Offset(offset as i64), Found::Record { number: *number }, 10);
    }
    replica
}

const WHOLE: [u64; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

fn replicas(replica: Replica) -> Vec<Replicas> {
    let high_watermark = replica.end;
    let held = vec![(BrokerId(1), replica.clone()), (BrokerId(2), replica)];
    vec![Replicas { high_watermark, held, divergence: None }]
}

fn judged(history: &History, numbers: &[u64]) -> Verdict {
    judge(history, &replicas(log(numbers)), ALL)
}

/// Exactly one promise was broken, in these words.
fn assert_broken(verdict: &Verdict, sentence: &str) {
    assert_eq!(verdict.violations, [format!("partition 0: {sentence}")], "{verdict:?}");
}

#[test]
fn a_log_that_holds_everything_once_is_sound() {
    let verdict = judged(&history(), &WHOLE);
    assert_eq!(verdict, Verdict { acknowledged: 10, ..Verdict::default() });
    assert!(verdict.is_sound());
}

#[test]
fn a_lost_record_is_named_by_the_offset_that_was_told() {
    let mut history = history();
    history.partitions[0].seen = Default::default();
    let verdict = judged(&history, &WHOLE[..8]);
    assert_eq!((verdict.lost, verdict.moved), (2, 0));
    assert_broken(&verdict, "2 acknowledged records are lost, the first told at offset 8");
}

#[test]
fn a_record_elsewhere_than_told_is_found() {
    let mut history = history();
    history.partitions[0].seen = Default::default();
    // 9 was told to be at 9; something that nobody was told about took 4.
    history.sent(P, 10, 1, false);
    let mut replica = log(&[0, 1, 2, 3]);
    for (offset, number) in (4..).zip([10, 4, 5, 6, 7, 8, 9]) {
        replica.found(Offset(offset), Found::Record { number }, 11);
    }
    let promise = Promise { order: false, ..ALL };
    let verdict = judge(&history, &replicas(replica), promise);
    assert_eq!((verdict.lost, verdict.moved, verdict.unknown_kept), (0, 6, 1));
    assert_broken(&verdict, "6 acknowledged records are elsewhere, the first told at offset 4");
}

#[test]
fn a_duplicate_breaks_a_promise_only_if_it_was_sent_once() {
    let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 3, 4];
    let verdict = judged(&history(), &numbers);
    assert_eq!((verdict.duplicated, verdict.duplicated_by_retries), (2, 0));
    let sentence = "2 records are in the log again though sent once, the first at offset 10";
    assert_broken(&verdict, sentence);

    let mut history = history();
    history.sent(P, 3, 1, true);
    let verdict = judged(&history, &numbers);
    assert_eq!((verdict.duplicated, verdict.duplicated_by_retries), (1, 1));
    history.sent(P, 4, 1, true);
    let verdict = judged(&history, &numbers);
    assert_eq!((verdict.duplicated, verdict.duplicated_by_retries), (0, 2));
    assert!(verdict.is_sound(), "{verdict:?}");
}

#[test]
fn records_out_of_order_are_found_unless_they_were_sent_again() {
    let mut history = History::new(1);
    let numbers = [0, 1, 2, 6, 7, 3, 4, 5, 8, 9];
    for (offset, number) in (0..).zip(numbers) {
        history.sent(P, number, 1, false);
        history.acknowledged(P, number, 1, Offset(offset));
    }
    let verdict = judged(&history, &numbers);
    assert_eq!((verdict.reordered, verdict.reordered_by_retries), (3, 0));
    let sentence = "3 records are behind others that were sent later, the first at offset 5";
    assert_broken(&verdict, sentence);

    let unordered = Promise { order: false, ..ALL };
    let verdict = judge(&history, &replicas(log(&numbers)), unordered);
    assert!(verdict.is_sound() && verdict.reordered == 3, "counted: {verdict:?}");
    history.sent(P, 3, 3, true);
    let verdict = judged(&history, &numbers);
    assert_eq!((verdict.reordered, verdict.reordered_by_retries), (0, 3));
    assert!(verdict.is_sound(), "{verdict:?}");
}

#[test]
fn a_high_watermark_that_goes_back_on_one_broker_is_found() {
    let mut history = history();
    let told = &mut history.partitions[0].high_watermark;
    for (source, high_watermark) in [(1, 3), (1, 5), (2, 4), (2, 7), (1, 7), (1, 6), (1, 4)] {
        told.told(source, Offset(high_watermark));
    }
    let verdict = judged(&history, &WHOLE);
    assert_eq!(verdict.high_watermark_steps_back, 2);
    assert_eq!(verdict.high_watermark_lower_at_next_leader, 1, "not a promise");
    let sentence = "the high watermark was seen to go back on one broker, first from 7 to 6";
    assert_broken(&verdict, sentence);
}

#[test]
fn records_that_nobody_sent_and_damaged_ones_are_found() {
    let mut replica = log(&WHOLE);
    replica.found(Offset(10), Found::Foreign, 10);
    replica.found(Offset(11), Found::Record { number: 10 }, 10);
    let verdict = judge(&history(), &replicas(replica), NOTHING);
    assert_eq!(verdict.phantom, 4, "two on each of two replicas");
    let sentence =
        "partition 0: 2 records are on broker 2 that nobody sent, the first at offset 10";
    assert_eq!(verdict.violations[1], sentence);

    let mut replica = log(&WHOLE);
    replica.found(Offset(10), Found::Damaged, 10);
    let verdict = judge(&history(), &replicas(replica), NOTHING);
    assert_eq!(verdict.damaged, 2);
    let sentence = "partition 0: 1 record is on broker 1 not as sent, the first at offset 10";
    assert_eq!(verdict.violations[0], sentence);
}

#[test]
fn what_a_consumer_saw_must_stay() {
    let mut history = history();
    history.partitions[0].acknowledged = Default::default();
    let verdict = judged(&history, &[0, 1, 2, 3, 4, 5, 6, 7, 9]);
    assert_eq!((verdict.visible_lost, verdict.unknown_kept, verdict.unknown_lost), (2, 9, 1));
    let sentence = "2 records are gone that a consumer has seen, the first at offset 8";
    assert_broken(&verdict, sentence);
}

#[test]
fn what_is_above_the_high_watermark_does_not_count() {
    let mut replicas = replicas(log(&WHOLE));
    replicas[0].high_watermark = Offset(7);
    let verdict = judge(&history(), &replicas, ALL);
    assert_eq!((verdict.lost, verdict.visible_lost), (3, 3));
}

#[test]
fn what_a_mode_does_not_promise_is_counted_and_not_failed() {
    let verdict = judge(&history(), &replicas(log(&WHOLE[..6])), NOTHING);
    assert_eq!((verdict.lost, verdict.visible_lost), (4, 4));
    assert!(verdict.is_sound(), "{verdict:?}");
}

fn batches(contents: &[&'static str]) -> impl Iterator<Item = Result<Batch, ()>> {
    let batch = |(offset, bytes): (i64, &&'static str)| {
        let bytes = bytes.as_bytes().into();
        Ok(Batch { base_offset: Offset(offset), end_offset: Offset(offset + 1), bytes })
    };
    (0..).zip(contents).map(batch).collect::<Vec<_>>().into_iter()
}

#[test]
fn replicas_that_differ_are_found_at_the_first_difference_below_the_high_watermark() {
    let compare = |high_watermark, third: &[&'static str]| {
        let mut replicas = [batches(&["a", "b", "c"]), batches(&["a", "b", "c"]), batches(third)];
        first_divergence(&mut replicas, Offset(high_watermark))
    };
    let found = |offset| Ok(Some(Divergence { offset: Offset(offset), replica: 2 }));
    assert_eq!(compare(3, &["a", "b", "c"]), Ok(None));
    assert_eq!(compare(3, &["a", "x", "c"]), found(1));
    assert_eq!(compare(3, &["a", "b"]), found(2), "too short");
    assert_eq!(compare(2, &["a", "b", "x"]), Ok(None), "above the high watermark");

    let mut replicas = replicas(log(&WHOLE));
    replicas[0].divergence = Some((Offset(4), BrokerId(3)));
    let verdict = judge(&history(), &replicas, NOTHING);
    assert_eq!(verdict.divergent_partitions, 1);
    assert_broken(
        &verdict,
        "replicas differ below the high watermark 10: broker 3 from offset 4 on",
    );
}

#[test]
fn the_books_grow_with_the_disruptions_and_not_with_the_run() {
    let mut history = History::new(1);
    for number in 0..100_000 {
        history.sent(P, number, 1, false);
        history.acknowledged(P, number, 1, Offset(number as i64));
    }
    assert_eq!(history.partitions[0].acknowledged.len(), 1);
    assert_eq!(history.partitions[0].acknowledged.records(), 100_000);
}

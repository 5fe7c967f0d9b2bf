//! What the books add up to: counts, and one sentence for every promise that was broken.

use std::ops::Range;

use crate::types::{BrokerId, Offset, PartitionId};

use super::extents::{Extents, Index};
use super::history::{History, PartitionHistory};
use super::numbers::{Numbers, total};
use super::replica::{Replica, Tally};

/// What a cell's mode promises. What is not promised is counted and breaks nothing. That nothing is
/// damaged, made up, or different between replicas below the high watermark, that no batch sent once
/// is there twice, and that a broker's high watermark never goes back is always promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// Acknowledged records are kept, where they were said to be.
    pub acknowledged: bool,
    /// What a consumer has seen stays as it was.
    pub visible: bool,
    /// Acknowledged records that were sent once keep the order they were sent in. Not so with several
    /// connections to a leader, among which a partition may move.
    pub order: bool,
}

/// The replicas of one partition, as they were read.
#[derive(Clone, Debug)]
pub struct Replicas {
    /// The high watermark when all had caught up.
    pub high_watermark: Offset,
    /// What each holds, the leader first.
    pub held: Vec<(BrokerId, Replica)>,
    /// The first difference below the high watermark: where, and whose.
    pub divergence: Option<(Offset, BrokerId)>,
}

/// What was found, over all partitions. Counts are of records unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Acknowledged.
    pub acknowledged: u64,
    /// Acknowledged and not in the log.
    pub lost: u64,
    /// Acknowledged and in the log, but elsewhere than told.
    pub moved: u64,
    /// More than once in the log, sent once.
    pub duplicated: u64,
    /// More than once in the log, and sent more than once.
    pub duplicated_by_retries: u64,
    /// Acknowledged, sent once, and behind a record that was sent later.
    pub reordered: u64,
    /// Behind a record that was sent later, sent again or not acknowledged.
    pub reordered_by_retries: u64,
    /// Seen by a consumer at an offset that holds another record now, or none.
    pub visible_lost: u64,
    /// Times a broker told a lower high watermark than before.
    pub high_watermark_steps_back: u64,
    /// Times a new leader told a lower high watermark than the one before it.
    pub high_watermark_lower_at_next_leader: u64,
    /// In a log and never sent.
    pub phantom: u64,
    /// In a log and not as sent.
    pub damaged: u64,
    /// Partitions whose replicas differ below the high watermark.
    pub divergent_partitions: u64,
    /// Sent, outcome unknown, and in the log.
    pub unknown_kept: u64,
    /// Sent, outcome unknown, and not in the log.
    pub unknown_lost: u64,
    /// One sentence for each promise that was broken, with partition and offsets.
    pub violations: Vec<String>,
}

impl Verdict {
    /// Whether every promise was kept.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }
}

/// Compares what was seen with what is there. `replicas` are by partition.
pub fn judge(history: &History, replicas: &[Replicas], promise: Promise) -> Verdict {
    let mut verdict = Verdict::default();
    for (index, (seen, held)) in history.partitions.iter().zip(replicas).enumerate() {
        let partition = PartitionId(i32::try_from(index).unwrap_or(i32::MAX));
        Judge { partition, promise, verdict: &mut verdict }.partition(seen, held);
    }
    verdict
}

struct Judge<'a> {
    partition: PartitionId,
    promise: Promise,
    verdict: &'a mut Verdict,
}

impl Judge<'_> {
    fn partition(&mut self, seen: &PartitionHistory, replicas: &Replicas) {
        if let Some((offset, broker)) = replicas.divergence {
            self.verdict.divergent_partitions += 1;
            let end = replicas.high_watermark;
            self.broken(format!(
                "replicas differ below the high watermark {end}: broker {broker} from offset \
                 {offset} on"
            ));
        }
        for (broker, replica) in &replicas.held {
            self.bytes(*broker, replica);
        }
        self.high_watermarks(seen);
        // All replicas are equal below the high watermark, or that was said: one stands for all.
        if let Some((_, reference)) = replicas.held.first() {
            self.log(seen, &committed(&reference.found, replicas.high_watermark));
        }
    }

    fn bytes(&mut self, broker: BrokerId, replica: &Replica) {
        let Tally { records, first } = replica.damaged;
        self.verdict.damaged += records;
        if let Some(first) = first {
            self.broken(format!(
                "{} on broker {broker} not as sent, the first at offset {first}",
                are(records)
            ));
        }
        let Tally { records, first } = replica.phantom;
        self.verdict.phantom += records;
        if let Some(first) = first {
            self.broken(format!(
                "{} on broker {broker} that nobody sent, the first at offset {first}",
                are(records)
            ));
        }
    }

    fn high_watermarks(&mut self, seen: &PartitionHistory) {
        let told = seen.high_watermark;
        self.verdict.high_watermark_steps_back += told.steps_back;
        self.verdict.high_watermark_lower_at_next_leader += told.lower_at_next_leader;
        if let Some((from, to)) = told.first_step_back {
            self.broken(format!(
                "the high watermark was seen to go back on one broker, first from {from} to {to}"
            ));
        }
    }

    fn log(&mut self, seen: &PartitionHistory, log: &Extents) {
        let index = log.index();
        let walk = self.walk(seen, log);
        self.acknowledged(seen, &walk, &index);
        self.visible(seen, &index);
        let mut told = Numbers::default();
        seen.acknowledged.iter().for_each(|extent| told.insert(extent.numbers()));
        for unknown in told.missing(0..seen.sent_end) {
            let kept = total(&walk.within(unknown.clone()));
            self.verdict.unknown_kept += kept;
            self.verdict.unknown_lost += unknown.end - unknown.start - kept;
        }
    }

    /// Duplicates and order, in one walk along the log. Gives the numbers that are there.
    fn walk(&mut self, seen: &PartitionHistory, log: &Extents) -> Numbers {
        let mut told = Numbers::default();
        seen.acknowledged.iter().for_each(|extent| told.insert(extent.numbers()));
        let (mut there, mut highest) = (Numbers::default(), 0);
        let (mut duplicated, mut reordered) = (Tally::default(), Tally::default());
        for extent in log.iter() {
            let numbers = extent.numbers();
            for twice in there.within(numbers.clone()) {
                let by_retries = total(&seen.resent.within(twice.clone()));
                self.verdict.duplicated_by_retries += by_retries;
                for once in seen.resent.missing(twice) {
                    duplicated.add(once.end - once.start, extent.offset_of(once.start));
                }
            }
            let late = numbers.start..numbers.end.min(highest);
            for late in non_empty(late).into_iter().flat_map(|late| there.missing(late)) {
                let mut promised = Vec::new();
                for told in told.within(late.clone()) {
                    promised.extend(seen.resent.missing(told));
                }
                self.verdict.reordered_by_retries += late.end - late.start - total(&promised);
                for late in promised {
                    reordered.add(late.end - late.start, extent.offset_of(late.start));
                }
            }
            highest = highest.max(numbers.end);
            there.insert(numbers);
        }
        self.verdict.duplicated += duplicated.records;
        self.verdict.reordered += reordered.records;
        if let Some(first) = duplicated.first {
            let records = are(duplicated.records);
            self.broken(format!(
                "{records} in the log again though sent once, the first at offset {first}"
            ));
        }
        if let Some(first) = reordered.first.filter(|_| self.promise.order) {
            let records = are(reordered.records);
            self.broken(format!(
                "{records} behind others that were sent later, the first at offset {first}"
            ));
        }
        there
    }

    fn acknowledged(&mut self, seen: &PartitionHistory, there: &Numbers, index: &Index) {
        let (mut lost, mut moved) = (Tally::default(), Tally::default());
        for extent in seen.acknowledged.iter() {
            self.verdict.acknowledged += extent.records;
            for gap in there.missing(extent.numbers()) {
                lost.add(gap.end - gap.start, extent.offset_of(gap.start));
            }
            let at_home = index.at_the_same_offsets(extent);
            for part in there.within(extent.numbers()) {
                for away in at_home.missing(part) {
                    moved.add(away.end - away.start, extent.offset_of(away.start));
                }
            }
        }
        self.verdict.lost += lost.records;
        self.verdict.moved += moved.records;
        let records = |tally: Tally| match tally.records {
            1 => "1 acknowledged record is".to_owned(),
            many => format!("{many} acknowledged records are"),
        };
        if let Some(first) = lost.first.filter(|_| self.promise.acknowledged) {
            self.broken(format!("{} lost, the first told at offset {first}", records(lost)));
        }
        if let Some(first) = moved.first.filter(|_| self.promise.acknowledged) {
            let records = records(moved);
            self.broken(format!("{records} elsewhere, the first told at offset {first}"));
        }
    }

    fn visible(&mut self, seen: &PartitionHistory, index: &Index) {
        let mut gone = Tally::default();
        for extent in seen.seen.iter() {
            for gap in index.at_the_same_offsets(extent).missing(extent.numbers()) {
                gone.add(gap.end - gap.start, extent.offset_of(gap.start));
            }
        }
        self.verdict.visible_lost += gone.records;
        if let Some(first) = gone.first.filter(|_| self.promise.visible) {
            self.broken(format!(
                "{} gone that a consumer has seen, the first at offset {first}",
                are(gone.records)
            ));
        }
    }

    fn broken(&mut self, sentence: String) {
        self.verdict.violations.push(format!("partition {}: {sentence}", self.partition));
    }
}

/// What of a log lies below the high watermark.
fn committed(log: &Extents, high_watermark: Offset) -> Extents {
    let mut below = Extents::default();
    for extent in log.iter() {
        let room = u64::try_from(high_watermark.0.saturating_sub(extent.offset.0)).unwrap_or(0);
        below.push(extent.offset, extent.number, extent.records.min(room));
    }
    below
}

fn non_empty(range: Range<u64>) -> Option<Range<u64>> {
    (!range.is_empty()).then_some(range)
}

fn are(records: u64) -> String {
    match records {
        1 => "1 record is".to_owned(),
        many => format!("{many} records are"),
    }
}

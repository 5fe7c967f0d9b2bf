//! What a run's updates add up to. Pure: the time is an argument.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::scenario::partitions::Partition;
use crate::scenario::progress::{CellId, Snapshot, Update};

/// A rate is taken over about this long.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Finished cells and events that are kept: more than fit a screen.
const KEPT_MAX: usize = 100;

/// One run so far.
#[derive(Debug)]
pub(super) struct State {
    pub(super) workload: String,
    /// Cells of the run, repeats counted.
    pub(super) steps: usize,
    pub(super) started: Instant,
    /// Where metrics are served.
    pub(super) metrics: Option<SocketAddr>,
    /// What is done, or was last done, between cells.
    pub(super) note: String,
    /// The cell that runs.
    pub(super) cell: Option<CellId>,
    /// Of the cell that runs, oldest first, as far back as the rate needs.
    snapshots: VecDeque<Snapshot>,
    /// Of the cell that runs.
    pub(super) partitions: Vec<Partition>,
    /// Newest last.
    pub(super) finished: VecDeque<(CellId, Option<Duration>)>,
    /// Newest last, with the time since the run began.
    pub(super) events: VecDeque<(Duration, String)>,
    pub(super) totals: Totals,
}

/// Over the whole run; nothing of it ever falls. Records are those of measured parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) cells_finished: u64,
    pub(super) events: u64,
    pub(super) records_sent: u64,
    pub(super) records_acknowledged: u64,
    pub(super) records_failed: u64,
}

/// Records per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    pub(super) sent_per_s: f64,
    pub(super) acknowledged_per_s: f64,
}

impl State {
    pub(super) fn new(workload: &str, steps: usize, started: Instant) -> State {
        State {
            workload: workload.to_owned(),
            steps,
            started,
            metrics: None,
            note: String::new(),
            cell: None,
            snapshots: VecDeque::new(),
            partitions: Vec::new(),
            finished: VecDeque::new(),
            events: VecDeque::new(),
            totals: Totals::default(),
        }
    }

    /// Takes in what the run told.
    pub(super) fn apply(&mut self, update: Update, now: Instant) {
        match update {
            Update::Note(text) => self.note = text,
            Update::CellBegins(cell) => {
                self.leave_cell();
                self.cell = Some(cell);
            }
            Update::CellGoesOn(snapshot) => self.snapshot(snapshot),
            Update::CellIsOver { cell, p50 } => {
                self.leave_cell();
                self.totals.cells_finished += 1;
                keep(&mut self.finished, (cell, p50));
            }
            Update::Partitions(partitions) => self.partitions(partitions, now),
            Update::Event(text) => self.event(text, now),
            Update::Finished => {}
        }
    }

    /// The cell that runs, as last told.
    pub(super) fn snapshot_now(&self) -> Option<&Snapshot> {
        self.snapshots.back()
    }

    /// The cell's rates of late; absent until two instants of its measured part are known.
    pub(super) fn rate(&self) -> Option<Rate> {
        let (first, last) = (self.snapshots.front()?, self.snapshots.back()?);
        let elapsed_s = last.at.saturating_duration_since(first.at).as_secs_f64();
        let per_s = |first: u64, last: u64| last.saturating_sub(first) as f64 / elapsed_s;
        (elapsed_s > 0.0 && last.records_sent > 0).then(|| Rate {
            sent_per_s: per_s(first.records_sent, last.records_sent),
            acknowledged_per_s: per_s(first.records_acknowledged, last.records_acknowledged),
        })
    }

    fn leave_cell(&mut self) {
        self.cell = None;
        self.snapshots.clear();
        self.partitions.clear();
    }

    fn snapshot(&mut self, snapshot: Snapshot) {
        let (sent, acknowledged, failed) = self.snapshots.back().map_or((0, 0, 0), |last| {
            (last.records_sent, last.records_acknowledged, last.records_failed)
        });
        let totals = &mut self.totals;
        totals.records_sent += snapshot.records_sent.saturating_sub(sent);
        totals.records_acknowledged += snapshot.records_acknowledged.saturating_sub(acknowledged);
        totals.records_failed += snapshot.records_failed.saturating_sub(failed);
        self.snapshots.push_back(snapshot);
        let is_old = |one: &Snapshot| snapshot.at.saturating_duration_since(one.at) >= RATE_WINDOW;
        while self.snapshots.get(1).is_some_and(is_old) {
            self.snapshots.pop_front();
        }
    }

    /// A change of a partition is an event: it is what a fault does.
    fn partitions(&mut self, partitions: Vec<Partition>, now: Instant) {
        if self.cell.is_none() {
            return;
        }
        let before = std::mem::replace(&mut self.partitions, partitions);
        let changes: Vec<String> = self
            .partitions
            .iter()
            .filter_map(|partition| {
                let before = before.iter().find(|before| before.index == partition.index)?;
                change(before, partition)
            })
            .collect();
        changes.into_iter().for_each(|text| self.event(text, now));
    }

    fn event(&mut self, text: String, now: Instant) {
        self.totals.events += 1;
        keep(&mut self.events, (now.saturating_duration_since(self.started), text));
    }
}

fn keep<T>(kept: &mut VecDeque<T>, one: T) {
    if kept.len() == KEPT_MAX {
        kept.pop_front();
    }
    kept.push_back(one);
}

/// `partition 0: leader 1 -> 2, ISR 1,2,3 -> 2,3`; nothing if only the high watermark moved.
fn change(before: &Partition, after: &Partition) -> Option<String> {
    let leader = |partition: &Partition| show_leader(partition.leader);
    let parts = [
        ("leader", leader(before), leader(after)),
        ("ISR", show_ids(&before.isr), show_ids(&after.isr)),
        ("ELR", show_ids(&before.elr), show_ids(&after.elr)),
    ];
    let changed: Vec<String> = parts
        .iter()
        .filter(|(_, before, after)| before != after)
        .map(|(what, before, after)| format!("{what} {before} -> {after}"))
        .collect();
    (!changed.is_empty()).then(|| format!("partition {}: {}", after.index, changed.join(", ")))
}

pub(super) fn show_leader(leader: Option<i32>) -> String {
    leader.map_or("none".to_owned(), |leader| leader.to_string())
}

/// `1,2,3`, or `-` for none.
pub(super) fn show_ids(ids: &[i32]) -> String {
    let ids: Vec<String> = ids.iter().map(i32::to_string).collect();
    if ids.is_empty() { "-".to_owned() } else { ids.join(",") }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::driver::Phase;

    /// A run of 24 cells in the middle of its second, which lost a broker.
    pub(in crate::live) fn in_a_cell(started: Instant) -> State {
        let at = |ms: u64| started + Duration::from_millis(ms);
        let mut state = State::new("default", 24, started);
        state.metrics = Some(SocketAddr::from(([127, 0, 0, 1], 9464)));
        let cell = |step, name: &str| CellId { step, name: name.to_owned(), repeat: 0 };
        state.apply(Update::Note("starting repeat-0-block-0 (fsync, uring)".to_owned()), at(0));
        state.apply(Update::CellBegins(cell(1, "acks=1 fsync")), at(100));
        state.apply(Update::CellGoesOn(snapshot(at(150), 40)), at(150));
        let p50 = Some(Duration::from_micros(280));
        state.apply(Update::CellIsOver { cell: cell(1, "acks=1 fsync"), p50 }, at(200));
        state.apply(Update::CellBegins(cell(2, "acks=all fsync")), at(300));
        for (time, records) in [(1_000, 0), (1_500, 1_000), (2_000, 2_000), (2_500, 3_000)] {
            state.apply(Update::CellGoesOn(snapshot(at(time), records)), at(time));
        }
        let partition = |isr: &[i32], elr: &[i32]| Partition {
            index: 0,
            leader: Some(1),
            leader_epoch: 4,
            isr: isr.to_vec(),
            elr: elr.to_vec(),
            high_watermark: Some(3_001),
        };
        state.apply(Update::Partitions(vec![partition(&[1, 2, 3], &[])]), at(2_600));
        state.apply(Update::Event("broker-2 was killed".to_owned()), at(2_650));
        state.apply(Update::Partitions(vec![partition(&[1, 3], &[2])]), at(2_700));
        state
    }

    fn snapshot(at: Instant, records: u64) -> Snapshot {
        Snapshot {
            at,
            phase: Phase::Measuring,
            elapsed: Duration::from_millis(1_700),
            load_length: Duration::from_secs(3),
            records_sent: records,
            records_acknowledged: records.saturating_sub(3),
            records_failed: 0,
            in_flight_batches: 3,
            p50_ns: Some(315_000),
            p99_ns: None,
        }
    }

    #[test]
    fn rates_are_over_the_last_second_of_the_present_cell() {
        let state = in_a_cell(Instant::now());
        let rate = state.rate().expect("four instants");
        assert_eq!(rate.sent_per_s, 2_000.0);
        let mut state = state;
        let cell = CellId { step: 3, name: "next".to_owned(), repeat: 0 };
        state.apply(Update::CellBegins(cell), Instant::now());
        assert_eq!(state.rate(), None);
        assert!(state.partitions.is_empty());
    }

    #[test]
    fn totals_add_the_cells_up() {
        let totals = in_a_cell(Instant::now()).totals;
        assert_eq!(totals.records_sent, 40 + 3_000);
        assert_eq!(totals.records_acknowledged, 37 + 2_997);
        assert_eq!((totals.cells_finished, totals.events), (1, 2));
    }

    #[test]
    fn a_partition_that_changes_is_an_event() {
        let state = in_a_cell(Instant::now());
        let events: Vec<&str> = state.events.iter().map(|(_, text)| text.as_str()).collect();
        assert_eq!(events, ["broker-2 was killed", "partition 0: ISR 1,2,3 -> 1,3, ELR - -> 2"]);
    }

    #[test]
    fn partitions_told_after_their_cell_are_nobody_s() {
        let mut state = in_a_cell(Instant::now());
        let late = state.partitions.clone();
        let cell = CellId { step: 2, name: "acks=all fsync".to_owned(), repeat: 0 };
        state.apply(Update::CellIsOver { cell, p50: None }, Instant::now());
        state.apply(Update::Partitions(late), Instant::now());
        assert!(state.partitions.is_empty());
    }

    #[test]
    fn only_the_newest_are_kept() {
        let mut state = State::new("w", 1, Instant::now());
        for number in 0..KEPT_MAX + 5 {
            state.apply(Update::Event(number.to_string()), Instant::now());
        }
        assert_eq!(state.events.len(), KEPT_MAX);
        assert_eq!(state.events.back().map(|(_, text)| text.as_str()), Some("104"));
        assert_eq!(state.totals.events, 105);
    }
}

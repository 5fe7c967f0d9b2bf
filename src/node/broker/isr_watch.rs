//! Watches one partition this broker leads and tells what happens to its ISR and high watermark:
//! instants only, no rule. What the events mean is in `measure::isr`; where they go in `events`.
//!
//! Hot path: [`IsrWatch::moved`] compares two offsets and keeps a sum.

use super::events::EventSink;
use crate::measure::isr::{IsrChange, IsrEvent, IsrEventKind, IsrOutcome, StallReason};
use crate::protocol::partition::high_watermark::{HighWatermark, Hold as Held};
use crate::protocol::partition::{Partition, PendingIsr};
use crate::types::{BrokerId, LeaderEpoch, MonotonicTime, Offset, PartitionId};

/// See the module.
pub(super) struct IsrWatch {
    topic: String,
    partition: PartitionId,
    broker: BrokerId,
    leading: Option<Leading>,
}

/// One leadership.
struct Leading {
    epoch: LeaderEpoch,
    known: MonotonicTime,
    first_append: Option<MonotonicTime>,
    has_committed: bool,
    log_end: Offset,
    high_watermark: Offset,
    hold: Hold,
    under_min_isr_since: Option<MonotonicTime>,
    change: Option<Change>,
}

/// Since the high watermark moved last.
struct Hold {
    /// First record waiting.
    since: Option<MonotonicTime>,
    /// Up to when `held_record_ns` is summed.
    last: MonotonicTime,
    held_record_ns: u64,
    reason: Option<StallReason>,
}

/// The newest change proposed.
struct Change {
    proposed: PendingIsr,
    submitted: MonotonicTime,
    sent: Option<MonotonicTime>,
    settled: Option<(MonotonicTime, IsrOutcome)>,
    high_watermark_moved: Option<MonotonicTime>,
}

impl IsrWatch {
    pub(super) fn new(topic: &str, partition: PartitionId, broker: BrokerId) -> IsrWatch {
        IsrWatch { topic: topic.to_owned(), partition, broker, leading: None }
    }

    /// After each step.
    #[inline]
    pub(super) fn moved(&mut self, now: MonotonicTime, machine: &Partition, sink: &mut EventSink) {
        let Some(leading) = &mut self.leading else { return };
        let (log_end, high_watermark) = (machine.log_end_offset(), machine.high_watermark());
        if log_end == leading.log_end && high_watermark == leading.high_watermark {
            return;
        }
        let committed = leading.moved(now, log_end, high_watermark);
        if let Some(records) = committed {
            self.committed(now, records, sink);
        }
    }

    /// After a step that may have changed leadership, ISR, or a proposal.
    pub(super) fn changed(
        &mut self,
        now: MonotonicTime,
        machine: &Partition,
        sink: &mut EventSink,
    ) {
        let epoch = machine.leader_epoch().filter(|_| machine.is_leader());
        if self.leading.as_ref().map(|leading| leading.epoch) != epoch {
            self.end(sink);
            self.leading = epoch.map(|epoch| Leading::new(epoch, now, machine));
        }
        let Some(leading) = &mut self.leading else { return };
        let pending = machine.pending_isr();
        leading.settle(now, pending.as_ref(), machine);
        let mut told = Vec::new();
        if let Some(pending) = pending
            && leading.change.as_ref().is_none_or(|change| change.proposed.id() != pending.id())
        {
            told.extend(leading.change.take().map(Change::told));
            leading.change = Some(Change {
                proposed: pending,
                submitted: now,
                sent: None,
                settled: None,
                high_watermark_moved: None,
            });
        }
        let is_under = machine.is_under_min_isr();
        match leading.under_min_isr_since {
            None if is_under => leading.under_min_isr_since = Some(now),
            Some(since) if !is_under => {
                leading.under_min_isr_since = None;
                let until_ns = Some(now.0);
                told.push(IsrEventKind::UnderMinIsr { since_ns: since.0, until_ns });
            }
            _ => {}
        }
        leading.give_reason(machine);
        for kind in told {
            self.tell(kind, sink);
        }
        self.moved(now, machine, sink);
        self.tell_finished_change(sink);
    }

    /// The controller has decided on what left at `sent`.
    pub(super) fn decided(&mut self, sent: MonotonicTime) {
        if let Some(change) = self.leading.as_mut().and_then(|leading| leading.change.as_mut())
            && sent >= change.submitted
        {
            change.sent = Some(sent);
        }
    }

    /// The partition goes away, or the broker ends.
    pub(super) fn end(&mut self, sink: &mut EventSink) {
        let Some(mut leading) = self.leading.take() else { return };
        let mut told: Vec<IsrEventKind> = Vec::new();
        told.extend(leading.change.take().map(Change::told));
        if let Some(since) = leading.under_min_isr_since {
            told.push(IsrEventKind::UnderMinIsr { since_ns: since.0, until_ns: None });
        }
        if !leading.has_committed {
            told.push(leading.led(None));
        }
        let epoch = leading.epoch;
        for kind in told {
            self.tell_of(epoch, kind, sink);
        }
    }

    /// The high watermark passed `records`.
    fn committed(&mut self, now: MonotonicTime, records: u64, sink: &mut EventSink) {
        let Some(leading) = &mut self.leading else { return };
        let stall = leading.hold.stall(now, records);
        leading.hold.restart(now, leading.log_end > leading.high_watermark);
        let led = (!leading.has_committed).then(|| leading.led(Some(now)));
        leading.has_committed = true;
        if let Some(change) = &mut leading.change {
            change.high_watermark_moved.get_or_insert(now);
        }
        for kind in stall.into_iter().chain(led) {
            self.tell(kind, sink);
        }
        self.tell_finished_change(sink);
    }

    /// A change is told once it is settled, its request answered (metadata may settle it before), and
    /// the high watermark has moved after it; or once the next one is proposed.
    fn tell_finished_change(&mut self, sink: &mut EventSink) {
        let Some(leading) = &mut self.leading else { return };
        let is_finished = |change: &mut Change| {
            let is_answered = change.settled.is_some() && change.sent.is_some();
            is_answered && change.high_watermark_moved.is_some()
        };
        if let Some(change) = leading.change.take_if(is_finished) {
            self.tell(change.told(), sink);
        }
    }

    fn tell(&self, kind: IsrEventKind, sink: &mut EventSink) {
        if let Some(leading) = &self.leading {
            self.tell_of(leading.epoch, kind, sink);
        }
    }

    fn tell_of(&self, epoch: LeaderEpoch, kind: IsrEventKind, sink: &mut EventSink) {
        sink.tell(IsrEvent {
            topic: self.topic.clone(),
            partition: self.partition.0,
            broker: self.broker.0,
            leader_epoch: epoch.0,
            lost_before: 0,
            kind,
        });
    }
}

impl Leading {
    fn new(epoch: LeaderEpoch, now: MonotonicTime, machine: &Partition) -> Leading {
        let (log_end, high_watermark) = (machine.log_end_offset(), machine.high_watermark());
        let is_waiting = log_end > high_watermark;
        let mut hold = Hold { since: None, last: now, held_record_ns: 0, reason: None };
        hold.restart(now, is_waiting);
        hold.reason = Some(StallReason::NewLeader);
        Leading {
            epoch,
            known: now,
            first_append: None,
            has_committed: false,
            log_end,
            high_watermark,
            hold,
            under_min_isr_since: None,
            change: None,
        }
    }

    /// Takes note of both ends; how many records the high watermark passed, if it moved.
    #[inline]
    fn moved(&mut self, now: MonotonicTime, log_end: Offset, committed: Offset) -> Option<u64> {
        let waiting = (self.log_end.0 - self.high_watermark.0).max(0).unsigned_abs();
        let passed_ns = now.0.saturating_sub(self.hold.last.0);
        let held = waiting.saturating_mul(passed_ns);
        self.hold.held_record_ns = self.hold.held_record_ns.saturating_add(held);
        self.hold.last = now;
        if log_end > self.log_end {
            self.first_append.get_or_insert(now);
        }
        let records = (committed > self.high_watermark)
            .then(|| (committed.0 - self.high_watermark.0).unsigned_abs());
        (self.log_end, self.high_watermark) = (log_end, committed);
        if log_end > committed {
            self.hold.since.get_or_insert(now);
        }
        records
    }

    fn settle(&mut self, now: MonotonicTime, pending: Option<&PendingIsr>, machine: &Partition) {
        let Some(change) = &mut self.change else { return };
        let is_pending = pending.is_some_and(|pending| pending.id() == change.proposed.id());
        if change.settled.is_some() || is_pending {
            return;
        }
        let isr = machine.committed_isr();
        let joined = |id: &BrokerId| isr.contains(id) == change.proposed.is_expand;
        let outcome = match change.proposed.members.iter().all(joined) {
            true => IsrOutcome::Committed,
            false => IsrOutcome::Dropped,
        };
        change.settled = Some((now, outcome));
    }

    /// The closed gate before the lagging member: it holds longer.
    fn give_reason(&mut self, machine: &Partition) {
        let decision = machine.high_watermark_decision();
        if matches!(decision, Some(HighWatermark::Hold(Held::UnderMinIsr { .. }))) {
            self.hold.reason = Some(StallReason::UnderMinIsr);
        } else if self.hold.reason.is_none()
            && self.change.as_ref().is_some_and(|change| !change.proposed.is_expand)
        {
            self.hold.reason = Some(StallReason::LaggingMember);
        }
    }

    fn led(&self, first_commit: Option<MonotonicTime>) -> IsrEventKind {
        IsrEventKind::Led {
            known_ns: self.known.0,
            first_append_ns: self.first_append.map(|at| at.0),
            first_commit_ns: first_commit.map(|at| at.0),
        }
    }
}

impl Hold {
    fn restart(&mut self, now: MonotonicTime, is_waiting: bool) {
        let since = is_waiting.then_some(now);
        *self = Hold { since, last: now, held_record_ns: 0, reason: None };
    }

    fn stall(&self, now: MonotonicTime, records: u64) -> Option<IsrEventKind> {
        let (reason, since) = self.reason.zip(self.since)?;
        Some(IsrEventKind::Stall {
            reason,
            since_ns: since.0,
            until_ns: now.0,
            records,
            held_record_ns: self.held_record_ns,
        })
    }
}

impl Change {
    fn told(self) -> IsrEventKind {
        let PendingIsr { is_expand, members, isr_before, isr_after, min_isr, detected_at, .. } =
            self.proposed;
        IsrEventKind::Change {
            change: if is_expand { IsrChange::Expand } else { IsrChange::Shrink },
            members: members.into_iter().map(|id| id.0).collect(),
            isr_before,
            isr_after,
            min_isr,
            detected_ns: detected_at.map(|at| at.0),
            submitted_ns: self.submitted.0,
            sent_ns: self.sent.map(|at| at.0),
            settled_ns: self.settled.map(|(at, _)| at.0),
            outcome: self.settled.map_or(IsrOutcome::Open, |(_, outcome)| outcome),
            high_watermark_moved_ns: self.high_watermark_moved.map(|at| at.0),
        }
    }
}

#[cfg(test)]
mod tests;

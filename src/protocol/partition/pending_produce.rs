//! Produce requests that wait: `acks=1` for the leader's own durability, `acks=all` for the high
//! watermark or their deadline. Knows offsets and times, not why they moved.
//!
//! Source: spec/kip966.md 1.8. Hot path: both queues are in offset order, so that an answer is a
//! pop; they keep their memory.

use std::collections::VecDeque;

use super::message::{Output, RequestId};
use crate::types::{ErrorCode, MonotonicTime, Offset};

/// An appended batch whose producer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Waiter {
    /// The request to answer.
    pub(super) request: RequestId,
    /// First offset of the batch.
    pub(super) base_offset: Offset,
    /// Offset after its last record.
    pub(super) end_offset: Offset,
    /// When an `acks=all` waiter times out.
    pub(super) deadline: MonotonicTime,
}

/// All waiting produces of a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct PendingProduces {
    /// `acks=1`, by end offset.
    for_durable: VecDeque<Waiter>,
    /// `acks=all`, by end offset.
    for_committed: VecDeque<Waiter>,
    /// No `acks=all` waiter times out before this.
    earliest_deadline: Option<MonotonicTime>,
}

impl PendingProduces {
    /// An `acks=1` batch was appended.
    pub(super) fn wait_for_durable(&mut self, waiter: Waiter) {
        self.for_durable.push_back(waiter);
    }

    /// An `acks=all` batch was appended.
    pub(super) fn wait_for_committed(&mut self, waiter: Waiter) {
        let earliest = self.earliest_deadline.map_or(waiter.deadline, |at| at.min(waiter.deadline));
        self.earliest_deadline = Some(earliest);
        self.for_committed.push_back(waiter);
    }

    /// The leader's log is durable up to `end`: answers `acks=1`.
    pub(super) fn release_durable(&mut self, end: Offset, out: &mut Vec<Output>) {
        release(&mut self.for_durable, end, None, out);
    }

    /// The high watermark is at `end`: answers `acks=all` with success, or with `error` if given.
    pub(super) fn release_committed(
        &mut self,
        end: Offset,
        error: Option<ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        release(&mut self.for_committed, end, error, out);
        if self.for_committed.is_empty() {
            self.earliest_deadline = None;
        }
    }

    /// Answers the `acks=all` waiters whose deadline has come.
    pub(super) fn expire(&mut self, now: MonotonicTime, out: &mut Vec<Output>) {
        if self.earliest_deadline.is_none_or(|at| at > now) {
            return;
        }
        self.for_committed.retain(|waiter| {
            let waits = waiter.deadline > now;
            if !waits {
                out.push(answer(waiter, Some(ErrorCode::RequestTimedOut)));
            }
            waits
        });
        self.earliest_deadline = self.for_committed.iter().map(|waiter| waiter.deadline).min();
    }

    /// The high watermark will not move for a while: no `acks=all` waiter waits any longer.
    pub(super) fn fail_uncommitted(&mut self, error: ErrorCode, out: &mut Vec<Output>) {
        out.extend(self.for_committed.drain(..).map(|waiter| answer(&waiter, Some(error))));
        self.earliest_deadline = None;
    }

    /// Leadership is lost: nobody waits any longer.
    pub(super) fn fail_all(&mut self, error: ErrorCode, out: &mut Vec<Output>) {
        let waiters = self.for_durable.drain(..).chain(self.for_committed.drain(..));
        out.extend(waiters.map(|waiter| answer(&waiter, Some(error))));
        self.earliest_deadline = None;
    }

    /// No waiter times out before this.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.earliest_deadline
    }

    pub(super) fn check_invariants(&self, durable: Offset, committed: Offset, log_end: Offset) {
        assert!(self.for_durable.iter().is_sorted_by_key(|waiter| waiter.end_offset));
        assert!(self.for_committed.iter().is_sorted_by_key(|waiter| waiter.end_offset));
        assert!(self.for_durable.front().is_none_or(|waiter| waiter.end_offset > durable));
        assert!(self.for_committed.front().is_none_or(|waiter| waiter.end_offset > committed));
        assert!(self.for_durable.back().is_none_or(|waiter| waiter.end_offset <= log_end));
        assert!(self.for_committed.back().is_none_or(|waiter| waiter.end_offset <= log_end));
        assert!(self.for_committed.iter().all(|w| self.earliest_deadline <= Some(w.deadline)));
        assert!(self.for_committed.is_empty() == self.earliest_deadline.is_none());
    }
}

fn release(
    waiters: &mut VecDeque<Waiter>,
    end: Offset,
    error: Option<ErrorCode>,
    out: &mut Vec<Output>,
) {
    while let Some(waiter) = waiters.front().filter(|waiter| waiter.end_offset <= end) {
        out.push(answer(waiter, error));
        waiters.pop_front();
    }
}

fn answer(waiter: &Waiter, error: Option<ErrorCode>) -> Output {
    let result = error.map_or(Ok(waiter.base_offset), Err);
    Output::AnswerProduce { request: waiter.request, result }
}

//! The rules of a follower: one fetch in flight, append, truncate on divergence, follow the
//! leader's high watermark. Only what is durable is acknowledged: classically by the offset of the
//! next fetch, which waits for it; pipelined by a field of its own (see [`FetchPipeline`]).
//!
//! Source: spec/kip966.md 1.2 (6), 1.7.

use std::time::Duration;

use super::leader_epochs;
use super::local::{Local, Term};
use super::message::{BatchSpan, FollowerFetch, Output};
use crate::types::{BrokerId, ErrorCode, FetchPipeline, LeaderEpoch, MonotonicTime, Offset};

/// What only a follower keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Follower {
    /// The metadata it follows under.
    pub(super) term: Term,
    /// Whom it follows.
    pub(super) leader: BrokerId,
    /// What it waits for.
    pub(super) waits: Waits,
    /// Leader epoch of a fetch to this same leader that was in flight when a newer epoch began.
    superseded: Option<LeaderEpoch>,
}

/// What a follower waits for; every state ends by one kind of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waits {
    /// The answer to its fetch at its log end offset, which is durable unless pipelined.
    Answer,
    /// Durability up to its log end offset; then it fetches.
    Durable {
        /// Not before this.
        not_before: MonotonicTime,
    },
    /// The leader's log start and log end offset.
    LeaderOffsets,
    /// A new leader epoch: this one was fenced (no polling meanwhile).
    NewEpoch,
}

/// A fetch response without error.
#[derive(Debug)]
pub(super) struct Fetched<'a> {
    /// Fetch position and leader epoch of the request.
    pub(super) request: (Offset, LeaderEpoch),
    /// What came, in order.
    pub(super) batches: &'a [BatchSpan],
    /// Log start offset and high watermark of the leader.
    pub(super) leader: (Offset, Offset),
    /// Set when the leader found the logs to diverge.
    pub(super) diverging: Option<(LeaderEpoch, Offset)>,
}

impl Follower {
    /// This replica becomes a follower of `leader`.
    pub(super) fn start(
        local: &mut Local,
        now: MonotonicTime,
        (leader, term): (BrokerId, Term),
        out: &mut Vec<Output>,
    ) -> Follower {
        let waits = Waits::Durable { not_before: now };
        let mut follower = Follower { term, leader, waits, superseded: None };
        if local.log.epochs.newest().is_none() {
            // Without epochs divergence cannot be found: what is not known to be committed goes.
            let committed = local.log.high_watermark;
            follower.cut(local, committed, out);
        }
        follower.fetch_next(local, now, out);
        follower
    }

    /// Metadata changed and this replica stays a follower. The fetch restarts only in a new leader
    /// epoch, also if the leader stayed the same.
    pub(super) fn apply_metadata(
        &mut self,
        local: &Local,
        now: MonotonicTime,
        (leader, term): (BrokerId, Term),
        out: &mut Vec<Output>,
    ) {
        let known = std::mem::replace(&mut self.term, term);
        if term.leader_epoch == known.leader_epoch {
            return;
        }
        let in_flight = self.waits == Waits::Answer && leader == self.leader;
        self.superseded = in_flight.then_some(known.leader_epoch);
        self.leader = leader;
        self.fetch_next(local, now, out);
    }

    pub(super) fn durable(&mut self, local: &mut Local, end: Offset, out: &mut Vec<Output>) {
        if !local.log.mark_durable(end) {
            out.push(Output::Ignored("durable offset known already"));
            return;
        }
        match self.waits {
            Waits::Durable { not_before } => self.fetch_next(local, not_before, out),
            Waits::Answer if is_pipelined(local) => {
                out.push(Output::Acknowledge(self.next_fetch(local, MonotonicTime::ZERO)));
            }
            Waits::Answer | Waits::LeaderOffsets | Waits::NewEpoch => {}
        }
    }

    pub(super) fn fetched(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        fetched: &Fetched<'_>,
        out: &mut Vec<Output>,
    ) {
        let (request_offset, request_leader_epoch) = fetched.request;
        let current = self.waits == Waits::Answer
            && request_leader_epoch == self.term.leader_epoch
            && request_offset == local.log.log_end_offset;
        if !current {
            self.forget_superseded(request_leader_epoch);
            out.push(Output::Ignored("fetch response for another position or leader epoch"));
            return;
        }
        if let Some(diverging) = fetched.diverging {
            // High watermark and log start in this response wait for the next one (KAFKA-14704).
            let truncation = leader_epochs::truncation(&local.log, diverging);
            self.cut(local, truncation.to, out);
            self.fetch_next(local, now, out);
            return;
        }
        let count = self.append(local, fetched.batches);
        if count > 0 {
            out.push(Output::AppendFetched { count });
        }
        let (leader_start, leader_high_watermark) = fetched.leader;
        follow_high_watermark(local, leader_high_watermark, out);
        local.log.raise_log_start(leader_start);
        let refused_all = count == 0 && !fetched.batches.is_empty();
        if refused_all {
            out.push(Output::Ignored("fetched batches that may not be appended"));
        }
        let pause = if refused_all { local.settings.fetch_backoff } else { Duration::ZERO };
        self.fetch_next(local, now.plus(pause), out);
    }

    pub(super) fn fetch_failed(
        &mut self,
        local: &Local,
        now: MonotonicTime,
        (request_leader_epoch, error): (LeaderEpoch, ErrorCode),
        out: &mut Vec<Output>,
    ) {
        let retry_at = now.plus(local.settings.fetch_backoff);
        let asked = self.waits == Waits::LeaderOffsets;
        if request_leader_epoch != self.term.leader_epoch {
            // The next fetch goes to the same leader and has not left while this one was in
            // flight: it backs off. One to another leader is not this answer's business.
            if self.forget_superseded(request_leader_epoch) && self.waits == Waits::Answer {
                self.fetch_next(local, retry_at, out);
            } else {
                out.push(Output::Ignored("fetch error for another leader epoch"));
            }
        } else if self.waits != Waits::Answer && !asked {
            out.push(Output::Ignored("fetch error while no fetch is in flight"));
        } else {
            match error {
                ErrorCode::FencedLeaderEpoch => self.waits = Waits::NewEpoch,
                ErrorCode::OffsetOutOfRange if !asked => {
                    self.waits = Waits::LeaderOffsets;
                    out.push(Output::AskLeaderOffsets);
                }
                _ => self.fetch_next(local, retry_at, out),
            }
        }
    }

    /// The leader's log is `[leader_start, leader_end)` and the own position was out of its range.
    pub(super) fn leader_offsets(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        (leader_start, leader_end): (Offset, Offset),
        out: &mut Vec<Output>,
    ) {
        if self.waits != Waits::LeaderOffsets {
            out.push(Output::Ignored("leader offsets nobody asked for"));
            return;
        }
        let mut next = now;
        if leader_end < local.log.log_end_offset {
            // Only after an unclean election; committed records may go.
            self.cut(local, leader_end, out);
        } else if leader_start > local.log.log_end_offset {
            self.restart(local, leader_start, out);
        } else {
            // In range by now: nothing to repair, so do not ask in a tight loop.
            next = now.plus(local.settings.fetch_backoff);
        }
        self.fetch_next(local, next, out);
    }

    /// Fetches at the log's end; classically it waits first until the log is durable up to there.
    fn fetch_next(&mut self, local: &Local, not_before: MonotonicTime, out: &mut Vec<Output>) {
        let log = &local.log;
        if log.durable_offset < log.log_end_offset && !is_pipelined(local) {
            self.waits = Waits::Durable { not_before };
            return;
        }
        self.waits = Waits::Answer;
        out.push(Output::FetchFromLeader(self.next_fetch(local, not_before)));
    }

    fn next_fetch(&self, local: &Local, not_before: MonotonicTime) -> FollowerFetch {
        let log = &local.log;
        FollowerFetch {
            leader: self.leader,
            leader_epoch: self.term.leader_epoch,
            offset: log.log_end_offset,
            durable_offset: is_pipelined(local).then_some(log.durable_offset),
            last_fetched_epoch: log.epochs.of_last_record(log.log_end_offset),
            log_start_offset: log.log_start_offset,
            not_before,
        }
    }

    /// Appends the leading batches that may be: contiguous, in epoch order, and not from a newer
    /// epoch than the fetch claimed (KAFKA-18723). Returns how many.
    fn append(&self, local: &mut Local, batches: &[BatchSpan]) -> usize {
        let log = &mut local.log;
        let mut last_epoch = log.epochs.of_last_record(log.log_end_offset);
        for (index, batch) in batches.iter().enumerate() {
            let contiguous = batch.base_offset == log.log_end_offset;
            let in_order = Some(batch.leader_epoch) >= last_epoch;
            let known_epoch = batch.leader_epoch <= self.term.leader_epoch;
            if !contiguous || !in_order || !known_epoch || batch.end_offset <= batch.base_offset {
                return index;
            }
            log.append(batch.leader_epoch, batch.end_offset);
            last_epoch = Some(batch.leader_epoch);
        }
        batches.len()
    }

    fn cut(&self, local: &mut Local, to: Offset, out: &mut Vec<Output>) {
        if to < local.log.log_start_offset {
            return self.restart(local, to, out);
        }
        let before = local.log.high_watermark;
        local.log.truncate(to);
        out.push(Output::Truncate { to });
        tell_high_watermark(local, before, out);
    }

    fn restart(&self, local: &mut Local, at: Offset, out: &mut Vec<Output>) {
        let before = local.log.high_watermark;
        local.log.restart(at);
        out.push(Output::Restart { at });
        tell_high_watermark(local, before, out);
    }

    pub(super) fn check_invariants(&self, local: &Local) {
        let log = &local.log;
        assert!(self.leader != local.id);
        let may_fetch = log.durable_offset == log.log_end_offset || is_pipelined(local);
        assert!(self.waits != Waits::Answer || may_fetch);
        assert!(self.superseded.is_none_or(|epoch| epoch < self.term.leader_epoch));
    }

    /// The answer to a fetch of an older epoch is in. Returns whether it was waited for.
    fn forget_superseded(&mut self, request_leader_epoch: LeaderEpoch) -> bool {
        let superseded = self.superseded == Some(request_leader_epoch);
        if superseded {
            self.superseded = None;
        }
        superseded
    }
}

fn is_pipelined(local: &Local) -> bool {
    local.settings.fetch_pipeline == FetchPipeline::Pipelined
}

/// A follower's high watermark follows the leader's within its own log, also downwards.
fn follow_high_watermark(local: &mut Local, leader_high_watermark: Offset, out: &mut Vec<Output>) {
    let log = &mut local.log;
    let before = log.high_watermark;
    log.high_watermark = leader_high_watermark.clamp(log.log_start_offset, log.log_end_offset);
    tell_high_watermark(local, before, out);
}

fn tell_high_watermark(local: &Local, before: Offset, out: &mut Vec<Output>) {
    let now = local.log.high_watermark;
    if now != before {
        out.push(Output::HighWatermark(now));
    }
}

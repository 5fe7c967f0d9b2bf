//! Fetches with nothing to read yet: a follower's waits for an append (or its sync, see
//! [`Local::served_end`]), a consumer's for the high watermark. The high watermark alone never wakes a follower's (KAFKA-9952).
//!
//! Source: spec/kip966.md 1.7. Hot path: the lists keep their memory.

use super::local::Local;
use super::message::{Fetch, FetchAnswer, Fetcher, Output, RequestId};
use crate::types::{ErrorCode, MonotonicTime, Offset};

/// A fetch that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Parked {
    request: RequestId,
    fetch: Fetch,
    deadline: MonotonicTime,
}

/// All waiting fetches of a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ParkedFetches {
    followers: Vec<Parked>,
    consumers: Vec<Parked>,
    /// No fetch times out before this.
    earliest_deadline: Option<MonotonicTime>,
}

impl ParkedFetches {
    /// Parks a fetch that has nothing to read.
    pub(super) fn park(&mut self, request: RequestId, fetch: Fetch, deadline: MonotonicTime) {
        let earliest = self.earliest_deadline.map_or(deadline, |at| at.min(deadline));
        self.earliest_deadline = Some(earliest);
        let parked = Parked { request, fetch, deadline };
        match fetch.fetcher {
            Fetcher::Follower { .. } => self.followers.push(parked),
            Fetcher::Consumer => self.consumers.push(parked),
        }
    }

    /// The shell answers `request` itself. Returns whether it was parked.
    pub(super) fn forget(&mut self, request: RequestId) -> bool {
        let before = self.len();
        self.followers.retain(|parked| parked.request != request);
        self.consumers.retain(|parked| parked.request != request);
        self.settle();
        self.len() < before
    }

    /// Followers may have something to read.
    pub(super) fn wake_followers(&mut self, local: &Local, out: &mut Vec<Output>) {
        let end = local.served_end();
        answer_where(&mut self.followers, |parked| parked.fetch.offset < end, local, out);
        self.settle();
    }

    /// The high watermark moved: consumers have something to read.
    pub(super) fn wake_consumers(&mut self, local: &Local, out: &mut Vec<Output>) {
        let end = local.log.high_watermark;
        answer_where(&mut self.consumers, |parked| parked.fetch.offset < end, local, out);
        self.settle();
    }

    /// Answers fetches whose deadline has come, without records.
    pub(super) fn expire(&mut self, now: MonotonicTime, local: &Local, out: &mut Vec<Output>) {
        if self.earliest_deadline.is_none_or(|at| at > now) {
            return;
        }
        answer_where(&mut self.followers, |parked| parked.deadline <= now, local, out);
        answer_where(&mut self.consumers, |parked| parked.deadline <= now, local, out);
        let left = self.followers.iter().chain(&self.consumers);
        self.earliest_deadline = left.map(|parked| parked.deadline).min();
    }

    /// Answers the fetches that `refusal` gives an error for.
    pub(super) fn refuse(
        &mut self,
        refusal: impl Fn(&Fetch) -> Option<ErrorCode>,
        local: &Local,
        out: &mut Vec<Output>,
    ) {
        for list in [&mut self.followers, &mut self.consumers] {
            list.retain(|&Parked { request, fetch, .. }| {
                let error = refusal(&fetch);
                if let Some(error) = error {
                    let answer = FetchAnswer { error, ..readable(&fetch, local).without_records() };
                    out.push(Output::AnswerFetch { request, answer });
                }
                error.is_none()
            });
        }
        self.settle();
    }

    /// No fetch times out before this.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.earliest_deadline
    }

    pub(super) fn check_invariants(&self, local: &Local) {
        assert!(self.followers.iter().all(|p| p.fetch.offset >= local.served_end()));
        assert!(self.consumers.iter().all(|p| p.fetch.offset >= local.log.high_watermark));
        assert!(self.followers.iter().all(|p| self.earliest_deadline <= Some(p.deadline)));
        assert!(self.consumers.iter().all(|p| self.earliest_deadline <= Some(p.deadline)));
        assert!((self.len() == 0) == self.earliest_deadline.is_none());
    }

    fn len(&self) -> usize {
        self.followers.len() + self.consumers.len()
    }

    fn settle(&mut self) {
        if self.len() == 0 {
            self.earliest_deadline = None;
        }
    }
}

impl FetchAnswer {
    /// The same answer with nothing to send.
    pub(super) fn without_records(self) -> FetchAnswer {
        FetchAnswer { until: self.offset, ..self }
    }
}

/// What `fetch` may read now: a follower up to the end of what followers are served, a consumer up
/// to the high watermark, an acknowledgement nothing.
pub(super) fn readable(fetch: &Fetch, local: &Local) -> FetchAnswer {
    let log = &local.log;
    let limit: Offset = match fetch.fetcher {
        _ if !fetch.wants_records => fetch.offset,
        Fetcher::Follower { .. } => local.served_end(),
        Fetcher::Consumer => log.high_watermark,
    };
    FetchAnswer {
        error: ErrorCode::None,
        offset: fetch.offset,
        until: limit.max(fetch.offset),
        high_watermark: log.high_watermark,
        log_start_offset: log.log_start_offset,
        diverging: None,
    }
}

fn answer_where(
    list: &mut Vec<Parked>,
    ready: impl Fn(&Parked) -> bool,
    local: &Local,
    out: &mut Vec<Output>,
) {
    list.retain(|parked| {
        let ready = ready(parked);
        if ready {
            let answer = readable(&parked.fetch, local);
            out.push(Output::AnswerFetch { request: parked.request, answer });
        }
        !ready
    });
}

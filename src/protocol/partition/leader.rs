//! The rules of a partition's leader: produce, fetch, high watermark, and what metadata changes.
//! Changes to the ISR are proposed in `isr_changes`; role changes are decided in `mod`.
//!
//! Hot path (`produce`, `durable`, `fetch`): no allocation after warm-up.
//!
//! Source: spec/kip966.md 1.2 to 1.4, 1.7, 1.8.

use std::time::Duration;

use super::high_watermark::{self, HighWatermark, Question};
use super::isr::IsrState;
use super::leader_epochs;
use super::local::{Local, Term};
use super::message::{
    Fetch, FetchAnswer, Fetcher, Output, PartitionMetadata, Peer, RequestId, Settings,
};
use super::parked_fetches::{ParkedFetches, readable};
use super::pending_produce::{PendingProduces, Waiter};
use super::replica_progress::ReplicaProgress;
use crate::types::{
    Acks, BrokerEpoch, BrokerId, ErrorCode, HwmGate, LeaderEpoch, MonotonicTime, Offset,
    ProduceUnderMinIsr, ServeFollowers,
};

/// What only a leader keeps.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leader {
    /// The metadata it leads under.
    pub(super) term: Term,
    /// Own log end offset when the leader epoch was assumed.
    pub(super) epoch_start_offset: Offset,
    /// Committed ISR and pending proposal.
    pub(super) isr: IsrState,
    /// Every assigned replica but this one.
    pub(super) followers: Vec<ReplicaProgress>,
    /// Produces that wait.
    pub(super) produces: PendingProduces,
    /// Fetches that wait.
    pub(super) fetches: ParkedFetches,
    /// When the lag timer looks next.
    pub(super) shrink_check_at: MonotonicTime,
    /// Outcome of the last evaluation of the high watermark.
    pub(super) decision: Option<HighWatermark>,
}

/// A produce as the leader sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Produce {
    pub(super) request: RequestId,
    pub(super) acks: Acks,
    pub(super) record_count: u32,
    pub(super) deadline: MonotonicTime,
}

impl Leader {
    /// This replica becomes leader.
    pub(super) fn assume(
        local: &mut Local,
        now: MonotonicTime,
        metadata: PartitionMetadata,
        out: &mut Vec<Output>,
    ) -> Leader {
        let mut leader = Leader {
            term: Term::of(&metadata),
            epoch_start_offset: local.log.log_end_offset,
            isr: IsrState::Committed { isr: metadata.isr.clone() },
            followers: Vec::new(),
            produces: PendingProduces::default(),
            fetches: ParkedFetches::default(),
            shrink_check_at: now.plus(shrink_interval(&local.settings)),
            decision: None,
        };
        leader.adopt(local, metadata);
        leader.begin_epoch(local, now);
        leader.advance_high_watermark(local, now, out);
        leader
    }

    /// Metadata changed and this replica stays leader.
    pub(super) fn apply_metadata(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        metadata: PartitionMetadata,
        out: &mut Vec<Output>,
    ) {
        let epochs_passed = metadata.leader_epoch.0 - self.term.leader_epoch.0;
        if epochs_passed > 1 {
            // Somebody else may have led between, and followers may have cut their logs for it: as
            // for a new leader, nothing is known of them (simulation, seed 9747).
            self.followers.clear();
        }
        self.adopt(local, metadata);
        if epochs_passed == 1 {
            let end = local.served_end();
            for follower in &mut self.followers {
                let in_sync = follower.in_maximal_isr.then_some(now);
                follower.continue_in_new_epoch(end, in_sync);
            }
        }
        if epochs_passed > 0 {
            self.begin_epoch(local, now);
        }
        let (term, followers) = (self.term, &self.followers);
        let refusal = |fetch: &Fetch| refusal(term.leader_epoch, followers, fetch);
        self.fetches.refuse(refusal, local, out);
        self.committed_isr_changed(local, now, out);
    }

    /// The committed ISR is another one: the high watermark may move, or may not for a while.
    pub(super) fn committed_isr_changed(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        out: &mut Vec<Output>,
    ) {
        self.advance_high_watermark(local, now, out);
        let settings = &local.settings;
        let fails = settings.produce_under_min_isr == ProduceUnderMinIsr::Fail
            && settings.hwm_gate != HwmGate::Legacy;
        if fails && self.is_under_min_isr(settings) {
            self.produces.fail_uncommitted(ErrorCode::NotEnoughReplicasAfterAppend, out);
        }
    }

    /// Leadership is lost: everybody who waits is told so.
    pub(super) fn step_down(&mut self, local: &Local, out: &mut Vec<Output>) {
        let error = ErrorCode::NotLeaderOrFollower;
        self.produces.fail_all(error, out);
        self.fetches.refuse(|_| Some(error), local, out);
    }

    pub(super) fn produce(&mut self, local: &mut Local, produce: Produce, out: &mut Vec<Output>) {
        let Produce { request, acks, record_count, deadline } = produce;
        assert!(record_count > 0, "a batch of no records was produced");
        if acks == Acks::All && self.is_under_min_isr(&local.settings) {
            let result = Err(ErrorCode::NotEnoughReplicas);
            out.push(Output::AnswerProduce { request, result });
            return;
        }
        let (base_offset, leader_epoch) = (local.log.log_end_offset, self.term.leader_epoch);
        let end_offset = base_offset.plus(i64::from(record_count));
        local.log.append(leader_epoch, end_offset);
        out.push(Output::Append { request, base_offset, leader_epoch });
        if local.settings.serve_followers == ServeFollowers::BeforeSync {
            self.fetches.wake_followers(local, out);
        }
        let waiter = Waiter { request, base_offset, end_offset, deadline };
        match acks {
            Acks::None => out.push(Output::AnswerProduce { request, result: Ok(base_offset) }),
            Acks::Leader => self.produces.wait_for_durable(waiter),
            Acks::All => self.produces.wait_for_committed(waiter),
        }
    }

    /// The own log is durable up to `end`. Takes the place of Kafka's evaluation at the append,
    /// since the own term of the minimum is the durable offset.
    pub(super) fn durable(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        end: Offset,
        out: &mut Vec<Output>,
    ) {
        if !local.log.mark_durable(end) {
            out.push(Output::Ignored("durable offset known already"));
            return;
        }
        self.produces.release_durable(local.log.durable_offset, out);
        if local.settings.serve_followers == ServeFollowers::AfterSync {
            self.fetches.wake_followers(local, out);
        }
        self.advance_high_watermark(local, now, out);
    }

    pub(super) fn fetch(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        (request, fetch, deadline): (RequestId, Fetch, MonotonicTime),
        out: &mut Vec<Output>,
    ) {
        // The answer is settled before the fetch counts as an acknowledgement, so that the high
        // watermark in it is the one from before (spec/kip966.md 1.7).
        let answer = match self.read(local, &fetch) {
            Ok(answer) => answer,
            Err(error) => FetchAnswer { error, ..readable(&fetch, local).without_records() },
        };
        let read = answer.error == ErrorCode::None && answer.diverging.is_none();
        if let (true, Fetcher::Follower { id, epoch, .. }) = (read, fetch.fetcher) {
            self.acknowledge(local, now, (id, epoch, &fetch), out);
        }
        if read && answer.until == answer.offset && deadline > now && fetch.wants_records {
            self.fetches.park(request, fetch, deadline);
        } else {
            out.push(Output::AnswerFetch { request, answer });
        }
    }

    /// Deadlines have come: waiters time out, the lag timer looks.
    pub(super) fn tick(&mut self, local: &mut Local, now: MonotonicTime, out: &mut Vec<Output>) {
        self.produces.expire(now, out);
        self.fetches.expire(now, local, out);
        if now >= self.shrink_check_at {
            self.shrink_check_at = now.plus(shrink_interval(&local.settings));
            self.maybe_shrink(local, now, out);
        }
    }

    pub(super) fn deadline(&self) -> MonotonicTime {
        let waiters = [self.produces.deadline(), self.fetches.deadline()];
        waiters.into_iter().flatten().fold(self.shrink_check_at, MonotonicTime::min)
    }

    /// min(`min.insync.replicas`, assigned replicas).
    pub(super) fn effective_min_isr(&self, settings: &Settings) -> usize {
        settings.min_isr.min(self.followers.len() + 1)
    }

    /// Whether the ISR that counts as committed is under effective min ISR.
    pub(super) fn is_under_min_isr(&self, settings: &Settings) -> bool {
        self.isr.counted(settings.isr_wait) < self.effective_min_isr(settings)
    }

    /// Moves the high watermark if it may, and answers whom that answers.
    pub(super) fn advance_high_watermark(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        out: &mut Vec<Output>,
    ) {
        let settings = &local.settings;
        let question = Question {
            gate: settings.hwm_gate,
            isr_count: match settings.hwm_gate {
                HwmGate::MaximalIsr => self.isr.maximal_count(settings.isr_wait),
                HwmGate::Kip966 | HwmGate::Legacy | HwmGate::Soft => {
                    self.isr.counted(settings.isr_wait)
                }
            },
            min_isr: self.effective_min_isr(settings),
            high_watermark: local.log.high_watermark,
            durable_offset: local.log.durable_offset,
        };
        let (leader_end, lag) = (local.served_end(), settings.lag_time_max);
        let ends = self.followers.iter().map(|follower| follower.end(now, leader_end, lag));
        let decision = high_watermark::decide(&question, ends);
        self.decision = Some(decision);
        if let HighWatermark::Advance(to) = decision {
            local.log.high_watermark = to;
            out.push(Output::HighWatermark(to));
            let error = self.release_error(&local.settings);
            self.produces.release_committed(to, error, out);
            self.fetches.wake_consumers(local, out);
        }
    }

    /// Brings what is derived from metadata and ISR in the follower records up to date.
    pub(super) fn refresh_followers(&mut self, settings: &Settings, peers: &[Peer]) {
        for follower in &mut self.followers {
            follower.in_maximal_isr = self.isr.in_maximal(follower.id, settings.isr_wait);
            follower.peer = peers.iter().find(|peer| peer.id == follower.id).copied();
        }
    }

    pub(super) fn check_invariants(&self, local: &Local) {
        let (log, wait) = (&local.log, local.settings.isr_wait);
        assert!(self.epoch_start_offset <= log.log_end_offset);
        assert!(self.followers.iter().all(|f| f.id != local.id));
        assert!(self.followers.iter().all(|f| f.log_end_offset <= Some(log.log_end_offset)));
        assert!(self.followers.iter().all(|f| f.in_maximal_isr == self.isr.in_maximal(f.id, wait)));
        assert!(self.isr.in_maximal(local.id, wait));
        self.isr.check_invariants(local.id);
        self.produces.check_invariants(log.durable_offset, log.high_watermark, log.log_end_offset);
        self.fetches.check_invariants(local);
    }

    /// What an `acks=all` waiter is told once the high watermark has passed it.
    fn release_error(&self, settings: &Settings) -> Option<ErrorCode> {
        let enough = self.isr.maximal_count(settings.isr_wait) >= self.effective_min_isr(settings);
        (!enough).then_some(ErrorCode::NotEnoughReplicasAfterAppend)
    }

    /// Takes over assignment, epochs and ISR; keeps what is known of followers that stay.
    ///
    /// Newer epochs drop a pending proposal: their ISR contains it, or the controller will refuse
    /// it. The same epochs are the very state the proposal was based on (its record comes after the
    /// reply that committed it) and say nothing of the proposal's fate, so it stays pending.
    /// Dropping it, as spec/kip966.md 1.2 has it, would stop the high watermark from waiting for a
    /// member the controller is about to commit. With nothing pending there is no such member.
    fn adopt(&mut self, local: &mut Local, metadata: PartitionMetadata) {
        let before = std::mem::replace(&mut self.term, Term::of(&metadata));
        let is_newer = self.term.partition_epoch > before.partition_epoch
            || self.term.leader_epoch > before.leader_epoch;
        if is_newer || self.isr.pending().is_none() {
            if self.isr.proposes(&metadata.isr) {
                self.count_isr_change(local);
            }
            self.isr = IsrState::Committed { isr: metadata.isr };
        }
        let known = std::mem::take(&mut self.followers);
        let remote = metadata.replicas.into_iter().filter(|&id| id != local.id);
        self.followers = remote
            .map(|id| match known.iter().find(|follower| follower.id == id) {
                Some(follower) => follower.clone(),
                None => ReplicaProgress::unknown(id),
            })
            .collect();
        self.refresh_followers(&local.settings, &local.peers);
    }

    /// A leader epoch begins here. Only ISR members start with a running lag clock: another replica
    /// must not hold the high watermark back for a lag period.
    fn begin_epoch(&mut self, local: &mut Local, now: MonotonicTime) {
        self.epoch_start_offset = local.log.log_end_offset;
        local.log.epochs.assign(self.term.leader_epoch, self.epoch_start_offset);
        for follower in &mut self.followers {
            follower.last_caught_up_time = follower.in_maximal_isr.then_some(now);
        }
    }

    /// What a fetch gets, if it may fetch; checks in the order of spec/kip966.md 1.3.
    fn read(&self, local: &Local, fetch: &Fetch) -> Result<FetchAnswer, ErrorCode> {
        if let Some(error) = refusal(self.term.leader_epoch, &self.followers, fetch) {
            return Err(error);
        }
        let (log, answer) = (&local.log, readable(fetch, local));
        if let Some(epoch) = fetch.last_fetched_epoch {
            let diverging = leader_epochs::divergence(log, epoch, fetch.offset)?;
            if diverging.is_some() {
                return Ok(FetchAnswer { diverging, ..answer.without_records() });
            }
        }
        if fetch.offset < log.log_start_offset || fetch.offset > log.log_end_offset {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        match fetch.fetcher {
            Fetcher::Follower { id, epoch, .. } if self.is_outdated(id, epoch) => {
                Err(ErrorCode::NotLeaderOrFollower)
            }
            Fetcher::Follower { .. } | Fetcher::Consumer => Ok(answer),
        }
    }

    fn is_outdated(&self, id: BrokerId, epoch: Option<BrokerEpoch>) -> bool {
        self.followers.iter().any(|follower| follower.id == id && follower.is_outdated(epoch))
    }

    /// A follower durably holds what `fetch` acknowledges: it may join the ISR, then (so that a new
    /// member counts already) the high watermark may move.
    fn acknowledge(
        &mut self,
        local: &mut Local,
        now: MonotonicTime,
        (id, epoch, fetch): (BrokerId, Option<BrokerEpoch>, &Fetch),
        out: &mut Vec<Output>,
    ) {
        let Some(index) = self.followers.iter().position(|follower| follower.id == id) else {
            return;
        };
        let moved = self.followers[index].acknowledge(now, fetch, epoch, local.served_end());
        self.maybe_expand(local, now, index, out);
        if moved {
            self.advance_high_watermark(local, now, out);
        }
    }
}

/// Why a fetch may not be served here at all, if so.
pub(super) fn refusal(
    leader_epoch: LeaderEpoch,
    followers: &[ReplicaProgress],
    fetch: &Fetch,
) -> Option<ErrorCode> {
    let claimed = fetch.current_leader_epoch;
    if let Some(error) = claimed.and_then(|claimed| epoch_error(claimed, leader_epoch)) {
        return Some(error);
    }
    match fetch.fetcher {
        Fetcher::Consumer => None,
        Fetcher::Follower { id, .. } if followers.iter().any(|known| known.id == id) => None,
        Fetcher::Follower { .. } if claimed.is_some() => Some(ErrorCode::UnknownLeaderEpoch),
        Fetcher::Follower { .. } => Some(ErrorCode::NotLeaderOrFollower),
    }
}

/// How a claimed leader epoch conflicts with the one known here, if it does.
pub(super) fn epoch_error(claimed: LeaderEpoch, known: LeaderEpoch) -> Option<ErrorCode> {
    match claimed.cmp(&known) {
        std::cmp::Ordering::Less => Some(ErrorCode::FencedLeaderEpoch),
        std::cmp::Ordering::Greater => Some(ErrorCode::UnknownLeaderEpoch),
        std::cmp::Ordering::Equal => None,
    }
}

/// The lag timer's period: half the lag limit, so that a member leaves 1 to 1.5 limits after it
/// stopped keeping up. At least a millisecond, so that a limit of zero does not keep a shard busy.
fn shrink_interval(settings: &Settings) -> Duration {
    (settings.lag_time_max / 2).max(Duration::from_millis(1))
}

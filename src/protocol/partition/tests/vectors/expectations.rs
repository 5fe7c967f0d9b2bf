//! What vectors with scope leader may expect.

use super::leader::Run;
use super::*;
use crate::protocol::partition::replica_progress::ReplicaProgress;

/// What a leader knows of one follower.
pub(super) fn progress(machine: &Machine, id: &str) -> Option<ReplicaProgress> {
    let id = BrokerId(id.parse().expect("a broker id"));
    match &machine.partition.role {
        Role::Leader(leader) => leader.followers.iter().find(|known| known.id == id).cloned(),
        Role::Unknown | Role::Idle { .. } | Role::Follower(_) => None,
    }
}

impl Run {
    pub(super) fn observed(&self, key: &str, want: &Value) -> Value {
        let (machine, partition) = (&self.machine, &self.machine.partition);
        let term = partition.term().expect("metadata was applied");
        let counters = partition.isr_counters();
        match key {
            "hwm" => json!(machine.high_watermark()),
            "leo" => json!(partition.log_end_offset().0),
            "logStart" => json!(partition.log_start_offset().0),
            "isr" => numbers(partition.committed_isr()),
            "maximalIsr" => numbers(&partition.maximal_isr()),
            "inflight" => json!(partition.is_isr_pending()),
            "underMinIsr" => json!(partition.is_under_min_isr()),
            "leaderEpoch" => json!(term.leader_epoch.0),
            "partitionEpoch" => json!(term.partition_epoch.0),
            "expands" => json!(counters.expands),
            "shrinks" => json!(counters.shrinks),
            "failedIsrUpdates" => json!(counters.failed_updates),
            "alterSent" => {
                let sent = machine.out.iter().filter(|out| matches!(out, Output::ProposeIsr(_)));
                json!(sent.count())
            }
            "proposal" => machine.last_proposal().map_or(Value::Null, |proposal| {
                numbers(&proposal.isr.iter().map(|&(id, _)| id).collect::<Vec<_>>())
            }),
            "error" => {
                let answer =
                    self.last_fetch.and_then(|request| fetch_answer(&machine.out, request));
                json!(answer.map(|answer| answer.error.name()))
            }
            "produce" => self.produce_results(),
            "waiting" => {
                let answered = |request| produce_answer(&machine.out, request).is_some();
                let waiting = self.requests.iter().filter(|&(_, &request)| !answered(request));
                json!(waiting.map(|(id, _)| id).collect::<Vec<_>>())
            }
            "followerLeo" => self.per_follower(want, |follower| {
                follower.log_end_offset.map_or(-1, |offset| offset.0)
            }),
            "followerLastCaughtUpMs" => self.per_follower(want, |follower| {
                follower.last_caught_up_time.map_or(0, |at| (at.0 / 1_000_000).cast_signed())
            }),
            other => unknown_expectation(other),
        }
    }

    fn produce_results(&self) -> Value {
        let refused = self.refused_by_shell.iter().map(|(id, &error)| (id, error));
        let answered = self.requests.iter().filter_map(|(id, &request)| {
            let result = produce_answer(&self.machine.out, request)?;
            Some((id, result.err().unwrap_or(ErrorCode::None)))
        });
        let named = refused.chain(answered).map(|(id, error)| (id.clone(), json!(error.name())));
        named.collect::<Map<_, _>>().into()
    }

    fn per_follower(&self, want: &Value, value: impl Fn(&ReplicaProgress) -> i64) -> Value {
        let wanted = want.as_object().expect("by follower").keys();
        let known = wanted.map(|id| {
            let progress = progress(&self.machine, id);
            (id.clone(), json!(progress.as_ref().map(&value)))
        });
        known.collect::<Map<_, _>>().into()
    }
}

fn numbers(ids: &[BrokerId]) -> Value {
    json!(ids.iter().map(|id| id.0).collect::<Vec<_>>())
}

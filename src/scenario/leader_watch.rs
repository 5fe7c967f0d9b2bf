//! Watches a cell's elections while it runs, on a thread of its own, and puts what the metadata
//! log, the harness and the driver saw of each lost leader together.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crate::measure::clock;
use crate::measure::failover::{Decision, Failover, Marks, Ruling};
use crate::node::leadership;
use crate::types::{BrokerId, MonotonicTime};

use super::describe::describe;

/// How long a new leader is asked whether it knows.
const KNOWN_PATIENCE: Duration = Duration::from_millis(200);
/// Between two such questions.
const ASK_AGAIN: Duration = Duration::from_micros(500);

/// Every decision about the first partition of `topic`, until `stop`.
pub(super) fn decisions(
    controllers: &[SocketAddr],
    topic: &str,
    stop: &AtomicBool,
) -> Vec<Decision> {
    // Elections from before are over: nobody needs to be asked about them.
    let begun = clock::now();
    let mut decisions = Vec::new();
    leadership::watch(controllers, topic, stop, &mut |mut decision, address| {
        if let (Ruling::Leader { broker, known, .. }, Some(address)) = (&mut decision.what, address)
            && decision.decided > begun
        {
            *known = await_known(address, topic, *broker);
        }
        decisions.push(decision);
    });
    decisions
}

/// When the broker at `address` says itself that it leads; `None` if it does not in time.
fn await_known(address: SocketAddr, topic: &str, broker: BrokerId) -> Option<MonotonicTime> {
    let deadline = Instant::now() + KNOWN_PATIENCE;
    while Instant::now() < deadline {
        let seen = describe(address, Some(topic), KNOWN_PATIENCE);
        let leader = seen.and_then(|seen| seen.partitions.first()?.leader);
        if leader == Some(broker) {
            return Some(clock::now());
        }
        thread::sleep(ASK_AGAIN);
    }
    None
}

/// What followed each of the `losses`, by time: a broker taken away, whether it led or not.
pub(super) fn failovers(
    losses: &[(MonotonicTime, BrokerId)],
    decisions: &[Decision],
    marks: &Marks,
) -> Vec<Failover> {
    let leader_at = |at: MonotonicTime| {
        let before = decisions.iter().take_while(|one| one.seen <= at);
        before.fold(None, |leader, one| match one.what {
            Ruling::Leader { broker, .. } => Some(broker),
            Ruling::NoLeader => None,
            Ruling::Fenced(_) => leader,
        })
    };
    let of_leaders: Vec<_> =
        losses.iter().filter(|(at, broker)| leader_at(*at) == Some(*broker)).collect();
    let never = MonotonicTime(u64::MAX);
    let ends = of_leaders.iter().skip(1).map(|(at, _)| *at).chain([never]);
    let trace = |(&&(at, lost), until)| Failover::trace(lost, at, until, decisions, marks);
    of_leaders.iter().zip(ends).map(trace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::failover::Successor;

    #[test]
    fn only_losses_of_the_leader_of_that_moment_count() {
        let at = |ms: u64| MonotonicTime(ms * 1_000_000);
        let leads = |ms, broker| Decision {
            decided: at(ms),
            seen: at(ms),
            what: Ruling::Leader { broker: BrokerId(broker), from: Successor::Isr, known: None },
        };
        let decisions = [leads(1, 1), leads(20, 2), leads(40, 1)];
        let losses = [(at(10), BrokerId(1)), (at(15), BrokerId(3)), (at(30), BrokerId(2))];
        let found = failovers(&losses, &decisions, &Marks::default());
        let plain: Vec<_> = found.iter().map(|one| (one.lost.0, one.elected)).collect();
        assert_eq!(plain, [(1, Some(at(20))), (2, Some(at(40)))]);
    }
}

//! Carries a fault plan out on a running cluster, from outside its processes, and notes when.
//!
//! What comes when is [`crate::faults::plan`]'s; how a process is killed or paused is `member`'s.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::config::workload::{Fault, FaultKind, Link, Role, Target, Workload};
use crate::driver::spec::CellSpec;
use crate::faults::plan::{self, Act, Step};
use crate::faults::relay::{End, LinkState};
use crate::measure::clock;
use crate::node::client::ClientError;
use crate::node::controller::describe_quorum;
use crate::results::schema;
use crate::types::{BrokerId, ErrorCode, MonotonicTime};

use super::child::STOP_PATIENCE;
use super::cluster::{Cluster, ClusterError};
use super::member::Member;
use super::operator;
use super::progress::Progress;
use super::settings::CLUSTER_ID;

/// How long a controller may take to say whether it is active.
const ASK_PATIENCE: Duration = Duration::from_millis(500);
/// How long a fault waits for somebody to have the role it is for: an election may be under way.
const ROLE_PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks for whoever has a role.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The faults of one cell on their way.
pub(super) struct Injector<'a> {
    faults: &'a [Fault],
    /// Hears of each as it happens.
    progress: &'a Progress,
    /// Picks among several candidates.
    seed: u64,
    topic: &'a str,
    /// Of the topic, where no fault has changed it.
    min_isr: usize,
    /// Of the measured part.
    length: Duration,
    /// In order of time; the front is next.
    steps: std::collections::VecDeque<Step>,
    /// Injected and not over.
    open: Vec<Open>,
    events: Vec<Event>,
    /// Brokers that were taken away, and when.
    losses: Vec<(MonotonicTime, BrokerId)>,
}

struct Open {
    fault: usize,
    occurrence: u64,
    hit: Hit,
    event: usize,
}

/// What a fault was done to.
enum Hit {
    Node(BrokerId),
    /// Directed links.
    Links(Vec<(End, End)>),
}

/// Why a fault was not injected.
enum Missed {
    /// Nobody has the role now; somebody may in a moment.
    Vacant(&'static str),
    /// It cannot be done.
    Impossible(String),
}

impl From<&str> for Missed {
    fn from(why: &str) -> Missed {
        Missed::Impossible(why.to_owned())
    }
}

struct Event {
    at: MonotonicTime,
    until: Option<MonotonicTime>,
    kind: &'static str,
    what: String,
}

impl<'a> Injector<'a> {
    /// The faults of a cell; `progress` hears of them.
    pub(super) fn new(
        workload: &'a Workload,
        spec: &'a CellSpec,
        progress: &'a Progress,
    ) -> Injector<'a> {
        let faults = &workload.faults;
        Injector {
            faults,
            progress,
            seed: spec.seed,
            topic: &spec.topic,
            min_isr: workload.cluster.min_isr,
            length: spec.duration,
            steps: plan::steps(faults, spec.duration).into(),
            open: Vec::new(),
            events: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// Notes something that is no fault.
    pub(super) fn note(&mut self, kind: &'static str, what: String) {
        self.progress.event(&what);
        self.events.push(Event { at: clock::now(), until: None, kind, what });
    }

    /// Nodes that were taken away, by time: ended, about to end, or paused.
    pub(super) fn losses(&self) -> &[(MonotonicTime, BrokerId)] {
        &self.losses
    }

    /// When the next step is due, from the begin of the measured part; `None` after the last.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.steps.front().map(|step| step.at)
    }

    /// Carries out the next step, which is due; `zero` is when the measured part began.
    ///
    /// # Errors
    /// [`ClusterError`] if a process cannot be started again.
    pub(super) fn step(
        &mut self,
        cluster: &mut Cluster,
        zero: MonotonicTime,
    ) -> Result<(), ClusterError> {
        match self.steps.pop_front() {
            Some(step) if step.act == Act::Inject => self.inject(cluster, step, zero),
            Some(step) => self.recover(cluster, &step),
            None => Ok(()),
        }
    }

    /// Ends every fault that is not over; no other comes.
    ///
    /// # Errors
    /// As [`Injector::step`].
    pub(super) fn end(&mut self, cluster: &mut Cluster) -> Result<(), ClusterError> {
        let mut left = std::mem::take(&mut self.steps);
        left.retain(|step| step.act == Act::Recover);
        left.iter().try_for_each(|step| self.recover(cluster, step))
    }

    /// What happened, in order, from `zero` on the clock.
    pub(super) fn into_events(self, zero: MonotonicTime) -> Vec<schema::Event> {
        let micros = |at: MonotonicTime| at.0.saturating_sub(zero.0) / 1_000;
        let event = |event: Event| schema::Event {
            at_us: micros(event.at),
            kind: event.kind.to_owned(),
            what: event.what,
            until_us: event.until.map(micros),
        };
        self.events.into_iter().map(event).collect()
    }

    fn inject(
        &mut self,
        cluster: &mut Cluster,
        step: Step,
        zero: MonotonicTime,
    ) -> Result<(), ClusterError> {
        let planned = &self.faults[step.fault];
        let Fault { kind, target, .. } = *planned;
        let injected = match target {
            Target::Node(role) => self.hit_node(cluster, kind, role, &step),
            Target::Link(link) => self.hit_link(cluster, kind, link, &step),
        };
        let now = |at: MonotonicTime| at.since(zero);
        match injected {
            Ok((at, hit, what)) => {
                let Step { fault, occurrence, .. } = step;
                plan::delay_recovery(&mut self.steps, planned, &step, now(at), self.length);
                match hit {
                    Hit::Node(id) if !kind.is_harmless() => {
                        self.losses.push((at, id));
                    }
                    Hit::Node(_) | Hit::Links(_) => {}
                }
                self.open.push(Open { fault, occurrence, hit, event: self.events.len() });
                self.progress.event(&what);
                self.events.push(Event { at, until: None, kind: kind.name(), what });
            }
            Err(missed) => {
                let next = now(clock::now()) + LOOK_AGAIN;
                let patience = plan::planned_at(planned, step.occurrence) + ROLE_PATIENCE;
                match missed {
                    Missed::Vacant(_) if next < patience.min(self.length) => {
                        plan::again(&mut self.steps, step, next);
                        plan::delay_recovery(&mut self.steps, planned, &step, next, self.length);
                    }
                    Missed::Vacant(why) => self.skip(kind, target, why),
                    Missed::Impossible(why) => self.skip(kind, target, &why),
                }
            }
        }
        // The relay closes the doors of a node that is down.
        cluster.look()
    }

    /// Gives when, to whom, and what was done in words; or why nothing was.
    fn hit_node(
        &self,
        cluster: &mut Cluster,
        kind: FaultKind,
        role: Role,
        step: &Step,
    ) -> Result<(MonotonicTime, Hit, String), Missed> {
        let vacant = Missed::Vacant("nobody has this role now");
        let id = self.filled(cluster, role, step).ok_or(vacant)?;
        if !cluster.member_mut(id).is_some_and(|member| member.is_up()) {
            return Err("it is down already".into());
        }
        let lost = match (kind, cluster.disk_mut(id)) {
            (FaultKind::PageCacheLoss, None) => return Err("its disk cannot be cut".into()),
            (FaultKind::PageCacheLoss, Some(disk)) => {
                Some(disk.cut().map_err(|error| Missed::Impossible(error.to_string()))?)
            }
            _ => None,
        };
        let member = cluster.member_mut(id).ok_or("it is no node")?;
        let name = named(member.name(), role);
        let order = |member: &mut Member, line: &str| {
            member.order(line).map_err(|error| Missed::Impossible(error.to_string()))
        };
        let (at, done) = match kind {
            FaultKind::Kill => (member.kill(), "killed (SIGKILL; its page cache stays)".to_owned()),
            FaultKind::Pause => (member.pause(), "paused (SIGSTOP)".to_owned()),
            FaultKind::Stop => {
                (member.ask_to_stop(), "asked to stop (SIGTERM, clean shutdown)".to_owned())
            }
            FaultKind::PageCacheLoss => {
                let killed = member.kill();
                (lost.unwrap_or(killed), "lost its page cache (its file system was cut)".to_owned())
            }
            FaultKind::SlowSync(by) => {
                let at = order(member, &format!("disk slow-sync {}", by.as_micros()))?;
                (at, format!("syncs {by:?} slower"))
            }
            FaultKind::DiskFull | FaultKind::WriteError | FaultKind::SyncError => {
                let (word, done) = match kind {
                    FaultKind::DiskFull => ("full", "writes fail with ENOSPC"),
                    FaultKind::WriteError => ("write-error", "writes fail with EIO"),
                    _ => ("sync-error", "syncs fail with EIO"),
                };
                let at = order(member, &format!("disk {word}"))?;
                member.expect_end();
                (at, format!(": {done}"))
            }
            FaultKind::MinIsr(to) => {
                let address = member.address().ok_or("it does not listen")?;
                let at = clock::now();
                (at, self.set_min_isr(address, to).map_err(Missed::Impossible)?)
            }
            FaultKind::Cut | FaultKind::CutHeartbeats | FaultKind::Delay(_) => {
                return Err("it is no link".into());
            }
        };
        Ok((at, Hit::Node(id), format!("{name} {done}").replace(" :", ":")))
    }

    /// Gives what became of it, in words. An answer that does not come leaves it open.
    ///
    /// # Errors
    /// Why it cannot have been changed.
    fn set_min_isr(&self, address: SocketAddr, min_isr: u64) -> Result<String, String> {
        let asked = format!("asked to set min ISR to {min_isr}");
        match operator::set_min_isr(address, self.topic, min_isr, ASK_PATIENCE) {
            Ok(ErrorCode::None) => Ok(asked),
            Ok(refused) => Err(format!("{asked}: {}", refused.name())),
            Err(error @ ClientError::Connect { .. }) => Err(format!("{asked}: {error}")),
            Err(error) => Ok(format!("{asked}: {error}")),
        }
    }

    /// Asks one broker after the other.
    fn restore_min_isr(&self, cluster: &Cluster) -> Option<String> {
        let min_isr = self.min_isr as u64;
        let asked = cluster.brokers().iter().filter_map(Member::address).map(|address| {
            match operator::set_min_isr(address, self.topic, min_isr, ASK_PATIENCE) {
                Ok(ErrorCode::None) => Ok(()),
                Ok(refused) => Err(refused.name().to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        let mut why = "no broker listens".to_owned();
        for outcome in asked {
            match outcome {
                Ok(()) => return None,
                Err(error) => why = error,
            }
        }
        Some(format!("it was not set back to {min_isr}: {why}"))
    }

    fn hit_link(
        &self,
        cluster: &mut Cluster,
        kind: FaultKind,
        link: Link,
        step: &Step,
    ) -> Result<(MonotonicTime, Hit, String), Missed> {
        let first = self.filled(cluster, link.from, step);
        let from = first.ok_or(Missed::Vacant("nobody has the first role now"))?;
        let to = match link.to {
            Some(role) => {
                let other = self.filled(cluster, role, step);
                Some(other.ok_or(Missed::Vacant("nobody has the other role now"))?)
            }
            None => None,
        };
        if to == Some(from) {
            return Err("both roles are the same node's now".into());
        }
        let nodes = cluster.brokers().iter().chain(cluster.controllers()).map(|node| node.id);
        let others: Vec<End> = match to {
            Some(to) => vec![End::Node(to)],
            None => {
                let others = nodes.filter(|id| *id != from).map(End::Node);
                others.chain([End::Clients]).collect()
            }
        };
        let mut links = Vec::new();
        for other in others {
            if link.is_both || !link.is_reversed {
                links.push((End::Node(from), other));
            }
            if link.is_both || link.is_reversed {
                links.push((other, End::Node(from)));
            }
        }
        let relay = cluster.relay().ok_or("connections do not run through the relay")?;
        let at = clock::now();
        for (from, to) in &links {
            relay.switch(*from, *to, |state| *state = changed(kind, *state));
        }
        let end = |id: BrokerId| {
            let mut members = cluster.brokers().iter().chain(cluster.controllers());
            members.find(|member| member.id == id).map_or("", Member::name)
        };
        let first = named(end(from), link.from);
        let second = match (to, link.to) {
            (Some(id), Some(role)) => named(end(id), role),
            _ => "all others".to_owned(),
        };
        let what = match kind {
            FaultKind::Delay(by) => format!("delayed by {by:?}"),
            FaultKind::CutHeartbeats => {
                "heartbeats and what shares their connection cut".to_owned()
            }
            _ => "cut".to_owned(),
        };
        let sides = match (link.is_both, link.is_reversed) {
            (true, _) => format!("{first} and {second}, both ways"),
            (false, false) => format!("{first} to {second}, this way only"),
            (false, true) => format!("{second} to {first}, this way only"),
        };
        Ok((at, Hit::Links(links), format!("{what} in the relay: {sides}")))
    }

    fn recover(&mut self, cluster: &mut Cluster, step: &Step) -> Result<(), ClusterError> {
        let is_it = |open: &Open| (open.fault, open.occurrence) == (step.fault, step.occurrence);
        let Some(at) = self.open.iter().position(is_it) else { return Ok(()) };
        let Open { hit, event, .. } = self.open.swap_remove(at);
        let kind = self.faults[step.fault].kind;
        let restored = kind.to().map(|_| (clock::now(), self.restore_min_isr(cluster)));
        let event = &mut self.events[event];
        self.progress.event(&format!("ends: {}", event.what));
        match hit {
            Hit::Links(links) => {
                for (from, to) in links {
                    // Links that another fault still holds stay as it wants them.
                    let held = held(&self.open, self.faults, (from, to));
                    if let Some(relay) = cluster.relay() {
                        relay.switch(from, to, |state| *state = held);
                    }
                }
                event.until = Some(clock::now());
            }
            Hit::Node(id) => {
                if kind == FaultKind::PageCacheLoss
                    && let Some(disk) = cluster.disk_mut(id)
                {
                    disk.remount()?;
                }
                let Some(member) = cluster.member_mut(id) else { return Ok(()) };
                let (until, words) = match restored {
                    Some(restored) => restored,
                    None => recover_node(member, kind)?,
                };
                event.until = Some(until);
                if let Some(words) = words {
                    event.what = format!("{}; {words}", event.what);
                }
            }
        }
        Ok(())
    }

    fn skip(&mut self, kind: FaultKind, target: Target, why: &str) {
        let what = format!("{} {target}: {why}", kind.name());
        self.progress.event(&format!("skipped: {what}"));
        self.events.push(Event { at: clock::now(), until: None, kind: "skipped", what });
    }

    /// Who has the role `target` now.
    fn filled(&self, cluster: &Cluster, target: Role, step: &Step) -> Option<BrokerId> {
        let pick = |candidates: &[BrokerId]| plan::pick(candidates, self.seed, step);
        let up = |members: &[Member]| -> Vec<BrokerId> {
            members.iter().filter(|member| member.is_up()).map(|member| member.id).collect()
        };
        match target {
            Role::Broker(id) | Role::Controller(id) => Some(id),
            Role::AnyBroker => pick(&up(cluster.brokers())),
            Role::Leader | Role::Follower => {
                let seen = cluster.ask(Some(self.topic))?;
                let first = seen.partitions.first()?;
                if target == Role::Leader {
                    // One that died leads on until the cluster notices.
                    let is_up = |id: &BrokerId| cluster.broker(*id).is_some_and(Member::is_up);
                    return first.leader.filter(is_up);
                }
                let leads = |id: &BrokerId| Some(*id) != first.leader;
                let live = up(cluster.brokers());
                let followers = first.replicas.iter().copied().filter(leads);
                pick(&followers.filter(|id| live.contains(id)).collect::<Vec<_>>())
            }
            Role::ActiveController | Role::StandbyController => {
                let active = active_controller(cluster.controllers());
                if target == Role::ActiveController {
                    return active;
                }
                let mut standby = up(cluster.controllers());
                standby.retain(|id| active.is_some_and(|active| active != *id));
                pick(&standby)
            }
        }
    }
}

fn active_controller(controllers: &[Member]) -> Option<BrokerId> {
    let mut views = controllers.iter().filter_map(|controller| {
        describe_quorum(controller.address()?, CLUSTER_ID, ASK_PATIENCE).ok()
    });
    views.find_map(|view| view.leader.filter(|leader| *leader == view.node_id)).map(BrokerId)
}

/// Takes a fault back; gives when, and what there is to say of it.
fn recover_node(
    member: &mut Member,
    kind: FaultKind,
) -> Result<(MonotonicTime, Option<String>), ClusterError> {
    Ok(match kind {
        FaultKind::Pause => (member.resume(), None),
        FaultKind::SlowSync(_) => (member.order("disk none")?, None),
        FaultKind::Stop => {
            let complaint = member.stopped(Instant::now() + STOP_PATIENCE);
            (member.restart()?, complaint)
        }
        FaultKind::DiskFull | FaultKind::WriteError | FaultKind::SyncError => {
            let words = member.failed();
            (member.restart()?, Some(words))
        }
        _ => (member.restart()?, None),
    })
}

/// `state` with a fault of `kind` on top.
fn changed(kind: FaultKind, state: LinkState) -> LinkState {
    match kind {
        FaultKind::Cut => LinkState { is_cut: true, ..state },
        FaultKind::CutHeartbeats => LinkState { cuts_heartbeats: true, ..state },
        FaultKind::Delay(by) => LinkState { delay: state.delay + by, ..state },
        _ => state,
    }
}

/// What the faults that are not over make of a link.
fn held(open: &[Open], faults: &[Fault], link: (End, End)) -> LinkState {
    let hits = |open: &&Open| matches!(&open.hit, Hit::Links(links) if links.contains(&link));
    let kinds = open.iter().filter(hits).map(|open| faults[open.fault].kind);
    kinds.fold(LinkState::default(), |state, kind| changed(kind, state))
}

/// `broker-2 (leader)`: a role says more than a name.
fn named(name: &str, role: Role) -> String {
    match role {
        Role::Broker(_) | Role::Controller(_) => name.to_owned(),
        role => format!("{name} ({role})"),
    }
}

//! Faults as a workload lists them: `[[fault]]` tables with a kind, a target and times.
//!
//! What one does and when is for `faults::plan` and the harness; here is what may be written.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::config::defaults;
use crate::config::read::{ConfigError, Field, Source};
use crate::config::units::{self, Scalar};
use crate::types::BrokerId;

use super::{Cluster, Load};

/// Something that is to go wrong during each cell's measured part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// To whom; a role is filled by whoever has it at the moment of injection.
    pub target: Target,
    /// The first injection, after the measured part began; before its end.
    pub at: Duration,
    /// From one injection to the next; `None` for a single one.
    pub every: Option<Duration>,
    /// From an injection to its recovery, shorter than `every`; `None` for "until the load is over".
    pub lasts: Option<Duration>,
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// `kill`: SIGKILL; started again at the recovery. The page cache stays: no power loss.
    Kill,
    /// `pause`: SIGSTOP; SIGCONT at the recovery.
    Pause,
    /// `stop`: SIGTERM, so that a broker hands its leaderships over and marks its logs clean;
    /// started again at the recovery.
    Stop,
    /// `page-cache-loss`: what the broker's kernel had not written is lost, as by a power cut that
    /// spares the device's own cache; started again on what is left at the recovery.
    PageCacheLoss,
    /// `slow-sync`: every sync of the broker takes so much longer (`by`).
    SlowSync(Duration),
    /// `disk-full`: the broker's writes fail with ENOSPC; started again at the recovery.
    DiskFull,
    /// `write-error`: the broker's writes fail with EIO; started again at the recovery.
    WriteError,
    /// `sync-error`: the broker's syncs fail with EIO; started again at the recovery.
    SyncError,
    /// `cut`: nothing passes over a network link.
    Cut,
    /// `cut-heartbeats`: a broker's requests to a controller do not get there (registration,
    /// heartbeats, and what else shares their connection); the metadata log still comes.
    CutHeartbeats,
    /// `delay`: everything passes over a network link so much later (`by`).
    Delay(Duration),
    /// `min-isr`: a node is asked to set the topic's `min.insync.replicas` to so many (`to`); at the
    /// recovery to what it was.
    MinIsr(u64),
}

/// A kind as written, before its amount is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Kill,
    Pause,
    Stop,
    PageCacheLoss,
    SlowSync,
    DiskFull,
    WriteError,
    SyncError,
    Cut,
    CutHeartbeats,
    Delay,
    MinIsr,
}

pub(super) const WORDS: [(&str, Word); 12] = [
    ("kill", Word::Kill),
    ("pause", Word::Pause),
    ("stop", Word::Stop),
    ("page-cache-loss", Word::PageCacheLoss),
    ("slow-sync", Word::SlowSync),
    ("disk-full", Word::DiskFull),
    ("write-error", Word::WriteError),
    ("sync-error", Word::SyncError),
    ("cut", Word::Cut),
    ("cut-heartbeats", Word::CutHeartbeats),
    ("delay", Word::Delay),
    ("min-isr", Word::MinIsr),
];

impl FaultKind {
    /// As written in a workload.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Kill => "kill",
            FaultKind::Pause => "pause",
            FaultKind::Stop => "stop",
            FaultKind::PageCacheLoss => "page-cache-loss",
            FaultKind::SlowSync(_) => "slow-sync",
            FaultKind::DiskFull => "disk-full",
            FaultKind::WriteError => "write-error",
            FaultKind::SyncError => "sync-error",
            FaultKind::Cut => "cut",
            FaultKind::CutHeartbeats => "cut-heartbeats",
            FaultKind::Delay(_) => "delay",
            FaultKind::MinIsr(_) => "min-isr",
        }
    }

    /// `by`, where the kind has it.
    pub fn by(self) -> Option<Duration> {
        match self {
            FaultKind::Delay(by) | FaultKind::SlowSync(by) => Some(by),
            _ => None,
        }
    }

    /// `to`, where the kind has it.
    pub fn to(self) -> Option<u64> {
        match self {
            FaultKind::MinIsr(to) => Some(to),
            _ => None,
        }
    }

    /// Whether it leaves the nodes it hits as they are.
    pub fn is_harmless(self) -> bool {
        matches!(self, FaultKind::SlowSync(_) | FaultKind::MinIsr(_))
    }
}

impl FaultKind {
    /// Whether it is a network link's.
    pub fn is_of_network(self) -> bool {
        matches!(self, FaultKind::Cut | FaultKind::CutHeartbeats | FaultKind::Delay(_))
    }

    /// Whether only brokers can have it.
    pub fn is_of_storage(self) -> bool {
        matches!(
            self,
            FaultKind::PageCacheLoss
                | FaultKind::SlowSync(_)
                | FaultKind::DiskFull
                | FaultKind::WriteError
                | FaultKind::SyncError
        )
    }
}

impl Fault {
    /// Whether it needs brokers on disks that can lose their page cache.
    pub fn is_page_cache_loss(&self) -> bool {
        self.kind == FaultKind::PageCacheLoss
    }

    /// Whether it needs connections to run through the harness.
    pub fn is_of_network(&self) -> bool {
        self.kind.is_of_network()
    }
}

/// What a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A node.
    Node(Role),
    /// A network link.
    Link(Link),
}

/// `A -> B`, the bytes that A sends to B, or `A <-> B`, those of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Who sends.
    pub from: Role,
    /// Who receives; `None` is `all`: every other node and the clients.
    pub to: Option<Role>,
    /// Whether the other direction is hit too.
    pub is_both: bool,
    /// Whether the ends are swapped: `all -> A` reads as `A` and `None`, swapped.
    pub is_reversed: bool,
}

impl Link {
    /// From a broker, this way only.
    fn leads_to_a_controller(self) -> bool {
        let is_one_way = !self.is_both && !self.is_reversed;
        is_one_way && !self.from.is_controller() && self.to.is_some_and(Role::is_controller)
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Node(role) => role.fmt(f),
            Target::Link(link) => {
                let arrow = if link.is_both { "<->" } else { "->" };
                let to = link.to.map_or("all".to_owned(), |to| to.to_string());
                match link.is_reversed {
                    false => write!(f, "{} {arrow} {to}", link.from),
                    true => write!(f, "{to} {arrow} {}", link.from),
                }
            }
        }
    }
}

/// A node, by id or by what it does when the fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `broker-N`.
    Broker(BrokerId),
    /// `leader`: of the topic's first partition.
    Leader,
    /// `follower`: a follower of the topic's first partition, picked by the load's seed.
    Follower,
    /// `any-broker`: picked by the load's seed.
    AnyBroker,
    /// `controller-N`.
    Controller(BrokerId),
    /// `active-controller`.
    ActiveController,
    /// `standby-controller`: a voter that is not active, picked by the load's seed.
    StandbyController,
}

impl Role {
    fn is_controller(self) -> bool {
        matches!(self, Role::Controller(_) | Role::ActiveController | Role::StandbyController)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Role::Broker(id) => write!(f, "broker-{id}"),
            Role::Controller(id) => write!(f, "controller-{id}"),
            named => {
                let name = NAMED_ROLES.iter().find(|(_, role)| role == named);
                f.write_str(name.map_or("", |(name, _)| name))
            }
        }
    }
}

const NAMED_ROLES: [(&str, Role); 5] = [
    ("leader", Role::Leader),
    ("follower", Role::Follower),
    ("any-broker", Role::AnyBroker),
    ("active-controller", Role::ActiveController),
    ("standby-controller", Role::StandbyController),
];

const HEARTBEATS_FORM: &str = "must be a link from a broker to a controller, such as \
                               \"follower -> active-controller\", when fault.kind = \"cut-heartbeats\"";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFault {
    kind: Field,
    target: Field,
    at: Field,
    every: Field,
    #[serde(rename = "for")]
    lasts: Field,
    by: Field,
    to: Field,
}

pub(super) fn faults(
    source: &Source<'_>,
    raw: &[Spanned<RawFault>],
    cluster: &Cluster,
    load: &Load,
) -> Result<Vec<Fault>, ConfigError> {
    raw.iter().map(|fault| read(source, fault, cluster, load)).collect()
}

fn read(
    source: &Source<'_>,
    table: &Spanned<RawFault>,
    cluster: &Cluster,
    load: &Load,
) -> Result<Fault, ConfigError> {
    let (raw, start) = (table.get_ref(), table.span().start);
    let optional = |key, field: &Field| {
        source.or(key, field, None, |value| units::duration_above_zero(value).map(Some))
    };
    let kind = kind(source, cluster, raw, start)?;
    let target = |value: &Scalar| match kind.is_of_network() {
        true => {
            let link = link(cluster, value)?;
            match kind == FaultKind::CutHeartbeats && !link.leads_to_a_controller() {
                true => Err(HEARTBEATS_FORM.to_owned()),
                false => Ok(Target::Link(link)),
            }
        }
        false => {
            let role = role(cluster, &units::text(value)?)?;
            let is_of_brokers = kind.is_of_storage() || kind.to().is_some();
            match is_of_brokers && role.is_controller() {
                true => Err(format!("must be a broker when fault.kind = \"{}\"", kind.name())),
                false => Ok(Target::Node(role)),
            }
        }
    };
    let fault = Fault {
        kind,
        target: source.needed_in(start, "fault.target", &raw.target, target)?,
        at: source.needed_in(start, "fault.at", &raw.at, units::duration)?,
        every: optional("fault.every", &raw.every)?,
        lasts: optional("fault.for", &raw.lasts)?,
    };
    if let Some(at) = &raw.at
        && fault.at >= load.duration
    {
        let shown = units::show_duration(load.duration);
        let problem = format!("must be shorter than load.duration, which is {shown}");
        return Err(source.refused("fault.at", at.span(), at.get_ref(), problem));
    }
    if let (Some(every), Some(written)) = (fault.every, &raw.every)
        && fault.lasts.is_none_or(|lasts| lasts >= every)
    {
        let problem = "a repeated fault needs a fault.for that is shorter than fault.every";
        return Err(source.refused("fault.every", written.span(), written.get_ref(), problem));
    }
    Ok(fault)
}

fn kind(
    source: &Source<'_>,
    cluster: &Cluster,
    raw: &RawFault,
    start: usize,
) -> Result<FaultKind, ConfigError> {
    let by = || source.needed_in(start, "fault.by", &raw.by, units::duration_above_zero);
    let word = source.needed_in(start, "fault.kind", &raw.kind, units::choice(&WORDS))?;
    let kind = match word {
        Word::Kill => FaultKind::Kill,
        Word::Pause => FaultKind::Pause,
        Word::Stop => FaultKind::Stop,
        Word::PageCacheLoss => FaultKind::PageCacheLoss,
        Word::SlowSync => FaultKind::SlowSync(by()?),
        Word::DiskFull => FaultKind::DiskFull,
        Word::WriteError => FaultKind::WriteError,
        Word::SyncError => FaultKind::SyncError,
        Word::Cut => FaultKind::Cut,
        Word::CutHeartbeats => FaultKind::CutHeartbeats,
        Word::Delay => FaultKind::Delay(by()?),
        Word::MinIsr => {
            let most = cluster.replication_factor as u64;
            let to = source.needed_in(start, "fault.to", &raw.to, units::count(1..=most))?;
            FaultKind::MinIsr(to)
        }
    };
    let amounts =
        [("fault.by", &raw.by, kind.by().is_some()), ("fault.to", &raw.to, kind.to().is_some())];
    for (key, written, has_effect) in amounts {
        if let (Some(written), false) = (written, has_effect) {
            let problem = format!("has no effect when fault.kind = \"{}\"", kind.name());
            return Err(source.refused(key, written.span(), written.get_ref(), problem));
        }
    }
    Ok(kind)
}

fn role(cluster: &Cluster, name: &str) -> Result<Role, String> {
    let brokers = cluster.brokers;
    let first = defaults::CONTROLLER_NODE_ID;
    let last = first + cluster.controllers as i32 - 1;
    let numbered = |prefix: &str| name.strip_prefix(prefix)?.parse::<i32>().ok().map(BrokerId);
    let named = NAMED_ROLES.iter().find(|(named, _)| *named == name).map(|(_, role)| *role);
    let broker = numbered("broker-").filter(|id| (1..=brokers as i32).contains(&id.0));
    let own = numbered("controller-").filter(|id| (first..=last).contains(&id.0));
    named.or(broker.map(Role::Broker)).or(own.map(Role::Controller)).ok_or_else(|| {
        let names: Vec<&str> = NAMED_ROLES.iter().map(|(name, _)| *name).collect();
        let names = names.join(", ");
        let own = match cluster.controllers {
            1 => format!("controller-{first}"),
            _ => format!("controller-{first} to controller-{last}"),
        };
        format!("must be broker-1 to broker-{brokers}, {own}, {names}")
    })
}

fn link(cluster: &Cluster, value: &Scalar) -> Result<Link, String> {
    const FORM: &str = "must be a link such as \"follower <-> leader\", \"broker-2 -> \
                        active-controller\" or \"any-broker <-> all\"";
    let text = units::text(value)?;
    let (sides, is_both) = match text.split_once("<->") {
        Some(sides) => (Some(sides), true),
        None => (text.split_once("->"), false),
    };
    let (left, right) = sides.ok_or(FORM)?;
    let side = |name: &str| match name.trim() {
        "all" => Ok(None),
        name => role(cluster, name).map(Some),
    };
    match (side(left)?, side(right)?) {
        (Some(from), to) if to != Some(from) => Ok(Link { from, to, is_both, is_reversed: false }),
        (None, Some(from)) => Ok(Link { from, to: None, is_both, is_reversed: true }),
        _ => Err(format!("{FORM}, between two ends")),
    }
}

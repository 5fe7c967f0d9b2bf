//! The stages in a reader's words: short labels, and what kind of work each is.

/// What a stage's time is spent on, coarsely: few enough kinds for a colour each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The driver: late, lingering, or out of window.
    Driver,
    /// Bytes on their way between processes.
    Network,
    /// A broker's own work.
    Broker,
    /// Waiting for another replica's progress.
    Waiting,
    /// The durability mode on the device.
    Disk,
}

impl Kind {
    /// All of them, in the order in which a batch first meets them.
    pub const ALL: [Kind; 5] =
        [Kind::Driver, Kind::Network, Kind::Broker, Kind::Waiting, Kind::Disk];

    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Driver => "driver",
            Kind::Network => "network",
            Kind::Broker => "broker CPU",
            Kind::Waiting => "waiting",
            Kind::Disk => "disk",
        }
    }
}

/// Stage name in results, label short enough for one line, kind.
const STAGES: [(&str, &str, Kind); 14] = [
    ("schedule_lag", "schedule lag", Kind::Driver),
    ("send", "send", Kind::Network),
    ("validate", "validate", Kind::Broker),
    ("append", "append", Kind::Broker),
    ("leader_sync", "leader sync", Kind::Disk),
    ("follower_fetch_wait", "fetch wait", Kind::Waiting),
    ("follower_fetch_transfer", "to follower", Kind::Network),
    ("follower_append", "follower append", Kind::Broker),
    ("follower_sync", "follower sync", Kind::Disk),
    ("acknowledge_transfer", "from follower", Kind::Network),
    ("follower_round", "follower round", Kind::Waiting),
    ("high_watermark_wait", "HW wait", Kind::Waiting),
    ("response", "response", Kind::Broker),
    ("return", "return", Kind::Network),
];

/// The label; a stage of a later release keeps its name.
pub fn label(stage: &str) -> &str {
    STAGES.iter().find(|(name, _, _)| *name == stage).map_or(stage, |(_, label, _)| label)
}

/// The kind; a stage of a later release counts as waiting.
pub fn kind(stage: &str) -> Kind {
    STAGES.iter().find(|(name, _, _)| *name == stage).map_or(Kind::Waiting, |(_, _, kind)| *kind)
}

//! How many processes the kernel killed for want of memory.

use super::limits::cgroup_directories;
use super::text;

/// Counts since the group and the host began; `None` where they are not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OomKills {
    /// In this process's memory control group: `oom_kill` of memory.events (version 2) or of
    /// memory.oom_control (version 1).
    pub in_group: Option<u64>,
    /// On the whole host: `oom_kill` of /proc/vmstat.
    pub on_host: Option<u64>,
}

impl OomKills {
    /// As the kernel tells them now.
    pub fn counted() -> OomKills {
        let groups = text::read("/proc/self/cgroup").unwrap_or_default();
        let files = [("", "memory.events"), ("memory", "memory.oom_control")];
        let in_group = files.into_iter().find_map(|(controller, file)| {
            // The process's own group comes first; an ancestor's count would be of others too.
            let own = cgroup_directories(&groups, controller).into_iter();
            own.map(|group| group.join(file)).find_map(|file| kills_in(&text::read(file)?))
        });
        let on_host = text::read("/proc/vmstat").and_then(|counters| kills_in(&counters));
        OomKills { in_group, on_host }
    }
}

/// The number in the line `oom_kill NUMBER`.
pub(super) fn kills_in(counters: &str) -> Option<u64> {
    let number = counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    number.trim().parse().ok()
}

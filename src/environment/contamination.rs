//! What else ran meanwhile: CPU time stolen by the hypervisor, stalls under pressure, throttling.

use std::time::Duration;

use serde_json::{Value, json};

use super::limits::cgroup_directories;
use super::text;

/// Shares of stolen CPU time, in percent, above which a run is marked.
const STEAL_PERCENT_NOTED: f64 = 1.0;
const STEAL_PERCENT_DOUBTFUL: f64 = 5.0;
const STEAL_PERCENT_BAD: f64 = 15.0;

/// A reading of the host's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSample {
    /// CPU time of all kinds, in ticks.
    pub cpu_ticks: Option<u64>,
    /// CPU time a hypervisor gave to others, in ticks.
    pub steal_ticks: Option<u64>,
    /// Time in which some task waited for a CPU.
    pub cpu_pressure: Option<Duration>,
    /// Time in which some task waited for memory.
    pub memory_pressure: Option<Duration>,
    /// Time in which some task waited for I/O.
    pub io_pressure: Option<Duration>,
    /// CPU time this process's control group, and those above it, were held back by their quotas.
    pub throttled: Option<Duration>,
}

/// The host between two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contamination {
    /// Share of CPU time stolen.
    pub steal_percent: Option<f64>,
    /// As in [`HostSample`], over the interval.
    pub cpu_pressure: Option<Duration>,
    /// As in [`HostSample`], over the interval.
    pub memory_pressure: Option<Duration>,
    /// As in [`HostSample`], over the interval.
    pub io_pressure: Option<Duration>,
    /// As in [`HostSample`], over the interval.
    pub throttled: Option<Duration>,
}

/// How much stolen CPU time harms a run's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StealLevel {
    /// At most 1 %.
    Clean,
    /// At most 5 %.
    Noted,
    /// At most 15 %.
    Doubtful,
    /// More.
    Bad,
}

impl HostSample {
    /// Reads the counters now.
    pub fn sample() -> HostSample {
        let pressure = |name: &str| {
            text::read(format!("/proc/pressure/{name}")).as_deref().and_then(parse_pressure)
        };
        let cpu = text::read("/proc/stat").as_deref().and_then(parse_cpu_line);
        HostSample {
            cpu_ticks: cpu.map(|(total, _)| total),
            steal_ticks: cpu.map(|(_, steal)| steal),
            cpu_pressure: pressure("cpu"),
            memory_pressure: pressure("memory"),
            io_pressure: pressure("io"),
            throttled: throttled(),
        }
    }

    /// What happened between `earlier` and this sample.
    pub fn since(&self, earlier: &HostSample) -> Contamination {
        let passed = |now: Option<Duration>, then: Option<Duration>| {
            now.zip(then).map(|(now, then)| now.saturating_sub(then))
        };
        let ticks = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let total = ticks(self.cpu_ticks, earlier.cpu_ticks).filter(|total| *total > 0);
        let steal = ticks(self.steal_ticks, earlier.steal_ticks);
        Contamination {
            steal_percent: steal
                .zip(total)
                .map(|(steal, total)| 100.0 * steal as f64 / total as f64),
            cpu_pressure: passed(self.cpu_pressure, earlier.cpu_pressure),
            memory_pressure: passed(self.memory_pressure, earlier.memory_pressure),
            io_pressure: passed(self.io_pressure, earlier.io_pressure),
            throttled: passed(self.throttled, earlier.throttled),
        }
    }
}

impl Contamination {
    /// Grades the stolen share (M40); `None` if the host does not tell.
    pub fn steal_level(&self) -> Option<StealLevel> {
        let percent = self.steal_percent?;
        Some(if percent <= STEAL_PERCENT_NOTED {
            StealLevel::Clean
        } else if percent <= STEAL_PERCENT_DOUBTFUL {
            StealLevel::Noted
        } else if percent <= STEAL_PERCENT_BAD {
            StealLevel::Doubtful
        } else {
            StealLevel::Bad
        })
    }

    /// The same figures as a JSON object.
    pub fn to_json(&self) -> Value {
        let microseconds = |time: Option<Duration>| {
            text::json(time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)))
        };
        json!({
            "steal_percent": text::json(self.steal_percent),
            "steal_level": text::json(self.steal_level().map(StealLevel::name)),
            "cpu_pressure_us": microseconds(self.cpu_pressure),
            "memory_pressure_us": microseconds(self.memory_pressure),
            "io_pressure_us": microseconds(self.io_pressure),
            "cgroup_throttled_us": microseconds(self.throttled),
        })
    }
}

impl StealLevel {
    /// The level's name in reports.
    pub fn name(self) -> &'static str {
        match self {
            StealLevel::Clean => "clean",
            StealLevel::Noted => "noted",
            StealLevel::Doubtful => "doubtful",
            StealLevel::Bad => "bad",
        }
    }
}

/// All ticks and stolen ticks of the first line of /proc/stat. Guest time (fields 9 and 10) is
/// already inside user time.
pub(super) fn parse_cpu_line(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> =
        line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    Some((ticks.iter().sum(), *ticks.get(7)?))
}

/// The total of the `some` line, in microseconds.
pub(super) fn parse_pressure(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("some"))?;
    let total = line.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

fn throttled() -> Option<Duration> {
    let groups = text::read("/proc/self/cgroup")?;
    let directories =
        ["", "cpu"].into_iter().flat_map(|controller| cgroup_directories(&groups, controller));
    parse_throttled(directories.filter_map(|group| text::read(group.join("cpu.stat"))))
}

/// The sum over the `cpu.stat` of a group and of all above it, each of which tells of its own quota
/// only: microseconds in version 2, nanoseconds in version 1.
pub(super) fn parse_throttled(stats: impl Iterator<Item = String>) -> Option<Duration> {
    let of_group = |stat: String| {
        stat.lines().find_map(|line| {
            let (key, value) = line.split_once(' ')?;
            let value = value.trim().parse().ok()?;
            match key {
                "throttled_usec" => Some(Duration::from_micros(value)),
                "throttled_time" => Some(Duration::from_nanos(value)),
                _ => None,
            }
        })
    };
    stats.filter_map(of_group).reduce(|sum, one| sum + one)
}

//! The one monotonic clock: the only reader of CLOCK_MONOTONIC, and what a reading costs; and the
//! wall clock, for labels.
//!
//! Leaves to others what the instants mean (`stage`) and when a timer is due (`engine`).

use std::io;
use std::sync::OnceLock;
use std::time::SystemTime;

use crate::types::{ClockId, MonotonicTime};

/// Readings taken by [`stamp_cost_ns`]: enough that the loop itself takes well over a millisecond.
const COST_READINGS: u64 = 100_000;

/// A reading of CLOCK_MONOTONIC, which never steps with the wall clock. No system call where the
/// kernel offers the vDSO; see [`stamp_cost_ns`] for what it costs here.
#[inline]
pub fn now() -> MonotonicTime {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the whole call.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    assert_eq!(status, 0, "CLOCK_MONOTONIC cannot be read: {}", io::Error::last_os_error());
    MonotonicTime(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
}

/// Milliseconds of the Unix epoch, for timestamps that people or Kafka clients read. Steps when the
/// wall clock is set: never subtract two of them.
pub fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// The wall clock and the monotonic clock at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BothClocks {
    /// Nanoseconds of the Unix epoch.
    pub wall_ns: i128,
    /// At the same instant.
    pub monotonic: MonotonicTime,
}

impl BothClocks {
    /// Reads both, a few times, and keeps the reading the kernel interrupted least.
    pub fn read() -> BothClocks {
        let reading = |_| {
            let before = now();
            let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let wall_ns = i128::try_from(wall.as_nanos()).unwrap_or(i128::MAX);
            (now().since(before), BothClocks { wall_ns, monotonic: before })
        };
        let readings = [(); 5].map(reading);
        let [first, ..] = readings;
        readings.into_iter().min_by_key(|(took, _)| *took).unwrap_or(first).1
    }

    /// How far the wall clock was set since `earlier`, in nanoseconds, forward or back; it shows
    /// against the monotonic clock, which is slewed alike but never set.
    pub fn wall_step_ns(&self, earlier: &BothClocks) -> i128 {
        let passed = i128::from(self.monotonic.0) - i128::from(earlier.monotonic.0);
        self.wall_ns - earlier.wall_ns - passed
    }
}

/// Which clock [`now`] reads: the same for all processes of one boot of one host, and different
/// for any other host. Where the kernel does not give a boot id it is this process's own, so that
/// no other process's instants are ever mistaken for comparable ones.
pub fn clock_id() -> ClockId {
    static CLOCK: OnceLock<ClockId> = OnceLock::new();
    *CLOCK.get_or_init(|| match std::fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(boot_id) if !boot_id.is_empty() => ClockId(fnv1a(&boot_id)),
        _ => {
            let mut own = now().0.to_le_bytes().to_vec();
            own.extend_from_slice(&std::process::id().to_le_bytes());
            ClockId(fnv1a(&own))
        }
    })
}

/// Mean cost of one [`now`] in nanoseconds, measured over a tight loop (spec/measurement.md M8).
pub fn stamp_cost_ns() -> f64 {
    let started = now();
    for _ in 0..COST_READINGS {
        std::hint::black_box(now());
    }
    now().since(started).as_nanos() as f64 / COST_READINGS as f64
}

/// Asks the kernel not to defer this thread's timers: its default slack of 50 us would be schedule
/// lag in every open-loop sample. Holds for the calling thread and for threads it starts later.
///
/// Errors: the kernel's, where prctl(2) is filtered.
pub fn use_finest_timers() -> io::Result<()> {
    let slack_ns: libc::c_ulong = 1;
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of this process.
    let status = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack_ns) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// FNV-1a, 64 bits: stable across builds, which std's hasher does not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_never_go_back() {
        let mut last = now();
        for _ in 0..10_000 {
            let next = now();
            assert!(next >= last, "{next:?} after {last:?}");
            last = next;
        }
    }

    #[test]
    fn a_wall_clock_that_was_set_shows_against_the_monotonic_one() {
        let at = |wall_ns, monotonic| BothClocks { wall_ns, monotonic: MonotonicTime(monotonic) };
        for (later, step) in
            [(at(3_000, 2_500), 0), (at(3_000_000, 2_500), 2_997_000), (at(-7_000, 2_500), -10_000)]
        {
            assert_eq!(later.wall_step_ns(&at(1_000, 500)), step);
        }
        let first = BothClocks::read();
        assert!(first.wall_ns > 0 && BothClocks::read().monotonic >= first.monotonic);
    }

    #[test]
    fn the_clock_id_is_one_per_boot() {
        assert_eq!(clock_id(), clock_id());
        assert_ne!(clock_id(), ClockId(fnv1a(b"")));
    }

    #[test]
    fn a_stamp_costs_something() {
        assert!(stamp_cost_ns() > 0.0);
    }

    #[test]
    fn the_finest_timers_can_be_asked_for() {
        use_finest_timers().unwrap();
    }

    #[test]
    fn fnv1a_gives_its_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}

//! Which CPUs a thread may run on.

use std::io;

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn empty_set() -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is plain data for which all zeros is the empty set.
    unsafe { std::mem::zeroed() }
}

/// Pins the calling thread to one CPU.
pub(super) fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = empty_set();
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: `cpu` is inside the set's size.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set outlives the call; 0 is the calling thread.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
}

/// The CPUs the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let mut set = empty_set();
    // SAFETY: the set outlives the call; 0 is the calling thread.
    check(unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) })?;
    // SAFETY: every index asked for is inside the set's size.
    let is_set = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    Ok((0..libc::CPU_SETSIZE as usize).filter(is_set).collect())
}

//! How a process ended, in words that say what to do about it.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::environment::OomKills;

/// `was_killed`: this side sent SIGKILL. The counts are from before its start and after its end.
pub(super) fn explain(
    status: ExitStatus,
    was_killed: bool,
    before: OomKills,
    after: OomKills,
) -> String {
    let Some(number) = status.signal() else { return format!("ended with {status}") };
    let name = match signal_hook::low_level::signal_name(number) {
        Some(name) => name.to_owned(),
        None => format!("signal {number}"),
    };
    let why = match number {
        libc::SIGKILL if was_killed => return format!("was killed ({name})"),
        libc::SIGKILL => killed_from_outside(before, after),
        libc::SIGXFSZ => {
            "a file reached the largest size this process may write \
             (RLIMIT_FSIZE: raise it with `ulimit -f unlimited` or LimitFSIZE)"
        }
        libc::SIGXCPU => {
            "it used all the CPU time it may have \
             (RLIMIT_CPU: raise it with `ulimit -t unlimited` or LimitCPU)"
        }
        libc::SIGBUS => "memory it had mapped is gone: a disk may be full or failing",
        libc::SIGSEGV | libc::SIGILL | libc::SIGABRT | libc::SIGFPE | libc::SIGSYS => {
            "a fault of the program, or of what it is made to run under"
        }
        _ => "somebody sent it",
    };
    format!("was ended by {name}: {why}")
}

fn killed_from_outside(before: OomKills, after: OomKills) -> &'static str {
    if after.in_group > before.in_group {
        "the kernel was out of memory: the control group's limit is too low (memory.max, \
         or `docker run --memory`)"
    } else if after.on_host > before.on_host {
        "the kernel counted a process killed for want of memory meanwhile, most likely this one: \
         the machine or a control group is out of memory"
    } else {
        "somebody sent it; the kernel counted no process killed for want of memory"
    }
}

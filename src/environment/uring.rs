//! Whether io_uring may be used, and which ways of setting up a ring this kernel takes.

use std::io;

use io_uring::IoUring;
use serde_json::{Value, json};

use super::limits::{Limit, LimitFacts};
use super::text;

/// Entries of a trial ring: as many as the engines ask for.
const TRIAL_ENTRIES: u32 = 256;
/// What the kernel charges for such a ring: 64 bytes a submission, 16 each of twice as many
/// completions, an index, and page ends.
const RING_KIBIBYTES: usize = 32;
/// glommio's own lower bound.
const GLOMMIO_KIBIBYTES: u64 = 512;

/// Which setup flags this kernel takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UringFacts {
    /// IORING_SETUP_COOP_TASKRUN (Linux 5.19).
    pub coop_taskrun: bool,
    /// IORING_SETUP_SINGLE_ISSUER (Linux 6.0).
    pub single_issuer: bool,
    /// IORING_SETUP_DEFER_TASKRUN, which needs `single_issuer` (Linux 6.1).
    pub defer_taskrun: bool,
}

/// Why no ring could be set up. Blocking I/O instead must be asked for; it is never chosen silently.
#[derive(Debug, thiserror::Error)]
pub enum UringUnavailable {
    /// EPERM: the sysctl or a seccomp filter forbids it.
    #[error(
        "io_uring is forbidden here (kernel.io_uring_disabled = {sysctl}): set that sysctl to 0, \
         or, in a container, run with a seccomp profile that allows io_uring_setup"
    )]
    Forbidden {
        /// The sysctl's value, or `unknown`.
        sysctl: String,
        /// The answer of io_uring_setup.
        #[source]
        source: io::Error,
    },
    /// ENOSYS: the kernel has none, or a seccomp filter says so.
    #[error(
        "io_uring_setup does not exist here (kernel {release}): use Linux 5.19 or later, or, in a \
         container, a seccomp profile that allows it"
    )]
    Missing {
        /// The kernel's release, or `unknown`.
        release: String,
        /// The answer of io_uring_setup.
        #[source]
        source: io::Error,
    },
    /// ENOMEM: rings count against the user's locked-memory limit.
    #[error(
        "io_uring_setup found no memory for {rings} rings: locked memory (RLIMIT_MEMLOCK) is \
         limited to {limit} bytes for all processes of this user, {} KiB are needed: raise it with \
         `ulimit -l {}` or LimitMEMLOCK",
        rings * RING_KIBIBYTES,
        rings * RING_KIBIBYTES
    )]
    LockedMemory {
        /// Rings that are needed at once.
        rings: usize,
        /// The soft limit in bytes, or `unknown`.
        limit: String,
        /// The answer of io_uring_setup.
        #[source]
        source: io::Error,
    },
    /// glommio starts no executor below its own bound, whatever the kernel charges.
    #[error(
        "engine glommio: locked memory (RLIMIT_MEMLOCK) is limited to {limit} bytes, {} KiB are \
         needed: raise it with `ulimit -l {}` or LimitMEMLOCK",
        GLOMMIO_KIBIBYTES,
        GLOMMIO_KIBIBYTES
    )]
    Glommio {
        /// The soft limit.
        limit: Limit,
    },
    /// Anything else.
    #[error("io_uring_setup failed")]
    Other(#[source] io::Error),
}

/// Sets up `rings` rings at once, as the engines do, to see whether, and how, io_uring may be used.
pub fn uring_available(rings: usize) -> Result<UringFacts, UringUnavailable> {
    let all: io::Result<Vec<IoUring>> = (0..rings).map(|_| IoUring::new(TRIAL_ENTRIES)).collect();
    all.map_err(|source| {
        let limit = LimitFacts::capture().locked_memory.map(|limit: Limit| limit.to_string());
        classify(source, sysctl(), text::read("/proc/sys/kernel/osrelease"), limit, rings)
    })?;
    let works = |build: io::Result<IoUring>| build.is_ok();
    Ok(UringFacts {
        coop_taskrun: works(IoUring::builder().setup_coop_taskrun().build(TRIAL_ENTRIES)),
        single_issuer: works(IoUring::builder().setup_single_issuer().build(TRIAL_ENTRIES)),
        defer_taskrun: works(
            IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(TRIAL_ENTRIES),
        ),
    })
}

/// Whether a soft limit of locked memory is what glommio asks for.
///
/// # Errors
/// [`UringUnavailable::Glommio`].
pub fn require_locked_memory(limit: Option<Limit>) -> Result<(), UringUnavailable> {
    match limit {
        Some(limit) if limit < Limit::At(GLOMMIO_KIBIBYTES << 10) => {
            Err(UringUnavailable::Glommio { limit })
        }
        _ => Ok(()),
    }
}

fn sysctl() -> Option<String> {
    text::read("/proc/sys/kernel/io_uring_disabled")
}

pub(super) fn classify(
    source: io::Error,
    sysctl: Option<String>,
    release: Option<String>,
    limit: Option<String>,
    rings: usize,
) -> UringUnavailable {
    match source.raw_os_error() {
        Some(libc::EPERM) => UringUnavailable::Forbidden { sysctl: text::shown(sysctl), source },
        Some(libc::ENOSYS) => UringUnavailable::Missing { release: text::shown(release), source },
        Some(libc::ENOMEM) => {
            UringUnavailable::LockedMemory { rings, limit: text::shown(limit), source }
        }
        _ => UringUnavailable::Other(source),
    }
}

/// The outcome of [`uring_available`] as a JSON object, with the sysctl and the errno beside it.
pub(super) fn to_json(outcome: &Result<UringFacts, UringUnavailable>) -> Value {
    let facts = outcome.as_ref().ok();
    let errno = match outcome {
        Ok(_) => Value::from(0),
        Err(error) => text::json(error.io_error().and_then(io::Error::raw_os_error)),
    };
    json!({
        "available": facts.is_some(),
        "setup_errno": errno,
        "sysctl_io_uring_disabled": text::json(sysctl()),
        "coop_taskrun": text::json(facts.map(|facts| facts.coop_taskrun)),
        "single_issuer": text::json(facts.map(|facts| facts.single_issuer)),
        "defer_taskrun": text::json(facts.map(|facts| facts.defer_taskrun)),
    })
}

impl UringUnavailable {
    fn io_error(&self) -> Option<&io::Error> {
        match self {
            UringUnavailable::Glommio { .. } => None,
            UringUnavailable::Forbidden { source, .. }
            | UringUnavailable::Missing { source, .. }
            | UringUnavailable::LockedMemory { source, .. }
            | UringUnavailable::Other(source) => Some(source),
        }
    }
}

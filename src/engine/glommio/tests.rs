use std::thread;
use std::time::Duration;

use ::glommio::{GlommioError, ReactorErrorKind};

use super::{refused, run};
use crate::engine::{App, EngineError, Event, Io, Limits};
use crate::types::MonotonicTime;

const LIMITS: Limits =
    Limits { frame_bytes_max: 1000, half_frame_idle_max: Duration::from_secs(60) };

/// Panics on its first deadline, with connections and writes of its engine alive.
struct Panics;

impl App for Panics {
    fn start(&mut self, io: &mut dyn Io) {
        let address = io.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        io.connect(address);
    }

    fn on_event(&mut self, _: &mut dyn Io, event: Event) {
        if let Event::Accepted { connection } = event {
            panic!("no room for {connection:?}");
        }
    }

    fn on_batch_end(&mut self, _: &mut dyn Io) {}

    fn deadline(&self) -> Option<MonotonicTime> {
        None
    }

    fn is_finished(&self) -> bool {
        false
    }
}

#[test]
fn a_panic_of_the_app_is_an_error_of_the_engine() {
    // Twice: the first one must leave the thread fit for another executor.
    for _ in 0..2 {
        let error = run(Panics, LIMITS, None).map(drop).unwrap_err();
        let EngineError::Panicked { engine: "glommio", message } = &error else {
            panic!("{error}")
        };
        assert!(message.starts_with("no room for ConnectionId("), "{message}");
    }
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    let error = run(Panics, LIMITS, Some(4000)).map(drop).unwrap_err();
    assert!(matches!(error, EngineError::Io { engine: "glommio", .. }), "{error}");
}

/// Makes io_uring_setup(2) fail with EPERM on this thread, as a container's filter does.
fn forbid_io_uring() {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let jump = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut steps = [
        step(load, 0, 0, 0),
        step(jump, 0, 1, libc::SYS_io_uring_setup as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: the program and its steps outlive the calls, which copy them.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let mode = libc::SECCOMP_MODE_FILTER;
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0), 0);
    }
}

#[test]
fn a_forbidden_io_uring_is_an_error_not_a_panic() {
    let outcome = thread::spawn(|| {
        forbid_io_uring();
        run(Panics, LIMITS, None).map(drop)
    });
    let error = outcome.join().unwrap().unwrap_err();
    assert!(matches!(error, EngineError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("kernel.io_uring_disabled"), "{error}");
}

#[test]
fn a_low_memlock_limit_is_named_with_the_way_out() {
    let kind = ReactorErrorKind::MemLockLimit(65_536, 524_288);
    assert_eq!(
        refused(GlommioError::ReactorError(kind)).to_string(),
        "glommio engine: memlock is limited to 65536 bytes, at least 524288 are needed: raise it \
         with `ulimit -l 512` or LimitMEMLOCK"
    );
}

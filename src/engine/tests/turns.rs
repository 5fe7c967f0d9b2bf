//! The loop itself: deadlines, wake-ups, its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::Run;
use super::host::Host;
use crate::engine::Event;
use crate::types::MonotonicTime;

fn deadline_fires(host: &mut Host) {
    host.wait(|event| matches!(event, Event::Deadline).then_some(()));
}

pub(super) fn fires_the_deadline_not_before_its_time(engine: Run) {
    let mut host = Host::start(engine);
    for delay_us in [1, 100, 999, 5_000, 30_000] {
        // The app itself asserts that its deadline has passed.
        host.call(move |remote, io| {
            remote.deadline = Some(io.now().plus(Duration::from_micros(delay_us)));
        });
        deadline_fires(&mut host);
    }
    assert!(host.finish().is_empty(), "one deadline, one event");
}

pub(super) fn fires_a_deadline_that_has_passed(engine: Run) {
    let mut host = Host::start(engine);
    host.call(|remote, _| remote.deadline = Some(MonotonicTime::ZERO));
    deadline_fires(&mut host);
    assert!(host.finish().is_empty());
}

pub(super) fn sleeps_past_a_deadline_taken_back(engine: Run) {
    let mut host = Host::start(engine);
    host.call(|remote, io| remote.deadline = Some(io.now().plus(Duration::from_secs(600))));
    host.call(|remote, io| remote.deadline = Some(io.now().plus(Duration::from_millis(1))));
    deadline_fires(&mut host);
    host.call(|remote, io| remote.deadline = Some(io.now().plus(Duration::from_secs(600))));
    host.call(|remote, _| remote.deadline = None);
    assert!(host.finish().is_empty());
}

pub(super) fn wakes_for_other_threads(engine: Run) {
    let host = Host::start(engine);
    // Each call waits until the app was woken for it; four threads wake at the same time.
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..500).for_each(|n| assert_eq!(host.call(move |_, _| n), n)));
        }
    });
    let waker = host.call(|_, io| io.waker());
    assert!(host.finish().is_empty());
    // A shard that has ended is not hurt by a late wake-up, nor is the caller.
    waker.wake();
}

pub(super) fn goes_on_through_signals(engine: Run) {
    let caught = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGUSR1, Arc::clone(&caught)).unwrap();
    let mut host = Host::start(engine);
    // SAFETY: pthread_self(3) has no preconditions.
    let shard = host.call(|_, _| unsafe { libc::pthread_self() });
    for _ in 0..500 {
        // SAFETY: the engine's thread lives until `finish`, and the signal has a handler.
        assert_eq!(unsafe { libc::pthread_kill(shard, libc::SIGUSR1) }, 0);
        host.call(|remote, io| remote.deadline = Some(io.now().plus(Duration::from_micros(50))));
        deadline_fires(&mut host);
    }
    assert!(caught.load(Ordering::Relaxed));
    assert!(host.finish().is_empty());
}

pub(super) fn ends_when_the_app_is_finished(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, _) = host.peer();
    let address = peer.peer_addr().unwrap();
    assert!(host.finish().is_empty());
    let mut rest = Vec::new();
    assert!(matches!(std::io::Read::read_to_end(&mut peer, &mut rest), Ok(0) | Err(_)));
    assert!(std::net::TcpStream::connect(address).is_err(), "it still listens");
}

//! Three controllers as processes: kill -9 of the active one under load, brokers find the next.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use ackmark::driver::spec::{CellSpec, Retry};
use ackmark::types::{Acks, DurabilityMode};

use crate::cluster::{Cluster, Shape, small_cell};

/// A follower is killed first, so that its leader's ISR changes are on their way when the active
/// controller is killed too.
#[test]
fn brokers_find_the_next_controller_and_isr_changes_go_on() {
    let shape = Shape { controllers: 3, ..Shape::plain(DurabilityMode::PageCache) };
    let mut cluster = Cluster::start(shape);
    let spec = CellSpec {
        retry: Retry::UntilAcknowledged,
        duration: Duration::from_secs(12),
        request_timeout: Duration::from_secs(2),
        ..small_cell("survives", Acks::All)
    };
    let address = cluster.address(2);
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| {
            let stop = AtomicBool::new(false);
            ackmark::driver::run::run_cell(address, &spec, &stop, &mut |_| {})
        });
        thread::sleep(Duration::from_secs(1));
        cluster.kill_broker(3);
        let killed = cluster.kill_active_controller();
        thread::sleep(Duration::from_secs(1));
        cluster.restart_controller(killed);
        cluster.restart_broker(3);
        running.join().expect("the driver").unwrap_or_else(|error| panic!("{error}"))
    });
    cluster.active_controller();
    for broker in 1..=3 {
        assert!(cluster.is_running(broker), "broker {broker} ended");
    }
    cluster.assert_nothing_lost(2, &spec, &outcome);

    // What was registered and created before the kill is known to the new controller: a new topic
    // gets all three brokers.
    let spec = small_cell("after", Acks::All);
    let outcome = cluster.run(&spec);
    assert!(outcome.failures.is_empty(), "{:?}", outcome.failures);
    cluster.assert_nothing_lost(1, &spec, &outcome);
}

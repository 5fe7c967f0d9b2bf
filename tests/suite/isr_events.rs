//! What brokers tell of their ISRs, on real processes: a follower is killed under min ISR's eyes and
//! comes back, and every interval of its return is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ackmark::driver::spec::{CellSpec, Retry};
use ackmark::measure::isr::{IsrEvent, IsrEventKind, IsrInterval, IsrTotals, StallReason};
use ackmark::types::{Acks, DurabilityMode};

use crate::cluster::{Cluster, Shape, small_cell};

/// Waits until the surviving brokers have told something that `is_it`; gives all they told.
fn wait_for(cluster: &Cluster, what: &str, is_it: impl Fn(&IsrEvent) -> bool) -> Vec<IsrEvent> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let told: Vec<IsrEvent> = [1, 2].iter().flat_map(|&id| cluster.events(id)).collect();
        if told.iter().any(&is_it) {
            return told;
        }
        assert!(Instant::now() < deadline, "no {what}: {told:#?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The last that is told of a follower's return.
fn returned_to_min_isr(event: &IsrEvent) -> bool {
    let told: Vec<IsrInterval> = event.intervals().into_iter().map(|(of, _)| of).collect();
    told.contains(&IsrInterval::ExpandStall) && told.contains(&IsrInterval::AlterCommit)
}

#[test]
fn a_follower_that_dies_and_returns_under_min_isr_is_told_interval_by_interval() {
    let mut cluster = Cluster::start(Shape::plain(DurabilityMode::PageCache));
    let spec = CellSpec {
        partitions: 3,
        topic_configs: vec![("min.insync.replicas".into(), "3".into())],
        retry: Retry::UntilAcknowledged,
        duration: Duration::from_secs(60),
        drain_timeout: Duration::from_secs(2),
        keep_acknowledgements: false,
        ..small_cell("flaps", Acks::Leader)
    };
    let (address, stop) = (cluster.address(1), AtomicBool::new(false));
    let told = thread::scope(|scope| {
        let load = scope
            .spawn(|| ackmark::driver::run::run_cell(address, &spec, &stop, &mut |_| {}).map(drop));
        wait_for(&cluster, "leader", |event| matches!(event.kind, IsrEventKind::Led { .. }));
        cluster.kill_broker(3);
        cluster.restart_broker(3);
        let told = wait_for(&cluster, "return to min ISR", returned_to_min_isr);
        stop.store(true, Ordering::Relaxed);
        load.join().expect("the driver").unwrap_or_else(|error| panic!("{error}"));
        told
    });
    assert!(told.iter().all(|event| event.topic == "flaps" && event.lost_before == 0), "{told:#?}");
    let totals = IsrTotals::of(&told);
    for interval in [
        IsrInterval::ExpandDetect,
        IsrInterval::AlterQueue,
        IsrInterval::AlterCommit,
        IsrInterval::ExpandWait,
        IsrInterval::ExpandStall,
        IsrInterval::UnderMinIsr,
        IsrInterval::GateStall,
        IsrInterval::FirstAppend,
        IsrInterval::FirstCommit,
    ] {
        assert!(totals.intervals.contains_key(&interval), "no {interval:?}: {told:#?}");
    }
    let stall = totals.stalls[&StallReason::UnderMinIsr];
    assert!(stall.records > 0 && stall.held_record_ns > 0, "{stall:?}");
    assert!(totals.partitions.values().any(|changes| changes.expands > 0), "{told:#?}");
}

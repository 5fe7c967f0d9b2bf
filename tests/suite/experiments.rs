//! Tiny versions of experiments, on real child processes: what `make experiments` shows at length
//! must hold in every change. No absolute time.

use ackmark::results::schema::{Check, Repeat, RunResult};

use crate::faults::{can_lose_page_cache, run_workload};

/// KIP-966's T0 to T4: both followers leave in order, the last replica of the ISR loses its page
/// cache and is back, then so are the others.
fn last_replica_standing(elr_level: u8, gate: &str) -> RunResult {
    let workload = format!(
        "name = \"t\"\n[cluster]\nsegment_bytes = \"2MiB\"\nsession_timeout = \"1s\"\n\
         heartbeat_interval = \"100ms\"\nreplica_fetch_backoff = \"50ms\"\n\
         [election]\nelr_level = {elr_level}\n\
         [load]\nwarmup = \"100ms\"\nduration = \"4s\"\nrepeats = 1\nrequest_timeout = \"500ms\"\n\
         [matrix]\nrate = [\"500/s\"]\ndurability = [\"page-cache\"]\nhwm_gate = [\"{gate}\"]\n\
         [[fault]]\nkind = \"stop\"\ntarget = \"follower\"\nat = \"300ms\"\nfor = \"3200ms\"\n\
         [[fault]]\nkind = \"stop\"\ntarget = \"follower\"\nat = \"600ms\"\nfor = \"2700ms\"\n\
         [[fault]]\nkind = \"page-cache-loss\"\ntarget = \"leader\"\nat = \"2s\"\nfor = \"200ms\"\n"
    );
    run_workload(&workload).result()
}

fn only_repeat(result: &RunResult) -> (&Repeat, &Check) {
    let repeat = &result.cells[0].repeats[0];
    (repeat, repeat.check.as_ref().expect("every replica was read back"))
}

#[test]
fn the_last_replica_standing_loses_records_without_eligible_leader_replicas() {
    if !can_lose_page_cache() {
        return;
    }
    let result = last_replica_standing(0, "legacy");
    let (repeat, check) = only_repeat(&result);
    let [lost] = repeat.failovers.as_slice() else { panic!("{:?}", repeat.failovers) };
    assert_eq!(lost.next_broker, Some(lost.lost_broker), "the last of the ISR leads again");
    assert!(check.lost > 0, "what it had acknowledged is gone: {check:?}");
    assert_eq!(check.violations, [""; 0], "it was promised by nobody");
    let warned = |warning: &String| warning.contains("elr_level 0");
    assert!(result.cells[0].warnings.iter().any(warned), "{:?}", result.cells[0].warnings);
}

#[test]
fn an_eligible_leader_replica_saves_what_the_last_replica_standing_lost() {
    if !can_lose_page_cache() {
        return;
    }
    let result = last_replica_standing(2, "kip966");
    let (repeat, check) = only_repeat(&result);
    let [lost] = repeat.failovers.as_slice() else { panic!("{:?}", repeat.failovers) };
    assert_eq!(lost.successor.as_deref(), Some("elr"), "{lost:?}");
    assert_ne!(lost.next_broker, Some(lost.lost_broker), "{lost:?}");
    assert!(check.acknowledged > 0, "{check:?}");
    assert_eq!((check.lost, &check.violations), (0, &Vec::new()), "{check:?}");
    assert!(check.promised.iter().any(|what| what == "acknowledged"), "{check:?}");
}

#[test]
fn a_rolling_restart_loses_and_repeats_nothing_and_waits_for_no_session() {
    // No session runs out within the run: whoever has to wait for that gets no further.
    let stop = |broker: u8, at_ms: u32| {
        format!(
            "[[fault]]\nkind = \"stop\"\ntarget = \"broker-{broker}\"\nat = \"{at_ms}ms\"\n\
             for = \"400ms\"\n"
        )
    };
    let workload = "name = \"t\"\n[cluster]\nsegment_bytes = \"2MiB\"\nsession_timeout = \"60s\"\n\
                    heartbeat_interval = \"100ms\"\nreplica_fetch_backoff = \"50ms\"\n\
                    [load]\nwarmup = \"100ms\"\nduration = \"6s\"\nrepeats = 1\n\
                    [matrix]\nrate = [\"500/s\"]\ndurability = [\"page-cache\"]\n"
        .to_owned()
        + &[stop(1, 300), stop(2, 2_100), stop(3, 3_900)].concat();
    let result = run_workload(&workload).result();
    let (repeat, check) = only_repeat(&result);
    let stops: Vec<&str> = repeat.events.iter().map(|event| event.what.as_str()).collect();
    assert_eq!(stops.len(), 3, "{stops:?}");
    for what in stops {
        assert!(what.ends_with("asked to stop (SIGTERM, clean shutdown)"), "{what}");
    }
    assert!(!repeat.failovers.is_empty(), "somebody led");
    for lost in &repeat.failovers {
        assert_eq!(lost.successor.as_deref(), Some("isr"), "{lost:?}");
        assert!(lost.took_ns.contains_key("acknowledged"), "the next leader went on: {lost:?}");
    }
    assert_eq!((check.lost, check.duplicated, check.duplicated_by_retries), (0, 0, 0), "{check:?}");
    assert_eq!(check.violations, [""; 0]);
    let counts = &result.cells[0].counts;
    assert!(counts.acknowledged_records > counts.due_records / 2, "{counts:?}");
    assert_eq!(counts.unsent_records + counts.unanswered_records, 0, "{counts:?}");
}

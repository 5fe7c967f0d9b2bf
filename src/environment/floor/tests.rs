use std::time::Duration;

use super::*;

static GO_ON: AtomicBool = AtomicBool::new(false);
use crate::types::Flush;

const PARTS: FloorParts = FloorParts {
    round_trip_ns: 100,
    followers_round_trip_ns: 130,
    page_cache_write_ns: 2,
    durable_together_ns: 300,
};

#[test]
fn bounds_follow_the_formulas_of_section_5() {
    let flush = Flush { messages: 10_000, interval: Duration::from_secs(1) };
    let table = [
        (DurabilityMode::PageCache, Acks::None, None),
        (DurabilityMode::PageCache, Acks::Leader, Some(102)),
        (DurabilityMode::PageCache, Acks::All, Some(234)),
        (DurabilityMode::PageCacheFlush(flush), Acks::Leader, Some(102)),
        (DurabilityMode::PageCacheFlush(flush), Acks::All, Some(234)),
        (DurabilityMode::Fsync, Acks::Leader, Some(400)),
        (DurabilityMode::Fsync, Acks::All, Some(530)),
        (DurabilityMode::Direct, Acks::Leader, Some(400)),
        (DurabilityMode::Direct, Acks::All, Some(530)),
        (DurabilityMode::DirectFsync, Acks::All, Some(530)),
        (DurabilityMode::DirectDsync, Acks::Leader, Some(400)),
        (DurabilityMode::DirectDsync, Acks::All, Some(530)),
        (DurabilityMode::DirectDsync, Acks::None, None),
    ];
    for (mode, acks, expected) in table {
        assert_eq!(ack_floor_ns(&PARTS, mode, acks), expected, "{mode} acks={acks}");
        assert_eq!(formula(mode, acks) == "none", expected.is_none(), "{mode} acks={acks}");
    }
}

fn quick() -> FloorSettings {
    FloorSettings {
        rate_per_second: 500,
        record_bytes: 1000,
        broker_count: 3,
        part_duration: Duration::from_millis(40),
    }
}

#[test]
fn measured_floors_have_every_part_and_leave_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let modes = [DurabilityMode::PageCache, DurabilityMode::Fsync];
    let floors = Floors::measure(directory.path(), quick(), &modes, &GO_ON).unwrap();

    assert_eq!((floors.round_trip.count(), floors.followers_round_trip.count()), (20, 20));
    assert_eq!(floors.timer_overshoot.count(), 20);
    assert_eq!(floors.durable.len(), 1, "page-cache has no durable part");
    let fsync = &floors.durable[0];
    assert_eq!((fsync.mode, fsync.write_bytes), (DurabilityMode::Fsync, 4096));
    assert_eq!((fsync.alone.count(), fsync.together.count()), (20, 60));
    let bound = |acks| floors.bound_ns(DurabilityMode::Fsync, acks).unwrap();
    assert!(bound(Acks::All) > floors.round_trip_ns().unwrap());
    assert_eq!(floors.bound_ns(DurabilityMode::DirectDsync, Acks::Leader), None, "not measured");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    let twice = floors.clone().merged(floors);
    assert_eq!(twice.durable[0].together.count(), 120);
    assert_eq!(twice.to_json()["bounds"].as_array().unwrap().len(), 4);
}

#[test]
fn a_rate_of_zero_and_a_missing_directory_are_refused() {
    let zero = FloorSettings { rate_per_second: 0, ..quick() };
    let error = Floors::measure(Path::new("."), zero, &[], &GO_ON).unwrap_err();
    assert_eq!(error.to_string(), "floor rate = 0: must be at least 1 a second");

    let error = Floors::measure(Path::new("/nonexistent/data"), quick(), &[], &GO_ON).unwrap_err();
    assert_eq!(error.to_string(), "/nonexistent/data: cannot make a folder for measuring in it");
}

#[test]
fn a_floor_that_is_stopped_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(true);
    let error = Floors::measure(directory.path(), quick(), &[], &stop).unwrap_err();
    assert!(matches!(error, FloorError::Stopped), "{error}");
}

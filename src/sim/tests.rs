use super::*;

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [3, 8] {
        let first = replay(seed, Profile::Kip966, None);
        assert!(first.trace.lines().count() > 1000, "{:?}", first.result);
        assert_eq!(first, replay(seed, Profile::Kip966, None));
    }
}

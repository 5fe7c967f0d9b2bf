//! The books against sets of single numbers.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::checker::numbers::{Numbers, total};

fn range() -> impl Strategy<Value = std::ops::Range<u64>> {
    (0..60_u64, 0..12_u64).prop_map(|(start, length)| start..start + length)
}

proptest! {
    #[test]
    fn ranges_hold_what_single_numbers_hold(
        inserted in prop::collection::vec(range(), 0..20),
        asked in range(),
    ) {
        let (mut numbers, mut model) = (Numbers::default(), BTreeSet::new());
        for range in inserted {
            model.extend(range.clone());
            numbers.insert(range);
        }
        prop_assert_eq!(numbers.count(), model.len() as u64);
        let flat = |parts: Vec<std::ops::Range<u64>>| parts.into_iter().flatten().collect::<Vec<_>>();
        let (within, missing): (Vec<u64>, Vec<u64>) =
            asked.clone().partition(|number| model.contains(number));
        prop_assert_eq!(total(&numbers.within(asked.clone())), within.len() as u64);
        prop_assert_eq!(flat(numbers.within(asked.clone())), within);
        prop_assert_eq!(flat(numbers.missing(asked)), missing);
    }
}

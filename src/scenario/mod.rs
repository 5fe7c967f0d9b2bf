//! One experiment from start to result.

pub mod bench_floor;

//! One experiment from start to result.

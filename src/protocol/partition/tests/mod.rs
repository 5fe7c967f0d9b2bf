//! Tests of the partition machine.

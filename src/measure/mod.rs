//! The one clock, and latency histograms.

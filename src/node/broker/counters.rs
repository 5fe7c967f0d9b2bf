//! What a shard counts instead of logging on the hot path; said once, when the broker stops.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::engine::CloseReason;
use crate::node::tell;
use crate::storage::Recovery;

/// Events worth knowing after a run.
#[derive(Debug, Default)]
pub(super) struct Counters {
    ignored: BTreeMap<&'static str, u64>,
    closed: BTreeMap<&'static str, u64>,
    recoveries: Vec<String>,
    failed_reads: u64,
    last_failed_read: Option<String>,
}

impl Counters {
    /// A machine ignored an input, and why.
    pub(super) fn ignored(&mut self, reason: &'static str) {
        *self.ignored.entry(reason).or_default() += 1;
    }

    /// A connection ended.
    pub(super) fn closed(&mut self, reason: &CloseReason) {
        let reason = match reason {
            CloseReason::Orderly => "closed in order",
            CloseReason::BadFrameLength(_) => "bad frame length",
            CloseReason::Idle => "stuck in a frame",
            CloseReason::Error(_) => "socket error",
        };
        *self.closed.entry(reason).or_default() += 1;
    }

    /// A connection beyond the `most` that this shard may have was closed at once. Said when it
    /// happens first: who is refused wants to know why.
    pub(super) fn refused(&mut self, most: u64) {
        let refused = self.closed.entry("too many connections").or_default();
        *refused += 1;
        if *refused == 1 {
            tell(format_args!(
                "refuses connections: {most} are open already, and the limit on open files \
                 (`ulimit -n` or LimitNOFILE) leaves no more beside the replicas'"
            ));
        }
    }

    /// A frame could not be understood; its connection is closed.
    pub(super) fn malformed(&mut self) {
        *self.closed.entry("malformed request").or_default() += 1;
    }

    /// A read from disk failed; its fetch was answered with an error.
    pub(super) fn failed_read(&mut self, error: String) {
        self.failed_reads += 1;
        self.last_failed_read = Some(error);
    }

    /// A log was opened; what its recovery cut off or found missing is worth a line, a cut at once.
    pub(super) fn recovered(&mut self, directory: &Path, recovery: &Recovery) {
        if recovery.scanned_bytes > 0 {
            let line = format!(
                "{}: scanned {} bytes, {} batches, cut off {} bytes{}; log end offset {}",
                directory.display(),
                recovery.scanned_bytes,
                recovery.batches,
                recovery.truncated_bytes,
                if recovery.hole { " (valid batches lay behind the first bad one)" } else { "" },
                recovery.log_end_offset,
            );
            if recovery.truncated_bytes > 0 {
                tell(format_args!("{line}"));
            }
            self.recoveries.push(line);
        }
    }
}

impl fmt::Display for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for recovery in &self.recoveries {
            writeln!(f, "{recovery}")?;
        }
        for (reason, count) in self.ignored.iter().chain(&self.closed) {
            writeln!(f, "{count} x {reason}")?;
        }
        if let Some(error) = &self.last_failed_read {
            writeln!(f, "{} x failed read, last: {error}", self.failed_reads)?;
        }
        Ok(())
    }
}

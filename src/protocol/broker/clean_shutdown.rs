//! Whether a broker's last process stopped cleanly, from the markers it left.
//!
//! Source: spec/kip966.md 2.1 (B01-B04).

use crate::types::BrokerEpoch;

/// A configured log directory as found at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogDirectory {
    /// It can be read and written.
    pub online: bool,
    /// The broker epoch in its clean shutdown marker; `None` if there is no readable marker.
    pub marker: Option<BrokerEpoch>,
}

/// The epoch of the life that ended cleanly; `None` unless every directory is online, has a marker,
/// and all markers agree.
pub fn previous_broker_epoch(directories: &[LogDirectory]) -> Option<BrokerEpoch> {
    let first = directories.first()?.marker?;
    let agrees = |dir: &LogDirectory| dir.online && dir.marker == Some(first);
    directories.iter().all(agrees).then_some(first)
}

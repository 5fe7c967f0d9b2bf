//! What each durability mode does for a commit group, and which routes make sense for it.

use crate::config::defaults;
use crate::config::node::LogConfig;
use crate::engine::Route;
use crate::types::{CommitRoute, DurabilityMode, FilePreparation, Sync};

use super::StorageError;

/// Kafka's `segment.bytes` is a 32-bit number; positions in the index are too.
const SEGMENT_BYTES_MAX: u64 = i32::MAX as u64;

/// Room for the largest batch must be left when a segment's size is rounded down to the block.
const BLOCK_BYTES_ASSUMED: u64 = 4096;

/// How commit groups are written and synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) mode: DurabilityMode,
    /// What a group that is to be synced needs.
    pub(super) sync: Sync,
    /// Who makes the calls: of the sync in the buffered modes, of write and sync in the direct ones.
    pub(super) route: Route,
}

impl Plan {
    pub(super) fn new(config: &LogConfig) -> Plan {
        Plan {
            mode: config.durability,
            sync: sync_of(config.durability),
            route: route_of(config.commit_route),
        }
    }

    pub(super) fn preparation(self) -> FilePreparation {
        self.mode.preparation()
    }
}

fn sync_of(mode: DurabilityMode) -> Sync {
    match mode {
        DurabilityMode::PageCache | DurabilityMode::Direct => Sync::None,
        DurabilityMode::PageCacheFlush(_) | DurabilityMode::Fsync | DurabilityMode::DirectFsync => {
            Sync::Fdatasync
        }
        DurabilityMode::DirectDsync => Sync::Dsync,
    }
}

fn route_of(route: CommitRoute) -> Route {
    match route {
        CommitRoute::Async | CommitRoute::AsyncDsync | CommitRoute::LinkedFsync => Route::Async,
        CommitRoute::BlockingHelper => Route::Helper,
        CommitRoute::Inline => Route::Inline,
    }
}

/// The commit route of a mode for which none was chosen.
pub fn default_route(mode: DurabilityMode) -> CommitRoute {
    defaults::commit_route(mode)
}

/// Checks that a log's configuration makes sense.
///
/// Errors: [`StorageError::Config`], one message that names the key, the value and what is allowed.
pub fn validate(config: &LogConfig) -> Result<(), StorageError> {
    let problem =
        route_problem(config).or_else(|| flush_problem(config)).or_else(|| size_problem(config));
    problem.map_or(Ok(()), |problem| Err(StorageError::Config(problem)))
}

fn route_problem(config: &LogConfig) -> Option<String> {
    let allowed = defaults::commit_routes(config.durability);
    if allowed.contains(&config.commit_route) {
        return None;
    }
    let names: Vec<_> = allowed.iter().map(|route| route.name()).collect();
    let (route, mode) = (config.commit_route.name(), config.durability);
    Some(format!("commit.route = {route}: durability mode {mode} takes {}", names.join(", ")))
}

fn flush_problem(config: &LogConfig) -> Option<String> {
    let DurabilityMode::PageCacheFlush(flush) = config.durability else { return None };
    if flush.messages == 0 {
        return Some("flush.messages = 0: must be at least 1".to_owned());
    }
    flush.interval.is_zero().then(|| "flush.ms = 0: must be at least 1".to_owned())
}

fn size_problem(config: &LogConfig) -> Option<String> {
    let LogConfig { commit_pipeline_depth, segment_bytes, message_bytes_max, .. } = *config;
    if commit_pipeline_depth == 0 {
        return Some("commit.pipeline.depth = 0: must be at least 1".to_owned());
    }
    if segment_bytes > SEGMENT_BYTES_MAX {
        return Some(format!("segment.bytes = {segment_bytes}: at most {SEGMENT_BYTES_MAX}"));
    }
    let needed = (message_bytes_max as u64).next_multiple_of(BLOCK_BYTES_ASSUMED);
    (segment_bytes < needed).then(|| {
        format!(
            "segment.bytes = {segment_bytes}: must be at least {needed} to hold a batch of \
             max.message.bytes = {message_bytes_max}"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::types::Flush;

    const FLUSH: Flush = Flush { messages: 3, interval: Duration::from_millis(10) };

    fn config(durability: DurabilityMode, commit_route: CommitRoute) -> LogConfig {
        LogConfig {
            durability,
            commit_route,
            commit_pipeline_depth: 1,
            segment_bytes: 1 << 20,
            memory_bytes: 1 << 20,
            message_bytes_max: 1 << 20,
        }
    }

    #[test]
    fn every_mode_takes_its_default_route_and_refuses_what_it_cannot_do() {
        let modes = [
            DurabilityMode::PageCache,
            DurabilityMode::PageCacheFlush(FLUSH),
            DurabilityMode::Fsync,
            DurabilityMode::Direct,
            DurabilityMode::DirectFsync,
            DurabilityMode::DirectDsync,
        ];
        for mode in modes {
            validate(&config(mode, default_route(mode))).expect("the default");
        }
        let error = validate(&config(DurabilityMode::DirectFsync, CommitRoute::AsyncDsync))
            .expect_err("a dsync write is not this mode");
        assert_eq!(
            error.to_string(),
            "commit.route = async-dsync: durability mode direct-fsync takes linked-fsync, \
             blocking-helper, inline"
        );
    }

    #[test]
    fn sizes_and_counts_are_checked_with_the_value_in_the_message() {
        let good = config(DurabilityMode::Fsync, CommitRoute::Inline);
        let bad: [(LogConfig, &str); 4] = [
            (LogConfig { commit_pipeline_depth: 0, ..good }, "commit.pipeline.depth = 0"),
            (LogConfig { segment_bytes: 1000, ..good }, "segment.bytes = 1000"),
            (LogConfig { segment_bytes: 1 << 40, ..good }, "at most 2147483647"),
            (
                LogConfig {
                    durability: DurabilityMode::PageCacheFlush(Flush { messages: 0, ..FLUSH }),
                    ..good
                },
                "flush.messages = 0",
            ),
        ];
        for (config, part) in bad {
            let message = validate(&config).expect_err(part).to_string();
            assert!(message.contains(part), "{message}");
        }
    }
}

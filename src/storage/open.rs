//! Opening a log: claims the directory, recovers what it holds, and readies a segment to append to.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::config::node::LogConfig;
use crate::engine::Io;
use crate::types::{FilePreparation, TopicId};

use super::commit::Commits;
use super::log::LogStats;
use super::mode::{Plan, validate};
use super::preparer::{Fence, Preparer, SegmentSpec, prepare, prepared_path};
use super::recovery::{Recovered, Recovery, recover};
use super::roll::CLEAN_SHUTDOWN_FILE;
use super::segment::remove_if_there;
use super::tail::{Place, Tail};
use super::write::Flushing;
use super::{PartitionLog, StorageError, checkpoint, device};

impl PartitionLog {
    /// Opens the log in `directory`, which is made if it is not there. Blocks: a log that was not
    /// closed is scanned, and the first segment is prepared.
    ///
    /// What is found is synced, so everything is durable then: `durable_offset` is the log end
    /// offset. All files are registered with `io`, which must be the one used from then on.
    ///
    /// Errors: [`StorageError::Config`], [`StorageError::DirectUnavailable`],
    /// [`StorageError::TopicId`], [`StorageError::Checkpoint`], [`StorageError::Io`].
    pub fn open(
        directory: &Path,
        topic_id: TopicId,
        config: &LogConfig,
        preparer: &Preparer,
        io: &mut dyn Io,
    ) -> Result<(PartitionLog, Recovery), StorageError> {
        validate(config)?;
        make_directory(directory)?;
        checkpoint::claim(directory, topic_id)?;
        let plan = Plan::new(config);
        let spec = segment_spec(directory, config)?;
        let recovered = recover(directory, spec)?;
        let (report, is_clean) = (recovered.report, recovered.is_clean);
        let mut log = PartitionLog::assemble(directory, config, plan, spec, preparer, recovered);
        log.ready_active_segment(is_clean)?;
        for segment in &mut log.segments {
            segment.file(io);
        }
        Ok((log, report))
    }

    fn assemble(
        directory: &Path,
        config: &LogConfig,
        plan: Plan,
        spec: SegmentSpec,
        preparer: &Preparer,
        recovered: Recovered,
    ) -> PartitionLog {
        let Recovered { segments, epochs, report, recovery_point, .. } = recovered;
        let end = report.log_end_offset;
        PartitionLog {
            directory: directory.to_path_buf(),
            config: *config,
            plan,
            spec,
            segments,
            tail: Tail::new(
                config,
                spec.block_bytes,
                Place { segment: end, position: 0, offset: end },
            ),
            commits: Commits::default(),
            flushing: Flushing::new(end, end),
            epochs,
            log_end_offset: end,
            durable_offset: end,
            undurable_bytes: 0,
            pending_cut: None,
            cuts: 0,
            preparer: preparer.clone(),
            order: None,
            generation: 0,
            fence: Arc::new(Fence::new(recovery_point)),
            seals: std::collections::VecDeque::new(),
            failure: None,
            stats: LogStats::default(),
        }
    }

    /// Syncs what recovery found, goes on in the last segment if it is prepared as the mode needs
    /// it, else begins one; and unmarks the clean shutdown before anything is written.
    fn ready_active_segment(&mut self, is_clean: bool) -> Result<(), StorageError> {
        let fence = Arc::clone(&self.fence);
        let mut state = fence.void_seals();
        self.generation = state.generation;
        if !is_clean && !self.segments.is_empty() {
            self.checkpoint(&mut state, false)?;
        }
        remove_if_there(&self.directory.join(CLEAN_SHUTDOWN_FILE))?;
        device::sync_directory(&self.directory)?;
        if !self.is_last_segment_ready()? {
            self.replace_last_segment()?;
        }
        let active = self.active();
        let position = device::align_up(active.end_position, self.spec.block_bytes);
        let segment = active.base_offset;
        self.tail.reset(Place { segment, position, offset: self.log_end_offset });
        self.flushing.cut(segment, self.log_end_offset);
        Ok(())
    }

    /// A growing file is good for the modes that reserve; the others need it full of zeros.
    fn is_last_segment_ready(&mut self) -> Result<bool, StorageError> {
        let Some(last) = self.segments.last_mut() else { return Ok(false) };
        let path = last.path.clone();
        let length = last
            .maintenance()?
            .metadata()
            .map_err(StorageError::io("read the segment's size", &path))?
            .len();
        Ok(match self.spec.preparation {
            FilePreparation::Reserved => true,
            FilePreparation::ZeroFilled => length >= self.spec.capacity_bytes,
        })
    }

    /// Begins a segment at the log's end; an empty one there is replaced by it.
    fn replace_last_segment(&mut self) -> Result<(), StorageError> {
        let prepared = prepare(self.spec, &prepared_path(&self.directory), || ())?;
        self.segments.pop_if(|last| last.base_offset == self.log_end_offset);
        if let Some(last) = self.segments.last() {
            // It gets no more appends and is synced: as good as sealed.
            last.index.store(&last.index_path(), self.log_end_offset, last.end_position)?;
        }
        self.begin_segment(prepared)?;
        device::sync_directory(&self.directory)
    }
}

/// Makes the directory and its name durable.
fn make_directory(directory: &Path) -> Result<(), StorageError> {
    if directory.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(directory).map_err(StorageError::io("make the directory", directory))?;
    match directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        Some(parent) => device::sync_directory(parent),
        None => Ok(()),
    }
}

fn segment_spec(directory: &Path, config: &LogConfig) -> Result<SegmentSpec, StorageError> {
    let block_bytes = device::block_bytes(directory, config.durability)?;
    let block = block_bytes as u64;
    Ok(SegmentSpec {
        capacity_bytes: config.segment_bytes - config.segment_bytes % block,
        preparation: config.durability.preparation(),
        direct: config.durability.is_direct(),
        block_bytes,
    })
}

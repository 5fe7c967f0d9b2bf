//! After a cell under faults: waits until every replica is in sync, reads them all, and has the
//! checker compare them with what was told and seen.
//!
//! Replicas are read from their files, past the brokers: nothing a broker says stands in for bytes.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::checker::divergence::{Batch, first_divergence};
use crate::checker::history::History;
use crate::checker::replica::{Found, Replica};
use crate::checker::verdict::{self, Promise, Replicas, Verdict};
use crate::config::cells::Cell;
use crate::config::workload::{Fault, Workload};
use crate::driver::payload::Payload;
use crate::driver::spec::CellSpec;
use crate::faults::plan::{self, Act};
use crate::record;
use crate::storage::{StorageError, StoredBatch, StoredBatches};
use crate::types::{Acks, BrokerId, HwmGate, IsrWait, Offset, PartitionId, UncleanRecovery};

use super::cluster::Cluster;
use super::describe::{PartitionDescription, latest_offset};

/// How long replicas may take to be in sync again.
const SYNC_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the ISR.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a leader may take to tell its high watermark.
const ASK_PATIENCE: Duration = Duration::from_secs(2);

/// Why a cell could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Not all replicas came back.
    #[error(
        "partition {partition} of {topic}: not all replicas are in sync {} s after the last fault",
        SYNC_PATIENCE.as_secs()
    )]
    OutOfSync {
        /// The topic.
        topic: String,
        /// The first such partition.
        partition: PartitionId,
    },
    /// A replica's files cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// What `workload` promises in `cell`, given its faults.
pub(super) fn promise(workload: &Workload, cell: &Cell) -> Promise {
    // Without waiting for the controller a leader counts on followers that an election may pass by.
    let waits = cell.isr_wait == IsrWait::Controller;
    let withstood = lossy_crashes_withstood(workload, cell);
    let keeps = waits
        && (cell.durability.is_synced() || lossy_crashes(workload) <= withstood)
        && !elects_uncleanly(workload);
    Promise {
        acknowledged: cell.acks == Acks::All && keeps,
        visible: keeps,
        order: workload.load.connections == 1,
    }
}

/// What a reader must know of a workload whose faults are more than is withstood.
pub(super) fn beyond_guarantee(workload: &Workload, cell: &Cell) -> Option<String> {
    let (crashes, withstood) = (lossy_crashes(workload), lossy_crashes_withstood(workload, cell));
    if cell.durability.is_synced() || crashes <= withstood {
        return None;
    }
    let level = workload.cluster.election.elr_level;
    Some(match level {
        0 => format!(
            "unclean shutdowns that lose data: {crashes}; without eligible leader replicas \
             (elr_level 0) none is promised to be withstood"
        ),
        _ => format!(
            "unclean shutdowns that lose data: {crashes}; min ISR {} withstands {withstood}, so a \
             loss here is beyond the guarantee",
            lowest_min_isr(workload)
        ),
    })
}

/// Unclean shutdowns that lose data, as planned.
fn lossy_crashes(workload: &Workload) -> usize {
    let losses = workload.faults.iter().filter(|fault| fault.is_page_cache_loss());
    let losses: Vec<Fault> = losses.cloned().collect();
    let steps = plan::steps(&losses, workload.load.duration);
    steps.iter().filter(|step| step.act == Act::Inject).count()
}

/// min ISR - 1 by KIP-966, with ELR and the gate, for the lowest min ISR that a record may have been
/// acknowledged under: spec/kip966.md 5.1.
fn lossy_crashes_withstood(workload: &Workload, cell: &Cell) -> usize {
    let has_elr = workload.cluster.election.elr_level > 0 && cell.hwm_gate == HwmGate::Kip966;
    if has_elr { lowest_min_isr(workload) - 1 } else { 0 }
}

fn lowest_min_isr(workload: &Workload) -> usize {
    let lowered = workload.faults.iter().filter_map(|fault| fault.kind.to());
    let lowered = lowered.map(|to| usize::try_from(to).unwrap_or(usize::MAX));
    lowered.fold(workload.cluster.min_isr, usize::min)
}

/// Whether somebody may lead who is known to lack records while others may hold them.
fn elects_uncleanly(workload: &Workload) -> bool {
    workload.cluster.unclean_recovery == UncleanRecovery::Proactive
}

/// Reads every replica of the cell's topic and judges.
///
/// # Errors
/// [`AuditError`] if replicas do not get in sync or cannot be read.
pub(super) fn audit(
    cluster: &Cluster,
    spec: &CellSpec,
    history: &History,
    promise: Promise,
) -> Result<Verdict, AuditError> {
    let settled = await_in_sync(cluster, spec)?;
    let mut replicas = Vec::new();
    for (index, (described, high_watermark)) in settled.iter().enumerate() {
        let partition = PartitionId(index as i32);
        let sent_end = history.partitions.get(index).map_or(0, |history| history.sent_end);
        let reader = Reader { cluster, spec, partition, sent_end };
        replicas.push(reader.read(described, *high_watermark)?);
    }
    Ok(verdict::judge(history, &replicas, promise))
}

/// Every partition with its leader's high watermark, once all replicas are in the ISR, all brokers
/// say so, and nothing moves any more.
fn await_in_sync(
    cluster: &Cluster,
    spec: &CellSpec,
) -> Result<Vec<(PartitionDescription, Offset)>, AuditError> {
    let deadline = Instant::now() + SYNC_PATIENCE;
    let mut before = Vec::new();
    loop {
        let settled = settled(cluster, spec);
        let missing = settled.iter().position(Option::is_none);
        if missing.is_none() && settled == before {
            return Ok(settled.into_iter().flatten().collect());
        }
        if Instant::now() > deadline {
            let partition = PartitionId(missing.unwrap_or(0) as i32);
            return Err(AuditError::OutOfSync { topic: spec.topic.clone(), partition });
        }
        before = settled;
        thread::sleep(LOOK_AGAIN);
    }
}

/// Each partition with its high watermark; `None` for one that is not whole. A broker that was cut
/// off believes what it last heard, so all of them are asked.
fn settled(cluster: &Cluster, spec: &CellSpec) -> Vec<Option<(PartitionDescription, Offset)>> {
    let partitions = cluster.ask_all(&spec.topic).unwrap_or_default().partitions;
    let settle = |index: usize| {
        let described = partitions.get(index)?;
        let leader = described.leader?;
        let is_whole = described.isr.len() == described.replicas.len();
        let address = cluster.broker(leader)?.address().filter(|_| is_whole)?;
        let partition = PartitionId(index as i32);
        let told = latest_offset(address, &spec.topic, partition, ASK_PATIENCE)?;
        Some((described.clone(), told))
    };
    (0..spec.partitions as usize).map(settle).collect()
}

struct Reader<'a> {
    cluster: &'a Cluster,
    spec: &'a CellSpec,
    partition: PartitionId,
    sent_end: u64,
}

impl Reader<'_> {
    fn read(
        &self,
        described: &PartitionDescription,
        high_watermark: Offset,
    ) -> Result<Replicas, StorageError> {
        let mut brokers = described.replicas.clone();
        // The leader first: the others are compared with it.
        brokers.sort_by_key(|broker| Some(*broker) != described.leader);
        let mut held = Vec::new();
        for broker in &brokers {
            held.push((*broker, self.replica(*broker)?));
        }
        let mut logs = Vec::new();
        for broker in &brokers {
            logs.push(StoredBatches::open(&self.directory(*broker))?.map(|batch| batch.map(plain)));
        }
        let found = first_divergence(&mut logs, high_watermark)?;
        let divergence = found.map(|found| (found.offset, brokers[found.replica]));
        Ok(Replicas { high_watermark, held, divergence })
    }

    fn directory(&self, broker: BrokerId) -> PathBuf {
        let name = format!("{}-{}", self.spec.topic, self.partition);
        self.cluster.data_dir(broker).join(name)
    }

    fn replica(&self, broker: BrokerId) -> Result<Replica, StorageError> {
        let spec = self.spec;
        let payload = Payload::new(spec.seed, spec.record_bytes, spec.compressible);
        let mut replica = Replica::default();
        for batch in StoredBatches::open(&self.directory(broker))? {
            let StoredBatch { header, bytes } = batch?;
            let records = record::records(&bytes).ok();
            let records = records.filter(|_| record::check_crc(&bytes, &header).is_ok());
            let Some(records) = records else {
                replica.damaged.add(header.record_count.unsigned_abs().into(), header.base_offset);
                replica.end = header.end_offset();
                continue;
            };
            for record in records {
                let Ok(record) = record else {
                    replica.damaged.add(1, header.base_offset);
                    break;
                };
                let offset = header.base_offset.plus(record.offset_delta.into());
                replica.found(offset, self.identify(&payload, record.value), self.sent_end);
            }
        }
        Ok(replica)
    }

    fn identify(&self, payload: &Payload, value: Option<&[u8]>) -> Found {
        let Some(Ok(header)) = value.map(|value| payload.check(value)) else {
            return Found::Damaged;
        };
        let partitions = u64::from(self.spec.partitions);
        let (number, home) = (header.sequence / partitions, header.sequence % partitions);
        let is_ours = header.seed == self.spec.seed && home as i32 == self.partition.0;
        if is_ours { Found::Record { number } } else { Found::Foreign }
    }
}

fn plain(batch: StoredBatch) -> Batch {
    let StoredBatch { header, bytes } = batch;
    Batch { base_offset: header.base_offset, end_offset: header.end_offset(), bytes }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Whether acknowledged records are promised, and whether a reader is warned.
    fn judged(cluster: &str, level: u8, durability: &str, faults: usize) -> (bool, bool) {
        let fault = "[[fault]]\nkind = \"page-cache-loss\"\ntarget = \"leader\"\nat = \"1s\"\n";
        let text = format!(
            "name = \"t\"\n[cluster]\n{cluster}\n[election]\nelr_level = {level}\n\
             [matrix]\ndurability = [\"{durability}\"]\n{}",
            fault.repeat(faults)
        );
        let workload = Workload::from_text(Path::new("t.toml"), &text).expect("a good workload");
        let cell = workload.cells()[0];
        let warned = beyond_guarantee(&workload, &cell).is_some();
        (promise(&workload, &cell).acknowledged, warned)
    }

    #[test]
    fn eligible_leader_replicas_withstand_one_lossy_crash_less_than_min_isr() {
        assert_eq!(judged("", 2, "page-cache", 1), (true, false));
        assert_eq!(judged("", 1, "page-cache", 1), (true, false));
        assert_eq!(judged("", 0, "page-cache", 1), (false, true));
        assert_eq!(judged("", 2, "page-cache", 2), (false, true));
        assert_eq!(judged("min_isr = 3", 2, "page-cache", 2), (true, false));
        assert_eq!(judged("", 0, "fsync", 2), (true, false), "nothing is lost there");
        let eager = "unclean_recovery = \"Proactive\"";
        assert_eq!(judged(eager, 2, "fsync", 0), (false, false));
    }
}

//! What a workload runs, in which order: cells, blocks of cells that share a cluster, repeats.
//!
//! Repeats are interleaved (ABAB, not AABB): the whole matrix runs once before any cell runs again,
//! and each repeat starts at another block, so that a drift of the machine does not always hit the
//! same durability mode.

use std::time::Duration;

use crate::types::{
    Acks, DurabilityMode, EngineKind, FetchPipeline, HwmGate, IsrExpand, IsrWait, ServeFollowers,
};

use super::workload::{Matrix, Pacing, Workload};

/// One point of the matrix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Position in the matrix, from 0; names the cell in results.
    pub index: usize,
    /// Event loop.
    pub engine: EngineKind,
    /// Durability mode.
    pub durability: DurabilityMode,
    /// What else its cluster is started with.
    pub cluster: ClusterVariant,
    /// `hwm.gate`.
    pub hwm_gate: HwmGate,
    /// `isr.wait`.
    pub isr_wait: IsrWait,
    /// `isr.expand`.
    pub isr_expand: IsrExpand,
    /// Partitions of the cell's topic.
    pub partitions: u32,
    /// Value size of a record.
    pub record_bytes: usize,
    /// When records are sent.
    pub pacing: Pacing,
    /// `acks`.
    pub acks: Acks,
}

/// What nodes are started with and a matrix varies, beside engine and durability mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterVariant {
    /// `replica.fetch.pipeline`.
    pub fetch_pipeline: FetchPipeline,
    /// `replica.serve.followers`.
    pub serve_followers: ServeFollowers,
    /// Commit groups in flight per partition.
    pub commit_pipeline_depth: usize,
    /// `commit.delay` of the controller: injected before each commit.
    pub commit_delay: Duration,
}

/// Cells that run one after the other on one cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Event loop of the cluster.
    pub engine: EngineKind,
    /// Durability mode of the cluster.
    pub durability: DurabilityMode,
    /// What else it is started with.
    pub cluster: ClusterVariant,
    /// In running order.
    pub cells: Vec<Cell>,
}

/// One pass over the whole matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// From 0.
    pub repeat: usize,
    /// In running order.
    pub blocks: Vec<Block>,
}

impl Workload {
    /// Every cell, in matrix order: engine, durability, cluster variant, gate, wait, expand,
    /// partitions, size, rate, acks; the last varies fastest.
    pub fn cells(&self) -> Vec<Cell> {
        self.blocks().into_iter().flat_map(|block| block.cells).collect()
    }

    /// The running order.
    pub fn rounds(&self) -> Vec<Round> {
        let blocks = self.blocks();
        let round = |repeat: usize| {
            let mut blocks = blocks.clone();
            rotate(&mut blocks, repeat, self.load.repeats);
            for block in &mut blocks {
                rotate(&mut block.cells, repeat, self.load.repeats);
            }
            Round { repeat, blocks }
        };
        (0..self.load.repeats).map(round).collect()
    }

    /// Bytes the data directory must have room for: the block that writes most, all replicas, with
    /// the segment in use and the one prepared ahead. A closed or max load counts as
    /// [`UNPACED_BYTES_PER_S`]; a cell whose saturation is not known yet as no load: there must be
    /// room before each probe, and for the cell once its rate is known.
    pub fn planned_bytes(&self) -> u64 {
        let planned = |block: &Block| {
            block
                .cells
                .iter()
                .map(|cell| self.planned_cell_bytes(cell))
                .fold(0, u64::saturating_add)
        };
        self.blocks().iter().map(planned).max().unwrap_or(0)
    }

    /// The share of `cell` in [`Workload::planned_bytes`].
    pub fn planned_cell_bytes(&self, cell: &Cell) -> u64 {
        const RECORD_OVERHEAD_BYTES: u64 = 80;
        let replicas = self.cluster.replication_factor as u64;
        let per_second = match cell.pacing.rate_per_s() {
            Some(rate_per_s) => {
                let record_bytes = cell.record_bytes as u64 + RECORD_OVERHEAD_BYTES;
                rate_per_s.saturating_mul(record_bytes).saturating_mul(replicas)
            }
            None if matches!(cell.pacing, Pacing::Share { .. }) => 0,
            None => UNPACED_BYTES_PER_S,
        };
        let time_ns = (self.load.warmup + self.load.duration).as_nanos();
        let written = u128::from(per_second) * time_ns / 1_000_000_000;
        let segments = 2 * self.cluster.segment_bytes * replicas * u64::from(cell.partitions);
        u64::try_from(written).unwrap_or(u64::MAX).saturating_add(segments)
    }

    fn blocks(&self) -> Vec<Block> {
        let mut index = 0;
        let mut blocks = Vec::new();
        let clusters = self.matrix.clusters();
        for &engine in &self.matrix.engines {
            for &durability in &self.matrix.durabilities {
                for &cluster in &clusters {
                    let mut block = Block { engine, durability, cluster, cells: Vec::new() };
                    self.fill(&mut block, &mut index);
                    blocks.push(block);
                }
            }
        }
        blocks
    }

    /// Adds every cell of the block's cluster.
    fn fill(&self, block: &mut Block, index: &mut usize) {
        let matrix = &self.matrix;
        let rules = matrix.hwm_gates.iter().flat_map(|&hwm_gate| {
            matrix.isr_waits.iter().flat_map(move |&isr_wait| {
                matrix.isr_expands.iter().map(move |&isr_expand| (hwm_gate, isr_wait, isr_expand))
            })
        });
        for (hwm_gate, isr_wait, isr_expand) in rules {
            for &partitions in &matrix.partitions {
                for &record_bytes in &matrix.record_bytes {
                    for &pacing in &matrix.pacings {
                        for &acks in &matrix.acks {
                            block.cells.push(Cell {
                                index: *index,
                                engine: block.engine,
                                durability: block.durability,
                                cluster: block.cluster,
                                hwm_gate,
                                isr_wait,
                                isr_expand,
                                partitions,
                                record_bytes,
                                pacing,
                                acks,
                            });
                            *index += 1;
                        }
                    }
                }
            }
        }
    }
}

impl Matrix {
    /// Every cluster the matrix needs for one engine and durability mode.
    fn clusters(&self) -> Vec<ClusterVariant> {
        let mut clusters = Vec::new();
        for &fetch_pipeline in &self.fetch_pipelines {
            for &serve_followers in &self.serve_followers {
                for &commit_pipeline_depth in &self.commit_pipeline_depths {
                    for &commit_delay in &self.commit_delays {
                        clusters.push(ClusterVariant {
                            fetch_pipeline,
                            serve_followers,
                            commit_pipeline_depth,
                            commit_delay,
                        });
                    }
                }
            }
        }
        clusters
    }
}

/// All replicas together; about what one fast local disk takes through the page cache.
pub const UNPACED_BYTES_PER_S: u64 = 1_000_000_000;

/// Repeat `r` of `n` starts `r/n` of the way round.
fn rotate<T>(items: &mut [T], repeat: usize, repeats: usize) {
    if items.is_empty() {
        return;
    }
    let step = (items.len() / repeats).max(1);
    items.rotate_left(repeat * step % items.len());
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const TWO_BY_TWO: &str = r#"
        name = "t"
        [load]
        repeats = 2
        [matrix]
        acks = [1, "all"]
        durability = ["page-cache", "fsync"]
    "#;

    fn workload() -> Workload {
        Workload::from_text(Path::new("t.toml"), TWO_BY_TWO).expect("a good workload")
    }

    #[test]
    fn cells_are_numbered_in_matrix_order() {
        let cells = workload().cells();
        let named: Vec<String> =
            cells.iter().map(|c| format!("{} {} {}", c.index, c.durability, c.acks)).collect();
        assert_eq!(named, ["0 page-cache 1", "1 page-cache all", "2 fsync 1", "3 fsync all"]);
    }

    #[test]
    fn repeats_are_interleaved_and_start_elsewhere() {
        let order: Vec<Vec<usize>> = workload()
            .rounds()
            .iter()
            .map(|round| {
                round.blocks.iter().flat_map(|b| b.cells.iter().map(|c| c.index)).collect()
            })
            .collect();
        assert_eq!(order, [vec![0, 1, 2, 3], vec![3, 2, 1, 0]]);
    }

    #[test]
    fn space_is_planned_for_all_replicas_and_prepared_segments() {
        let workload = workload();
        let written = 1_000 * (1_024 + 80) * 3 * 55 / 10;
        let segments = 2 * (64 << 20) * 3;
        assert_eq!(workload.planned_bytes(), 2 * (written + segments));
    }

    #[test]
    fn a_share_is_planned_once_its_rate_is_known() {
        let text = "name = \"t\"\n[matrix]\nrate = [\"50%\"]\n";
        let workload = Workload::from_text(Path::new("t.toml"), text).expect("a good workload");
        let segments = 2 * (64 << 20) * 3;
        let cell = workload.cells()[0];
        let planned = workload.planned_cell_bytes(&cell);
        assert_eq!(planned, segments);
        let Pacing::Share { percent, arrival, .. } = cell.pacing else { panic!("{cell:?}") };
        let pacing = Pacing::Share { percent, saturation_per_s: Some(2_000), arrival };
        let planned = workload.planned_cell_bytes(&Cell { pacing, ..cell });
        assert_eq!(planned, 1_000 * (1_024 + 80) * 3 * 55 / 10 + segments);
    }
}

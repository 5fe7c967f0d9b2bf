//! One mode at one length: a tight loop, fio beside it in turn, and the same at a modest pace.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::measure::clock;
use crate::types::DurabilityMode;

use super::super::DeviceCounters;
use super::super::fio::{self, FioEnd, FioPattern, FioResult};
use super::super::pattern::{PatternFile, WriteTime, syncs_apart};
use super::super::samples::Samples;
use super::{
    CELL_BYTES_MAX, CELL_DURATION, FILE_BYTES, PACED_DURATION, PACED_RATE_PER_SECOND, ProbeError,
    ROUNDS_WITH_FIO, Site,
};

/// A tight loop.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeCell {
    /// The mode.
    pub mode: DurabilityMode,
    /// Length of one write.
    pub write_bytes: usize,
    /// Writes a second, each with its sync; the median if there were several rounds.
    pub iops: f64,
    /// The write calls.
    pub write: Samples,
    /// The sync calls after them, in modes that have one apart.
    pub sync: Option<Samples>,
    /// Each write with its sync.
    pub total: Samples,
    /// Why a synced mode is not shown to reach the medium, if it is not.
    pub power_loss_doubt: Option<String>,
    /// The same pattern through fio.
    pub fio: Option<FioCell>,
}

/// fio's side of a cell: medians over its rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FioCell {
    /// Writes a second, each with its sync.
    pub iops: f64,
    /// A write with its sync; see [`fio`] for how the two are summed.
    pub p50_ns: u64,
    /// As `p50_ns`.
    pub p99_ns: u64,
    /// The probe's `iops` by fio's: the median over the pairs of rounds.
    pub ratio: f64,
}

/// Writes at a steady pace.
#[derive(Clone, Debug, PartialEq)]
pub struct PacedCell {
    /// The mode.
    pub mode: DurabilityMode,
    /// Length of one write.
    pub write_bytes: usize,
    /// Writes a second asked for.
    pub rate_per_second: u32,
    /// Each write with its sync.
    pub total: Samples,
}

/// Measures a tight loop, three times in turn with fio if it is to run beside.
pub(super) fn measure(
    site: &Site<'_>,
    mode: DurabilityMode,
    write_bytes: usize,
) -> Result<ProbeCell, ProbeError> {
    let pattern = site.pattern(mode, write_bytes);
    let rounds = if site.with_fio { ROUNDS_WITH_FIO } else { 1 };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut power_loss_doubt = None;
    for _ in 0..rounds {
        let before = DeviceCounters::sample(site.directory);
        let round = PatternFile::open(pattern.clone()).and_then(|mut file| tight(&mut file));
        let round = round.map_err(site.failed(mode.name()))?;
        if mode.is_synced() {
            let after = DeviceCounters::sample(site.directory);
            let sent = after.zip(before).map(|(now, then)| now.since(&then));
            // One writer: each write's sync is a flush of its own.
            let needed = round.times.len() as u64;
            let doubt = site.sync_path.doubt(mode, needed, sent.as_ref());
            power_loss_doubt = power_loss_doubt.or(doubt);
        }
        ours.push(round);
        if site.with_fio {
            theirs.push(fio::run(&FioPattern {
                path: pattern.path.clone(),
                mode,
                write_bytes,
                file_bytes: FILE_BYTES,
                end: FioEnd::TimeOrBytes(CELL_DURATION, CELL_BYTES_MAX),
                rate_per_second: None,
            })?);
        }
    }
    let fio = compare(&ours, &theirs);
    let iops = median(ours.iter().map(|round| round.iops)).unwrap_or(0.0);
    let times: Vec<WriteTime> = ours.into_iter().flat_map(|round| round.times).collect();
    let of = |part: fn(&WriteTime) -> Duration| times.iter().map(part).collect::<Samples>();
    Ok(ProbeCell {
        mode,
        write_bytes,
        iops,
        write: of(|time| time.write),
        sync: syncs_apart(mode).then(|| of(|time| time.sync)),
        total: of(|time| time.total()),
        power_loss_doubt,
        fio,
    })
}

/// Measures paced writes.
pub(super) fn measure_paced(
    site: &Site<'_>,
    mode: DurabilityMode,
    write_bytes: usize,
) -> Result<PacedCell, ProbeError> {
    let paced = || {
        let mut file = PatternFile::open(site.pattern(mode, write_bytes))?;
        let mut pace = super::super::pace::Pace::new(PACED_RATE_PER_SECOND);
        let count = pace.ticks_in(PACED_DURATION);
        let mut times = Vec::new();
        for _ in 0..count {
            pace.wait();
            times.push(file.write_next()?.total());
        }
        file.finish()?;
        Ok(times.into_iter().collect())
    };
    let total = paced().map_err(site.failed(mode.name()))?;
    Ok(PacedCell { mode, write_bytes, rate_per_second: PACED_RATE_PER_SECOND, total })
}

struct Round {
    iops: f64,
    times: Vec<WriteTime>,
}

/// Ends with a sync, so that one cell's dirty pages do not burden the next.
fn tight(file: &mut PatternFile) -> io::Result<Round> {
    let mut times = Vec::new();
    let started = clock::now();
    let elapsed = || clock::now().since(started);
    let mut written_bytes = 0;
    while elapsed() < CELL_DURATION && written_bytes < CELL_BYTES_MAX {
        times.push(file.write_next()?);
        written_bytes += file.write_bytes() as u64;
    }
    let iops = times.len() as f64 / elapsed().as_secs_f64();
    file.finish()?;
    Ok(Round { iops, times })
}

fn compare(ours: &[Round], theirs: &[FioResult]) -> Option<FioCell> {
    let quantile = |quantile: f64| {
        let of_round = |round: &FioResult| Some(round.total.quantile_ns(quantile)? as f64);
        median(theirs.iter().filter_map(of_round)).map(|ns| ns as u64)
    };
    let ratios = ours.iter().zip(theirs).map(|(our, their)| our.iops / their.iops);
    Some(FioCell {
        iops: median(theirs.iter().map(|round| round.iops))?,
        p50_ns: quantile(0.5)?,
        p99_ns: quantile(0.99)?,
        ratio: median(ratios)?,
    })
}

/// The middle value, the lower of two.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

impl ProbeCell {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "durability": self.mode.name(),
            "write_bytes": self.write_bytes,
            "iops": self.iops,
            "write": self.write.to_json(),
            "sync": self.sync.as_ref().map(Samples::to_json),
            "total": self.total.to_json(),
            "power_loss_doubt": self.power_loss_doubt,
            "fio": self.fio.map(|fio| json!({
                "iops": fio.iops,
                "p50_ns": fio.p50_ns,
                "p99_ns": fio.p99_ns,
                "iops_ratio": fio.ratio,
            })),
        })
    }

    pub(super) fn row(&self) -> Vec<String> {
        let sync = |quantile: fn(&Samples) -> Option<u64>| match &self.sync {
            Some(sync) => microseconds(quantile(sync)),
            None => "-".to_owned(),
        };
        let mark = if self.power_loss_doubt.is_some() { " !" } else { "" };
        let mut row = vec![
            format!("{}{mark}", self.mode.name()),
            format!("{} KiB", self.write_bytes >> 10),
            format!("{:.0}", self.iops),
            microseconds(self.write.median_ns()),
            microseconds(self.write.p99_ns()),
            sync(Samples::median_ns),
            sync(Samples::p99_ns),
            microseconds(self.total.median_ns()),
            microseconds(self.total.p99_ns()),
        ];
        if let Some(fio) = self.fio {
            row.extend([
                format!("{:.0}", fio.iops),
                microseconds(Some(fio.p50_ns)),
                microseconds(Some(fio.p99_ns)),
                format!("{:.2}", fio.ratio),
            ]);
        }
        row
    }
}

impl PacedCell {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "durability": self.mode.name(),
            "write_bytes": self.write_bytes,
            "rate_per_second": self.rate_per_second,
            "total": self.total.to_json(),
        })
    }

    pub(super) fn row(&self) -> Vec<String> {
        vec![
            self.mode.name().to_owned(),
            microseconds(self.total.median_ns()),
            microseconds(self.total.quantile_ns(0.9)),
        ]
    }
}

/// Nanoseconds for a person, in microseconds; a percentile the sample is too small for is `n/a`.
pub(super) fn microseconds(ns: Option<u64>) -> String {
    match ns {
        Some(ns) if ns < 100_000 => format!("{:.1}", ns as f64 / 1e3),
        Some(ns) => format!("{:.0}", ns as f64 / 1e3),
        None => "n/a".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_lower_middle() {
        assert_eq!(median([].into_iter()), None);
        assert_eq!(median([3.0].into_iter()), Some(3.0));
        assert_eq!(median([9.0, 1.0, 5.0].into_iter()), Some(5.0));
        assert_eq!(median([4.0, 1.0].into_iter()), Some(1.0));
    }

    #[test]
    fn times_keep_a_tenth_only_where_it_shows() {
        assert_eq!(microseconds(Some(1_640)), "1.6");
        assert_eq!(microseconds(Some(187_400)), "187");
        assert_eq!(microseconds(None), "n/a");
    }
}

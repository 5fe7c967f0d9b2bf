//! Long sequential writes: into the page cache, through it, and past it.

use std::io;

use serde_json::{Value, json};

use crate::measure::clock;
use crate::types::{DurabilityMode, FilePreparation, MonotonicTime};

use super::super::pattern::{Pattern, PatternFile};
use super::super::text;
use super::{ProbeError, Site};

/// What each part writes.
pub(super) const WRITTEN_BYTES: u64 = 192 << 20;

/// One write: the largest most devices take whole.
const WRITE_BYTES: usize = 1 << 20;

/// Bytes a second of sequential 1 MiB writes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bandwidth {
    /// Into the page cache, a growing file.
    pub buffered: f64,
    /// The same, with the fdatasync that brings all of it to the device.
    pub buffered_synced: f64,
    /// With O_DIRECT over written blocks; `None` where it is not available.
    pub direct: Option<f64>,
}

pub(super) fn measure(site: &Site<'_>, direct: bool) -> Result<Bandwidth, ProbeError> {
    let (buffered, buffered_synced) =
        buffered(site).map_err(site.failed("sequential buffered writes"))?;
    let direct = match direct {
        true => Some(direct_writes(site).map_err(site.failed("sequential O_DIRECT writes"))?),
        false => None,
    };
    Ok(Bandwidth { buffered, buffered_synced, direct })
}

fn buffered(site: &Site<'_>) -> io::Result<(f64, f64)> {
    let path = site.path.with_file_name("growing");
    let mut file = PatternFile::create(Pattern {
        path: path.clone(),
        preparation: FilePreparation::Reserved,
        file_bytes: WRITTEN_BYTES,
        ..site.pattern(DurabilityMode::PageCache, WRITE_BYTES)
    })?;
    let started = clock::now();
    write_all(&mut file)?;
    let cached = rate(started);
    file.finish()?;
    let synced = rate(started);
    std::fs::remove_file(path)?;
    Ok((cached, synced))
}

fn direct_writes(site: &Site<'_>) -> io::Result<f64> {
    let mut file = PatternFile::open(site.pattern(DurabilityMode::Direct, WRITE_BYTES))?;
    let started = clock::now();
    write_all(&mut file)?;
    Ok(rate(started))
}

fn write_all(file: &mut PatternFile) -> io::Result<()> {
    (0..WRITTEN_BYTES / WRITE_BYTES as u64).try_for_each(|_| file.write_next().map(drop))
}

fn rate(started: MonotonicTime) -> f64 {
    WRITTEN_BYTES as f64 / clock::now().since(started).as_secs_f64()
}

impl Bandwidth {
    pub(super) fn to_json(self) -> Value {
        json!({
            "write_bytes": WRITE_BYTES,
            "written_bytes": WRITTEN_BYTES,
            "buffered_bytes_per_second": self.buffered,
            "buffered_synced_bytes_per_second": self.buffered_synced,
            "direct_bytes_per_second": text::json(self.direct),
        })
    }

    pub(super) fn rows(self) -> Vec<Vec<String>> {
        let mebibytes = |rate: f64| format!("{:.0}", rate / f64::from(1 << 20));
        let direct = self.direct.map_or_else(|| "n/a".to_owned(), mebibytes);
        vec![
            vec!["buffered".to_owned(), mebibytes(self.buffered)],
            vec!["buffered, synced at the end".to_owned(), mebibytes(self.buffered_synced)],
            vec!["direct".to_owned(), direct],
        ]
    }
}

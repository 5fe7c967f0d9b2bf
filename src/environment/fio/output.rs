//! Reads what fio prints with `--output-format=json+`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::FioError;

/// A latency histogram of fio's: samples by nanoseconds, exact to about 1.5 %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FioLatency {
    bins: BTreeMap<u64, u64>,
}

/// What one job did.
#[derive(Clone, Debug, PartialEq)]
pub struct FioResult {
    /// Writes a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// From submission to completion of a write.
    pub write: FioLatency,
    /// The fdatasync after it; empty if there was none.
    pub sync: FioLatency,
    /// A write and its sync together: `write` itself if there was no sync, else the sum of two
    /// independent draws (see the top of the `fio` module).
    pub total: FioLatency,
}

impl FioLatency {
    /// The number of samples.
    pub fn count(&self) -> u64 {
        self.bins.values().sum()
    }

    /// The lowest bin that has at least the share `quantile` (0 to 1) of samples at or below it.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let rank = ((quantile * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        self.bins.iter().find_map(|(ns, count)| {
            below += count;
            (below >= rank).then_some(*ns)
        })
    }

    /// The sum of one independent draw of each.
    fn plus(&self, other: &FioLatency) -> FioLatency {
        let mut bins = BTreeMap::new();
        for (ns, count) in &self.bins {
            for (other_ns, other_count) in &other.bins {
                *bins.entry(rounded(ns + other_ns)).or_default() += count * other_count;
            }
        }
        FioLatency { bins }
    }
}

/// Keeps eight leading bits: finer than fio's own bins, and bounds the number of sums.
fn rounded(ns: u64) -> u64 {
    let dropped = (u64::BITS - ns.leading_zeros()).saturating_sub(8);
    (ns >> dropped) << dropped
}

/// Reads fio's output, which may begin with warnings.
pub fn parse(output: &str) -> Result<FioResult, FioError> {
    let unclear = |what: &str| FioError::Output(what.to_owned());
    let start = output.find('{').ok_or_else(|| unclear("no JSON in it"))?;
    // Only the first value: fio may print more below it.
    let mut values = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>();
    let report = match values.next() {
        Some(Ok(report)) => report,
        Some(Err(error)) => return Err(FioError::Output(error.to_string())),
        None => return Err(unclear("no JSON in it")),
    };
    let job = report.pointer("/jobs/0").ok_or_else(|| unclear("no job in it"))?;
    match job["error"].as_i64() {
        Some(0) => {}
        Some(errno) => {
            let error = std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
            return Err(FioError::Output(format!("its job failed: {error}")));
        }
        None => return Err(unclear("jobs[0].error is missing")),
    }
    let number = |pointer: &str| {
        let missing = || FioError::Output(format!("jobs[0]{pointer} is missing"));
        job.pointer(pointer).and_then(Value::as_f64).ok_or_else(missing)
    };
    let write = latency(&job["write"]["lat_ns"]);
    if write.bins.is_empty() {
        return Err(unclear("jobs[0].write.lat_ns.bins is missing or empty"));
    }
    let sync = latency(&job["sync"]["lat_ns"]);
    let total = if sync.bins.is_empty() { write.clone() } else { write.plus(&sync) };
    Ok(FioResult {
        iops: number("/write/iops")?,
        bytes_per_second: number("/write/bw_bytes")?,
        write,
        sync,
        total,
    })
}

fn latency(value: &Value) -> FioLatency {
    let bins = value["bins"].as_object().into_iter().flatten();
    FioLatency {
        bins: bins.filter_map(|(ns, count)| Some((ns.parse().ok()?, count.as_u64()?))).collect(),
    }
}

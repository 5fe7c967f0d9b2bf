mod changes;
mod exports;
mod files;

use crate::history::entry::{Entry, EntryCell, Figure, HISTORY_VERSION};

/// A run of one cell whose ack p50 is `p50_us`.
fn entry(index: usize, p50_us: f64) -> Entry {
    let figure = |name: &str, value: f64| Figure {
        name: name.to_owned(),
        unit: "ns".to_owned(),
        bigger_is_better: false,
        value,
        interval: Some(((0.9 * value).round(), (1.1 * value).round())),
    };
    let p50 = p50_us * 1e3;
    Entry {
        history_version: HISTORY_VERSION,
        run_id: format!("run-{index}"),
        started_at: format!("2026-01-{:02}T00:00:00Z", index + 1),
        commit: format!("{index:040x}"),
        version: "0.1.0".to_owned(),
        fingerprint: "00000000000000ff".to_owned(),
        machine: "0000000000000001".to_owned(),
        machine_name: "AMD EPYC, 2 CPUs, Linux 6.18, ext4 on vda".to_owned(),
        workload: "nightly".to_owned(),
        cells: vec![EntryCell {
            name: "acks=all \"fsync\"".to_owned(),
            settings: "0000000000000002".to_owned(),
            figures: vec![
                figure("acknowledged p50", p50),
                figure("acknowledged p99", 4.0 * p50),
                Figure { interval: None, ..figure("consumed p99.9", 9.0 * p50) },
                Figure {
                    name: "rate".to_owned(),
                    unit: "records/s".to_owned(),
                    bigger_is_better: true,
                    value: 2_000.0,
                    interval: None,
                },
            ],
        }],
    }
}

//! The run as Prometheus reads it.

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::driver::Phase;
use crate::scenario::partitions::Partition;

use super::state::State;

type Labels = [(&'static str, String); 1];

/// # Errors
/// Never, as far as is known: it writes to memory.
pub(super) fn render(state: &State) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    totals(&mut registry, state);
    cell(&mut registry, state);
    partitions(&mut registry, &state.partitions);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn totals(registry: &mut Registry, state: &State) {
    let totals = &state.totals;
    for (name, help, value) in [
        ("sent_records", "Records of measured parts sent", totals.records_sent),
        (
            "acknowledged_records",
            "Records of measured parts acknowledged",
            totals.records_acknowledged,
        ),
        ("failed_records", "Records of measured parts given up", totals.records_failed),
        ("finished_cells", "Cells that are over, repeats counted", totals.cells_finished),
        ("events", "Faults made or found, and changes of leaders, ISR and ELR", totals.events),
    ] {
        registry.register(format!("ackmark_driver_{name}"), help, ConstCounter::new(value));
    }
    let steps = ConstGauge::new(i64::try_from(state.steps).unwrap_or(i64::MAX));
    registry.register("ackmark_driver_cells", "Cells of the run, repeats counted", steps);
}

fn cell(registry: &mut Registry, state: &State) {
    let name: Family<[(&'static str, String); 2], Gauge> = Family::default();
    if let Some(cell) = &state.cell {
        let labels = [("cell", cell.name.clone()), ("repeat", (cell.repeat + 1).to_string())];
        name.get_or_create(&labels).set(1);
    }
    registry.register("ackmark_driver_cell", "The cell that runs", name);

    let snapshot = state.snapshot_now();
    let phase: Family<Labels, Gauge> = Family::default();
    let now = snapshot
        .filter(|_| state.cell.is_some())
        .map_or("between_cells", |snapshot| phase_name(snapshot.phase));
    phase.get_or_create(&[("phase", now.to_owned())]).set(1);
    registry.register("ackmark_driver_phase", "What the driver is doing", phase);

    let in_flight = snapshot.map_or(0, |snapshot| snapshot.in_flight_batches);
    let in_flight = ConstGauge::new(i64::try_from(in_flight).unwrap_or(i64::MAX));
    let help = "Produce requests without an answer";
    registry.register("ackmark_driver_in_flight_batches", help, in_flight);

    // `quantile` is a summary's label, and a summary is told whole, with a count and a sum.
    let latency: Family<Labels, Gauge<f64, std::sync::atomic::AtomicU64>> = Family::default();
    let percentiles = snapshot.map(|now| [("50", now.p50_ns), ("99", now.p99_ns)]);
    for (percentile, value_ns) in percentiles.into_iter().flatten() {
        if let Some(value_ns) = value_ns {
            let labels = [("percentile", percentile.to_owned())];
            latency.get_or_create(&labels).set(value_ns as f64 / 1e9);
        }
    }
    registry.register_with_unit(
        "ackmark_driver_acknowledged_latency",
        "Intended send to acknowledgement, over the cell so far",
        Unit::Seconds,
        latency,
    );
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Describing | Phase::Connecting => "setting_up",
        Phase::WarmUp => "warm_up",
        Phase::Measuring => "measuring",
        Phase::Draining => "draining",
        Phase::Finished => "between_cells",
    }
}

fn partitions(registry: &mut Registry, partitions: &[Partition]) {
    type Of = fn(&Partition) -> Option<i64>;
    let of: [(&str, &str, Of); 5] = [
        ("leader", "Broker that leads; absent without one", |p| p.leader.map(i64::from)),
        ("leader_epoch", "Leader epoch", |p| Some(i64::from(p.leader_epoch))),
        ("isr", "In-sync replicas", |p| i64::try_from(p.isr.len()).ok()),
        ("elr", "Eligible leader replicas", |p| i64::try_from(p.elr.len()).ok()),
        ("high_watermark", "As the leader tells it", |p| p.high_watermark),
    ];
    for (name, help, value) in of {
        let family: Family<Labels, Gauge> = Family::default();
        for partition in partitions {
            if let Some(value) = value(partition) {
                family.get_or_create(&[("partition", partition.index.to_string())]).set(value);
            }
        }
        registry.register(format!("ackmark_driver_partition_{name}"), help, family);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::state::tests::in_a_cell;
    use super::*;

    #[test]
    fn a_run_in_a_cell() {
        let text = render(&in_a_cell(Instant::now())).expect("it writes to memory");
        for line in [
            "ackmark_driver_sent_records_total 3040",
            "ackmark_driver_finished_cells_total 1",
            "ackmark_driver_cells 24",
            "ackmark_driver_cell{cell=\"acks=all fsync\",repeat=\"1\"} 1",
            "ackmark_driver_phase{phase=\"measuring\"} 1",
            "ackmark_driver_in_flight_batches 3",
            "ackmark_driver_acknowledged_latency_seconds{percentile=\"50\"} 0.000315",
            "ackmark_driver_partition_isr{partition=\"0\"} 2",
            "ackmark_driver_partition_elr{partition=\"0\"} 1",
            "ackmark_driver_partition_high_watermark{partition=\"0\"} 3001",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("percentile=\"99\""), "the sample was too small for it");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_run_between_cells_has_no_cell() {
        let text = render(&State::new("w", 2, Instant::now())).expect("it writes to memory");
        assert!(text.contains("phase=\"between_cells\"} 1"), "{text}");
        assert!(!text.contains("ackmark_driver_cell{"), "{text}");
    }
}

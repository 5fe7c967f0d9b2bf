//! A probe for a person: facts, then figures, then what to make of them.

use std::fmt::Write;

use super::super::text::shown;
use super::super::{DeviceFacts, Environment};
use super::{PacedCell, Probe, ProbeCell};

/// Between two columns.
const GAP: &str = "  ";

pub(super) fn render(probe: &Probe) -> String {
    let mut out = String::new();
    facts(&mut out, &probe.environment);
    section(&mut out, "Tight loop, one writer, zero-filled file (microseconds)");
    table(&mut out, &tight_head(probe), probe.cells.iter().map(ProbeCell::row).collect());
    section(&mut out, &paced_title(probe));
    let paced_head = ["mode", "p50", "p90"].map(str::to_owned);
    table(&mut out, &paced_head, probe.paced.iter().map(PacedCell::row).collect());
    section(&mut out, "Sequential 1 MiB writes (MiB/s)");
    table(&mut out, &["path", "rate"].map(str::to_owned), probe.bandwidth.rows());
    notes(&mut out, probe);
    out
}

fn tight_head(probe: &Probe) -> Vec<String> {
    let ours = ["mode", "length", "IOPS", "write p50", "p99", "sync p50", "p99", "both p50", "p99"];
    let fio = ["fio IOPS", "p50", "p99", "IOPS / fio"];
    let fio = fio.iter().filter(|_| probe.fio_version.is_some());
    ours.iter().chain(fio).map(|name| (*name).to_owned()).collect()
}

fn paced_title(probe: &Probe) -> String {
    match probe.paced.first() {
        Some(cell) => format!(
            "Paced, {} writes/s of {} KiB (microseconds, with the sync)",
            cell.rate_per_second,
            cell.write_bytes >> 10
        ),
        None => "Paced".to_owned(),
    }
}

fn facts(out: &mut String, environment: &Environment) {
    let (cpu, kernel) = (&environment.cpu, &environment.kernel);
    let files = &environment.filesystem;
    let mount = files.mount.as_ref();
    let gibibytes =
        |bytes: Option<u64>| shown(bytes.map(|bytes| format!("{:.1} GiB", bytes as f64 / 1.074e9)));
    let rows = [
        ("directory", files.directory.display().to_string()),
        (
            "file system",
            format!(
                "{} on {}, mounted at {} ({})",
                shown(files.kind_name()),
                shown(mount.map(|mount| mount.source.as_str())),
                shown(mount.map(|mount| mount.mount_point.display())),
                shown(mount.map(|mount| mount.options.as_str())),
            ),
        ),
        (
            "space",
            format!(
                "{} free of {}, preallocation {}",
                gibibytes(files.free_bytes),
                gibibytes(files.total_bytes),
                shown(files.preallocation),
            ),
        ),
        ("O_DIRECT", direct_io(environment)),
        ("io_uring", uring(environment)),
        (
            "cpu",
            format!(
                "{}, {} online, {} allowed, SMT {}, governor {}, hypervisor {}",
                shown(cpu.model.as_ref()),
                shown(cpu.online_count),
                shown(cpu.allowed_count),
                shown(cpu.smt_active),
                shown(cpu.governor.as_ref()),
                shown(cpu.hypervisor),
            ),
        ),
        (
            "kernel",
            format!(
                "{}, preemption {}, {} ticks/s, clock {}",
                shown(kernel.release.as_ref()),
                shown(kernel.preemption.as_ref()),
                shown(kernel.tick_hz),
                shown(kernel.clocksource.as_ref()),
            ),
        ),
        (
            "memory",
            format!(
                "{}, lockable {} bytes, CAP_IPC_LOCK {}",
                gibibytes(kernel.memory_bytes),
                shown(environment.limits.locked_memory),
                shown(environment.limits.cap_ipc_lock),
            ),
        ),
        ("fingerprint", environment.fingerprint()),
    ];
    for (name, value) in rows {
        line(out, name, &value);
    }
    device(out, environment.device.as_ref());
}

fn device(out: &mut String, device: Option<&DeviceFacts>) {
    let Some(device) = device else { return line(out, "device", "unknown") };
    line(
        out,
        "device",
        &format!(
            "{}, driver {}, model {}, rotational {}, scheduler {}",
            device.name,
            shown(device.driver.as_ref()),
            shown(device.model.as_ref()),
            shown(device.rotational),
            shown(device.scheduler.as_ref()),
        ),
    );
    line(
        out,
        "",
        &format!(
            "write cache {}, FUA {}, blocks {}/{} bytes",
            shown(device.write_cache.as_ref()),
            shown(device.force_unit_access),
            shown(device.logical_block_bytes),
            shown(device.physical_block_bytes),
        ),
    );
}

fn direct_io(environment: &Environment) -> String {
    match &environment.direct_io {
        Ok(direct) => format!(
            "offsets {} bytes, memory {} bytes, blocks of {} bytes",
            direct.offset_align, direct.memory_align, direct.block_bytes,
        ),
        Err(unavailable) => format!("not available: {}", unavailable.reason),
    }
}

fn uring(environment: &Environment) -> String {
    match &environment.uring {
        Ok(facts) => format!(
            "yes; COOP_TASKRUN {}, SINGLE_ISSUER {}, DEFER_TASKRUN {}",
            facts.coop_taskrun, facts.single_issuer, facts.defer_taskrun
        ),
        Err(unavailable) => format!("no: {unavailable}"),
    }
}

fn notes(out: &mut String, probe: &Probe) {
    section(out, "Notes");
    let mut doubts: Vec<_> = (probe.cells.iter())
        .filter_map(|cell| Some((cell.mode, cell.power_loss_doubt.as_ref()?)))
        .collect();
    doubts.dedup_by_key(|(mode, _)| *mode);
    for (mode, doubt) in doubts {
        note(out, &format!("! {mode} is NOT SHOWN to survive power loss: {doubt}"));
    }
    for (mode, reason) in &probe.skipped {
        note(out, &format!("{mode} was left out: {reason}"));
    }
    for warning in probe.environment.warnings(1) {
        note(out, &warning.to_string());
    }
    if let Some(sent) = &probe.device_counters {
        note(
            out,
            &format!(
                "the device was sent {} writes ({} MiB) and {} flushes meanwhile",
                sent.writes,
                sent.written_bytes >> 20,
                shown(sent.flushes),
            ),
        );
    }
    let steal = probe.contamination.steal_percent.map(|percent| format!("{percent:.1} %"));
    note(out, &format!("CPU time stolen by the hypervisor: {}", shown(steal)));
    if let Some(version) = &probe.fio_version {
        note(
            out,
            &format!(
                "{version} ran in turn with the probe: io_uring for the direct modes, psync for the \
             others; its sync and write percentiles are added as independent"
            ),
        );
    }
}

/// Writing to a `String` cannot fail.
fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "{name:<12} {value}");
}

fn section(out: &mut String, title: &str) {
    let _ = writeln!(out, "\n{title}");
}

fn note(out: &mut String, text: &str) {
    let _ = writeln!(out, "- {text}");
}

/// The first column to the left, the others to the right.
fn table(out: &mut String, head: &[String], rows: Vec<Vec<String>>) {
    let all: Vec<&[String]> = std::iter::once(head).chain(rows.iter().map(Vec::as_slice)).collect();
    let width = |column: usize| {
        all.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    for row in all {
        let cells =
            row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
        let _ = writeln!(out, "{GAP}{}", cells.collect::<Vec<_>>().join(GAP));
    }
}

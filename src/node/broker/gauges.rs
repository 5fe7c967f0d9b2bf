//! What a broker tells about itself: each shard publishes its counts a few times a second, at the end
//! of a batch of events, as plain atomics; whoever scrapes adds the shards up. Nothing on the hot
//! path knows of it.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::BrokerError;
use super::shard::Shard;
use crate::node::exporter;
use crate::protocol::partition::Partition;
use crate::protocol::partition::high_watermark::{HighWatermark, Hold};
use crate::types::MonotonicTime;

/// How often a shard publishes: the resolution of the stall time.
const INTERVAL: Duration = Duration::from_millis(250);

/// One shard's figures.
#[derive(Debug, Default)]
pub(super) struct Gauges {
    replicas: AtomicU64,
    leaders: AtomicU64,
    under_min_isr: AtomicU64,
    isr_pending: AtomicU64,
    isr_expands: AtomicU64,
    isr_shrinks: AtomicU64,
    isr_failed_updates: AtomicU64,
    stalled: AtomicU64,
    stall_us: AtomicU64,
}

/// When a shard publishes next, and where.
#[derive(Debug)]
pub(super) struct Publisher {
    gauges: Arc<Gauges>,
    due: MonotonicTime,
    last: MonotonicTime,
}

impl Publisher {
    pub(super) fn new(gauges: Arc<Gauges>) -> Publisher {
        Publisher { gauges, due: MonotonicTime::ZERO, last: MonotonicTime::ZERO }
    }

    pub(super) fn due(&self) -> MonotonicTime {
        self.due
    }

    fn publish<'a>(&mut self, now: MonotonicTime, machines: impl Iterator<Item = &'a Partition>) {
        let is_first = self.last == MonotonicTime::ZERO;
        let since_last = now.since(self.last);
        (self.last, self.due) = (now, now.plus(INTERVAL));
        let mut sums = Sums::default();
        machines.for_each(|machine| sums.add(machine));
        let gauges = &self.gauges;
        for (gauge, value) in [
            (&gauges.replicas, sums.replicas),
            (&gauges.leaders, sums.leaders),
            (&gauges.under_min_isr, sums.under_min_isr),
            (&gauges.isr_pending, sums.isr_pending),
            (&gauges.isr_expands, sums.isr_expands),
            (&gauges.isr_shrinks, sums.isr_shrinks),
            (&gauges.isr_failed_updates, sums.isr_failed_updates),
            (&gauges.stalled, sums.stalled),
        ] {
            gauge.store(value, Ordering::Relaxed);
        }
        if !is_first {
            let elapsed_us = u64::try_from(since_last.as_micros()).unwrap_or(u64::MAX);
            gauges.stall_us.fetch_add(sums.stalled * elapsed_us, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct Sums {
    replicas: u64,
    leaders: u64,
    under_min_isr: u64,
    isr_pending: u64,
    isr_expands: u64,
    isr_shrinks: u64,
    isr_failed_updates: u64,
    stalled: u64,
}

impl Sums {
    fn add(&mut self, machine: &Partition) {
        let counters = machine.isr_counters();
        self.replicas += 1;
        self.leaders += u64::from(machine.is_leader());
        self.under_min_isr += u64::from(machine.is_under_min_isr());
        self.isr_pending += u64::from(machine.is_isr_pending());
        self.isr_expands += counters.expands;
        self.isr_shrinks += counters.shrinks;
        self.isr_failed_updates += counters.failed_updates;
        self.stalled += u64::from(is_stalled(machine));
    }
}

/// Records wait, and what they wait for is a larger ISR.
fn is_stalled(machine: &Partition) -> bool {
    let decision = machine.high_watermark_decision();
    let is_held = matches!(decision, Some(HighWatermark::Hold(Hold::UnderMinIsr { .. })));
    is_held && machine.high_watermark() < machine.log_end_offset()
}

impl Shard {
    /// Publishes if it is time to.
    pub(super) fn publish_gauges(&mut self, now: MonotonicTime) {
        if let Some(publisher) = &mut self.publisher
            && publisher.due() <= now
        {
            publisher.publish(now, self.replicas.machines());
        }
    }
}

/// Serves the sum over all shards at `address`, on a thread of its own. Gives where it listens.
pub(super) fn serve(
    address: SocketAddr,
    shards: Vec<Arc<Gauges>>,
) -> Result<SocketAddr, BrokerError> {
    let serving = exporter::spawn(address, move || render(&shards));
    serving.map_err(|source| BrokerError::Listen { address, source })
}

fn render(shards: &[Arc<Gauges>]) -> Result<String, fmt::Error> {
    type Of = fn(&Gauges) -> &AtomicU64;
    let sum = |of: Of| shards.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum::<u64>();
    let mut registry = Registry::default();
    let gauges: [(&str, &str, Of); 5] = [
        ("replicas", "Replicas here", |g| &g.replicas),
        ("leaders", "Replicas here that lead", |g| &g.leaders),
        ("under_min_isr", "Partitions led here under min ISR", |g| &g.under_min_isr),
        ("isr_changes_pending", "Partitions led here with an ISR proposal out", |g| &g.isr_pending),
        ("hwm_stalled", "Partitions led here whose records wait for min ISR", |g| &g.stalled),
    ];
    for (name, help, of) in gauges {
        let gauge = ConstGauge::new(i64::try_from(sum(of)).unwrap_or(i64::MAX));
        registry.register(format!("ackmark_broker_{name}"), help, gauge);
    }
    let counters: [(&str, &str, Of); 3] = [
        ("isr_expands", "Committed ISR expansions proposed here", |g| &g.isr_expands),
        ("isr_shrinks", "Committed ISR shrinks proposed here", |g| &g.isr_shrinks),
        ("isr_failed_updates", "ISR proposals that failed", |g| &g.isr_failed_updates),
    ];
    for (name, help, of) in counters {
        registry.register(format!("ackmark_broker_{name}"), help, ConstCounter::new(sum(of)));
    }
    registry.register_with_unit(
        "ackmark_broker_hwm_stall",
        "Time that led partitions' records waited for min ISR, added over partitions",
        Unit::Seconds,
        ConstCounter::new(sum(|g| &g.stall_us) as f64 / 1e6),
    );
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

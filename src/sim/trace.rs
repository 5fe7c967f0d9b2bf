//! What happened, one line an event. Kept only when somebody will read it: a failing run is run
//! again for its trace.

use std::fmt::{self, Write};

use super::disk::Batch;
use super::message::{Address, Message};
use crate::protocol::partition::Partition;
use crate::types::MonotonicTime;

/// Lines, or only a digest of the order of events.
#[derive(Debug, Default)]
pub struct Trace {
    lines: Option<String>,
    events: u64,
}

impl Trace {
    /// A trace that keeps its lines.
    pub fn recording() -> Trace {
        Trace { lines: Some(String::new()), events: 0 }
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The lines, if kept.
    pub fn into_lines(self) -> String {
        self.lines.unwrap_or_default()
    }

    /// An event begins.
    pub fn event(&mut self, now: MonotonicTime, what: impl FnOnce() -> String) {
        self.events += 1;
        let number = self.events;
        self.write(|| format!("{number:>6} {:>10.3} ms  {}", now.0 as f64 / 1e6, what()));
    }

    /// Something about the event at hand.
    pub fn detail(&mut self, what: impl FnOnce() -> String) {
        self.write(|| format!("{:>23}{}", "", what()));
    }

    fn write(&mut self, what: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.lines {
            lines.push_str(&what());
            lines.push('\n');
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Controller => f.write_str("controller"),
            Address::Broker(id) => write!(f, "broker {id}"),
            Address::Client(id) => write!(f, "client {id}"),
        }
    }
}

/// A message without the bytes it carries.
pub fn message(message: &Message) -> String {
    match message {
        Message::Ask { request, .. } => format!("{request:?}"),
        Message::Answer { response, .. } => format!("{response:?}"),
        Message::Produce { partition, acks, batch, .. } => {
            format!("Produce partition {} acks={acks} {} bytes", partition.partition, batch.len())
        }
        Message::Fetch { partition, fetch, .. } => {
            format!("Fetch partition {} {fetch:?}", partition.partition)
        }
        Message::Fetched { answer, batches, .. } => {
            format!("Fetched {answer:?} batches {}", spans(batches))
        }
        Message::Metadata { .. }
        | Message::AskLogs { .. }
        | Message::LogsAre { .. }
        | Message::Produced { .. }
        | Message::LogEnds { .. }
        | Message::LogEndsAre { .. }
        | Message::Latest { .. }
        | Message::LatestIs { .. } => format!("{message:?}"),
    }
}

/// A machine in one line.
pub fn machine(machine: &Partition) -> String {
    let mut line = format!(
        "log end {} durable {} high watermark {}",
        machine.log_end_offset(),
        machine.durable_offset(),
        machine.high_watermark()
    );
    let epoch = machine.leader_epoch().map_or(-1, |epoch| epoch.0);
    let role = match machine.leader() {
        _ if machine.is_leader() => {
            format!(
                "leads epoch {epoch}, ISR {:?} max {:?}",
                machine.committed_isr(),
                machine.maximal_isr()
            )
        }
        Some(leader) => format!("follows {leader} in epoch {epoch}"),
        None => format!("idle in epoch {epoch}"),
    };
    let _ = write!(line, "; {role}");
    line
}

fn spans(batches: &[Batch]) -> String {
    let spans = batches.iter().map(|batch| {
        let span = batch.span;
        format!("[{}, {}) epoch {}", span.base_offset, span.end_offset, span.leader_epoch)
    });
    spans.collect::<Vec<_>>().join(" ")
}

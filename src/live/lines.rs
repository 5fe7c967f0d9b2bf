//! Plain lines on standard error, for pipes and logs. Standard output is for results.

use std::io::{self, Write};
use std::time::Duration;

use crate::scenario::progress::Update;

/// Prints what is worth a line. Nothing is while a cell is measured, but for faults.
pub(super) fn show(update: &Update, steps: usize) {
    if let Some(line) = line(update, steps) {
        // Nobody reads it then.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

fn line(update: &Update, steps: usize) -> Option<String> {
    match update {
        Update::Note(text) | Update::Event(text) => Some(text.clone()),
        Update::CellIsOver { cell, p50 } => Some(format!(
            "[{}/{steps}] {}, repeat {}: ack p50 {}",
            cell.step,
            cell.name,
            cell.repeat + 1,
            microseconds(*p50)
        )),
        Update::CellBegins(_)
        | Update::CellGoesOn(_)
        | Update::Partitions(_)
        | Update::Finished => None,
    }
}

/// `66.4 us`, or `n/a`.
pub(super) fn microseconds(time: Option<Duration>) -> String {
    time.map_or("n/a".to_owned(), |time| format!("{:.1} us", time.as_nanos() as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::progress::CellId;

    #[test]
    fn a_finished_cell_is_one_line() {
        let cell = CellId { step: 3, name: "acks=all fsync".to_owned(), repeat: 1 };
        let over = |p50| Update::CellIsOver { cell: cell.clone(), p50 };
        assert_eq!(
            line(&over(Some(Duration::from_nanos(315_440))), 24).as_deref(),
            Some("[3/24] acks=all fsync, repeat 2: ack p50 315.4 us")
        );
        assert!(line(&over(None), 24).is_some_and(|line| line.ends_with("ack p50 n/a")));
        assert_eq!(line(&Update::CellBegins(cell), 24), None);
    }
}

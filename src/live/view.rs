//! The picture of a run on a terminal: what runs, how it does, and what happened. Knows no terminal.

use std::time::{Duration, Instant};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Gauge, Paragraph, Row, Table};

use crate::driver::Phase;
use crate::scenario::progress::Snapshot;

use super::lines::microseconds;
use super::state::{State, show_ids, show_leader};

/// Lines of the partitions' part beside the partitions: its title and the table's head.
const PARTITIONS_FRAME: u16 = 2;
/// Partitions shown at most, so that events keep their room.
const PARTITIONS_SHOWN_MAX: usize = 6;

const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
const FAULT: Style = Style::new().fg(Color::Red);

pub(super) fn draw(frame: &mut Frame<'_>, state: &State, now: Instant) {
    let shown = state.partitions.len().clamp(1, PARTITIONS_SHOWN_MAX) as u16;
    let [head, cell, bar, figures, partitions, events, finished] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Length(shown + PARTITIONS_FRAME),
        Constraint::Fill(1),
        Constraint::Fill(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head_line(state, now)), head);
    frame.render_widget(Paragraph::new(cell_line(state)), cell);
    frame.render_widget(progress_bar(state), bar);
    frame.render_widget(Paragraph::new(figure_lines(state)), figures);
    draw_partitions(frame, state, partitions);
    draw_list(frame, "faults and changes", event_lines(state), events);
    draw_list(
        frame,
        "cells so far; Ctrl-C stops and keeps the result",
        finished_lines(state),
        finished,
    );
}

fn head_line(state: &State, now: Instant) -> Line<'static> {
    let elapsed_s = now.saturating_duration_since(state.started).as_secs();
    let metrics = state.metrics.map_or(String::new(), |address| format!("   metrics at {address}"));
    let step = state.cell.as_ref().map_or(state.totals.cells_finished, |cell| cell.step as u64);
    Line::from(vec![
        Span::styled(format!("ackmark run: {}", state.workload), TITLE),
        Span::raw(format!(
            "   cell {step} of {}   {}:{:02}{metrics}",
            state.steps,
            elapsed_s / 60,
            elapsed_s % 60
        )),
    ])
}

fn cell_line(state: &State) -> Line<'static> {
    match (&state.cell, state.snapshot_now()) {
        (Some(cell), snapshot) => Line::from(format!(
            "{}, repeat {}: {}",
            cell.name,
            cell.repeat + 1,
            snapshot.map_or("setting up", |snapshot| phase_name(snapshot.phase))
        )),
        (None, _) => Line::from(state.note.clone()),
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Describing | Phase::Connecting => "setting up",
        Phase::WarmUp => "warming up",
        Phase::Measuring => "measuring",
        Phase::Draining => "draining",
        Phase::Finished => "done",
    }
}

fn progress_bar(state: &State) -> Gauge<'static> {
    let (elapsed, length) = state
        .snapshot_now()
        .map_or((Duration::ZERO, Duration::ZERO), |now| (now.elapsed, now.load_length));
    let share = match length {
        Duration::ZERO => 0.0,
        length => elapsed.min(length).as_secs_f64() / length.as_secs_f64(),
    };
    let label =
        format!("{:.1} of {:.1} s", elapsed.min(length).as_secs_f64(), length.as_secs_f64());
    Gauge::default().ratio(share).label(label).gauge_style(Style::new().fg(Color::Cyan))
}

fn figure_lines(state: &State) -> Vec<Line<'static>> {
    let snapshot = state.snapshot_now();
    let rate = state.rate().map_or("sent n/a, acknowledged n/a".to_owned(), |rate| {
        format!("sent {:.0}/s, acknowledged {:.0}/s", rate.sent_per_s, rate.acknowledged_per_s)
    });
    let count = |of: fn(&Snapshot) -> u64| snapshot.map_or(0, of);
    let latency = |of: fn(&Snapshot) -> Option<u64>| {
        microseconds(snapshot.and_then(of).map(Duration::from_nanos))
    };
    let failed = count(|now| now.records_failed);
    vec![
        Line::from(format!(
            "rate {rate}   in flight {}",
            count(|now| now.in_flight_batches as u64)
        )),
        Line::from(vec![
            Span::raw(format!(
                "acknowledged {}   p50 {}   p99 {}   ",
                count(|now| now.records_acknowledged),
                latency(|now| now.p50_ns),
                latency(|now| now.p99_ns)
            )),
            Span::styled(format!("failed {failed}"), if failed > 0 { FAULT } else { Style::new() }),
        ]),
    ]
}

fn draw_partitions(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let rows = state.partitions.iter().take(PARTITIONS_SHOWN_MAX).map(|partition| {
        let high_watermark =
            partition.high_watermark.map_or("n/a".to_owned(), |offset| offset.to_string());
        let row = Row::new([
            partition.index.to_string(),
            show_leader(partition.leader),
            partition.leader_epoch.to_string(),
            show_ids(&partition.isr),
            show_ids(&partition.elr),
            high_watermark,
        ]);
        row.style(if partition.leader.is_none() { FAULT } else { Style::new() })
    });
    let hidden = state.partitions.len().saturating_sub(PARTITIONS_SHOWN_MAX);
    let title = match hidden {
        0 => " partitions ".to_owned(),
        hidden => format!(" partitions ({hidden} more) "),
    };
    let widths = [9, 7, 6, 14, 14, 16].map(Constraint::Length);
    let header = Row::new(["partition", "leader", "epoch", "ISR", "ELR", "high watermark"]);
    let table = Table::new(rows, widths)
        .header(header.style(TITLE))
        .block(Block::new().borders(Borders::TOP).title(title));
    frame.render_widget(table, area);
}

/// The newest line last, at the lower end.
fn draw_list(frame: &mut Frame<'_>, title: &str, lines: Vec<Line<'static>>, area: Rect) {
    let room = usize::from(area.height.saturating_sub(1));
    let hidden = lines.len().saturating_sub(room);
    let shown: Vec<Line<'static>> = lines.into_iter().skip(hidden).collect();
    let block = Block::new().borders(Borders::TOP).title(format!(" {title} "));
    frame.render_widget(Paragraph::new(shown).block(block), area);
}

fn event_lines(state: &State) -> Vec<Line<'static>> {
    let line = |(at, text): &(Duration, String)| {
        Line::styled(format!("{:7.1} s  {text}", at.as_secs_f64()), FAULT)
    };
    state.events.iter().map(line).collect()
}

fn finished_lines(state: &State) -> Vec<Line<'static>> {
    let lines = state.finished.iter().map(|(cell, p50)| {
        let (step, repeat) = (cell.step, cell.repeat + 1);
        let p50 = microseconds(*p50);
        Line::from(format!("{step:>4}  {}, repeat {repeat}: ack p50 {p50}", cell.name))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect_file;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::state::tests::in_a_cell;
    use super::*;

    fn picture(state: &State, now: Instant, (width, height): (u16, u16)) -> String {
        let mut terminal =
            Terminal::new(TestBackend::new(width, height)).expect("a picture in memory");
        terminal.draw(|frame| draw(frame, state, now)).expect("a picture in memory");
        let buffer = terminal.backend().buffer();
        let line = |y: u16| {
            let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
            line.trim_end().to_owned() + "\n"
        };
        (0..height).map(line).collect()
    }

    #[test]
    fn a_run_in_a_cell_looks_as_recorded() {
        let started = Instant::now();
        let state = in_a_cell(started);
        let picture = picture(&state, started + Duration::from_secs(83), (80, 24));
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden/live-view.txt");
        expect_file![golden].assert_eq(&picture);
    }

    #[test]
    fn no_terminal_is_too_small() {
        let started = Instant::now();
        for state in [State::new("w", 1, started), in_a_cell(started)] {
            for size in [(1, 1), (20, 5), (200, 3)] {
                picture(&state, started, size);
            }
        }
    }
}

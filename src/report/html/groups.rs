//! Which cells stand on one chart.
//!
//! A run's factors are dealt out: one makes the lines of a chart (durability if it varies, else
//! whatever does), the offered rate makes the load curve, and what is left makes the groups.

use crate::results::schema::{Cell, Factors};

/// Cells that differ in rate and series only.
pub struct Group<'a> {
    /// Its factors in words: `acks=all, 12 partitions`.
    pub label: String,
    /// Line names, in the order of first appearance.
    pub series: Vec<Series>,
    /// In matrix order.
    pub entries: Vec<Entry<'a>>,
}

/// One line of every chart of a group.
pub struct Series {
    /// As printed.
    pub name: String,
    /// CSS classes of its colour and dash; the same for a durability mode on every page.
    pub class: String,
}

/// One cell on its line.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Position in [`Group::series`].
    pub series: usize,
}

/// The cells of a group at one rate.
pub struct Slice<'a> {
    /// The group's lines.
    pub group: &'a Group<'a>,
    offered: Offered,
    /// At most one per series.
    pub entries: Vec<Entry<'a>>,
}

/// The load that cells of a slice have in common, in the order of slices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Offered {
    Unpaced,
    /// Percent of what each line sustains, whose rates differ.
    Share(u32),
    /// Records per second.
    Rate(u64),
}

impl Offered {
    fn to(cell: &Cell) -> Offered {
        match (cell.factors.rate_percent, cell.factors.rate_per_s) {
            (Some(percent), _) => Offered::Share(percent),
            (None, Some(rate_per_s)) => Offered::Rate(rate_per_s),
            (None, None) => Offered::Unpaced,
        }
    }
}

/// Colour and dash of the durability modes: hue says how bytes are written, dash tells kin apart.
const MODES: [(&str, &str); 6] = [
    ("page-cache", "c0"),
    ("page-cache-flush", "c0 d1"),
    ("fsync", "c1"),
    ("direct", "c2"),
    ("direct-fsync", "c3"),
    ("direct-dsync", "c3 d1"),
];

/// Colours, and dashes to multiply them by, for other series.
const COLOURS: usize = 4;
const DASHES: usize = 3;

/// What a factor is called, and its value in words.
struct Factor {
    show: fn(&Factors) -> String,
}

const DURABILITY: usize = 1;
const FACTORS: [Factor; 13] = [
    Factor { show: |factors| format!("acks={}", factors.acks) },
    Factor { show: |factors| factors.durability.clone() },
    Factor { show: |factors| format!("engine {}", factors.engine) },
    Factor { show: |factors| format!("fetch.pipeline={}", factors.fetch_pipeline) },
    Factor { show: |factors| format!("serve.followers={}", factors.serve_followers) },
    Factor { show: |factors| format!("commit.pipeline.depth={}", factors.commit_pipeline_depth) },
    Factor { show: |factors| format!("commit.delay={}", factors.commit_delay) },
    Factor { show: |factors| format!("hwm.gate={}", factors.hwm_gate) },
    Factor { show: |factors| format!("isr.wait={}", factors.isr_wait) },
    Factor { show: |factors| format!("isr.expand={}", factors.isr_expand) },
    Factor { show: |factors| counted(factors.partitions, "partition") },
    Factor { show: |factors| format!("{} B records", factors.record_bytes) },
    Factor { show: |factors| format!("{} loop", factors.load_mode) },
];

fn counted(count: u32, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Deals the cells of one run out to groups, in matrix order.
pub fn of(cells: &[Cell]) -> Vec<Group<'_>> {
    let first = cells.first();
    let varies = |index: &usize| {
        let value = |cell: &Cell| (FACTORS[*index].show)(&cell.factors);
        cells.iter().any(|cell| Some(value(cell)) != first.map(value))
    };
    let varying: Vec<usize> = (0..FACTORS.len()).filter(varies).collect();
    let in_series = |index: &usize| {
        if varying.contains(&DURABILITY) { *index == DURABILITY } else { varying.contains(index) }
    };
    let series: Vec<usize> = (0..FACTORS.len()).filter(in_series).collect();
    // What all cells share is said once above; acks and durability are always said.
    let in_label = |index: &usize| {
        !series.contains(index) && (varying.contains(index) || *index <= DURABILITY)
    };
    let label: Vec<usize> = (0..FACTORS.len()).filter(in_label).collect();

    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in cells {
        let name = match series.as_slice() {
            [] => cell.factors.durability.clone(),
            some => words(some, &cell.factors),
        };
        let label = words(&label, &cell.factors);
        let index = groups.iter().position(|group| group.label == label).unwrap_or_else(|| {
            groups.push(Group { label, series: Vec::new(), entries: Vec::new() });
            groups.len() - 1
        });
        groups[index].add(cell, name);
    }
    groups
}

fn words(factors: &[usize], of: &Factors) -> String {
    let words: Vec<String> = factors.iter().map(|index| (FACTORS[*index].show)(of)).collect();
    words.join(", ")
}

impl<'a> Group<'a> {
    fn add(&mut self, cell: &'a Cell, name: String) {
        let known = self.series.iter().position(|series| series.name == name);
        let series = known.unwrap_or_else(|| {
            let class = class(&name, self.series.len());
            self.series.push(Series { name, class });
            self.series.len() - 1
        });
        self.entries.push(Entry { cell, series });
    }

    /// Its cells by offered load, ascending; unpaced ones first.
    pub fn slices(&'a self) -> Vec<Slice<'a>> {
        let mut loads: Vec<Offered> =
            self.entries.iter().map(|entry| Offered::to(entry.cell)).collect();
        loads.sort_unstable();
        loads.dedup();
        let slice = |offered: Offered| {
            let at_load = |entry: &&Entry<'_>| Offered::to(entry.cell) == offered;
            let entries = self.entries.iter().filter(at_load).copied().collect();
            Slice { group: self, offered, entries }
        };
        loads.into_iter().map(slice).collect()
    }
}

impl Slice<'_> {
    /// The rate in words.
    pub fn label(&self) -> String {
        let mode = self.entries.first().map_or("", |entry| entry.cell.factors.load_mode.as_str());
        match (self.offered, mode) {
            (Offered::Share(percent), _) => format!("{percent} % of saturation offered"),
            (Offered::Rate(rate), _) => format!("{rate} records/s offered"),
            (Offered::Unpaced, "closed") => "closed loop".to_owned(),
            (Offered::Unpaced, _) => "as fast as possible".to_owned(),
        }
    }

    /// Whether its cells ran at the same rate, so that they can be set against each other.
    pub fn is_of_one_rate(&self) -> bool {
        let mut rates = self.entries.iter().map(|entry| entry.cell.factors.rate_per_s);
        let first = rates.next();
        rates.all(|rate| Some(rate) == first)
    }

    /// An entry's line.
    pub fn series(&self, entry: &Entry<'_>) -> &Series {
        &self.group.series[entry.series]
    }
}

fn class(name: &str, index: usize) -> String {
    if let Some((_, class)) = MODES.iter().find(|(mode, _)| *mode == name) {
        return (*class).to_owned();
    }
    match index / COLOURS % DASHES {
        0 => format!("c{}", index % COLOURS),
        dash => format!("c{} d{dash}", index % COLOURS),
    }
}

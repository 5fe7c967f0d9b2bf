//! Tables for people: columns two blanks apart, no lines.

use comfy_table::{ContentArrangement, Table, presets};

/// Shown where there is nothing.
pub(super) const NONE: &str = "-";

/// The rows under their headings, lines ended with `\n`.
pub(super) fn render(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// `1,2,3`, or `-` for none.
pub(super) fn ids(ids: &[i32]) -> String {
    if ids.is_empty() {
        return NONE.to_owned();
    }
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

//! The latest offset that clients are told never goes back from one leader epoch to the next: a new
//! leader says OFFSET_NOT_AVAILABLE until its high watermark has reached where its epoch began.
//!
//! Source: spec/kip966.md 1.7 ("ListOffsets(latest)").

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    if !view.is_promised() {
        return Ok(());
    }
    let told = view.past.reigns().filter_map(|(epoch, reign)| Some((epoch, reign.latest_told?)));
    let mut highest = None;
    for (epoch, (low, high)) in told {
        if let Some((earlier, offset)) = highest.filter(|&(_, offset)| low < offset) {
            return Err(format!(
                "clients were told {offset} in epoch {earlier} and {low} in epoch {epoch}"
            ));
        }
        highest = Some((epoch, high));
    }
    Ok(())
}

//! What a consumer has read never changes: it is the committed log, byte for byte.
//!
//! Source: KIP-966 "Strict Min ISR"; spec/kip966.md 5.3 ("consumer-visible prefix never changes").

use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    if !view.is_promised() {
        return Ok(());
    }
    for (consumer, (end, digest)) in view.past.consumers() {
        if view.past.committed_digest(end) != Some(digest) {
            return Err(format!(
                "consumer {consumer} has read up to {end} what is not the committed log (which \
                 ends at {})",
                view.past.committed_end()
            ));
        }
    }
    Ok(())
}

//! A record acknowledged under `acks=all` is in the log of every later leader, while fewer than min
//! ISR replicas had an unclean shutdown since its append (a replica that rejoined the ISR since
//! does not count: it holds the record again). With a log that is synced before it is acknowledged
//! and the last leader remembered, whatever the number.
//!
//! Source: KIP-966 ("min ISR - 1 lossy crashes are tolerated"), spec/kip966.md 5.1 (4), 5.3.

use super::super::history::Write;
use super::View;

pub(super) fn check(view: &View<'_>) -> Result<(), String> {
    if !view.is_promised() {
        return Ok(());
    }
    match missing(view).find(|write| !is_excused(view, write)) {
        None => Ok(()),
        Some(write) => Err(format!(
            "acknowledged batch {:?} ending at {} is not in the log of leader {:?}; unclean \
             shutdowns since: {:?}, min ISR {}",
            write.id,
            write.end,
            view.newest_leader().map(|leader| leader.broker),
            write.unclean,
            view.min_isr_of(write),
        )),
    }
}

/// Whether something is gone that may be gone: acknowledged batches that enough unclean shutdowns
/// excuse, or what was committed without having been asked to be, by an election that the
/// controller knows to be unclean (it needs ISR and ELR to have been emptied by unclean shutdowns).
pub(super) fn is_loss_excused(view: &View<'_>) -> bool {
    let end = view.past.committed_end();
    let lacks_committed = view.newest_leader().is_some_and(|leader| {
        view.now.unclean_leader().is_some()
            && leader.disk.digest_at(end) != view.past.committed_digest(end)
    });
    let is_gone = missing(view).next().is_some() || lacks_committed;
    is_gone && !view.now.promises.lossless && missing(view).all(|write| is_excused(view, write))
}

fn is_excused(view: &View<'_>, write: &Write) -> bool {
    !view.now.promises.lossless && write.unclean.len() >= view.min_isr_of(write)
}

/// Acknowledged batches that the newest leader lacks. If it has the last one it has them all: they
/// lie on one log.
fn missing<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Write> {
    let leader = view.newest_leader();
    let lacks = move |write: &&Write| {
        leader.is_some_and(|leader| leader.disk.digest_at(write.end) != Some(write.digest))
    };
    let last = view.past.acknowledged().max_by_key(|write| write.end);
    let any = last.as_ref().is_some_and(lacks);
    view.past.acknowledged().filter(move |write| any && lacks(write))
}

//! Whether replicas are equal, byte for byte, batch by batch, read in step.

use bytes::Bytes;

use crate::types::Offset;

/// One batch of a replica's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset after its last.
    pub end_offset: Offset,
    /// As stored.
    pub bytes: Bytes,
}

/// The first difference below the high watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// Where the batches that differ begin.
    pub offset: Offset,
    /// Which of the replicas, by their place in the list, differs from the first.
    pub replica: usize,
}

/// Reads all replicas in step, a batch at a time, and gives the first difference to the first of
/// them among batches that begin below `high_watermark`.
///
/// # Errors
/// The first that a replica gives.
pub fn first_divergence<E>(
    replicas: &mut [impl Iterator<Item = Result<Batch, E>>],
    high_watermark: Offset,
) -> Result<Option<Divergence>, E> {
    let Some((first, others)) = replicas.split_first_mut() else { return Ok(None) };
    let mut next = Offset::ZERO;
    while next < high_watermark {
        let expected = first.next().transpose()?;
        for (index, other) in others.iter_mut().enumerate() {
            if other.next().transpose()? != expected {
                return Ok(Some(Divergence { offset: next, replica: index + 1 }));
            }
        }
        match expected {
            Some(batch) => next = batch.end_offset,
            // All end here: what is missing is the business of others.
            None => break,
        }
    }
    Ok(None)
}

//! What is in flight: each operation owns the memory the kernel may still touch.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use bytes::{Bytes, BytesMut};
use slab::Slab;

use super::super::socket::RawAddress;
use super::super::{ConnectionId, FileId, OperationId};

/// Alignment that satisfies O_DIRECT memory on every device known.
const DIRECT_ALIGNMENT_BYTES: usize = 4096;

/// One submitted entry.
pub(super) enum Operation {
    Accept {
        listener: RawFd,
    },
    Connect {
        connection: ConnectionId,
        _address: Box<RawAddress>,
    },
    Receive {
        connection: ConnectionId,
    },
    Writable {
        connection: ConnectionId,
    },
    Woken,
    Write {
        operation: OperationId,
        file: FileId,
        data: Bytes,
    },
    /// The first half of a write with fdatasync; its result waits in the second half.
    LinkedWrite {
        sync: u64,
        data: Bytes,
    },
    /// The second half, or a sync alone.
    LinkedSync {
        operation: OperationId,
        file: FileId,
        write: Option<io::Result<()>>,
    },
    Read {
        operation: OperationId,
        file: FileId,
        buffer: BytesMut,
        pad: usize,
    },
}

/// All operations in flight, by the key that travels through the ring.
pub(super) struct Operations {
    in_flight: Slab<Operation>,
    listeners: Vec<OwnedFd>,
}

impl Operations {
    pub(super) fn new() -> Operations {
        Operations { in_flight: Slab::with_capacity(256), listeners: Vec::new() }
    }

    pub(super) fn start(&mut self, operation: Operation) -> u64 {
        self.in_flight.insert(operation) as u64
    }

    /// Takes the operation of a completion; `None` for keys that stand for nothing (cancels).
    pub(super) fn finish(&mut self, key: u64) -> Option<Operation> {
        self.in_flight.try_remove(usize::try_from(key).ok()?)
    }

    pub(super) fn linked_write_done(&mut self, sync: u64, result: io::Result<()>) {
        if let Some(Operation::LinkedSync { write, .. }) = self.in_flight.get_mut(sync as usize) {
            *write = Some(result);
        }
    }

    pub(super) fn keep_listener(&mut self, listener: OwnedFd) -> RawFd {
        let fd = listener.as_raw_fd();
        self.listeners.push(listener);
        fd
    }

    pub(super) fn uses_disk(&self) -> bool {
        self.in_flight.iter().any(|(_, operation)| match operation {
            Operation::Write { .. }
            | Operation::LinkedWrite { .. }
            | Operation::LinkedSync { .. }
            | Operation::Read { .. } => true,
            Operation::Accept { .. }
            | Operation::Connect { .. }
            | Operation::Receive { .. }
            | Operation::Writable { .. }
            | Operation::Woken => false,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }
}

/// A buffer of `length` bytes from `pad` on, aligned there if the file is direct.
pub(super) fn read_buffer(length: usize, direct: bool) -> (BytesMut, usize) {
    if !direct {
        return (BytesMut::zeroed(length), 0);
    }
    let buffer = BytesMut::zeroed(length + DIRECT_ALIGNMENT_BYTES);
    let pad = buffer.as_ptr().align_offset(DIRECT_ALIGNMENT_BYTES);
    (buffer, pad)
}

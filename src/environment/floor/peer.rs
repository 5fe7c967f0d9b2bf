//! Processes that answer on loopback: what R is measured against.
//!
//! A peer is a fork of this process and not a thread of it, because brokers are processes: waking
//! one costs a change of address space too. It makes nothing but read(2) and write(2) calls.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// A forked process that answers every request on one connection. Ended when dropped.
pub(super) struct Peer {
    process: libc::pid_t,
    /// The connection to it.
    pub(super) connection: TcpStream,
}

impl Peer {
    /// Starts a peer that answers `answer_bytes` to every `request_bytes`.
    pub(super) fn start(request_bytes: usize, answer_bytes: usize) -> io::Result<Peer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let connection = TcpStream::connect(listener.local_addr()?)?;
        let (theirs, _) = listener.accept()?;
        connection.set_nodelay(true)?;
        theirs.set_nodelay(true)?;
        let mut buffer = vec![0; request_bytes.max(answer_bytes)];
        // SAFETY: the child makes only async-signal-safe calls, on memory allocated before, and
        // ends in _exit; no lock another thread may have held is touched.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => answer_forever(theirs.as_raw_fd(), request_bytes, answer_bytes, &mut buffer),
            process => Ok(Peer { process, connection }),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SAFETY: the process is this one's own child and not reaped yet, so the id is its.
        unsafe {
            libc::kill(self.process, libc::SIGKILL);
            libc::waitpid(self.process, std::ptr::null_mut(), 0);
        }
    }
}

/// The peer's whole life.
fn answer_forever(fd: i32, request_bytes: usize, answer_bytes: usize, buffer: &mut [u8]) -> ! {
    // SAFETY: prctl with this option takes no pointer; the peer then dies with its parent.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    loop {
        let mut received = 0;
        while received < request_bytes {
            // SAFETY: the buffer holds at least `request_bytes`.
            let count = unsafe {
                libc::read(fd, buffer.as_mut_ptr().add(received).cast(), request_bytes - received)
            };
            if count <= 0 {
                // SAFETY: ends the process without running anything of the parent's.
                unsafe { libc::_exit(0) };
            }
            received += count as usize;
        }
        // SAFETY: the buffer holds at least `answer_bytes`; a socket that takes less ends the peer
        // at its next read, since the requester then waits for the rest.
        unsafe { libc::write(fd, buffer.as_ptr().cast(), answer_bytes) };
    }
}

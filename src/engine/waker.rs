//! The one way another thread reaches a sleeping shard: a descriptor that becomes readable.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// Wakes a sleeping shard from any thread. Cloning it gives another handle to the same shard.
#[derive(Clone, Debug)]
pub struct Waker {
    signal: Arc<OwnedFd>,
    /// Keeps the read side of a socket open, so that a late wake never meets a closed peer.
    _peer: Option<Arc<OwnedFd>>,
}

impl Waker {
    /// A waker over an eventfd, which becomes readable when [`Waker::wake`] was called.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: eventfd(2) takes no pointers; its result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` is a new descriptor that nobody else owns.
        let signal = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Waker { signal: Arc::new(signal), _peer: None })
    }

    /// A waker over a socket pair, for engines that watch sockets but no other descriptors: each
    /// wake makes eight bytes arrive at the stream returned beside it (fewer when it is full).
    pub(super) fn over_socket() -> io::Result<(Waker, UnixStream)> {
        let (signal, watched) = UnixStream::pair()?;
        signal.set_nonblocking(true)?;
        let peer = Some(Arc::new(OwnedFd::from(watched.try_clone()?)));
        Ok((Waker { signal: Arc::new(OwnedFd::from(signal)), _peer: peer }, watched))
    }

    /// Wakes the shard. Never blocks; calls before the shard looks become one wake-up.
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // The only failure is EAGAIN: so many wakes are pending already that this one adds nothing.
        // SAFETY: `one` outlives the call and its length is its own.
        unsafe { libc::write(self.signal.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes the pending wakes of an eventfd, so that it is not readable until the next one.
    pub fn drain(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: `count` outlives the call and has the eight bytes an eventfd gives.
        unsafe { libc::read(self.signal.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.signal.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn is_readable(waker: &Waker) -> bool {
        let mut poll = libc::pollfd { fd: waker.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: `poll` outlives the call and its count is one.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    #[test]
    fn wakes_add_up_until_drained() {
        let waker = Waker::new().unwrap();
        assert!(!is_readable(&waker));
        waker.wake();
        waker.clone().wake();
        assert!(is_readable(&waker));
        waker.drain();
        assert!(!is_readable(&waker));
    }

    #[test]
    fn waking_over_a_socket_neither_blocks_when_full_nor_fails_when_late() {
        let (waker, mut watched) = Waker::over_socket().unwrap();
        (0..100_000).for_each(|_| waker.wake());
        let mut some = [0_u8; 8];
        watched.read_exact(&mut some).unwrap();
        assert_eq!(some, 1_u64.to_ne_bytes());
        drop(watched);
        waker.wake();
    }
}

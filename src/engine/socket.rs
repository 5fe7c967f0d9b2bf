//! Socket set-up shared by the engines: what std does not offer.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const LISTEN_BACKLOG: i32 = 1024;

/// A sockaddr as the kernel wants it, and its length.
#[derive(Clone, Copy)]
pub(super) struct RawAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl RawAddress {
    pub(super) fn new(address: SocketAddr) -> RawAddress {
        // SAFETY: sockaddr_storage is plain data for which all zeros is a valid value.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let length = match address {
            SocketAddr::V4(v4) => {
                let raw = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: v4.port().to_be(),
                    sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                    sin_zero: [0; 8],
                };
                // SAFETY: sockaddr_storage is large and aligned enough for every sockaddr.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(raw) };
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let raw = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                    sin6_scope_id: v6.scope_id(),
                };
                // SAFETY: as above.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(raw) };
                size_of::<libc::sockaddr_in6>()
            }
        };
        RawAddress { storage, length: length as libc::socklen_t }
    }

    pub(super) fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(super) fn length(&self) -> libc::socklen_t {
        self.length
    }
}

fn family(address: SocketAddr) -> i32 {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn set_option(socket: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: `value` outlives the call and its size is given.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// A blocking TCP socket: io_uring arms its own poll only for sockets without O_NONBLOCK.
pub(super) fn stream(address: SocketAddr) -> io::Result<OwnedFd> {
    // SAFETY: socket(2) takes no pointers; a non-negative result is a new descriptor nobody owns.
    let socket = unsafe {
        OwnedFd::from_raw_fd(check(libc::socket(
            family(address),
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            0,
        ))?)
    };
    set_no_delay(&socket)?;
    Ok(socket)
}

/// Turns Nagle's algorithm off: an acknowledgement must not wait for company.
pub(super) fn set_no_delay(socket: &OwnedFd) -> io::Result<()> {
    set_option(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

/// A listening socket that several shards may share an address with.
pub(super) fn listener(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let socket = stream(address)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    let raw = RawAddress::new(address);
    // SAFETY: `raw` outlives the call and its length is its own.
    check(unsafe { libc::bind(socket.as_raw_fd(), raw.as_ptr(), raw.length()) })?;
    // SAFETY: listen(2) takes no pointers.
    check(unsafe { libc::listen(socket.as_raw_fd(), LISTEN_BACKLOG) })?;
    let listener = std::net::TcpListener::from(socket);
    let bound = listener.local_addr()?;
    Ok((OwnedFd::from(listener), bound))
}

/// Ends both directions; a receive in flight then completes.
pub(super) fn shut_down(socket: &OwnedFd) {
    // SAFETY: shutdown(2) takes no pointers. Its failure (not connected) changes nothing.
    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
}

/// Sends without waiting; `Ok(0)` means the socket takes nothing now.
pub(super) fn send_now(socket: &OwnedFd, pieces: &[io::IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: msghdr is plain data for which all zeros is a valid value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // IoSlice is guaranteed to have iovec's layout; sendmsg only reads through it.
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len();
    loop {
        // SAFETY: `message` and the slices it points to outlive the call.
        let sent = unsafe {
            libc::sendmsg(
                socket.as_raw_fd(),
                &raw const message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if let Ok(sent) = usize::try_from(sent) {
            return Ok(sent);
        }
        let error = io::Error::last_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => return Ok(0),
            io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

//! Connections: frames in, frames out, backpressure, and how connections end.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use super::host::Host;
use super::{LIMITS, Run};
use crate::engine::{CloseReason, ConnectionId, Event, Limits};

fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as i32).to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut body = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).unwrap();
    body
}

fn closed(host: &mut Host, which: ConnectionId) -> CloseReason {
    host.wait(|event| match event {
        Event::Closed { connection, reason } if *connection == which => {
            Some(std::mem::replace(reason, CloseReason::Orderly))
        }
        _ => None,
    })
}

fn assert_ends(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset says as well as an end that the other side is gone.
    assert!(matches!(stream.read_to_end(&mut rest), Ok(0) | Err(_)), "{} bytes", rest.len());
}

/// A frame whose bytes differ from those of every other `number`.
fn numbered(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| (number.wrapping_mul(31) + at / 7) as u8).collect()
}

pub(super) fn echoes_frames(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    for length in [0, 1, 100, 65_536, 1_000_000, 5] {
        let body = numbered(length, length);
        peer.write_all(&framed(&body)).unwrap();
        host.echo_one(connection);
        assert!(read_frame(&mut peer) == body, "a frame of {length} bytes changed");
    }
    assert!(host.finish().is_empty());
}

pub(super) fn joins_frames_that_arrive_in_pieces(engine: Run) {
    let mut host = Host::start(engine);
    let address = host.listen();
    let (mut peer, connection) = host.peer_of(address);
    let (mut other, other_connection) = host.peer_of(address);
    let stream = [framed(b"first"), framed(b""), framed(b"second frame")].concat();
    for byte in stream {
        peer.write_all(&[byte]).unwrap();
        // A round trip of another connection lets the engine take the byte alone.
        other.write_all(&framed(b"tick")).unwrap();
        assert_eq!(host.frame_from(other_connection), b"tick");
    }
    assert_eq!(host.frame_from(connection), b"first");
    assert_eq!(host.frame_from(connection), b"");
    assert_eq!(host.frame_from(connection), b"second frame");
    assert!(host.finish().is_empty());
}

pub(super) fn keeps_connections_apart(engine: Run) {
    let mut host = Host::start(engine);
    let address = host.listen();
    let mut peers: Vec<_> = (0..8).map(|_| host.peer_of(address)).collect();
    for round in 0..10 {
        for (number, (peer, _)) in peers.iter_mut().enumerate() {
            peer.write_all(&framed(&numbered(number, 100 + round))).unwrap();
        }
        for (number, (peer, connection)) in peers.iter_mut().enumerate() {
            host.echo_one(*connection);
            assert_eq!(read_frame(peer), numbered(number, 100 + round));
        }
    }
    let mut ids: Vec<_> = peers.iter().map(|(_, connection)| *connection).collect();
    ids.dedup();
    assert_eq!(ids.len(), 8);
}

pub(super) fn answers_a_thousand_pipelined_frames_in_order(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    let stream: Vec<u8> = (0..1000).flat_map(|n| framed(&numbered(n, 50 + n))).collect();
    let mut writer = peer.try_clone().unwrap();
    let writing = thread::spawn(move || writer.write_all(&stream).unwrap());
    (0..1000).for_each(|_| host.echo_one(connection));
    for number in 0..1000 {
        assert_eq!(read_frame(&mut peer), numbered(number, 50 + number), "frame {number}");
    }
    writing.join().unwrap();
}

pub(super) fn sends_head_and_payload_as_one_frame(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    let pieces: Vec<Bytes> = (0..200).map(|n| numbered(n, n).into()).collect();
    let expected = [b"head".to_vec(), pieces.concat()].concat();
    host.call(move |_, io| io.send(connection, Bytes::from_static(b"head"), &pieces));
    assert_eq!(read_frame(&mut peer), expected);
}

pub(super) fn carries_frames_between_two_shards(engine: Run) {
    let (mut server, mut client) = (Host::start(engine), Host::start(engine));
    let address = server.listen();
    let outgoing = client.call(move |_, io| {
        let connection = io.connect(address);
        // What is sent before the connection is up must not be lost.
        io.send(connection, Bytes::from_static(b"early"), &[]);
        connection
    });
    let connected = client.wait(|event| match event {
        Event::Connected { connection } => Some(*connection),
        _ => None,
    });
    assert_eq!(connected, outgoing);
    let incoming = server.accepted();
    server.echo_one(incoming);
    assert_eq!(client.frame_from(outgoing), b"early");
    client.send(outgoing, b"later".to_vec());
    server.echo_one(incoming);
    assert_eq!(client.frame_from(outgoing), b"later");
    client.call(move |_, io| io.close(outgoing));
    assert!(matches!(closed(&mut client, outgoing), CloseReason::Orderly));
    assert!(matches!(closed(&mut server, incoming), CloseReason::Orderly));
}

pub(super) fn closes_only_the_connection_with_a_bad_length(engine: Run) {
    let mut host = Host::start(engine);
    let address = host.listen();
    let (mut good, good_connection) = host.peer_of(address);
    for length in [-1, i32::MIN, i32::MAX, LIMITS.frame_bytes_max as i32 + 1] {
        let (mut bad, bad_connection) = host.peer_of(address);
        bad.write_all(&framed(b"before")).unwrap();
        bad.write_all(&length.to_be_bytes()).unwrap();
        assert_eq!(host.frame_from(bad_connection), b"before");
        let reason = closed(&mut host, bad_connection);
        assert!(matches!(reason, CloseReason::BadFrameLength(l) if l == length), "{reason:?}");
        assert_ends(&mut bad);
        good.write_all(&framed(b"still here")).unwrap();
        host.echo_one(good_connection);
        assert_eq!(read_frame(&mut good), b"still here");
    }
    assert!(host.finish().is_empty());
}

pub(super) fn tells_that_a_connect_was_refused(engine: Run) {
    let mut host = Host::start(engine);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let connection = host.call(move |_, io| io.connect(address));
    let reason = closed(&mut host, connection);
    let CloseReason::Error(error) = reason else { panic!("{reason:?}") };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    assert!(host.finish().is_empty());
}

pub(super) fn tells_that_the_peer_closed(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    peer.write_all(&framed(b"last words")).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(host.frame_from(connection), b"last words");
    assert!(matches!(closed(&mut host, connection), CloseReason::Orderly));
    assert_ends(&mut peer);
    assert!(host.finish().is_empty());
}

pub(super) fn tells_that_the_peer_reset(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    host.send(connection, b"unread".to_vec());
    // Closing a socket with unread bytes resets the connection.
    peer.peek(&mut [0]).unwrap();
    peer.write_all(&[0, 0]).unwrap();
    drop(peer);
    let reason = closed(&mut host, connection);
    let CloseReason::Error(error) = reason else { panic!("{reason:?}") };
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(host.finish().is_empty());
}

/// Sends frames of 1 MiB until the socket takes no more; returns how many.
fn fill_up(host: &Host, connection: ConnectionId) -> usize {
    for number in 0..200 {
        let frame = Bytes::from(numbered(number, 1 << 20));
        let unsent = host.call(move |_, io| {
            io.send(connection, Bytes::new(), &[frame]);
            io.unsent_bytes(connection)
        });
        if unsent > 4 << 20 {
            return number + 1;
        }
    }
    panic!("200 MiB sent to a peer that reads nothing");
}

pub(super) fn queues_for_a_slow_reader_and_drains(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    for _ in 0..3 {
        let sent = fill_up(&host, connection);
        for number in 0..sent {
            assert!(read_frame(&mut peer) == numbered(number, 1 << 20), "frame {number}");
        }
        host.wait_until(move |io| io.unsent_bytes(connection) == 0);
    }
    peer.write_all(&framed(b"alive")).unwrap();
    assert_eq!(host.frame_from(connection), b"alive");
}

pub(super) fn sends_what_is_queued_before_it_closes(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    let sent = fill_up(&host, connection);
    host.call(move |_, io| io.close(connection));
    for number in 0..sent {
        assert!(read_frame(&mut peer) == numbered(number, 1 << 20), "frame {number}");
    }
    assert_ends(&mut peer);
    assert!(matches!(closed(&mut host, connection), CloseReason::Orderly));
    assert!(host.finish().is_empty());
}

pub(super) fn closes_at_last_towards_a_peer_that_takes_nothing(engine: Run) {
    let limits = Limits { half_frame_idle_max: Duration::from_millis(50), ..LIMITS };
    let mut host = Host::with_limits(engine, limits);
    let (_peer, connection) = host.peer();
    fill_up(&host, connection);
    host.call(move |_, io| io.close(connection));
    closed(&mut host, connection);
    assert_eq!(host.call(move |_, io| io.unsent_bytes(connection)), 0);
    assert!(host.finish().is_empty());
}

pub(super) fn ends_a_connection_at_once_when_nothing_is_queued(engine: Run) {
    let mut host = Host::start(engine);
    let (mut peer, connection) = host.peer();
    host.call(move |_, io| {
        io.close(connection);
        // Closing twice is closing.
        io.close(connection);
    });
    assert!(matches!(closed(&mut host, connection), CloseReason::Orderly));
    assert_ends(&mut peer);
    assert!(host.finish().is_empty());
}

pub(super) fn ignores_sends_to_a_connection_that_is_gone(engine: Run) {
    let mut host = Host::start(engine);
    let (peer, connection) = host.peer();
    drop(peer);
    closed(&mut host, connection);
    host.call(move |_, io| {
        io.send(connection, Bytes::from_static(b"nobody"), &[]);
        io.pause_reading(connection, true);
        io.close(connection);
        assert_eq!(io.unsent_bytes(connection), 0);
    });
    let (mut next, next_connection) = host.peer();
    assert_ne!(next_connection, connection, "connections are never named again");
    next.write_all(&framed(b"next")).unwrap();
    assert_eq!(host.frame_from(next_connection), b"next");
    assert!(host.finish().is_empty());
}

pub(super) fn stops_reading_while_paused(engine: Run) {
    const FRAMES: usize = 1000;
    const FRAME_BYTES: usize = 64 * 1024;
    let mut host = Host::start(engine);
    let address = host.listen();
    let (peer, paused) = host.peer_of(address);
    let (mut other, other_connection) = host.peer_of(address);
    host.call(move |_, io| io.pause_reading(paused, true));
    let mut writer = peer.try_clone().unwrap();
    let writing = thread::spawn(move || {
        (0..FRAMES).for_each(|n| writer.write_all(&framed(&numbered(n, FRAME_BYTES))).unwrap());
    });
    for _ in 0..200 {
        other.write_all(&framed(b"tick")).unwrap();
        host.echo_one(other_connection);
        read_frame(&mut other);
    }
    let early = host.frames_seen(paused);
    // A read that was under way may still bring what one read brings.
    assert!(early <= 16, "{early} frames came through a paused connection");
    host.call(move |_, io| io.pause_reading(paused, false));
    for number in 0..FRAMES {
        assert!(host.frame_from(paused) == numbered(number, FRAME_BYTES), "frame {number}");
    }
    writing.join().unwrap();
    assert!(host.finish().is_empty());
}

pub(super) fn closes_a_connection_idle_in_the_middle_of_a_frame(engine: Run) {
    let limits = Limits { half_frame_idle_max: Duration::from_millis(50), ..LIMITS };
    let mut host = Host::with_limits(engine, limits);
    for part in [&framed(b"body")[..2], &framed(b"body")[..6]] {
        let (mut peer, connection) = host.peer();
        peer.write_all(part).unwrap();
        assert!(matches!(closed(&mut host, connection), CloseReason::Idle));
        assert_ends(&mut peer);
    }
    assert!(host.finish().is_empty());
}

pub(super) fn leaves_a_connection_idle_between_frames_alone(engine: Run) {
    let limits = Limits { half_frame_idle_max: Duration::from_millis(20), ..LIMITS };
    let mut host = Host::with_limits(engine, limits);
    let address: SocketAddr = host.listen();
    let (mut quiet, quiet_connection) = host.peer_of(address);
    quiet.write_all(&framed(b"one")).unwrap();
    assert_eq!(host.frame_from(quiet_connection), b"one");
    // Others are closed for idling meanwhile, several times over.
    for _ in 0..3 {
        let (mut half, half_connection) = host.peer_of(address);
        half.write_all(&[0]).unwrap();
        assert!(matches!(closed(&mut host, half_connection), CloseReason::Idle));
    }
    quiet.write_all(&framed(b"two")).unwrap();
    assert_eq!(host.frame_from(quiet_connection), b"two");
    assert!(host.finish().is_empty());
}

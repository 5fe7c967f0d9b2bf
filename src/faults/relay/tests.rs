//! The relay between echoing servers and clients of this process.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener as Listener;
use std::net::TcpStream as Stream;
use std::thread;

use super::*;

const BROKER_1: End = End::Node(BrokerId(1));
const BROKER_2: End = End::Node(BrokerId(2));
/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough that bytes which can pass have passed.
const QUIET: Duration = Duration::from_millis(100);

/// A server that sends back what it gets.
fn echo() -> SocketAddr {
    let listener = Listener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("accepted");
            thread::spawn(move || {
                let mut buffer = [0; 256];
                while let Ok(read @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..read]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    address
}

fn relay() -> (Relay, SocketAddr) {
    let mut relay = Relay::start().expect("a thread");
    let door = relay.door(None, BROKER_2).expect("a port");
    relay.lead(BROKER_2, Some(echo())).expect("free");
    (relay, door)
}

/// The head of a request from `client_id`.
fn head(client_id: &str) -> Vec<u8> {
    let mut head = vec![0; 12];
    head.extend((client_id.len() as i16).to_be_bytes());
    head.extend(client_id.as_bytes());
    head
}

/// A connection whose first request was answered.
fn call(door: SocketAddr, client_id: &str) -> Stream {
    let mut stream = Stream::connect(door).expect("an open door");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    send(&mut stream, &head(client_id));
    stream
}

fn send(stream: &mut Stream, bytes: &[u8]) {
    stream.write_all(bytes).expect("sent");
    let mut back = vec![0; bytes.len()];
    stream.read_exact(&mut back).expect("it came back");
    assert_eq!(back, bytes);
}

/// Whether nothing arrives while bytes that can pass would have.
fn is_silent(stream: &mut Stream) -> bool {
    stream.set_read_timeout(Some(QUIET)).expect("set");
    let read = stream.read(&mut [0; 64]);
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    matches!(read, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

fn cut(relay: &Relay, from: End, to: End, is_cut: bool) {
    relay.switch(from, to, |link| link.is_cut = is_cut);
}

#[test]
fn each_directed_link_is_cut_by_itself_and_loses_nothing() {
    let (relay, door) = relay();
    let mut broker = call(door, "ackmark-broker-1");
    let mut client = call(door, "ackmark-driver");
    for (from, to) in [(BROKER_1, BROKER_2), (BROKER_2, BROKER_1)] {
        cut(&relay, from, to, true);
        broker.write_all(b"held back").expect("the relay's socket takes it");
        assert!(is_silent(&mut broker), "{from:?} to {to:?}");
        send(&mut client, b"not concerned");
        cut(&relay, from, to, false);
        let mut back = [0; 9];
        broker.read_exact(&mut back).expect("it arrives late");
        assert_eq!(&back, b"held back");
    }
}

#[test]
fn no_connection_is_made_over_a_link_that_is_cut() {
    let (relay, door) = relay();
    cut(&relay, BROKER_2, BROKER_1, true);
    let mut broker = Stream::connect(door).expect("the relay itself is there");
    broker.write_all(&head("ackmark-broker-1")).expect("sent");
    assert!(is_silent(&mut broker));
    cut(&relay, BROKER_2, BROKER_1, false);
    broker.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut back = vec![0; head("ackmark-broker-1").len()];
    broker.read_exact(&mut back).expect("connected at last");
}

#[test]
fn a_delay_is_added_to_every_byte_of_its_direction_and_keeps_the_order() {
    let (relay, door) = relay();
    let mut broker = call(door, "ackmark-broker-1");
    let delay = Duration::from_millis(60);
    relay.switch(BROKER_1, BROKER_2, |link| link.delay = delay);
    let started = std::time::Instant::now();
    for byte in 0..20 {
        broker.write_all(&[byte]).expect("sent");
    }
    let mut back = [0; 20];
    broker.read_exact(&mut back).expect("it came back");
    assert!(started.elapsed() >= delay, "after {:?}", started.elapsed());
    assert!(back.is_sorted(), "{back:?}");
}

#[test]
fn a_door_without_a_target_refuses_and_opens_again_on_its_port() {
    let (mut relay, door) = relay();
    call(door, "x");
    relay.lead(BROKER_2, None).expect("closed");
    let deadline = std::time::Instant::now() + PATIENCE;
    while Stream::connect(door).is_ok() {
        assert!(std::time::Instant::now() < deadline, "still open");
    }
    relay.lead(BROKER_2, Some(echo())).expect("the port is still ours");
    call(door, "x");
}

#[test]
fn callers_are_known_by_their_client_id() {
    assert_eq!(caller_named(b"ackmark-broker-17"), End::Node(BrokerId(17)));
    assert_eq!(caller_named(b"ackmark-broker-x"), End::Clients);
    assert_eq!(caller_named(b"ackmark-driver"), End::Clients);
    assert_eq!(caller_named(b""), End::Clients);
}

#[test]
fn heartbeats_are_cut_and_the_metadata_log_is_not() {
    let mut relay = Relay::start().expect("a thread");
    let controller = End::Node(BrokerId(100));
    let door = relay.door(Some(BROKER_1), controller).expect("a port");
    relay.lead(controller, Some(echo())).expect("free");
    let request = |api: u8| [0, 0, 0, 4, 0, api, 0, 1];
    let connect = |api: u8| {
        let mut stream = Stream::connect(door).expect("an open door");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        send(&mut stream, &request(api));
        stream
    };
    let (mut heartbeats, mut log) = (connect(63), connect(1));
    relay.switch(BROKER_1, controller, |link| link.cuts_heartbeats = true);
    heartbeats.write_all(&request(63)).expect("the relay's socket takes it");
    send(&mut log, &request(1));
    assert!(is_silent(&mut heartbeats));
    let mut late = Stream::connect(door).expect("an open door");
    late.write_all(&request(62)).expect("the relay's socket takes it");
    assert!(is_silent(&mut late), "a connection that begins meanwhile");
    relay.switch(BROKER_1, controller, |link| link.cuts_heartbeats = false);
    for stream in [&mut heartbeats, &mut late] {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.read_exact(&mut [0; 8]).expect("held back, not lost");
    }
}

//! A cell and its reading back over real sockets, on the engine that measures.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use super::fake::Fake;
use super::spec;
use crate::driver::run::{read_back, run_cell};
use crate::driver::spec::CellSpec;
use crate::engine::ConnectionId;
use crate::measure::clock;
use crate::types::Acks;

struct Server {
    fake: Fake,
    sockets: BTreeMap<ConnectionId, TcpStream>,
}

/// Serves one connection until its peer closes it. Answers go out under the lock, so that a fetch
/// woken by another connection's append cannot overtake.
fn serve(server: &Mutex<Server>, connection: ConnectionId, mut socket: TcpStream) {
    let mut length = [0; 4];
    while socket.read_exact(&mut length).is_ok() {
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        if socket.read_exact(&mut frame).is_err() {
            return;
        }
        let Server { fake, sockets } = &mut *server.lock().unwrap();
        for (of, answer) in fake.serve(connection, Bytes::from(frame), clock::now()) {
            let length = (answer.len() as u32).to_be_bytes();
            if let Some(mut socket) = sockets.get(&of) {
                // A peer that has gone needs no answer.
                let _ = socket.write_all(&[length.as_slice(), &answer].concat());
            }
        }
    }
}

/// A broker on a port of its own, for as long as the test runs.
fn listen() -> Arc<Mutex<Server>> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut fake = Fake::new(1);
    fake.port = listener.local_addr().unwrap().port();
    fake.answer_ns = 0;
    let server = Arc::new(Mutex::new(Server { fake, sockets: BTreeMap::new() }));
    let accepting = Arc::clone(&server);
    thread::spawn(move || {
        for (number, socket) in (0..).zip(listener.incoming()) {
            let socket = socket.unwrap();
            socket.set_nodelay(true).unwrap();
            let connection = ConnectionId(number);
            let answers = socket.try_clone().unwrap();
            accepting.lock().unwrap().sockets.insert(connection, answers);
            let server = Arc::clone(&accepting);
            thread::spawn(move || serve(&server, connection, socket));
        }
    });
    server
}

#[test]
fn a_cell_runs_and_reads_back_over_sockets() {
    for acks in [Acks::All, Acks::Leader] {
        let server = listen();
        let bootstrap = server.lock().unwrap().fake.address(0);
        let spec = CellSpec { acks, warmup: Duration::from_millis(200), ..spec() };
        let stop = AtomicBool::new(false);
        let mut told = 0;
        let outcome = run_cell(bootstrap, &spec, &stop, &mut |_| told += 1).unwrap();
        assert_eq!(outcome.counts.records_due, 1_000);
        assert_eq!(outcome.counts.records_acknowledged, 1_000, "{:?}", outcome.failures);
        assert_eq!(outcome.counts.records_consumed, 1_000);
        assert_eq!(outcome.acknowledged_latency.response.count(), 1_000);
        assert_eq!(outcome.acknowledged_latency.response.clock_anomaly_count(), 0);
        assert!(told > 5, "progress was told {told} times");
        let verification = read_back(bootstrap, &spec, &outcome.acknowledged, &stop).unwrap();
        assert!(verification.is_sound(), "{verification:?}");
        assert_eq!(verification.acknowledged, 1_200);
    }
}

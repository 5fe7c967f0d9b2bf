//! Against listeners of this process.

use std::net::TcpListener;

use super::*;

const PATIENCE: Duration = Duration::from_secs(60);

/// A port at which 127.0.0.1 listens and ::1 refuses, or the other way round.
fn one_of_two(ip: &str) -> (TcpListener, String) {
    let listener = TcpListener::bind((ip, 0)).expect("a loopback address");
    let port = listener.local_addr().expect("it listens").port();
    (listener, format!("localhost:{port}"))
}

#[test]
fn every_address_of_a_name_is_tried() {
    let names: Vec<SocketAddr> =
        ("localhost", 1).to_socket_addrs().expect("a hosts file").collect();
    for ip in ["127.0.0.1", "::1"] {
        // A host that knows localhost by one address has nothing to choose from.
        if names.iter().any(|name| name.ip().to_string() == ip) {
            let (listener, name) = one_of_two(ip);
            let found = listening_at(&name, PATIENCE).expect("one of them listens");
            assert_eq!(found, listener.local_addr().expect("it listens"));
        }
    }
}

#[test]
fn an_address_that_refuses_is_said_to_refuse() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    for name in [free.to_string(), format!("localhost:{}", free.port())] {
        let said = Client::connect(&name, PATIENCE).expect_err("nobody listens").to_string();
        assert!(said.starts_with(&format!("connect to {name}: ")), "{said}");
        assert!(said.contains("refused"), "{said}");
    }
}

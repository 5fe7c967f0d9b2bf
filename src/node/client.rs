//! A small blocking Kafka client: one connection, one request at a time. For asking a cluster about
//! itself, never for load.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::Bytes;

use crate::wire::{self, Request, Response, WireError};

/// Largest answer read (`socket.request.max.bytes`).
const ANSWER_BYTES_MAX: usize = 100 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there, or the name means nothing. The reason names each address that was tried, if
    /// the name has several.
    #[error("connect to {address}: {source}")]
    Connect {
        /// As typed.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The connection broke. A broker that cannot reach the controller closes it too.
    #[error("{address} gave no answer to {api}: {source}")]
    Broken {
        /// As typed.
        address: String,
        /// What was asked.
        api: wire::ApiKey,
        /// The system's reason.
        source: io::Error,
    },
    /// The answer is longer than any.
    #[error("{address} announces an answer of {size_bytes} bytes: {size_bytes_max} are read")]
    Size {
        /// As typed.
        address: String,
        /// As announced.
        size_bytes: u32,
        /// What is read.
        size_bytes_max: usize,
    },
    /// The question or the answer is not Kafka's.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The answer is to something else.
    #[error("{address} answered something else than {api}")]
    Unexpected {
        /// As typed.
        address: String,
        /// What was asked.
        api: wire::ApiKey,
    },
}

/// A connection to a broker.
#[derive(Debug)]
pub struct Client {
    address: String,
    stream: TcpStream,
    correlation_id: i32,
    answer_bytes_max: usize,
}

impl Client {
    /// Connects to `address` (`host:port`); every wait ends after `timeout`.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect(address: &str, timeout: Duration) -> Result<Client, ClientError> {
        let connected = connect(address, timeout);
        let failed = |source| ClientError::Connect { address: address.to_owned(), source };
        let stream = connected.map_err(failed)?;
        Ok(Client {
            address: address.to_owned(),
            stream,
            correlation_id: 0,
            answer_bytes_max: ANSWER_BYTES_MAX,
        })
    }

    /// The same, for answers of at most so many bytes.
    pub fn reading_at_most(self, answer_bytes_max: usize) -> Client {
        Client { answer_bytes_max, ..self }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// [`ClientError`], but for `Connect`; the connection is then of no more use.
    pub fn ask(&mut self, version: i16, request: &Request) -> Result<Response, ClientError> {
        let api = request.api();
        self.correlation_id += 1;
        let frame = wire::encode_request(self.correlation_id, "ackmark", version, request)?;
        let broken = |address: &str, source| ClientError::Broken {
            address: address.to_owned(),
            api,
            source,
        };
        self.send(&frame).map_err(|source| broken(&self.address, source))?;
        let size_bytes = self.receive_size().map_err(|source| broken(&self.address, source))?;
        let size_bytes_max = self.answer_bytes_max;
        if size_bytes as usize > size_bytes_max {
            let address = self.address.clone();
            return Err(ClientError::Size { address, size_bytes, size_bytes_max });
        }
        let mut answer = vec![0; size_bytes as usize];
        self.stream.read_exact(&mut answer).map_err(|source| broken(&self.address, source))?;
        let (correlation_id, response) = wire::parse_response(api, version, Bytes::from(answer))?;
        if correlation_id != self.correlation_id {
            return Err(self.unexpected(api));
        }
        Ok(response)
    }

    /// For an answer of another kind than the request.
    pub fn unexpected(&self, api: wire::ApiKey) -> ClientError {
        ClientError::Unexpected { address: self.address.clone(), api }
    }

    fn send(&mut self, frame: &Bytes) -> io::Result<()> {
        let size = u32::try_from(frame.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.stream.write_all(&[&size.to_be_bytes(), &frame[..]].concat())
    }

    fn receive_size(&mut self) -> io::Result<u32> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        Ok(u32::from_be_bytes(size))
    }
}

/// The first address of `address` (`host:port`) at which somebody listens.
///
/// # Errors
/// [`ClientError::Connect`].
pub fn listening_at(address: &str, timeout: Duration) -> Result<SocketAddr, ClientError> {
    let found = connect(address, timeout).and_then(|stream| stream.peer_addr());
    found.map_err(|source| ClientError::Connect { address: address.to_owned(), source })
}

/// To the first of the name's addresses that answers.
fn connect(address: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut refusals: Vec<(SocketAddr, io::Error)> = Vec::new();
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                return Ok(stream);
            }
            Err(error) => refusals.push((resolved, error)),
        }
    }
    Err(match refusals.len() {
        0 => io::Error::new(io::ErrorKind::NotFound, "the name has no address"),
        1 => refusals.remove(0).1,
        _ => {
            let each: Vec<String> =
                refusals.iter().map(|(address, error)| format!("{address}: {error}")).collect();
            io::Error::new(refusals[0].1.kind(), each.join("; "))
        }
    })
}

#[cfg(test)]
mod tests;

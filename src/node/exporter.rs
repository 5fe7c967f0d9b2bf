//! Metrics over HTTP in the OpenMetrics text format, which Prometheus reads: `GET /metrics`, nothing
//! else. What the figures are is each role's own.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::measure::threads;

/// A request's head is no longer.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// A scraper has this long for its request, and again for taking the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// As far back as the scheduler lets a thread stand.
const NICENESS: i32 = 19;
/// Wait after a failed accept: file descriptors may have run out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Lets the calling thread, which only looks on, stand back: where CPUs are short, whoever is
/// measured goes first.
pub fn stand_back() {
    // Without it the thread is as good, and a little in the way.
    let _ = rustix::process::nice(NICENESS);
}

/// Serves scrapes at `address` on a thread of its own, for as long as the process lives. Says where:
/// port 0 picks one.
///
/// # Errors
/// The address cannot be had, or no thread.
pub fn spawn(
    address: SocketAddr,
    render: impl Fn() -> Result<String, fmt::Error> + Send + 'static,
) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    let listening = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scrapes = move || {
        stand_back();
        runtime.block_on(async move {
            // It was a listener a moment ago.
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            serve(listener, render).await;
        });
    };
    threads::start("metrics", scrapes)?;
    Ok(listening)
}

/// Serves scrapes, one after the other, for as long as it is polled.
pub(super) async fn serve(listener: TcpListener, render: impl Fn() -> Result<String, fmt::Error>) {
    loop {
        match listener.accept().await {
            // A scraper that fails has to come again; nobody here can act on it.
            Ok((stream, _)) => drop(answer(stream, &render).await),
            Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
        }
    }
}

async fn answer(
    mut stream: TcpStream,
    render: &impl Fn() -> Result<String, fmt::Error>,
) -> io::Result<()> {
    let head = tokio::time::timeout(PATIENCE, read_head(&mut stream)).await??;
    let (status, content_type, body) = match is_scrape(&head).then(render) {
        Some(Ok(text)) => {
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
        }
        Some(Err(error)) => ("500 Internal Server Error", "text/plain", error.to_string()),
        None => ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_owned()),
    };
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    tokio::time::timeout(PATIENCE, stream.write_all(answer.as_bytes())).await?
}

async fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await? == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(head)
}

fn is_scrape(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split(|&byte| byte == b'?').next();
    method == Some(b"GET") && path == Some(b"/metrics")
}

//! Metrics over HTTP: `GET` and `HEAD` of `/metrics`, nothing else. In Prometheus' text format, or
//! in OpenMetrics' to whoever accepts that. What the figures are is each role's own.

use std::collections::{HashSet, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, LocalSet};

use crate::measure::threads;

/// A connection has this long from its first byte to the last one of its answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many connections are open at once; one more, and the oldest goes.
const CONNECTIONS_MAX: usize = 32;
/// As far back as the scheduler lets a thread stand.
const NICENESS: i32 = 19;
/// Wait after a failed accept: file descriptors may have run out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// What a scraper that wants OpenMetrics accepts.
const OPEN_METRICS: &str = "application/openmetrics-text";

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
        LocalSet::new().block_on(&runtime, async move {
            // It was a listener a moment ago.
            let Ok(listener) = TcpListener::from_std(listener) else { return };
            serve(listener, render).await;
        });
    };
    threads::start("metrics", scrapes)?;
    Ok(listening)
}

/// Serves scrapes for as long as it is polled, inside a [`LocalSet`]. Connections do not wait for
/// each other, and the number open is bounded by closing the oldest: whoever connects and is silent
/// keeps nobody out.
pub(super) async fn serve(
    listener: TcpListener,
    render: impl Fn() -> Result<String, fmt::Error> + 'static,
) {
    let render = Rc::new(render);
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|connection| !connection.is_finished());
                if open.len() >= CONNECTIONS_MAX
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                let connection = tokio::task::spawn_local(connection(stream, render.clone()));
                open.push_back(connection.abort_handle());
            }
            Err(_) => tokio::time::sleep(ACCEPT_BACKOFF).await,
        }
    }
}

/// One request and its answer. A scraper that fails has to come again; nobody here can act on it.
async fn connection(
    stream: TcpStream,
    render: Rc<impl Fn() -> Result<String, fmt::Error> + 'static>,
) {
    let service = service_fn(move |request| {
        let answer = answer(&request, &*render);
        async move { Ok::<_, Infallible>(answer) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let _ = tokio::time::timeout(PATIENCE, served).await;
}

fn answer(
    request: &Request<Incoming>,
    render: &impl Fn() -> Result<String, fmt::Error>,
) -> Response<String> {
    let plain = "text/plain; charset=utf-8";
    let says = |status, text: &str| answered(status, plain, text.to_owned());
    if request.uri().path() != "/metrics" {
        return says(StatusCode::NOT_FOUND, "metrics are at /metrics\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = says(StatusCode::METHOD_NOT_ALLOWED, "metrics are read with GET\n");
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    let accepted = request.headers().get_all(ACCEPT).iter();
    let is_open =
        accepted.filter_map(|value| value.to_str().ok()).any(|v| v.contains(OPEN_METRICS));
    match render() {
        Ok(text) if is_open => answered(
            StatusCode::OK,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            text,
        ),
        Ok(text) => {
            answered(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", prometheus(&text))
        }
        Err(error) => says(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error}\n")),
    }
}

fn answered(status: StatusCode, content_type: &'static str, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// OpenMetrics text as Prometheus' text format 0.0.4, the older one: there a counter's family has
/// its sample's name (`_total`), and units and the end are not told.
fn prometheus(open_metrics: &str) -> String {
    let lines = open_metrics.lines();
    let counters: HashSet<&str> = lines
        .clone()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in lines.filter(|line| *line != "# EOF" && !line.starts_with("# UNIT ")) {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(kind), Some(family), Some(told)) if counters.contains(family) => {
                text.push_str(&format!("# {kind} {family}_total {told}\n"));
            }
            _ => text.extend([line, "\n"]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

    use super::*;

    /// The longest that anything here may take on a busy machine.
    const AT_MOST: Duration = Duration::from_secs(60);

    fn serving() -> SocketAddr {
        let told = "# HELP sent Sent.\n# TYPE sent counter\nsent_total 3\n\
                    # HELP held Held.\n# TYPE held gauge\n# UNIT held seconds\nheld 1\n# EOF\n";
        spawn(([127, 0, 0, 1], 0).into(), || Ok(told.to_owned())).expect("a port")
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_read_timeout(Some(AT_MOST)).expect("a socket");
        stream.write_all(format!("{request}Host: here\r\n\r\n").as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    }

    #[test]
    fn silent_connections_keep_no_scrape_out() {
        let address = serving();
        let idle = (0..CONNECTIONS_MAX + 8).map(|_| TcpStream::connect(address));
        let mut idle = idle.collect::<io::Result<Vec<_>>>().expect("somebody listens");
        // One of them stops in the middle of its request.
        let last = idle.last_mut().expect("there are some");
        last.write_all(b"GET /metr").expect("sent");
        assert!(ask(address, "GET /metrics HTTP/1.1\r\n").contains("sent_total 3\n"));
        // The oldest was closed for the newest, before its patience was over or after.
        idle[0].set_read_timeout(Some(AT_MOST)).expect("a socket");
        assert_eq!(idle[0].read(&mut [0]).unwrap_or(0), 0);
    }

    #[test]
    fn a_head_is_a_get_without_its_body_and_nothing_else_is_served() {
        let address = serving();
        let [get, head] = ["GET", "HEAD"].map(|method| {
            let answer = ask(address, &format!("{method} /metrics HTTP/1.1\r\n"));
            let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
            let lines = head.lines().filter(|line| !line.starts_with("date:"));
            (lines.map(str::to_owned).collect::<Vec<_>>(), body.to_owned())
        });
        assert_eq!(get.0, head.0);
        assert!(!get.1.is_empty() && head.1.is_empty(), "{head:?}");
        assert!(ask(address, "POST /metrics HTTP/1.1\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(address, "GET / HTTP/1.1\r\n").starts_with("HTTP/1.1 404 "));
    }

    #[test]
    fn the_format_is_the_one_asked_for() {
        let address = serving();
        let plain = ask(address, "GET /metrics HTTP/1.1\r\n");
        assert!(plain.contains("content-type: text/plain; version=0.0.4"), "{plain}");
        assert!(
            plain.ends_with(
                "\r\n\r\n# HELP sent_total Sent.\n# TYPE sent_total counter\nsent_total 3\n\
                 # HELP held Held.\n# TYPE held gauge\nheld 1\n"
            ),
            "{plain}"
        );
        let asked = format!("GET /metrics HTTP/1.1\r\nAccept: {OPEN_METRICS};version=1.0.0\r\n");
        let open = ask(address, &asked);
        assert!(open.contains("# TYPE sent counter\n") && open.ends_with("# EOF\n"), "{open}");
    }
}

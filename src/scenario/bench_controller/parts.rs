//! What the controller path is made of, each part alone: an append with its sync, a round trip over
//! loopback, a read of a file that is not in the page cache.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::measure::threads;

use super::{BenchControllerError, Result, floor};

/// The median time of `count` acts, in microseconds.
pub(super) fn timed(count: usize, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        act()?;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(times))
}

/// Not of nothing.
pub(super) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() % 2 {
        0 => (figures[middle - 1] + figures[middle]) / 2.0,
        _ => figures[middle],
    }
}

/// The median of the ratios, turn by turn.
pub(super) fn median_ratio(ours: &[f64], floor: &[f64]) -> f64 {
    median(ours.iter().zip(floor).map(|(ours, floor)| ours / floor).collect())
}

/// A file that grows by one write at a time, each synced, as the metadata log does.
pub(super) struct SyncedFile {
    file: File,
    bytes: Vec<u8>,
}

impl SyncedFile {
    pub(super) fn create(folder: &Path, bytes: usize) -> Result<SyncedFile> {
        let path = folder.join("floor.log");
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(SyncedFile { file: file.map_err(floor("open a file"))?, bytes: vec![7; bytes] })
    }

    pub(super) fn append(&mut self) -> Result<()> {
        self.file.write_all(&self.bytes).map_err(floor("append"))?;
        self.file.sync_data().map_err(floor("fdatasync"))
    }
}

/// A peer on another thread that answers each request, blocking on both sides.
pub(super) struct Loopback {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Loopback {
    pub(super) fn open(request_bytes: usize, answer_bytes: usize) -> Result<Loopback> {
        let failed = floor("loopback");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(&failed)?;
        let address = listener.local_addr().map_err(&failed)?;
        let (request, answer) = (vec![1; request_bytes], vec![2; answer_bytes]);
        let (mut asked, answered) = (request.clone(), answer.clone());
        let respond = move || {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let _ = stream.set_nodelay(true);
            // Ends with the other side.
            while stream.read_exact(&mut asked).is_ok() && stream.write_all(&answered).is_ok() {}
        };
        threads::start("loopback", respond).map_err(&failed)?;
        let stream = TcpStream::connect(address).map_err(&failed)?;
        stream.set_nodelay(true).map_err(&failed)?;
        Ok(Loopback { stream, request, answer })
    }

    pub(super) fn exchange(&mut self) -> Result<()> {
        self.stream.write_all(&self.request).map_err(floor("loopback"))?;
        self.stream.read_exact(&mut self.answer).map_err(floor("loopback"))
    }
}

/// Reading a whole file that the page cache does not hold.
pub(super) fn cold_read(file: &Path) -> Result<Duration> {
    drop_pages(file)?;
    let started = Instant::now();
    fs::read(file).map_err(floor("read the snapshot"))?;
    Ok(started.elapsed())
}

/// Asks the kernel to forget a file's pages; they are clean, so it does.
pub(super) fn drop_pages(path: &Path) -> Result<()> {
    let failed = |what| move |source: std::io::Error| BenchControllerError::Floor { what, source };
    let file = File::open(path).map_err(failed("open the snapshot"))?;
    file.sync_all().map_err(failed("sync the snapshot"))?;
    let dropped = fadvise(&file, 0, None, Advice::DontNeed);
    dropped.map_err(|error| failed("drop the snapshot's pages")(error.into()))
}

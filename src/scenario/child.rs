//! One node as a child process: a port found, started, announced, stopped by signal, ended at the
//! latest when its parent ends.
//!
//! Two things see to the last: the kernel's parent-death signal, which is at once; and the child's
//! standard input, which only the parent holds open: exec(2) of a set-user-ID program or one with
//! file capabilities clears the signal, but nothing clears the end of a pipe.
//!
//! `words` keeps what a child says on standard error, `end` says how it ended.
//!
//! The only file of this room that says `unsafe`: two system calls std does not offer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child as Process, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::environment::OomKills;
use crate::measure::threads;

use self::words::LastWords;

/// How long a node may take until it listens: a broker that recovers a long log needs it.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(30);
/// How long a node may take to stop: it closes each of its logs with some syncs, and thousands of
/// partitions on a slow disk take their time.
pub(super) const STOP_PATIENCE: Duration = Duration::from_secs(120);
/// How often a stopping child is looked at. No figure depends on it.
const POLL: Duration = Duration::from_millis(2);

/// Why a node could not be started, or ended.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The process could not be made.
    #[error("cannot start {name}")]
    Start {
        /// The node.
        name: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It did not say where it listens.
    #[error("{name} did not listen within {}{said}", seconds(*waited))]
    Silent {
        /// The node.
        name: String,
        /// How long.
        waited: Duration,
        /// The end of its error output, led by a colon, or nothing.
        said: String,
    },
    /// It said something else than where it listens.
    #[error("{name} announced `{line}`: must be {{\"listening\":\"ip:port\"}}")]
    Announcement {
        /// The node.
        name: String,
        /// What it said.
        line: String,
    },
    /// It took no order.
    #[error("{name} takes no orders")]
    Order {
        /// The node.
        name: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It ended by itself.
    #[error("{name} {how}{said}")]
    Ended {
        /// The node.
        name: String,
        /// `ended with exit status: 3`, `was ended by SIGXFSZ: …`.
        how: String,
        /// The end of its error output, led by a colon, or nothing.
        said: String,
    },
}

/// How a child is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// `controller`, `broker-1` …
    pub name: String,
    /// The program.
    pub executable: PathBuf,
    /// `controller` or `broker`.
    pub role: &'static str,
    /// Its configuration file.
    pub config: PathBuf,
    /// Where its error output is kept, as far as the disk takes it; appended to.
    pub log: PathBuf,
    /// Whether it takes orders on standard input: see [`Child::order`].
    pub takes_orders: bool,
}

/// A running node. Dropping it kills the process.
#[derive(Debug)]
pub struct Child {
    launch: Launch,
    process: Process,
    announced: mpsc::Receiver<String>,
    words: LastWords,
    /// Out-of-memory kills counted before it started.
    oom_kills: OomKills,
    /// Whether this side killed it.
    was_killed: bool,
}

impl Child {
    /// Starts the process; it is not waited for: see [`Child::listening`].
    ///
    /// The kernel kills the child when the calling *thread* ends, so call this on one that lives as
    /// long as the run.
    ///
    /// # Errors
    /// [`ChildError::Start`].
    pub fn start(launch: Launch) -> Result<Child, ChildError> {
        let failed = |source| ChildError::Start { name: launch.name.clone(), source };
        let log = File::options().create(true).append(true).open(&launch.log).map_err(failed)?;
        let mut command = Command::new(&launch.executable);
        command
            .arg(launch.role)
            .arg("--config")
            .arg(&launch.config)
            .arg("--stop-with-stdin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: an interrupt typed at the terminal is for the harness alone, which
            // then stops its children in order.
            .process_group(0);
        end_with_parent(&mut command, libc::SIGKILL);
        let oom_kills = OomKills::counted();
        let mut process = command.spawn().map_err(failed)?;
        let readers = lines(process.stdout.take())
            .and_then(|announced| Ok((announced, LastWords::keep(process.stderr.take(), log)?)));
        match readers {
            Ok((announced, words)) => {
                Ok(Child { launch, process, announced, words, oom_kills, was_killed: false })
            }
            Err(source) => {
                // Without a Child nobody else would.
                let _ = process.kill().and_then(|()| process.wait());
                Err(failed(source))
            }
        }
    }

    /// `broker-1` …
    pub fn name(&self) -> &str {
        &self.launch.name
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until it says where it listens.
    ///
    /// # Errors
    /// [`ChildError`] if it ends, says something else, or says nothing until `patience` is over.
    pub fn listening(&mut self, patience: Duration) -> Result<SocketAddr, ChildError> {
        match self.announced.recv_timeout(patience) {
            Ok(line) => address(&line)
                .ok_or_else(|| ChildError::Announcement { name: self.launch.name.clone(), line }),
            Err(mpsc::RecvTimeoutError::Timeout) => Err(ChildError::Silent {
                name: self.launch.name.clone(),
                waited: patience,
                said: self.said(),
            }),
            // Its output is closed: it is ending, or has.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = self.process.wait().map_err(|source| ChildError::Start {
                    name: self.launch.name.clone(),
                    source,
                })?;
                Err(self.ended(status))
            }
        }
    }

    /// Where it listens, if it said so by now and [`Child::listening`] has not taken it.
    pub fn has_announced(&mut self) -> Option<SocketAddr> {
        address(&self.announced.try_recv().ok()?)
    }

    /// Gives it an order, one line, and waits until it says the line back: it is obeyed then.
    ///
    /// # Errors
    /// [`ChildError`] if it takes no orders, says something else, or nothing until `patience` is over.
    pub fn order(&mut self, line: &str, patience: Duration) -> Result<(), ChildError> {
        let name = self.launch.name.clone();
        let written = match &mut self.process.stdin {
            Some(stdin) if self.launch.takes_orders => {
                writeln!(stdin, "{line}").and_then(|()| stdin.flush())
            }
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        written.map_err(|source| ChildError::Order { name: name.clone(), source })?;
        match self.announced.recv_timeout(patience) {
            Ok(said) if said == line => Ok(()),
            Ok(said) => Err(ChildError::Announcement { name, line: said }),
            Err(_) => Err(ChildError::Silent { name, waited: patience, said: self.said() }),
        }
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// [`ChildError::Ended`] if not.
    pub fn check_running(&mut self) -> Result<(), ChildError> {
        match self.process.try_wait() {
            Ok(Some(status)) => Err(self.ended(status)),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Asks it to stop (SIGTERM); returns at once. One that ended is left alone: once it was waited
    /// for, its id may be another process's.
    pub fn ask_to_stop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            signal(self.process.id(), libc::SIGTERM);
        }
    }

    /// Takes the CPU from it (SIGSTOP) until [`Child::resume`]; sockets and files stay open.
    pub fn pause(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            signal(self.process.id(), libc::SIGSTOP);
        }
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            signal(self.process.id(), libc::SIGCONT);
        }
    }

    /// Waits for the end of a child that was asked to stop; kills it when `deadline` passes first.
    /// A complaint if it did not end in an orderly way.
    pub fn stopped(mut self, deadline: Instant) -> Option<String> {
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(Some(status)) => return Some(self.ended(status).to_string()),
                Ok(None) if Instant::now() < deadline => thread::sleep(POLL),
                Ok(None) | Err(_) => {
                    self.kill();
                    return Some(format!("{} did not stop in time and was killed", self.name()));
                }
            }
        }
    }

    /// Kills it (SIGKILL) and waits for its end: the process loses what it has not written; the
    /// page cache stays.
    pub fn kill(&mut self) {
        self.was_killed |= matches!(self.process.try_wait(), Ok(None));
        // Both fail only when the process is gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    fn ended(&self, status: ExitStatus) -> ChildError {
        let name = self.launch.name.clone();
        let how = end::explain(status, self.was_killed, self.oom_kills, OomKills::counted());
        ChildError::Ended { name, how, said: self.words.at_the_end() }
    }

    fn said(&self) -> String {
        self.words.so_far()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks all to stop, then waits for each. What did not end in an orderly way is named in the answer.
pub fn stop_all(children: impl IntoIterator<Item = Child>) -> Vec<String> {
    let mut children: Vec<Child> = children.into_iter().collect();
    let deadline = Instant::now() + STOP_PATIENCE;
    children.iter_mut().for_each(Child::ask_to_stop);
    children.into_iter().filter_map(|child| child.stopped(deadline)).collect()
}

/// Addresses for nodes that others must know before they listen, and that are theirs again after a
/// restart. They were free a moment ago, and differ: each is held until all are found.
///
/// # Errors
/// The system's, if no port is left.
pub fn free_addresses(ip: Ipv4Addr, count: usize) -> io::Result<Vec<SocketAddr>> {
    let held: io::Result<Vec<_>> = (0..count).map(|_| TcpListener::bind((ip, 0))).collect();
    held?.iter().map(TcpListener::local_addr).collect()
}

/// A thread that hands on the lines of `output` until its end, so that the child never blocks on a
/// full pipe.
fn lines(output: Option<ChildStdout>) -> io::Result<mpsc::Receiver<String>> {
    let (sender, receiver) = mpsc::channel();
    threads::start("child's words", move || {
        let Some(output) = output else { return };
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Nobody listens any more once the first line was taken.
            let _ = sender.send(line);
        }
    })?;
    Ok(receiver)
}

fn address(line: &str) -> Option<SocketAddr> {
    let announcement: serde_json::Value = serde_json::from_str(line).ok()?;
    announcement.get("listening")?.as_str()?.parse().ok()
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// Has the kernel send `number` to the child when the thread that starts it ends, however that
/// happens.
pub fn end_with_parent(command: &mut Command, number: libc::c_int) {
    let parent = std::process::id();
    let before_exec = move || {
        // SAFETY: prctl and getppid are async-signal-safe and touch no memory of this process.
        let (armed, parent_now) = unsafe {
            (libc::prctl(libc::PR_SET_PDEATHSIG, number as libc::c_ulong), libc::getppid())
        };
        if armed != 0 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have ended before the signal was armed.
        if u32::try_from(parent_now) != Ok(parent) {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes async-signal-safe calls and does not
    // allocate: both errors are plain codes.
    unsafe { command.pre_exec(before_exec) };
}

/// Sends a signal to a child that has not been waited for yet, so that its id is still its own.
fn signal(pid: u32, number: libc::c_int) {
    let Ok(pid) = libc::pid_t::try_from(pid) else { return };
    // SAFETY: kill takes two integers; the process is this one's unreaped child.
    unsafe { libc::kill(pid, number) };
}

mod end;
#[cfg(test)]
mod tests;
mod words;

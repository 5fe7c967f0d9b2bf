//! What was typed: one struct per subcommand, dispatch, and what the process's exit status says.
//!
//! Errors go to standard error as one message without a backtrace; standard output is for results.

mod admin;
mod bench_controller;
mod bench_floor;
mod cluster;
mod compare;
mod completions;
mod drive;
mod exit;
mod gate;
mod live;
mod man;
mod node;
mod probe;
mod report;
mod run;
mod schema;
mod share;
mod signals;
mod simulate;
mod torture;
mod trend;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use rustix::fs::FileType;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use self::exit::Failure;

/// Measures what durability costs an acknowledged write: page cache, fsync and O_DIRECT under
/// Kafka's replication rules.
#[derive(Debug, Parser)]
#[command(name = "ackmark", version = VERSION, max_term_width = 100, after_help = EXIT_STATUS_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("ACKMARK_COMMIT"), ")");

const EXIT_STATUS_HELP: &str = "\
Exit status: 0 done; 1 a bar was missed, or a regression; 2 bad arguments, workload or directory; 3
the run is not valid (a node failed, records failed or nothing was measured); 4 measured in another
environment; 5 inconclusive, if asked for; 6 data is wrong (a promise about records was broken); 130
interrupted, with what was measured until then.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArguments),
    Drive(drive::DriveArguments),
    Report(report::ReportArguments),
    Compare(compare::CompareArguments),
    Gate(gate::GateArguments),
    Trend(trend::TrendArguments),
    Probe(probe::ProbeArguments),
    Controller(node::NodeArguments),
    Broker(node::BrokerArguments),
    BenchFloor(bench_floor::BenchFloorArguments),
    Cluster(cluster::ClusterArguments),
    Topics(admin::TopicsArguments),
    ElectLeaders(admin::ElectLeadersArguments),
    Brokers(admin::BrokersArguments),
    Quorum(admin::QuorumArguments),
    BenchController(bench_controller::BenchControllerArguments),
    Schema(schema::SchemaArguments),
    Completions(completions::CompletionsArguments),
    Man(man::ManArguments),
    Simulate(simulate::SimulateArguments),
    Torture(torture::TortureArguments),
}

/// As many open files as this process may ask for: the soft limit is low for programs that use
/// select(2), which none of these does. What it starts inherits that.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Never refused up to the hard limit; where it is all the same, the lower one is reported.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Runs the command line; the exit status is the process's.
pub fn main() -> ExitCode {
    raise_open_files();
    let outcome = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Drive(arguments) => drive::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Gate(arguments) => gate::run(&arguments),
        Command::Trend(arguments) => trend::run(&arguments),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Controller(arguments) => node::run_controller(&arguments),
        Command::Broker(arguments) => node::run_broker(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::BenchFloor(arguments) => bench_floor::run(&arguments),
        Command::Topics(arguments) => admin::run_topics(&arguments),
        Command::ElectLeaders(arguments) => admin::run_elect_leaders(&arguments),
        Command::Brokers(arguments) => admin::run_brokers(&arguments),
        Command::Quorum(arguments) => admin::run_quorum(&arguments),
        Command::BenchController(arguments) => bench_controller::run(&arguments),
        Command::Schema(arguments) => schema::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Man(arguments) => man::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Torture(arguments) => torture::run(&arguments),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(Failure { exit, message }) => {
            say(&format!("ackmark: {message}"));
            exit.into()
        }
    }
}

/// A line on standard error.
fn say(text: &str) {
    // Nobody reads it then.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Text on standard output. A reader that went away (`| head`) or a terminal that hung up is no
/// failure.
fn print(text: &str) -> Result<(), Failure> {
    match print_all(text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe && !signals::is_hung_up() => {
            Err(Failure::invalid(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Text on standard output, where a reader that went away is one.
fn print_all(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Whether standard output is kept or read by anybody. One that was closed is the null device by
/// now: the standard library puts it there before `main`, and writing to it succeeds.
fn is_output_read() -> bool {
    let null = rustix::fs::stat("/dev/null").map(|null| null.st_rdev);
    rustix::fs::fstat(io::stdout()).is_ok_and(|out| {
        !FileType::from_raw_mode(out.st_mode).is_char_device() || null != Ok(out.st_rdev)
    })
}

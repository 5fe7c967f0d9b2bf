//! `ackmark elect-leaders`: asks for elections, and waits until their outcome shows.

use std::thread;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::cluster::Partition;
use super::{AdminError, ClusterArguments, accepted, table};
use crate::cli::exit::{Exit, Failure};
use crate::node::client::Client;
use crate::types::{BrokerId, ErrorCode, PartitionId};
use crate::wire::{
    ApiKey, ElectLeadersRequest, ElectLeadersResponse, ElectLeadersTopic, Request, Response,
};

/// KIP-966's.
const VERSION: i16 = 3;
/// Between two looks at the partitions.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Elect leaders of partitions
#[derive(Debug, Args)]
#[command(
    after_help = "All types but preferred elect for partitions without a leader only. unclean, \
                        longest-log-* and designated may lose acknowledged records."
)]
pub struct ElectLeadersArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// How to choose
    #[arg(long, value_enum, ignore_case = true)]
    election_type: ElectionType,
    /// Which topic
    #[arg(long, value_name = "NAME", requires = "partition")]
    topic: Option<String>,
    /// Which of its partitions; may be repeated
    #[arg(long, value_name = "NUMBER", requires = "topic")]
    partition: Vec<i32>,
    /// Every partition of the cluster
    #[arg(
        long,
        conflicts_with_all = ["topic", "leader"],
        required_unless_present = "topic"
    )]
    all_topic_partitions: bool,
    /// The leader wanted, with --election-type designated
    #[arg(
        long,
        value_name = "BROKER",
        visible_alias = "designated-leader",
        required_if_eq("election_type", "designated")
    )]
    leader: Option<i32>,
    /// How long to wait for the outcome, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Kinds of election, by the numbers they have on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ElectionType {
    /// The first replica, if it is in the ISR
    Preferred,
    /// Any live replica
    Unclean,
    /// The best log, once every replica that may hold acknowledged records has shown its own
    LongestLogBalanced,
    /// The best log of those shown within 5 seconds
    LongestLogProactive,
    /// The one named by --leader
    Designated,
}

impl ElectionType {
    fn code(self) -> i8 {
        match self {
            ElectionType::Preferred => 0,
            ElectionType::Unclean => 1,
            ElectionType::LongestLogBalanced => 2,
            ElectionType::LongestLogProactive => 3,
            ElectionType::Designated => 4,
        }
    }
}

/// What became of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Outcome {
    pub(super) topic: String,
    pub(super) partition: i32,
    /// Kafka's name of the code: `NONE`, `ELECTION_NOT_NEEDED` and so on.
    pub(super) error: &'static str,
    pub(super) message: Option<String>,
    /// The leader seen last.
    pub(super) leader: Option<i32>,
    pub(super) leader_epoch: Option<i32>,
}

impl Outcome {
    fn is_elected(&self) -> bool {
        self.error == ErrorCode::None.name()
    }

    fn is_failure(&self) -> bool {
        !self.is_elected() && self.error != ErrorCode::ElectionNotNeeded.name()
    }
}

#[derive(Debug, Serialize)]
struct Outcomes {
    elections: Vec<Outcome>,
}

/// `ackmark elect-leaders`
pub fn run(arguments: &ElectLeadersArguments) -> Result<Exit, Failure> {
    let (text, exit) = answer(arguments)?;
    crate::cli::print(&text)?;
    Ok(exit)
}

pub(super) fn answer(arguments: &ElectLeadersArguments) -> Result<(String, Exit), AdminError> {
    if arguments.leader.is_some() && arguments.election_type != ElectionType::Designated {
        let message = "--leader goes with --election-type designated only";
        return Err(AdminError::Usage(message.to_owned()));
    }
    let deadline = Instant::now() + Duration::from_secs(arguments.timeout);
    let mut client = arguments.cluster.connect()?;
    let response = ask(arguments, &mut client)?;
    accepted("elect leaders", response.error.code(), None)?;
    let mut elections = outcomes(response);
    await_leaders(arguments, &mut client, &mut elections, deadline)?;
    let failed = elections.iter().any(Outcome::is_failure);
    let exit = if failed { Exit::Invalid } else { Exit::Done };
    Ok((arguments.cluster.render(&Outcomes { elections }, |all| render(&all.elections)), exit))
}

fn ask(
    arguments: &ElectLeadersArguments,
    client: &mut Client,
) -> Result<ElectLeadersResponse, AdminError> {
    let topic = arguments.topic.as_ref().map(|name| ElectLeadersTopic {
        name: name.clone().into(),
        partitions: arguments.partition.iter().copied().map(PartitionId).collect(),
        desired_leaders: arguments
            .leader
            .map(|leader| vec![BrokerId(leader); arguments.partition.len()]),
    });
    let timeout_ms = Duration::from_secs(arguments.timeout).as_millis();
    let request = Request::ElectLeaders(ElectLeadersRequest {
        election_type: arguments.election_type.code(),
        topics: topic.map(|topic| vec![topic]),
        timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
    });
    match client.ask(VERSION, &request)? {
        Response::ElectLeaders(response) => Ok(response),
        _ => Err(client.unexpected(ApiKey::ElectLeaders).into()),
    }
}

fn outcomes(response: ElectLeadersResponse) -> Vec<Outcome> {
    let of_topic = response.topics.into_iter().flat_map(|topic| {
        let name = topic.name.to_string();
        topic.partitions.into_iter().map(move |outcome| Outcome {
            topic: name.clone(),
            partition: outcome.partition.0,
            error: outcome.error.name(),
            message: outcome.message.map(|message| message.to_string()),
            leader: None,
            leader_epoch: None,
        })
    });
    of_topic.collect()
}

/// The controller answers once it has decided: a recovery from logs goes on after that, and brokers
/// learn of any election a moment later.
fn await_leaders(
    arguments: &ElectLeadersArguments,
    client: &mut Client,
    elections: &mut [Outcome],
    deadline: Instant,
) -> Result<(), AdminError> {
    loop {
        let topics = client.topics(arguments.topic.as_slice())?;
        let mut pending = false;
        for outcome in elections.iter_mut().filter(|outcome| !outcome.is_failure()) {
            let topic = topics.iter().find(|topic| topic.name == outcome.topic);
            let mut partitions = topic.into_iter().flat_map(|topic| &topic.partitions);
            let found = partitions.find(|known| known.partition == outcome.partition);
            outcome.leader = found.and_then(|partition| partition.leader);
            outcome.leader_epoch = found.map(|partition| partition.leader_epoch);
            let there = found.is_some_and(|partition| shows(arguments, partition));
            pending |= outcome.is_elected() && !there;
            if outcome.is_elected() && !there && Instant::now() >= deadline {
                outcome.error = ErrorCode::RequestTimedOut.name();
                outcome.message = Some(format!("no such leader within {} s", arguments.timeout));
            }
        }
        if !pending || Instant::now() >= deadline {
            return Ok(());
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Whether the partition looks as the election leaves it.
fn shows(arguments: &ElectLeadersArguments, partition: &Partition) -> bool {
    match arguments.election_type {
        ElectionType::Preferred => partition.leader == partition.replicas.first().copied(),
        ElectionType::Designated => partition.leader == arguments.leader,
        ElectionType::Unclean
        | ElectionType::LongestLogBalanced
        | ElectionType::LongestLogProactive => partition.leader.is_some(),
    }
}

fn render(elections: &[Outcome]) -> String {
    if elections.is_empty() {
        return "no partition needs an election\n".to_owned();
    }
    let or_none = |value: Option<i32>| {
        value.map_or_else(|| table::NONE.to_owned(), |value| value.to_string())
    };
    let rows = elections.iter().map(|outcome| {
        let result = match (outcome.is_elected(), &outcome.message) {
            (true, _) => "elected".to_owned(),
            (false, Some(message)) => format!("{}: {message}", outcome.error),
            (false, None) => outcome.error.to_owned(),
        };
        let partition = outcome.partition.to_string();
        vec![
            outcome.topic.clone(),
            partition,
            or_none(outcome.leader),
            or_none(outcome.leader_epoch),
            result,
        ]
    });
    table::render(&["topic", "partition", "leader", "leader epoch", "outcome"], rows)
}

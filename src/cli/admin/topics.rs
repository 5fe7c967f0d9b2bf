//! `ackmark topics`

use clap::{ArgGroup, Args};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::{CreateTopicsRequest, DeleteTopicsRequest, TopicName};
use serde::Serialize;

use super::cluster::Topic;
use super::settings::{SettingsArguments, Whose};
use super::{AdminError, ClusterArguments, accepted, table};
use crate::cli::exit::{Exit, Failure};
use crate::node::client::Client;
use crate::wire::{ApiKey, Request, Response};

const CREATE_VERSION: i16 = 7;
const DELETE_VERSION: i16 = 6;
/// The cluster decides.
const UNSET: i16 = -1;

/// Create, describe, alter or delete topics
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("action").required(true))]
#[command(after_help = "Settings: min.insync.replicas, unclean.recovery.strategy (Proactive, \
                        Balanced, Manual), unclean.leader.election.enable, ackmark.compat (kip, \
                        kafka-4.2), ackmark.hwm.gate, ackmark.isr.wait, ackmark.isr.expand.")]
pub struct TopicsArguments {
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Create a topic
    #[arg(long, group = "action", requires = "topics")]
    create: bool,
    /// Show leaders, replicas, ISR, ELR and last known ELR of topics, or of all
    #[arg(long, group = "action")]
    describe: bool,
    /// Change settings of topics
    #[arg(long, group = "action", requires = "topics")]
    alter: bool,
    /// Delete topics
    #[arg(long, group = "action", requires = "topics")]
    delete: bool,
    /// Which topic; may be repeated
    #[arg(long = "topic", value_name = "NAME", id = "topics")]
    topics: Vec<String>,
    /// Number of partitions of a new topic (default: 1)
    #[arg(long, value_name = "COUNT", requires = "create")]
    partitions: Option<i32>,
    /// Replicas of each partition of a new topic (default: 1)
    #[arg(long, value_name = "COUNT", requires = "create")]
    replication_factor: Option<i16>,
    /// Replicas of a new topic's partitions one by one, the preferred leader first: 1:2:3,2:3:1
    #[arg(
        long,
        value_name = "REPLICAS",
        requires = "create",
        conflicts_with_all = ["partitions", "replication_factor"],
        value_parser = assignment
    )]
    replica_assignment: Option<Assignment>,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// Replicas of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment(pub(super) Vec<Vec<i32>>);

pub(super) fn assignment(text: &str) -> Result<Assignment, String> {
    let id = |text: &str| text.parse::<i32>().ok().filter(|&id| id >= 0);
    let partition = |text: &str| text.split(':').map(id).collect::<Option<Vec<i32>>>();
    let partitions: Option<Vec<Vec<i32>>> = text.split(',').map(partition).collect();
    partitions.map(Assignment).ok_or_else(|| "must be broker ids such as 1:2:3,2:3:1".to_owned())
}

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct Done<'a> {
    action: &'static str,
    topics: &'a [String],
}

#[derive(Debug, Serialize)]
struct Described {
    topics: Vec<Topic>,
}

/// `ackmark topics`
pub fn run(arguments: &TopicsArguments) -> Result<Exit, Failure> {
    let text = answer(arguments)?;
    crate::cli::print(&text)?;
    Ok(Exit::Done)
}

pub(super) fn answer(arguments: &TopicsArguments) -> Result<String, AdminError> {
    let TopicsArguments { cluster, topics, settings, .. } = arguments;
    if (arguments.describe || arguments.delete) && !settings.is_empty() {
        let message = "--config and --delete-config go with --create and --alter only";
        return Err(AdminError::Usage(message.to_owned()));
    }
    let mut client = cluster.connect()?;
    if arguments.describe {
        let described = Described { topics: client.topics_with_configs(topics)? };
        return Ok(cluster.render(&described, |described| render(&described.topics)));
    }
    let (action, past) = if arguments.create {
        create(arguments, &mut client)?;
        ("create", "created")
    } else if arguments.alter {
        alter(arguments, &mut client)?;
        ("alter", "altered")
    } else {
        delete(topics, &mut client)?;
        ("delete", "deleted")
    };
    Ok(cluster.render(&Done { action, topics }, |done| {
        done.topics.iter().map(|topic| format!("{past} topic {topic}\n")).collect()
    }))
}

fn create(arguments: &TopicsArguments, client: &mut Client) -> Result<(), AdminError> {
    let configs: Vec<CreatableTopicConfig> = arguments
        .settings
        .only_values()?
        .iter()
        .map(|(key, value)| {
            CreatableTopicConfig::default()
                .with_name(key.clone().into())
                .with_value(Some(value.clone().into()))
        })
        .collect();
    let assigned = arguments.replica_assignment.iter().flat_map(|assignment| &assignment.0);
    let assignments: Vec<CreatableReplicaAssignment> = (0..)
        .zip(assigned)
        .map(|(index, replicas)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(index)
                .with_broker_ids(replicas.iter().map(|&id| id.into()).collect())
        })
        .collect();
    let topic = |name: &String| {
        CreatableTopic::default()
            .with_name(TopicName(name.clone().into()))
            .with_num_partitions(arguments.partitions.unwrap_or(UNSET.into()))
            .with_replication_factor(arguments.replication_factor.unwrap_or(UNSET))
            .with_assignments(assignments.clone())
            .with_configs(configs.clone())
    };
    let topics = arguments.topics.iter().map(topic).collect();
    let request = Request::CreateTopics(CreateTopicsRequest::default().with_topics(topics));
    let Response::CreateTopics(answer) = client.ask(CREATE_VERSION, &request)? else {
        return Err(client.unexpected(ApiKey::CreateTopics).into());
    };
    answer.topics.iter().try_for_each(|topic| {
        let what = format!("create topic {}", topic.name.0);
        accepted(&what, topic.error_code, topic.error_message.as_deref())
    })
}

fn alter(arguments: &TopicsArguments, client: &mut Client) -> Result<(), AdminError> {
    if arguments.settings.is_empty() {
        let message = "--alter: name what to change, by --config or --delete-config";
        return Err(AdminError::Usage(message.to_owned()));
    }
    let mut topics = arguments.topics.iter();
    topics.try_for_each(|topic| arguments.settings.apply(client, Whose::Topic(topic)))
}

fn delete(topics: &[String], client: &mut Client) -> Result<(), AdminError> {
    let named =
        |name: &String| DeleteTopicState::default().with_name(Some(TopicName(name.clone().into())));
    let named = topics.iter().map(named).collect();
    let request = Request::DeleteTopics(DeleteTopicsRequest::default().with_topics(named));
    let Response::DeleteTopics(answer) = client.ask(DELETE_VERSION, &request)? else {
        return Err(client.unexpected(ApiKey::DeleteTopics).into());
    };
    answer.responses.iter().try_for_each(|topic| {
        let name = topic.name.as_ref().map_or("", |name| name.0.as_str());
        accepted(&format!("delete topic {name}"), topic.error_code, topic.error_message.as_deref())
    })
}

/// A line about each topic, and a row for each of its partitions.
pub(super) fn render(topics: &[Topic]) -> String {
    const HEADER: [&str; 8] = [
        "partition",
        "leader",
        "leader epoch",
        "replicas",
        "ISR",
        "ELR",
        "last known ELR",
        "offline",
    ];
    let sections = topics.iter().map(|topic| {
        let rows = topic.partitions.iter().map(|partition| {
            vec![
                partition.partition.to_string(),
                partition.leader.map_or_else(|| "none".to_owned(), |leader| leader.to_string()),
                partition.leader_epoch.to_string(),
                table::ids(&partition.replicas),
                table::ids(&partition.isr),
                table::ids(&partition.elr),
                table::ids(&partition.last_known_elr),
                table::ids(&partition.offline_replicas),
            ]
        });
        format!("{}{}", heading(topic), table::render(&HEADER, rows))
    });
    let text = sections.collect::<Vec<_>>().join("\n");
    if text.is_empty() { "there are no topics\n".to_owned() } else { text }
}

fn heading(topic: &Topic) -> String {
    let settings: Vec<String> =
        topic.configs.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let settings = if settings.is_empty() { "defaults".to_owned() } else { settings.join(" ") };
    format!("topic {}  id {}  settings {settings}\n", topic.name, topic.id)
}

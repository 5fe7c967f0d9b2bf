//! The commands against a broker that says what a test wants, and what people see.

use std::io::{Read, Write};
use std::net::TcpListener;

use bytes::Bytes;
use clap::Parser;
use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{
    DescribeClusterResponse, DescribeConfigsResponse, DescribeTopicPartitionsResponse,
    IncrementalAlterConfigsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use super::brokers::{self, BrokersArguments};
use super::elect_leaders::{self, ElectLeadersArguments};
use super::topics::{self, TopicsArguments};
use crate::cli::exit::Exit;
use crate::types::{BrokerId, ErrorCode, PartitionId};
use crate::wire::{
    ElectLeadersOutcome, ElectLeadersResponse, ElectLeadersTopicResponse, Listener, Request,
    Response, encode_response, parse_request,
};

#[derive(Parser)]
struct Topics {
    #[command(flatten)]
    arguments: TopicsArguments,
}

#[derive(Parser)]
struct Brokers {
    #[command(flatten)]
    arguments: BrokersArguments,
}

#[derive(Parser)]
struct Elect {
    #[command(flatten)]
    arguments: ElectLeadersArguments,
}

/// A broker of one connection that answers with what `answer` gives, in turn.
pub(super) fn broker(mut answer: impl FnMut(Request) -> Response + Send + 'static) -> String {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = socket.accept().unwrap();
        let mut length = [0; 4];
        // The command ends the connection when it is done.
        while stream.read_exact(&mut length).is_ok() {
            let mut frame = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut frame).unwrap();
            let (head, request) = parse_request(Listener::Broker, Bytes::from(frame)).unwrap();
            let frame = encode_response(&head, &answer(request)).unwrap();
            stream.write_all(&(frame.len() as u32).to_be_bytes()).unwrap();
            stream.write_all(&frame).unwrap();
        }
    });
    address
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn name(name: &str) -> TopicName {
    TopicName(text(name))
}

fn partition(index: i32, leader: i32) -> DescribeTopicPartitionsResponsePartition {
    let ids = |ids: &[i32]| ids.iter().map(|&id| id.into()).collect::<Vec<_>>();
    DescribeTopicPartitionsResponsePartition::default()
        .with_partition_index(index)
        .with_leader_id(leader.into())
        .with_leader_epoch(4)
        .with_replica_nodes(ids(&[1, 2, 3]))
        .with_isr_nodes(if leader < 0 { vec![] } else { ids(&[leader]) })
        .with_eligible_leader_replicas(Some(if leader < 0 { ids(&[2]) } else { vec![] }))
        .with_last_known_elr(Some(ids(&[3])))
        .with_offline_replicas(ids(&[2, 3]))
}

fn page(
    topics: &[(&str, Vec<DescribeTopicPartitionsResponsePartition>)],
    next: Option<(&str, i32)>,
) -> Response {
    let topic = |(topic, partitions): &(&str, Vec<DescribeTopicPartitionsResponsePartition>)| {
        DescribeTopicPartitionsResponseTopic::default()
            .with_name(Some(name(topic)))
            .with_topic_id(uuid::Uuid::from_bytes([7; 16]))
            .with_partitions(partitions.clone())
    };
    let cursor = next.map(|(topic, index)| {
        Cursor::default().with_topic_name(name(topic)).with_partition_index(index)
    });
    Response::DescribeTopicPartitions(
        DescribeTopicPartitionsResponse::default()
            .with_topics(topics.iter().map(topic).collect())
            .with_next_cursor(cursor),
    )
}

fn configs(values: &[(&str, &str)]) -> Response {
    let value = |(key, value): &(&str, &str)| {
        DescribeConfigsResourceResult::default().with_name(text(key)).with_value(Some(text(value)))
    };
    let result = DescribeConfigsResult::default().with_configs(values.iter().map(value).collect());
    Response::DescribeConfigs(DescribeConfigsResponse::default().with_results(vec![result]))
}

/// Two topics over two pages, cut inside the first.
fn two_topics(request: Request) -> Response {
    match request {
        Request::DescribeTopicPartitions(asked) if asked.cursor.is_none() => {
            page(&[("bench", vec![partition(0, 1)])], Some(("bench", 1)))
        }
        Request::DescribeTopicPartitions(_) => {
            page(&[("bench", vec![partition(1, -1)]), ("other", vec![partition(0, 2)])], None)
        }
        Request::DescribeConfigs(asked) if asked.resources[0].resource_name.as_str() == "bench" => {
            configs(&[("min.insync.replicas", "2"), ("unclean.recovery.strategy", "Manual")])
        }
        Request::DescribeConfigs(_) => configs(&[]),
        other => panic!("{other:?}"),
    }
}

fn run_topics(broker: &str, arguments: &[&str]) -> Result<String, String> {
    let typed = ["topics", "--bootstrap", broker].into_iter().chain(arguments.iter().copied());
    let parsed = Topics::try_parse_from(typed).map_err(|error| error.to_string())?;
    topics::answer(&parsed.arguments).map_err(|error| error.to_string())
}

#[test]
fn topics_are_described_with_elr_and_last_known_elr() {
    expect_test::expect![[r#"
        topic bench  id 07070707070707070707070707070707  settings min.insync.replicas=2 unclean.recovery.strategy=Manual
        partition  leader  leader epoch  replicas  ISR  ELR  last known ELR  offline
        0          1       4             1,2,3     1    -    3               2,3
        1          none    4             1,2,3     -    2    3               2,3

        topic other  id 07070707070707070707070707070707  settings defaults
        partition  leader  leader epoch  replicas  ISR  ELR  last known ELR  offline
        0          2       4             1,2,3     2    -    3               2,3
    "#]]
    .assert_eq(&run_topics(&broker(two_topics), &["--describe"]).unwrap());
}

#[test]
fn json_has_the_same_values() {
    let json = run_topics(&broker(two_topics), &["--describe", "--json"]).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let paused = &value["topics"][0]["partitions"][1];
    assert_eq!(paused["leader"], serde_json::Value::Null);
    assert_eq!(paused["elr"], serde_json::json!([2]));
    assert_eq!(paused["last_known_elr"], serde_json::json!([3]));
    assert_eq!(value["topics"][0]["configs"]["unclean.recovery.strategy"], "Manual");
}

#[test]
fn what_was_typed_is_checked_before_anybody_is_asked() {
    let nobody = "127.0.0.1:1";
    for (arguments, message) in [
        (&["--create"][..], "--topic <NAME>"),
        (&[][..], "<--create|--describe|--alter|--delete>"),
        (&["--create", "--describe", "--topic", "t"][..], "cannot be used with"),
        (&["--alter", "--topic", "t", "--config", "x"][..], "must be KEY=VALUE"),
        (&["--describe", "--config", "k=v"][..], "--create and --alter only"),
        (
            &["--create", "--topic", "t", "--replica-assignment", "1:a"][..],
            "must be broker ids such as 1:2:3,2:3:1",
        ),
    ] {
        let error = run_topics(nobody, arguments).unwrap_err();
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
    let error = run_topics(nobody, &["--describe"]).unwrap_err();
    assert!(error.starts_with("connect to 127.0.0.1:1: "), "{error}");
}

#[test]
fn a_refused_setting_is_told_in_the_clusters_words() {
    let refusing = broker(|request| {
        let Request::IncrementalAlterConfigs(asked) = request else { panic!("{request:?}") };
        let resource = &asked.resources[0];
        assert_eq!((resource.resource_type, resource.resource_name.as_str()), (2, "bench"));
        let config = |index: usize| {
            let config = &resource.configs[index];
            (config.name.to_string(), config.config_operation, config.value.clone())
        };
        assert_eq!(config(0), ("min.insync.replicas".into(), 0, Some(text("0"))));
        assert_eq!(config(1), ("ackmark.hwm.gate".into(), 1, None));
        let outcome = AlterConfigsResourceResponse::default()
            .with_error_code(ErrorCode::InvalidConfig.code())
            .with_error_message(Some(text("min.insync.replicas = 0: must be 1")));
        Response::IncrementalAlterConfigs(
            IncrementalAlterConfigsResponse::default().with_responses(vec![outcome]),
        )
    });
    let typed = [
        "--alter",
        "--topic",
        "bench",
        "--config",
        "min.insync.replicas=0",
        "--delete-config",
        "ackmark.hwm.gate",
    ];
    assert_eq!(
        run_topics(&refusing, &typed).unwrap_err(),
        "alter topic bench: INVALID_CONFIG: min.insync.replicas = 0: must be 1"
    );
}

#[test]
fn brokers_are_listed_with_their_part_in_the_partitions() {
    let address = broker(|request| match request {
        Request::DescribeCluster(asked) => {
            assert!(asked.include_fenced_brokers);
            let broker = |id: i32, fenced| {
                DescribeClusterBroker::default()
                    .with_broker_id(id.into())
                    .with_host(text("127.0.0.1"))
                    .with_port(9090 + id)
                    .with_is_fenced(fenced)
            };
            let brokers = vec![broker(1, false), broker(2, true)];
            Response::DescribeCluster(DescribeClusterResponse::default().with_brokers(brokers))
        }
        Request::DescribeConfigs(_) => configs(&[("min.insync.replicas", "1")]),
        other => two_topics(other),
    });
    let typed = ["brokers", "--bootstrap", address.as_str()];
    let parsed = Brokers::try_parse_from(typed).unwrap();
    expect_test::expect![[r#"
        broker  address         rack  state   leads  in ISR  replicas
        1       127.0.0.1:9091  -     active  1      1       3
        2       127.0.0.1:9092  -     fenced  1      1       3
        default min.insync.replicas=1
    "#]]
    .assert_eq(&brokers::answer(&parsed.arguments).unwrap());
}

fn elected(outcomes: &[(i32, ErrorCode, Option<&str>)]) -> Response {
    let outcome = |&(partition, error, message): &(i32, ErrorCode, Option<&str>)| {
        let message = message.map(text);
        ElectLeadersOutcome { partition: PartitionId(partition), error, message }
    };
    let partitions = outcomes.iter().map(outcome).collect();
    let topics = vec![ElectLeadersTopicResponse { name: text("bench"), partitions }];
    Response::ElectLeaders(ElectLeadersResponse { error: ErrorCode::None, topics })
}

fn run_elect(broker: &str, arguments: &[&str]) -> Result<(String, Exit), String> {
    let typed =
        ["elect-leaders", "--bootstrap", broker].into_iter().chain(arguments.iter().copied());
    let parsed = Elect::try_parse_from(typed).map_err(|error| error.to_string())?;
    elect_leaders::answer(&parsed.arguments).map_err(|error| error.to_string())
}

#[test]
fn an_election_is_awaited_and_each_outcome_told() {
    let mut looks = 0;
    let address = broker(move |request| match request {
        Request::ElectLeaders(asked) => {
            assert_eq!(asked.election_type, 4);
            let topic = &asked.topics.unwrap()[0];
            assert_eq!(topic.desired_leaders, Some(vec![BrokerId(3), BrokerId(3)]));
            let needless = Some("the partition has a leader: 1");
            elected(&[(0, ErrorCode::None, None), (1, ErrorCode::ElectionNotNeeded, needless)])
        }
        Request::DescribeTopicPartitions(_) => {
            looks += 1;
            let leader = if looks < 3 { -1 } else { 3 };
            page(&[("bench", vec![partition(0, leader), partition(1, 1)])], None)
        }
        other => panic!("{other:?}"),
    });
    let typed = [
        "--election-type",
        "DESIGNATED",
        "--topic",
        "bench",
        "--partition",
        "0",
        "--partition",
        "1",
        "--leader",
        "3",
    ];
    let (text, exit) = run_elect(&address, &typed).unwrap();
    expect_test::expect![[r#"
        topic  partition  leader  leader epoch  outcome
        bench  0          3       4             elected
        bench  1          1       4             ELECTION_NOT_NEEDED: the partition has a leader: 1
    "#]]
    .assert_eq(&text);
    assert_eq!(exit, Exit::Done);
}

#[test]
fn an_election_that_does_not_show_in_time_is_a_failure() {
    let address = broker(|request| match request {
        Request::ElectLeaders(_) => elected(&[(0, ErrorCode::None, None)]),
        _ => page(&[("bench", vec![partition(0, -1)])], None),
    });
    let typed =
        ["--election-type", "longest-log-balanced", "--all-topic-partitions", "--timeout", "0"];
    let (text, exit) = run_elect(&address, &typed).unwrap();
    expect_test::expect![[r#"
        topic  partition  leader  leader epoch  outcome
        bench  0          -       4             REQUEST_TIMED_OUT: no such leader within 0 s
    "#]]
    .assert_eq(&text);
    assert_eq!(exit, Exit::Invalid);
}

#[test]
fn an_election_names_partitions_and_the_leader_it_wants() {
    let nobody = "127.0.0.1:1";
    for (arguments, message) in [
        (&["--election-type", "preferred"][..], "--all-topic-partitions"),
        (&["--election-type", "preferred", "--topic", "t"][..], "--partition <NUMBER>"),
        (&["--election-type", "fastest", "--all-topic-partitions"][..], "longest-log-proactive"),
        (
            &["--election-type", "designated", "--topic", "t", "--partition", "0"][..],
            "--leader <BROKER>",
        ),
        (
            &["--election-type", "unclean", "--topic", "t", "--partition", "0", "--leader", "1"][..],
            "--leader goes with --election-type designated only",
        ),
    ] {
        let error = run_elect(nobody, arguments).unwrap_err();
        assert!(error.contains(message), "{arguments:?}: {error}");
    }
}

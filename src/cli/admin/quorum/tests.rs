use clap::Parser;
use kafka_protocol::messages::describe_quorum_response as schema;

use super::*;
use crate::cli::admin::tests::broker;
use crate::types::ErrorCode;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    arguments: QuorumArguments,
}

fn string(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn quorum_response(code: ErrorCode) -> Response {
    let replica = |id: i32, end: i64, fetched: i64| {
        schema::ReplicaState::default()
            .with_replica_id(id.into())
            .with_log_end_offset(end)
            .with_last_fetch_timestamp(fetched)
    };
    let partition = schema::PartitionData::default()
        .with_error_code(code.code())
        .with_error_message((code != ErrorCode::None).then(|| string("nobody leads")))
        .with_leader_id(101.into())
        .with_leader_epoch(4)
        .with_high_watermark(29)
        .with_current_voters(vec![replica(101, 30, 5), replica(102, 28, 1), replica(103, -1, -1)])
        .with_observers(vec![replica(1, 29, 0)]);
    let node = |id: i32| {
        let listener =
            schema::Listener::default().with_host(string("127.0.0.1")).with_port(9_000 + id as u16);
        schema::Node::default().with_node_id(id.into()).with_listeners(vec![listener])
    };
    let topic = schema::TopicData::default().with_partitions(vec![partition]);
    Response::DescribeQuorum(
        kafka_protocol::messages::DescribeQuorumResponse::default()
            .with_topics(vec![topic])
            .with_nodes((101..=103).map(node).collect()),
    )
}

fn ask_quorum(code: ErrorCode, more: &[&str]) -> Result<String, String> {
    let address = broker(move |_| quorum_response(code));
    let arguments = [&["quorum", "--bootstrap", &address], more].concat();
    answer(&Typed::parse_from(arguments).arguments).map_err(|error| error.to_string())
}

#[test]
fn a_quorum_shows_leader_commit_and_lag() {
    let text = ask_quorum(ErrorCode::None, &[]).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("leader 101 in epoch 4; log end 30, committed 29, largest lag of a voter 30")
    );
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = lines.skip(1).map(words).collect();
    assert_eq!(rows[0], ["101", "127.0.0.1:9101", "leader", "30", "0", "-"]);
    assert_eq!(rows[1][..5], ["102", "127.0.0.1:9102", "follower", "28", "2"]);
    assert_eq!(rows[2], ["103", "127.0.0.1:9103", "follower", "-", "-", "-"]);
    assert_eq!(rows[3][..5], ["1", "-", "observer", "29", "1"]);

    let json: serde_json::Value =
        serde_json::from_str(&ask_quorum(ErrorCode::None, &["--json"]).unwrap()).unwrap();
    assert_eq!(json["leader"], 101);
    assert_eq!(json["voters"][1]["lag"], 2);
    assert_eq!(json["voters"][2]["log_end_offset"], serde_json::Value::Null);
    assert_eq!(json["observers"][0]["last_fetch_timestamp_ms"], 0);
}

#[test]
fn a_quorum_without_a_leader_is_an_error_in_words() {
    let error = ask_quorum(ErrorCode::LeaderNotAvailable, &[]).unwrap_err();
    assert_eq!(error, "describe the quorum: LEADER_NOT_AVAILABLE: nobody leads");
}

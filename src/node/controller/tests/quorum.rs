//! Three voters: who leads, what survives, who may commit.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use super::cluster::{alter_partition, create_topic, created, three_brokers};
use super::process::{Client, Process, config};
use super::trio::{Trio, wait};
use crate::node::controller::{on_event_loop, serve};
use crate::types::{BrokerId, ErrorCode, PartitionEpoch, PartitionId, TopicId, TopicPartition};
use crate::wire::Response;

/// Where a voter keeps its vote.
const VOTE: &str = "quorum-state";
/// Entries between snapshots that no test here reaches.
const NO_SNAPSHOT: u64 = 100_000;

fn partition_epoch(client: &mut Client, topic: TopicId) -> i32 {
    let id = TopicPartition { topic, partition: PartitionId(0) };
    client.metadata().partition(id).unwrap().partition_epoch.0
}

/// The ISR has two members after an odd number of changes.
fn change(topic: TopicId, epoch: i32, brokers: &[(i32, i64)]) -> crate::wire::Request {
    alter_partition(topic, epoch, &brokers[..if epoch % 2 == 0 { 2 } else { 3 }])
}

fn altered(response: Response) -> ErrorCode {
    let Response::AlterPartition(answer) = response else { panic!("{response:?}") };
    match answer.topics.first().and_then(|topic| topic.partitions.first()) {
        Some(partition) => ErrorCode::from_code(partition.error_code),
        None => ErrorCode::from_code(answer.error_code),
    }
}

#[test]
fn a_killed_active_controller_is_replaced_and_no_change_is_lost_or_made_twice() {
    let mut trio = Trio::start(NO_SNAPSHOT);
    let mut client = trio.connect(trio.active());
    let brokers = three_brokers(&mut client);
    assert_eq!(created(client.ask(7, create_topic("bench", 3, &[]))).0, ErrorCode::None);
    let topic = client.metadata().topic_id("bench").unwrap();

    let mut epoch = 0;
    for _ in 0..3 {
        let active = trio.active();
        let mut client = trio.connect(active);
        for _ in 0..20 {
            assert_eq!(altered(client.ask(3, change(topic, epoch, &brokers))), ErrorCode::None);
            epoch += 1;
        }
        let before = client.metadata();
        // One more is on its way when the controller is killed.
        client.send(3, &change(topic, epoch, &brokers));
        trio.crash(active);

        let mut client = trio.connect(trio.active());
        let found = partition_epoch(&mut client, topic);
        assert!((epoch..=epoch + 1).contains(&found), "{found} after {epoch} acknowledged ones");
        if found == epoch {
            // Same offsets, same everything: the new leader's log is the old one's.
            assert_eq!(client.metadata(), before);
        } else {
            let again = altered(client.ask(3, change(topic, epoch, &brokers)));
            assert_eq!(again, ErrorCode::InvalidUpdateVersion);
        }
        epoch = found;
        trio.restart(active);
    }

    let seen = trio.connect(trio.active()).metadata();
    trio.settle();
    for stored in trio.into_stored() {
        assert_eq!(stored, seen);
    }
    let id = TopicPartition { topic, partition: PartitionId(0) };
    assert_eq!(seen.partition(id).unwrap().partition_epoch, PartitionEpoch(epoch));
}

#[test]
fn voters_that_are_not_active_say_so_and_name_the_one_that_is() {
    let trio = Trio::start(NO_SNAPSHOT);
    let active = trio.active();
    trio.settle();
    let other = (active + 1) % 3;
    let mut client = trio.connect(other);
    assert_eq!(client.register(1, 1), Err(ErrorCode::NotController));
    let Response::CreateTopics(_) = client.ask(7, create_topic("t", 1, &[])) else { panic!() };
    let answer = client.fetch(crate::types::Offset(0), 0, None);
    assert_eq!(answer.error, ErrorCode::NotLeaderOrFollower);
    let leader = answer.current_leader.unwrap();
    assert_eq!(leader.id, Some(BrokerId(100 + active as i32)));

    let view = trio.view(active);
    assert_eq!((view.leader, view.term), (Some(100 + active as i32), leader.epoch.0));
    let ends: Vec<_> = view.voters.iter().map(|voter| voter.log_end).collect();
    assert_eq!(ends, [Some(view.log_end); 3]);
    assert_eq!(trio.view(other).leader, view.leader);
}

#[test]
fn a_leader_without_a_majority_commits_nothing_and_gives_up() {
    let trio = Trio::start(NO_SNAPSHOT);
    let stale = trio.active();
    trio.connect(stale).register(7, 7).unwrap();
    trio.isolate(stale, true);
    // It still believes it leads; what it decides now is in its log only.
    let mut stranded = trio.connect(stale);
    assert_eq!(stranded.register(9, 9), Err(ErrorCode::NotController));
    let active = trio.active_but(Some(stale));
    trio.connect(active).register(8, 8).unwrap();
    assert_eq!(stranded.register(9, 9), Err(ErrorCode::NotController));

    trio.isolate(stale, false);
    wait("the stale leader to follow", || {
        let view = trio.view(stale);
        view.committed == trio.view(trio.active()).log_end
    });
    trio.settle();
    for stored in trio.into_stored() {
        let brokers: Vec<i32> = stored.brokers().map(|broker| broker.id.0).collect();
        assert_eq!(brokers, [7, 8]);
    }
}

#[test]
fn a_voter_with_a_torn_log_catches_up() {
    let mut trio = Trio::start(NO_SNAPSHOT);
    let active = trio.active();
    let torn = (active + 1) % 3;
    trio.connect(active).register(1, 1).unwrap();
    trio.settle();
    trio.crash(torn);
    trio.connect(active).register(2, 2).unwrap();
    let log = trio.data_dir(torn).join("__cluster_metadata-0/00000000000000000000.log");
    let whole = std::fs::read(&log).unwrap();
    // Half a batch, as an interrupted write leaves it.
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(&whole[..40]).unwrap();
    drop(file);
    trio.restart(torn);
    trio.settle();
    let [one, two, three] = trio.into_stored();
    assert_eq!((&one, &one), (&two, &three));
    assert!(one.broker(BrokerId(2)).is_some());
}

#[test]
fn a_quiet_quorum_keeps_its_leader() {
    let trio = Trio::start(NO_SNAPSHOT);
    let active = trio.active();
    let term = trio.view(active).term;
    // A long poll that nothing answers spans several times the patience for a silent majority.
    let mut client = trio.connect(active);
    let end = client.metadata().end_offset();
    let answer = client.fetch(end, 3_000, None);
    assert_eq!(answer.error, ErrorCode::None);
    assert_eq!(trio.view(active).term, term);
}

/// What the files of an only voter can have become, and what it says of it.
#[test]
fn a_damaged_file_of_an_only_voter_is_told_and_not_waited_for() {
    let log = format!("{:020}.log", 0);
    let [empty, directory, no_text]: [fn(&Path); 3] = [
        |file| std::fs::write(file, b"").unwrap(),
        |file| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        },
        |file| std::fs::write(file, b"{\"leaderEpoch\":\xff}").unwrap(),
    ];
    for (name, damage, says) in [
        (&*log, empty, "the metadata log is empty"),
        (&*log, directory, ""),
        (VOTE, empty, "the vote makes no sense"),
        (VOTE, no_text, "the vote makes no sense"),
        (VOTE, directory, ""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        Process::start(config(dir.path())).stop();
        let file = dir.path().join("__cluster_metadata-0").join(name);
        damage(&file);
        let ended = on_event_loop(async {
            let started = serve(config(dir.path()), |_, _| Ok(()), std::future::ready(()));
            tokio::time::timeout(Duration::from_secs(60), started).await.expect("an answer")
        });
        let error = ended.expect_err(name).to_string();
        assert!(error.starts_with(&format!("{}: {says}", file.display())), "{error}");
    }
}

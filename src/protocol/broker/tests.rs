use std::time::Duration;

use super::*;
use crate::protocol::controller::{AlterPartition, Heartbeat, HeartbeatReply, Registration};
use crate::protocol::metadata::{ClusterMetadata, IncarnationId, Record, RegisterBroker};
use crate::protocol::partition::{IsrCommitted, IsrProposal};
use crate::types::{
    AlterPartitionPolicy, BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Offset,
    PartitionEpoch, PartitionId, TopicId, TopicPartition,
};

const INTERVAL: Duration = Duration::from_millis(2000);
const BROKER: BrokerId = BrokerId(1);

fn at(millis: u64) -> MonotonicTime {
    MonotonicTime::ZERO.plus(Duration::from_millis(millis))
}

#[test]
fn roles_wait_for_the_brokers_own_registration() {
    let mut metadata = ClusterMetadata::default();
    let mut register = |epoch| {
        let record = Record::RegisterBroker(RegisterBroker {
            broker: BROKER,
            incarnation: IncarnationId([1; 16]),
            epoch: BrokerEpoch(epoch),
            endpoints: vec![],
            features: vec![],
            rack: None,
            fenced: true,
            in_controlled_shutdown: false,
            log_dirs: vec![],
        });
        metadata.apply(Offset(epoch), &record).expect("a record that fits");
        let may = |epoch: Option<i64>| may_take_roles(&metadata, BROKER, epoch.map(BrokerEpoch));
        [may(None), may(Some(0)), may(Some(1))]
    };
    assert_eq!(register(0), [false, true, false], "metadata up to the registration before");
    assert_eq!(register(1), [false, false, true], "metadata up to its own");
    assert!(!may_take_roles(&metadata, BrokerId(2), None), "not registered at all");
}

fn registration() -> Registration {
    Registration {
        broker: BROKER,
        cluster_id: "c".to_owned(),
        incarnation: IncarnationId([1; 16]),
        endpoints: vec![],
        features: vec![],
        rack: None,
        log_dirs: vec![],
        previous_epoch: Some(BrokerEpoch(57)),
        damaged: vec![],
    }
}

fn lifecycle() -> Lifecycle {
    Lifecycle::new(registration(), INTERVAL, at(0))
}

fn step(lifecycle: &mut Lifecycle, millis: u64, input: LifecycleInput) -> Vec<LifecycleOutput> {
    let mut out = Vec::new();
    lifecycle.step(at(millis), input, &mut out);
    out
}

fn heartbeat(metadata_end: i64, want_fence: bool, want_shut_down: bool) -> LifecycleOutput {
    LifecycleOutput::Heartbeat(Heartbeat {
        offline_log_dirs: vec![],
        broker: BROKER,
        epoch: BrokerEpoch(60),
        metadata_end: Offset(metadata_end),
        want_fence,
        want_shut_down,
        resources: None,
    })
}

fn reply(is_caught_up: bool, is_fenced: bool, should_shut_down: bool) -> LifecycleInput {
    LifecycleInput::Heartbeat(Ok(HeartbeatReply { is_caught_up, is_fenced, should_shut_down }))
}

/// A broker in service that just heard an answer at `millis`.
fn running(millis: u64) -> Lifecycle {
    let mut broker = lifecycle();
    for input in [
        LifecycleInput::Tick,
        LifecycleInput::Registered(Ok(BrokerEpoch(60))),
        LifecycleInput::Ready,
        LifecycleInput::MetadataApplied(Offset(61)),
        reply(true, false, false),
        reply(true, false, false),
    ] {
        step(&mut broker, millis, input);
    }
    assert_eq!(broker.state(), LifecycleState::Running);
    broker
}

#[test]
fn a_broker_registers_catches_up_is_unfenced() {
    use LifecycleState::{Recovery, Running};
    let mut broker = lifecycle();
    assert_eq!(
        step(&mut broker, 0, LifecycleInput::Tick),
        [LifecycleOutput::Register(registration())]
    );
    assert_eq!(broker.deadline(), None);
    assert_eq!(
        step(&mut broker, 5, LifecycleInput::Registered(Ok(BrokerEpoch(60)))),
        [LifecycleOutput::Epoch(BrokerEpoch(60)), heartbeat(0, true, false)]
    );
    // 10 ms while starting.
    assert_eq!(step(&mut broker, 6, reply(false, true, false)), []);
    assert_eq!(broker.deadline(), Some(at(16)));
    step(&mut broker, 7, LifecycleInput::MetadataApplied(Offset(61)));
    assert_eq!(step(&mut broker, 16, LifecycleInput::Tick), [heartbeat(61, true, false)]);
    assert_eq!(step(&mut broker, 17, reply(true, true, false)), [LifecycleOutput::State(Recovery)]);
    // Ready: the wish to be unfenced does not wait for the interval.
    assert_eq!(step(&mut broker, 20, LifecycleInput::Ready), [heartbeat(61, false, false)]);
    assert_eq!(step(&mut broker, 21, reply(true, false, false)), [LifecycleOutput::State(Running)]);
    assert_eq!(broker.deadline(), Some(at(2021)));
}

#[test]
fn a_live_session_of_the_last_process_is_waited_out() {
    let mut broker = lifecycle();
    step(&mut broker, 0, LifecycleInput::Tick);
    let duplicate = LifecycleInput::Registered(Err(ErrorCode::DuplicateBrokerRegistration));
    assert_eq!(step(&mut broker, 1, duplicate), []);
    assert_eq!(broker.deadline(), Some(at(2001)));
    assert_eq!(
        step(&mut broker, 2001, LifecycleInput::Tick),
        [LifecycleOutput::Register(registration())]
    );
}

#[test]
fn a_hopeless_registration_is_reported() {
    let mut broker = lifecycle();
    step(&mut broker, 0, LifecycleInput::Tick);
    let error = ErrorCode::InconsistentClusterId;
    let refused = step(&mut broker, 1, LifecycleInput::Registered(Err(error)));
    assert_eq!(refused, [LifecycleOutput::Refused(error)]);
}

#[test]
fn errors_and_lost_connections_wait_an_interval() {
    let mut broker = running(100);
    step(&mut broker, 2100, LifecycleInput::Tick);
    step(&mut broker, 2150, LifecycleInput::Disconnected);
    assert_eq!(broker.deadline(), Some(at(4150)));
    step(&mut broker, 4150, LifecycleInput::Tick);
    step(&mut broker, 4160, LifecycleInput::Heartbeat(Err(ErrorCode::NotController)));
    assert_eq!(broker.deadline(), Some(at(6160)));
    assert_eq!(broker.state(), LifecycleState::Running);
}

#[test]
fn an_unknown_epoch_means_registering_again_and_not_as_clean() {
    let mut broker = running(100);
    step(&mut broker, 2100, LifecycleInput::Tick);
    let stale = LifecycleInput::Heartbeat(Err(ErrorCode::StaleBrokerEpoch));
    assert_eq!(step(&mut broker, 2101, stale), [LifecycleOutput::State(LifecycleState::Starting)]);
    let again = Registration { previous_epoch: None, ..registration() };
    assert_eq!(step(&mut broker, 4101, LifecycleInput::Tick), [LifecycleOutput::Register(again)]);
}

#[test]
fn stopping_asks_at_once_then_after_50_ms_then_every_interval() {
    let mut broker = running(0);
    assert_eq!(
        step(&mut broker, 10, LifecycleInput::ShutDown),
        [
            LifecycleOutput::State(LifecycleState::PendingControlledShutdown),
            heartbeat(61, false, true)
        ]
    );
    step(&mut broker, 12, reply(true, false, false));
    assert_eq!(broker.deadline(), Some(at(62)));
    step(&mut broker, 62, LifecycleInput::Tick);
    step(&mut broker, 63, reply(true, false, false));
    assert_eq!(broker.deadline(), Some(at(2063)));
    step(&mut broker, 2063, LifecycleInput::Tick);
    assert_eq!(
        step(&mut broker, 2064, reply(true, true, true)),
        [LifecycleOutput::State(LifecycleState::ShuttingDown)]
    );
    assert_eq!(broker.deadline(), None);
}

#[test]
fn a_wish_to_stop_during_a_heartbeat_follows_its_answer() {
    let mut broker = running(0);
    step(&mut broker, 2000, LifecycleInput::Tick);
    step(&mut broker, 2001, LifecycleInput::ShutDown);
    assert_eq!(step(&mut broker, 2002, reply(true, false, false)), [heartbeat(61, false, true)]);
}

#[test]
fn a_broker_that_never_registered_stops_at_once() {
    let mut broker = lifecycle();
    step(&mut broker, 0, LifecycleInput::Tick);
    assert_eq!(
        step(&mut broker, 1, LifecycleInput::ShutDown),
        [LifecycleOutput::State(LifecycleState::ShuttingDown)]
    );
}

fn id(partition: i32) -> TopicPartition {
    TopicPartition { topic: TopicId([7; 16]), partition: PartitionId(partition) }
}

fn proposal(partition_epoch: i32) -> IsrProposal {
    IsrProposal {
        leader_epoch: LeaderEpoch(1),
        partition_epoch: PartitionEpoch(partition_epoch),
        isr: vec![(BROKER, Some(BrokerEpoch(60)))],
        recovering: false,
    }
}

fn committed() -> IsrCommitted {
    IsrCommitted {
        leader: Some(BROKER),
        leader_epoch: LeaderEpoch(1),
        partition_epoch: PartitionEpoch(5),
        isr: vec![BROKER],
    }
}

fn queue() -> IsrProposals {
    let mut queue = IsrProposals::new(BROKER);
    ask(&mut queue, 0, IsrProposalsInput::Epoch(BrokerEpoch(60)));
    ask(&mut queue, 0, IsrProposalsInput::Connected);
    queue
}

fn ask(queue: &mut IsrProposals, millis: u64, input: IsrProposalsInput) -> Vec<IsrProposalsOutput> {
    let mut out = Vec::new();
    queue.step(at(millis), input, &mut out);
    out
}

fn propose(queue: &mut IsrProposals, partition: i32, epoch: i32) -> Vec<IsrProposalsOutput> {
    ask(queue, 1, IsrProposalsInput::Propose(id(partition), proposal(epoch)))
}

fn sends(partitions: &[(i32, i32)]) -> IsrProposalsOutput {
    IsrProposalsOutput::Send(AlterPartition {
        broker: BROKER,
        epoch: BrokerEpoch(60),
        proposals: partitions.iter().map(|&(p, epoch)| (id(p), proposal(epoch))).collect(),
    })
}

fn answer(partitions: &[(i32, Result<IsrCommitted, ErrorCode>)]) -> IsrProposalsInput {
    let answers = partitions.iter().map(|(partition, result)| (id(*partition), result.clone()));
    IsrProposalsInput::Answered(Ok(answers.collect()))
}

fn is_committed(partition: i32, epoch: i32) -> IsrProposalsOutput {
    IsrProposalsOutput::Committed {
        id: id(partition),
        proposal: proposal(epoch),
        committed: committed(),
    }
}

fn is_refused(partition: i32, epoch: i32, error: ErrorCode) -> IsrProposalsOutput {
    IsrProposalsOutput::Refused { id: id(partition), proposal: proposal(epoch), error }
}

#[test]
fn one_request_in_flight_and_the_rest_goes_out_together() {
    let mut queue = queue();
    assert_eq!(propose(&mut queue, 0, 4), [sends(&[(0, 4)])]);
    assert_eq!(propose(&mut queue, 2, 4), []);
    assert_eq!(propose(&mut queue, 1, 4), []);
    assert_eq!(
        ask(&mut queue, 5, answer(&[(0, Ok(committed()))])),
        [is_committed(0, 4), sends(&[(1, 4), (2, 4)])]
    );
}

#[test]
fn without_batches_each_proposal_has_its_own_request_in_turn() {
    let mut queue = queue().under(AlterPartitionPolicy { single_flight: true, batched: false });
    assert_eq!(propose(&mut queue, 0, 4), [sends(&[(0, 4)])]);
    assert_eq!(propose(&mut queue, 2, 4), []);
    assert_eq!(propose(&mut queue, 1, 4), []);
    for (answered, next) in [(0, 1), (1, 2)] {
        let out = ask(&mut queue, 5, answer(&[(answered, Ok(committed()))]));
        assert_eq!(out, [is_committed(answered, 4), sends(&[(next, 4)])]);
    }
    assert_eq!(ask(&mut queue, 5, answer(&[(2, Ok(committed()))])), [is_committed(2, 4)]);
}

#[test]
fn without_single_flight_proposals_leave_at_once_and_are_answered_in_turn() {
    let mut queue = queue().under(AlterPartitionPolicy { single_flight: false, batched: true });
    assert_eq!(propose(&mut queue, 1, 4), [sends(&[(1, 4)])]);
    assert_eq!(propose(&mut queue, 0, 4), [sends(&[(0, 4)])]);
    assert_eq!(queue.deadline(), None);
    assert_eq!(ask(&mut queue, 5, answer(&[(1, Ok(committed()))])), [is_committed(1, 4)]);
    // Whatever the second request's answer says of the first one's partition is not its business.
    let foreign = answer(&[(1, Ok(committed())), (0, Err(ErrorCode::IneligibleReplica))]);
    assert_eq!(ask(&mut queue, 6, foreign), [is_refused(0, 4, ErrorCode::IneligibleReplica)]);
    // Those that waited for the connection leave together.
    ask(&mut queue, 7, IsrProposalsInput::Disconnected);
    propose(&mut queue, 3, 4);
    propose(&mut queue, 2, 4);
    assert_eq!(ask(&mut queue, 8, IsrProposalsInput::Connected), [sends(&[(2, 4), (3, 4)])]);
}

#[test]
fn a_second_proposal_of_a_partition_is_not_attempted_and_the_first_is_kept() {
    let mut queue = queue();
    propose(&mut queue, 0, 4);
    assert_eq!(propose(&mut queue, 0, 5), [is_refused(0, 5, ErrorCode::OperationNotAttempted)]);
    assert_eq!(ask(&mut queue, 2, answer(&[(0, Ok(committed()))])), [is_committed(0, 4)]);
}

#[test]
fn an_error_for_all_is_retried_after_50_ms_with_what_came_meanwhile() {
    let mut queue = queue();
    propose(&mut queue, 0, 4);
    propose(&mut queue, 1, 4);
    let stale = IsrProposalsInput::Answered(Err(ErrorCode::StaleBrokerEpoch));
    assert_eq!(ask(&mut queue, 10, stale), []);
    assert_eq!(queue.deadline(), Some(at(60)));
    assert_eq!(ask(&mut queue, 60, IsrProposalsInput::Tick), [sends(&[(0, 4), (1, 4)])]);
}

#[test]
fn a_partition_missing_from_the_answer_is_asked_about_again() {
    let mut queue = queue();
    propose(&mut queue, 0, 4);
    assert_eq!(ask(&mut queue, 2, answer(&[])), [sends(&[(0, 4)])]);
    // An answer about something that was not asked changes nothing.
    let foreign = answer(&[(3, Ok(committed())), (0, Err(ErrorCode::IneligibleReplica))]);
    assert_eq!(ask(&mut queue, 3, foreign), [is_refused(0, 4, ErrorCode::IneligibleReplica)]);
    assert_eq!(queue.unanswered(), 0);
}

#[test]
fn one_partitions_not_controller_requeues_the_whole_request() {
    let mut queue = queue();
    ask(&mut queue, 0, IsrProposalsInput::Disconnected);
    propose(&mut queue, 0, 4);
    propose(&mut queue, 1, 4);
    let both = sends(&[(0, 4), (1, 4)]);
    assert_eq!(ask(&mut queue, 1, IsrProposalsInput::Connected), std::slice::from_ref(&both));
    let mixed = answer(&[(0, Ok(committed())), (1, Err(ErrorCode::NotController))]);
    assert_eq!(ask(&mut queue, 2, mixed), [IsrProposalsOutput::ForgetController]);
    assert_eq!(queue.deadline(), Some(at(102)));
    assert_eq!(ask(&mut queue, 102, IsrProposalsInput::Tick), [both]);
}

#[test]
fn a_lost_connection_requeues_and_waits_for_the_next_one() {
    let mut queue = queue();
    propose(&mut queue, 0, 4);
    ask(&mut queue, 2, IsrProposalsInput::Disconnected);
    assert_eq!(queue.deadline(), None);
    // The answer of the lost connection comes too late.
    assert_eq!(ask(&mut queue, 3, answer(&[(0, Ok(committed()))])), []);
    assert_eq!(ask(&mut queue, 4, IsrProposalsInput::Connected), [sends(&[(0, 4)])]);
}

mod clean_stop {
    use crate::protocol::broker::{
        Damage, FoundLog, Problem, VouchedLog, clean_registration, damages,
    };
    use crate::types::{
        BrokerEpoch, LeaderEpoch, Offset, PartitionId, StoredFile, TopicId, TopicPartition,
    };

    fn file(name: &str, bytes: u64, tail_crc: u32) -> StoredFile {
        StoredFile { name: name.to_owned(), bytes, tail: 0..bytes, tail_crc }
    }

    fn id(partition: i32) -> TopicPartition {
        TopicPartition { topic: TopicId([7; 16]), partition: PartitionId(partition) }
    }

    fn vouched(partition: i32) -> VouchedLog {
        VouchedLog {
            directory: format!("t-{partition}"),
            id: id(partition),
            log_end_offset: Offset(42),
            last_epoch: Some(LeaderEpoch(3)),
            files: vec![file("a.log", 100, 1), file("b.log", 50, 2)],
        }
    }

    fn as_left(partition: i32) -> FoundLog {
        let VouchedLog { directory, id, files, .. } = vouched(partition);
        FoundLog { directory, id: Some(id), files }
    }

    #[test]
    fn anything_but_the_same_files_is_damage_of_that_partition_alone() {
        type Change = fn(&mut FoundLog);
        let cases: [(Change, Problem); 6] = [
            (|log| drop(log.files.remove(0)), Problem::Missing("a.log".into())),
            (
                |log| log.files[1].bytes = 49,
                Problem::Length { file: "b.log".into(), expected: 50, found: 49 },
            ),
            (
                |log| log.files[1].bytes = 51,
                Problem::Length { file: "b.log".into(), expected: 50, found: 51 },
            ),
            (
                |log| log.files[0].tail_crc = 9,
                Problem::Tail { file: "a.log".into(), expected: 1, found: 9 },
            ),
            (|log| log.files.push(file("c.log", 1, 1)), Problem::Extra("c.log".into())),
            (|log| log.id = None, Problem::OtherPartition),
        ];
        let marked = [vouched(0), vouched(1)];
        assert_eq!(damages(&marked, &[as_left(0), as_left(1)]), []);
        for (change, problem) in cases {
            let mut changed = as_left(1);
            change(&mut changed);
            let found = damages(&marked, &[as_left(0), changed]);
            let expected = Damage {
                directory: "t-1".into(),
                id: Some(id(1)),
                log_end_offset: Some(Offset(42)),
                problem,
            };
            assert_eq!(found, [expected]);
            let epoch = Some(BrokerEpoch(5));
            assert_eq!(clean_registration(epoch, &found), (epoch, vec![id(1)]));
            assert_eq!(clean_registration(None, &found), (None, vec![]));
        }
    }

    #[test]
    fn a_missing_or_new_directory_is_damage_and_one_without_a_name_is_everybodys() {
        let missing = damages(&[vouched(0)], &[]);
        assert_eq!(missing[0].problem, Problem::NoDirectory);
        let new = damages(&[], &[as_left(0)]);
        assert_eq!((new[0].id, &new[0].problem), (Some(id(0)), &Problem::NotVouched));
        let nameless = damages(&[], &[FoundLog { id: None, ..as_left(0) }]);
        assert_eq!(clean_registration(Some(BrokerEpoch(5)), &nameless), (None, vec![]));
    }
}

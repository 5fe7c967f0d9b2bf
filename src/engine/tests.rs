//! What every engine must do, run against each of them. A difference between engines that an app
//! could notice belongs here.

mod disk;
mod host;
mod sockets;
mod turns;

use std::time::Duration;

use self::host::Remote;
use super::{EngineError, Limits};

/// An engine's `run`.
type Run = fn(Remote, Limits, Option<usize>) -> Result<Remote, EngineError>;

/// No half frame of a test is ever idle for this long, unless idling is what it tests.
const LIMITS: Limits =
    Limits { frame_bytes_max: 8 << 20, half_frame_idle_max: Duration::from_secs(600) };

macro_rules! on_each_engine {
    ($($room:ident: $($scenario:ident)+;)+) => {
        mod uring {
            $($(#[test]
            fn $scenario() {
                super::$room::$scenario(crate::engine::uring::run);
            })+)+
        }
        mod glommio {
            $($(#[test]
            fn $scenario() {
                super::$room::$scenario(crate::engine::glommio::run);
            })+)+
        }
    };
}

on_each_engine! {
    sockets:
        echoes_frames
        joins_frames_that_arrive_in_pieces
        keeps_connections_apart
        answers_a_thousand_pipelined_frames_in_order
        sends_head_and_payload_as_one_frame
        carries_frames_between_two_shards
        closes_only_the_connection_with_a_bad_length
        tells_that_a_connect_was_refused
        tells_that_the_peer_closed
        tells_that_the_peer_reset
        queues_for_a_slow_reader_and_drains
        sends_what_is_queued_before_it_closes
        closes_at_last_towards_a_peer_that_takes_nothing
        ends_a_connection_at_once_when_nothing_is_queued
        ignores_sends_to_a_connection_that_is_gone
        stops_reading_while_paused
        closes_a_connection_idle_in_the_middle_of_a_frame
        leaves_a_connection_idle_between_frames_alone;
    disk:
        writes_buffered_by_every_route
        writes_direct_by_every_route
        syncs_without_data
        keeps_many_writes_in_flight
        reads_only_up_to_the_end
        reads_direct_up_to_the_end
        tells_that_a_write_failed
        refuses_a_file_it_does_not_know
        finishes_what_is_in_flight_on_a_closed_file
        takes_nothing_new_on_a_closed_file
        finishes_what_is_in_flight_when_the_app_ends;
    turns:
        fires_the_deadline_not_before_its_time
        fires_a_deadline_that_has_passed
        sleeps_past_a_deadline_taken_back
        wakes_for_other_threads
        goes_on_through_signals
        ends_when_the_app_is_finished;
}

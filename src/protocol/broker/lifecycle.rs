//! A broker's life in the cluster: it registers, heartbeats, is unfenced, and asks to stop.
//!
//! ```text
//! STARTING -> RECOVERY: the controller says that its registration is applied here
//! RECOVERY -> RUNNING: the controller says that it is not fenced
//! any but SHUTTING_DOWN -> PENDING_CONTROLLED_SHUTDOWN: asked to stop, registered
//! any but SHUTTING_DOWN -> SHUTTING_DOWN: asked to stop, never registered
//! PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN: the controller says so
//! any but PENDING_CONTROLLED_SHUTDOWN, SHUTTING_DOWN -> STARTING: the controller does not know the
//!     broker epoch; it registers again
//! ```
//! One request is in flight at most. Source: spec/kip966.md 2.1, 2.2.

use std::time::Duration;

use crate::protocol::controller::{Heartbeat, HeartbeatReply, Registration};
use crate::protocol::metadata::ClusterMetadata;
use crate::types::{BrokerEpoch, BrokerId, ErrorCode, MonotonicTime, Offset};

/// Spacing of heartbeats while starting: a broker without recovery work starts sooner.
const STARTING_SPACING: Duration = Duration::from_millis(10);
/// Spacing after the first answer to a wish to stop: an idle broker stops sooner.
const FIRST_SHUTDOWN_SPACING: Duration = Duration::from_millis(50);

/// Whether the process that was registered with `epoch` may take roles from `metadata`: once its own
/// registration is in it. Metadata from before may name it the leader of an epoch in which its log
/// held records that it has lost since; followers still in that epoch would cut theirs after it.
pub fn may_take_roles(
    metadata: &ClusterMetadata,
    broker: BrokerId,
    epoch: Option<BrokerEpoch>,
) -> bool {
    epoch.is_some() && metadata.broker(broker).map(|known| known.epoch) == epoch
}

/// Where a broker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleState {
    /// Not registered, or its registration is not applied here yet.
    Starting,
    /// Caught up with the metadata log; still fenced.
    Recovery,
    /// Unfenced (or fenced for a while by an expired session).
    Running,
    /// Hands over its leaderships.
    PendingControlledShutdown,
    /// May stop.
    ShuttingDown,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LifecycleInput {
    /// The answer to [`LifecycleOutput::Register`].
    Registered(Result<BrokerEpoch, ErrorCode>),
    /// The answer to [`LifecycleOutput::Heartbeat`].
    Heartbeat(Result<HeartbeatReply, ErrorCode>),
    /// The request in flight, if any, will not be answered.
    Disconnected,
    /// All metadata records below this offset are applied here, not just read.
    MetadataApplied(Offset),
    /// Logs are recovered and roles taken: the broker may be unfenced.
    Ready,
    /// Asked to stop in an orderly way.
    ShutDown,
    /// The deadline passed.
    Tick,
}

/// What the shell must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleOutput {
    /// Send BrokerRegistration.
    Register(Registration),
    /// Send BrokerHeartbeat.
    Heartbeat(Heartbeat),
    /// The broker epoch from now on.
    Epoch(BrokerEpoch),
    /// A new state.
    State(LifecycleState),
    /// The controller will never accept this registration; the process should end.
    Refused(ErrorCode),
}

/// See the module.
/// Invariants: a request in flight has no deadline; `epoch` is known in every state but Starting and
/// ShuttingDown.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    registration: Registration,
    heartbeat_interval: Duration,
    state: LifecycleState,
    epoch: Option<BrokerEpoch>,
    metadata_end: Offset,
    ready: bool,
    in_flight: bool,
    /// When to send next, if nothing is in flight.
    next_send: MonotonicTime,
    /// Something happened while a request was in flight: send again as soon as it is answered.
    send_again: bool,
    shutdown_answered: bool,
}

impl Lifecycle {
    /// A broker that registers at once. `registration` carries the incarnation id of this process
    /// and the previous broker epoch, if the last stop was clean.
    pub fn new(
        registration: Registration,
        heartbeat_interval: Duration,
        now: MonotonicTime,
    ) -> Lifecycle {
        Lifecycle {
            registration,
            heartbeat_interval,
            state: LifecycleState::Starting,
            epoch: None,
            metadata_end: Offset::ZERO,
            ready: false,
            in_flight: false,
            next_send: now,
            send_again: false,
            shutdown_answered: false,
        }
    }

    /// Where the broker is.
    pub fn state(&self) -> LifecycleState {
        self.state
    }

    /// The broker epoch, once registered.
    pub fn epoch(&self) -> Option<BrokerEpoch> {
        self.epoch
    }

    /// When [`LifecycleInput::Tick`] is due; `None` while an answer is awaited, and at the end.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        let waiting = self.in_flight || self.state == LifecycleState::ShuttingDown;
        (!waiting).then_some(self.next_send)
    }

    /// Takes one input.
    pub fn step(
        &mut self,
        now: MonotonicTime,
        input: LifecycleInput,
        out: &mut Vec<LifecycleOutput>,
    ) {
        match input {
            LifecycleInput::Registered(answer) => self.registered(now, answer, out),
            LifecycleInput::Heartbeat(answer) => self.heartbeat_answered(now, answer, out),
            LifecycleInput::Disconnected => {
                if self.in_flight {
                    self.answered(now, self.heartbeat_interval);
                }
            }
            LifecycleInput::MetadataApplied(end) => {
                self.metadata_end = self.metadata_end.max(end);
            }
            LifecycleInput::Ready => {
                self.ready = true;
                self.send_soon(now);
            }
            LifecycleInput::ShutDown => self.shut_down(now, out),
            LifecycleInput::Tick => {}
        }
        self.send_if_due(now, out);
    }

    fn registered(
        &mut self,
        now: MonotonicTime,
        answer: Result<BrokerEpoch, ErrorCode>,
        out: &mut Vec<LifecycleOutput>,
    ) {
        match answer {
            Ok(epoch) => {
                self.epoch = Some(epoch);
                // This life's end was not clean, should the controller forget it.
                self.registration.previous_epoch = None;
                self.answered(now, Duration::ZERO);
                out.push(LifecycleOutput::Epoch(epoch));
            }
            Err(error) => {
                self.answered(now, self.heartbeat_interval);
                if is_final(error) {
                    out.push(LifecycleOutput::Refused(error));
                }
            }
        }
    }

    fn heartbeat_answered(
        &mut self,
        now: MonotonicTime,
        answer: Result<HeartbeatReply, ErrorCode>,
        out: &mut Vec<LifecycleOutput>,
    ) {
        match answer {
            Ok(reply) => {
                let spacing = self.spacing_after_answer();
                self.answered(now, spacing);
                self.advance(reply, out);
            }
            Err(ErrorCode::StaleBrokerEpoch) => self.lose_registration(now, out),
            Err(_) => self.answered(now, self.heartbeat_interval),
        }
    }

    fn spacing_after_answer(&mut self) -> Duration {
        match self.state {
            LifecycleState::Starting => STARTING_SPACING,
            LifecycleState::PendingControlledShutdown if !self.shutdown_answered => {
                self.shutdown_answered = true;
                FIRST_SHUTDOWN_SPACING
            }
            LifecycleState::Recovery
            | LifecycleState::Running
            | LifecycleState::PendingControlledShutdown
            | LifecycleState::ShuttingDown => self.heartbeat_interval,
        }
    }

    fn advance(&mut self, reply: HeartbeatReply, out: &mut Vec<LifecycleOutput>) {
        match self.state {
            LifecycleState::Starting if reply.is_caught_up => {
                self.enter(LifecycleState::Recovery, out);
            }
            LifecycleState::Recovery if !reply.is_fenced => {
                self.enter(LifecycleState::Running, out);
            }
            LifecycleState::PendingControlledShutdown if reply.should_shut_down => {
                self.enter(LifecycleState::ShuttingDown, out);
            }
            LifecycleState::Starting
            | LifecycleState::Recovery
            | LifecycleState::Running
            | LifecycleState::PendingControlledShutdown
            | LifecycleState::ShuttingDown => {}
        }
    }

    fn lose_registration(&mut self, now: MonotonicTime, out: &mut Vec<LifecycleOutput>) {
        match self.state {
            LifecycleState::PendingControlledShutdown => {
                // Nothing is left to hand over.
                self.enter(LifecycleState::ShuttingDown, out);
            }
            LifecycleState::Starting | LifecycleState::Recovery | LifecycleState::Running => {
                self.epoch = None;
                self.enter(LifecycleState::Starting, out);
            }
            LifecycleState::ShuttingDown => {}
        }
        self.answered(now, self.heartbeat_interval);
    }

    fn shut_down(&mut self, now: MonotonicTime, out: &mut Vec<LifecycleOutput>) {
        match (self.state, self.epoch) {
            (LifecycleState::PendingControlledShutdown | LifecycleState::ShuttingDown, _) => {}
            (_, None) => self.enter(LifecycleState::ShuttingDown, out),
            (_, Some(_)) => {
                self.enter(LifecycleState::PendingControlledShutdown, out);
                self.send_soon(now);
            }
        }
    }

    fn enter(&mut self, state: LifecycleState, out: &mut Vec<LifecycleOutput>) {
        if self.state != state {
            self.state = state;
            out.push(LifecycleOutput::State(state));
        }
    }

    fn send_soon(&mut self, now: MonotonicTime) {
        if self.in_flight {
            self.send_again = true;
        } else if self.epoch.is_some() {
            self.next_send = now;
        }
    }

    fn answered(&mut self, now: MonotonicTime, spacing: Duration) {
        self.in_flight = false;
        let spacing = if std::mem::take(&mut self.send_again) { Duration::ZERO } else { spacing };
        self.next_send = now.plus(spacing);
    }

    fn send_if_due(&mut self, now: MonotonicTime, out: &mut Vec<LifecycleOutput>) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        self.in_flight = true;
        out.push(match self.epoch {
            None => LifecycleOutput::Register(self.registration.clone()),
            Some(epoch) => LifecycleOutput::Heartbeat(Heartbeat {
                broker: self.registration.broker,
                epoch,
                metadata_end: self.metadata_end,
                want_fence: !self.ready,
                want_shut_down: self.state == LifecycleState::PendingControlledShutdown,
                // A directory that fails ends the process.
                offline_log_dirs: Vec::new(),
                // The shell knows.
                resources: None,
            }),
        });
    }
}

/// Errors of a registration that no waiting cures.
fn is_final(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::InconsistentClusterId
            | ErrorCode::InvalidRegistration
            | ErrorCode::UnsupportedVersion
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::BrokerIdNotRegistered
    )
}

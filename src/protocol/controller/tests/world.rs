//! A controller, the time, and a log that commits at once.

use std::time::Duration;

use crate::protocol::controller::*;
use crate::protocol::metadata::{
    ClusterMetadata, DirectoryId, IncarnationId, PartitionRegistration, Record, RegisterBroker,
    supported_features,
};
use crate::types::{
    BrokerEpoch, BrokerId, MonotonicTime, Offset, PartitionId, TopicId, TopicPartition,
};

pub(in crate::protocol::controller) const TOPIC: TopicId = TopicId([7; 16]);
pub(in crate::protocol::controller) const SESSION_TIMEOUT: Duration = Duration::from_secs(1000);

pub(in crate::protocol::controller) struct World {
    pub(in crate::protocol::controller) controller: Controller,
    pub(in crate::protocol::controller) now: MonotonicTime,
    pub(in crate::protocol::controller) written: Vec<Record>,
    /// Questions to brokers.
    pub(in crate::protocol::controller) others: Vec<Output>,
    incarnations: u8,
}

pub(in crate::protocol::controller) fn partition_id(partition: i32) -> TopicPartition {
    TopicPartition { topic: TOPIC, partition: PartitionId(partition) }
}

pub(in crate::protocol::controller) fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

pub(in crate::protocol::controller) fn settings(compat: Compat) -> Settings {
    Settings {
        unclean_election_interval: Duration::from_millis(1),
        unclean_recovery_manager: false,
        quirks: Quirks::of(compat),
        ..Settings::new("cluster".to_owned(), SESSION_TIMEOUT)
    }
}

pub(in crate::protocol::controller) fn directory(broker: BrokerId) -> DirectoryId {
    DirectoryId([u8::try_from(broker.0 + 1).unwrap(); 16])
}

/// A registered broker with epoch 100 + id.
pub(in crate::protocol::controller) fn registered(
    broker: BrokerId,
    fenced: bool,
    in_controlled_shutdown: bool,
) -> Record {
    Record::RegisterBroker(RegisterBroker {
        broker,
        incarnation: IncarnationId([0; 16]),
        epoch: BrokerEpoch(100 + i64::from(broker.0)),
        endpoints: vec![],
        features: supported_features(),
        rack: None,
        fenced,
        in_controlled_shutdown,
        log_dirs: vec![directory(broker)],
    })
}

impl World {
    /// A controller that takes over a log of `records`.
    pub(in crate::protocol::controller) fn of(settings: Settings, records: &[Record]) -> World {
        let mut metadata = ClusterMetadata::default();
        for (offset, record) in (0..).zip(records) {
            metadata.apply(Offset(offset), record).unwrap();
        }
        let now = MonotonicTime(1);
        let mut out = Vec::new();
        let controller = Controller::start(settings, metadata, Offset(1000), now, &mut out);
        let mut world =
            World { controller, now, written: Vec::new(), others: Vec::new(), incarnations: 0 };
        world.commit(out);
        world
    }

    pub(in crate::protocol::controller) fn metadata(&self) -> &ClusterMetadata {
        self.controller.metadata()
    }

    pub(in crate::protocol::controller) fn partition(
        &self,
        partition: i32,
    ) -> &PartitionRegistration {
        self.metadata().partition(partition_id(partition)).unwrap()
    }

    pub(in crate::protocol::controller) fn ask(&mut self, body: Request) -> Response {
        let mut out = Vec::new();
        let input = Input::Request { request: RequestId(1), body };
        self.controller.step(self.now, input, &mut out);
        self.commit(out).expect("every request is answered once its records are committed")
    }

    pub(in crate::protocol::controller) fn tick(&mut self) {
        let mut out = Vec::new();
        self.controller.step(self.now, Input::Tick, &mut out);
        self.commit(out);
    }

    pub(in crate::protocol::controller) fn pass(&mut self, duration: Duration) {
        self.now = self.now.plus(duration);
    }

    fn commit(&mut self, mut out: Vec<Output>) -> Option<Response> {
        let mut end = Offset::ZERO;
        for output in &out {
            if let Output::Append { base_offset, records } = output {
                end = base_offset.plus(records.len() as i64);
                self.written.extend(records.iter().cloned());
            }
        }
        self.controller.step(self.now, Input::Committed { end }, &mut out);
        let mut response = None;
        for output in out {
            match output {
                Output::Respond { response: given, .. } => response = Some(given),
                Output::Append { .. } => {}
                asked @ Output::AskReplicaLogs { .. } => self.others.push(asked),
            }
        }
        response
    }

    pub(in crate::protocol::controller) fn epoch(&self, broker: BrokerId) -> BrokerEpoch {
        self.metadata().broker(broker).map_or(BrokerEpoch(0), |known| known.epoch)
    }

    pub(in crate::protocol::controller) fn heartbeat(
        &mut self,
        broker: BrokerId,
        fence: bool,
        shut_down: bool,
    ) -> Response {
        let heartbeat = Heartbeat {
            broker,
            epoch: self.epoch(broker),
            metadata_end: Offset(i64::MAX),
            want_fence: fence,
            want_shut_down: shut_down,
            offline_log_dirs: vec![],
            resources: None,
        };
        self.ask(Request::Heartbeat(heartbeat))
    }

    /// The session of `broker` expires while every other active broker is heard from.
    pub(in crate::protocol::controller) fn expire(&mut self, broker: BrokerId) {
        self.pass(SESSION_TIMEOUT + Duration::from_nanos(1));
        let active = self.metadata().brokers().filter(|b| b.is_active() && b.id != broker);
        let others: Vec<BrokerId> = active.map(|other| other.id).collect();
        for other in others {
            self.heartbeat(other, false, false);
        }
        self.tick();
    }

    pub(in crate::protocol::controller) fn registration(
        &mut self,
        broker: BrokerId,
        previous_epoch: Option<i64>,
        new_incarnation: bool,
    ) -> Registration {
        self.incarnations += u8::from(new_incarnation);
        let registered = self.metadata().broker(broker);
        let endpoints = registered.map(|known| known.endpoints.clone()).unwrap_or_default();
        let known = registered.filter(|_| !new_incarnation);
        Registration {
            broker,
            cluster_id: "cluster".to_owned(),
            incarnation: known
                .map_or(IncarnationId([self.incarnations; 16]), |known| known.incarnation),
            endpoints,
            features: supported_features(),
            rack: None,
            log_dirs: vec![directory(broker)],
            previous_epoch: previous_epoch.map(BrokerEpoch),
            damaged: vec![],
        }
    }

    /// Registers after the old session has expired.
    pub(in crate::protocol::controller) fn register(
        &mut self,
        broker: BrokerId,
        previous_epoch: Option<i64>,
        new_incarnation: bool,
    ) -> Response {
        self.pass(SESSION_TIMEOUT + Duration::from_nanos(1));
        let registration = self.registration(broker, previous_epoch, new_incarnation);
        self.ask(Request::RegisterBroker(registration))
    }

    /// Every unfenced broker is heard from.
    pub(in crate::protocol::controller) fn keep_alive(&mut self) {
        let unfenced: Vec<BrokerId> =
            self.metadata().brokers().filter(|b| !b.fenced).map(|b| b.id).collect();
        for broker in unfenced {
            self.heartbeat(broker, false, false);
        }
    }
}

//! A controller on a thread of its own, and a client that speaks to it over a real socket.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::broker_registration_request::{Feature, Listener};
use kafka_protocol::messages::{BrokerHeartbeatRequest, BrokerRegistrationRequest};
use kafka_protocol::protocol::StrBytes;
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::config::node::ControllerConfig;
use crate::node::controller::{ControllerError, Listening, on_event_loop, serve};
use crate::protocol::metadata::{ClusterMetadata, ELR_FEATURE, METADATA_VERSION_FEATURE};
use crate::record::{batches, records};
use crate::types::{BrokerId, ErrorCode, LeaderEpoch, Offset, PartitionId, TopicId};
use crate::wire::{
    FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic, FetchingReplica, Request,
    Response, TopicRef, decode_metadata_record, encode_request, parse_response,
};

pub(super) const CLUSTER: &str = "cluster";

pub(super) struct Process {
    pub(super) address: SocketAddr,
    stop: oneshot::Sender<()>,
    crash: oneshot::Sender<()>,
    thread: JoinHandle<Result<(), ControllerError>>,
}

pub(in crate::node::controller) fn config(data_dir: &Path) -> ControllerConfig {
    ControllerConfig {
        node_id: BrokerId(100),
        cluster_id: CLUSTER.to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        data_dir: data_dir.to_owned(),
        session_timeout: Duration::from_secs(3600),
        metadata_append_linger: Duration::ZERO,
        commit_delay: Duration::ZERO,
        request_bytes_max: 1 << 20,
        voters: Vec::new(),
        election_timeout: Duration::from_millis(500),
        snapshot_interval_entries: 10_000,
        metrics_listen: None,
        election: crate::config::defaults::ELECTION,
    }
}

impl Process {
    pub(super) fn start(config: ControllerConfig) -> Process {
        let (stop, stopped) = oneshot::channel();
        let (crash, crashed) = oneshot::channel::<()>();
        let (ready, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let say = move |listening: Listening, _| {
                ready.send(listening.address).unwrap();
                Ok(())
            };
            let stopped = async {
                let _ = stopped.await;
            };
            on_event_loop(async {
                tokio::select! {
                    ended = serve(config, say, stopped) => ended,
                    _ = crashed => Ok(()),
                }
            })
        });
        match address.recv() {
            Ok(address) => Process { address, stop, crash, thread },
            Err(_) => panic!("{:?}", thread.join().unwrap()),
        }
    }

    pub(super) fn stop(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap().unwrap();
    }

    /// Ends it where it stands, as SIGKILL does: nothing is flushed, nobody is told.
    pub(super) fn crash(self) {
        self.crash.send(()).unwrap();
        self.thread.join().unwrap().unwrap();
    }

    pub(super) fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // A frame leaves in two writes: the second must not wait for the first one's acknowledgement.
        stream.set_nodelay(true).unwrap();
        Client { stream, next: 0 }
    }
}

pub(super) struct Client {
    pub(super) stream: TcpStream,
    next: i32,
}

impl Client {
    pub(super) fn send(&mut self, version: i16, request: &Request) {
        let frame = encode_request(self.next, "test", version, request).unwrap();
        self.send_bytes(&(frame.len() as i32).to_be_bytes());
        self.send_bytes(&frame);
    }

    pub(super) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub(super) fn receive_frame(&mut self) -> Bytes {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        Bytes::from(frame)
    }

    pub(super) fn receive(&mut self, version: i16, request: &Request) -> Response {
        let frame = self.receive_frame();
        let (correlation_id, response) = parse_response(request.api(), version, frame).unwrap();
        assert_eq!(correlation_id, self.next);
        self.next += 1;
        response
    }

    pub(super) fn ask(&mut self, version: i16, request: Request) -> Response {
        self.send(version, &request);
        self.receive(version, &request)
    }

    /// Registers with an incarnation id made of `incarnation`, and gives the broker epoch.
    pub(super) fn register(&mut self, broker: i32, incarnation: u8) -> Result<i64, ErrorCode> {
        self.register_as(registration(broker, incarnation))
    }

    pub(super) fn register_as(
        &mut self,
        request: BrokerRegistrationRequest,
    ) -> Result<i64, ErrorCode> {
        match self.ask(4, Request::BrokerRegistration(request)) {
            Response::BrokerRegistration(answer) if answer.error_code == 0 => {
                Ok(answer.broker_epoch)
            }
            Response::BrokerRegistration(answer) => Err(ErrorCode::from_code(answer.error_code)),
            other => panic!("{other:?}"),
        }
    }

    /// Gives (caught up, fenced).
    pub(super) fn heartbeat(&mut self, broker: i32, epoch: i64, applied: i64) -> (bool, bool) {
        let request = BrokerHeartbeatRequest::default()
            .with_broker_id(broker.into())
            .with_broker_epoch(epoch)
            .with_current_metadata_offset(applied);
        match self.ask(1, Request::BrokerHeartbeat(request)) {
            Response::BrokerHeartbeat(answer) => {
                assert_eq!(answer.error_code, 0);
                (answer.is_caught_up, answer.is_fenced)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn fetch(
        &mut self,
        offset: Offset,
        wait_ms: i32,
        epoch: Option<LeaderEpoch>,
    ) -> FetchPartitionResponse {
        match self.ask(17, Request::Fetch(fetch_request(offset, wait_ms, epoch))) {
            Response::Fetch(mut answer) => answer.topics.remove(0).partitions.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Follows the metadata log to its end, as a broker does.
    pub(super) fn follow(&mut self, metadata: &mut ClusterMetadata, wait_ms: i32) {
        loop {
            let answer = self.fetch(metadata.end_offset(), wait_ms, None);
            assert_eq!(answer.error, ErrorCode::None);
            let end = answer.high_watermark.unwrap();
            answer.records.iter().for_each(|bytes| apply(metadata, bytes));
            if metadata.end_offset() == end {
                return;
            }
        }
    }

    pub(super) fn metadata(&mut self) -> ClusterMetadata {
        let mut metadata = ClusterMetadata::default();
        self.follow(&mut metadata, 0);
        metadata
    }

    /// Whether the controller has closed the connection.
    pub(super) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// Where the broker listens, in `registration`.
pub(super) fn listener(port: u16) -> Vec<Listener> {
    let string = StrBytes::from_static_str;
    let listener = Listener::default().with_name(string("PLAINTEXT"));
    vec![listener.with_host(string("127.0.0.1")).with_port(port)]
}

/// A first registration, from a port where nobody listens.
pub(super) fn registration(broker: i32, incarnation: u8) -> BrokerRegistrationRequest {
    let string = StrBytes::from_static_str;
    let feature = |name, max| {
        Feature::default()
            .with_name(string(name))
            .with_min_supported_version(0)
            .with_max_supported_version(max)
    };
    BrokerRegistrationRequest::default()
        .with_broker_id(broker.into())
        .with_cluster_id(string(CLUSTER))
        .with_incarnation_id(Uuid::from_bytes([incarnation; 16]))
        .with_listeners(listener(1))
        .with_features(vec![feature(METADATA_VERSION_FEATURE, 27), feature(ELR_FEATURE, 2)])
        .with_log_dirs(vec![Uuid::from_bytes([u8::try_from(broker).unwrap() + 1; 16])])
}

pub(super) fn fetch_request(
    offset: Offset,
    wait_ms: i32,
    epoch: Option<LeaderEpoch>,
) -> FetchRequest {
    let partition = FetchPartition {
        partition: PartitionId(0),
        current_leader_epoch: epoch,
        fetch_offset: offset,
        last_fetched_epoch: None,
        log_start_offset: None,
        partition_max_bytes: 1 << 20,
        stamps: None,
        durable_offset: None,
    };
    FetchRequest {
        cluster_id: Some(StrBytes::from_static_str(CLUSTER)),
        replica: Some(FetchingReplica { id: BrokerId(1), epoch: None }),
        max_wait_ms: wait_ms,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: TopicRef { name: StrBytes::default(), id: TopicId::METADATA },
            partitions: vec![partition],
        }],
        trace_high_watermark: false,
    }
}

pub(super) fn apply(metadata: &mut ClusterMetadata, bytes: &Bytes) {
    for found in batches(bytes) {
        let (header, range) = found.unwrap();
        if header.is_control() {
            continue;
        }
        let batch = bytes.slice(range);
        for found in records(&batch).unwrap() {
            let found = found.unwrap();
            let value = batch.slice_ref(found.value.unwrap());
            let offset = header.base_offset.plus(found.offset_delta.into());
            if offset >= metadata.end_offset() {
                metadata.apply(offset, &decode_metadata_record(&value).unwrap()).unwrap();
            }
        }
    }
}

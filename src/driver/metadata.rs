//! The connection that asks the cluster about itself: creates the topic, waits for its leaders, and
//! asks again when a leader has moved.
//!
//! States: `Versions` → `Create` → `Describe` → `Settled` → `Describe` (on [`MetadataClient::refresh`])
//! → … . Each has one request out at most. A lost connection asks the next known broker.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, CreateTopicsRequest, CreateTopicsResponse,
    MetadataRequest, MetadataResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;

use crate::driver::error::DriverError;
use crate::driver::link::Link;
use crate::driver::spec::CellSpec;
use crate::driver::{CLIENT_ID, FETCH_VERSION, PRODUCE_VERSION};
use crate::engine::{ConnectionId, Io};
use crate::types::{BrokerId, ErrorCode, MonotonicTime, PartitionId};
use crate::wire::{self, ApiKey, Request, Response};

/// How long each of several addresses of a broker may take to be connected to.
const ADDRESS_PATIENCE: Duration = Duration::from_millis(500);
const API_VERSIONS_VERSION: i16 = 3;
const CREATE_TOPICS_VERSION: i16 = 7;
const METADATA_VERSION: i16 = 12;

/// Pause between two looks at a topic that is not ready: an election takes a few milliseconds, and
/// what is waited here is part of every outage that is measured.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// Who leads what, as one broker told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The brokers and where they listen.
    pub brokers: Vec<(BrokerId, SocketAddr)>,
    /// The leader of each partition, by index.
    pub leaders: Vec<Option<BrokerId>>,
    /// Partitions whose ISR lacks a replica or that have no leader.
    pub not_ready: Vec<PartitionId>,
}

impl View {
    /// Where a broker listens.
    pub fn address_of(&self, broker: BrokerId) -> Option<SocketAddr> {
        self.brokers.iter().find(|(id, _)| *id == broker).map(|(_, address)| *address)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Versions,
    Create,
    Describe,
    Settled,
}

impl Step {
    fn request(self) -> Option<(ApiKey, i16)> {
        match self {
            Step::Versions => Some((ApiKey::ApiVersions, API_VERSIONS_VERSION)),
            Step::Create => Some((ApiKey::CreateTopics, CREATE_TOPICS_VERSION)),
            Step::Describe => Some((ApiKey::Metadata, METADATA_VERSION)),
            Step::Settled => None,
        }
    }
}

/// The topic to create or to describe.
#[derive(Clone, Debug)]
struct Topic {
    name: StrBytes,
    partitions: i32,
    replication_factor: i16,
    configs: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    correlation_id: i32,
    at: MonotonicTime,
}

/// Asks the cluster about itself.
#[derive(Debug)]
pub struct MetadataClient {
    topic: Topic,
    known: Vec<SocketAddr>,
    link: Link,
    step: Step,
    asked: Option<Asked>,
    ask_at: MonotonicTime,
    create_attempts: u32,
    request_timeout: Duration,
}

impl MetadataClient {
    /// Connects, to create the topic of `spec` first.
    pub fn create_topic(io: &mut dyn Io, bootstrap: SocketAddr, spec: &CellSpec) -> MetadataClient {
        MetadataClient {
            topic: Topic {
                name: StrBytes::from_string(spec.topic.clone()),
                partitions: i32::try_from(spec.partitions).unwrap_or(i32::MAX),
                replication_factor: spec.replication_factor,
                configs: spec.topic_configs.clone(),
            },
            known: vec![bootstrap],
            link: Link::open(io, bootstrap),
            step: Step::Versions,
            asked: None,
            ask_at: MonotonicTime::ZERO,
            create_attempts: 0,
            request_timeout: spec.request_timeout,
        }
    }

    /// Connects, to describe the topic of `spec`, which exists.
    pub fn describe_topic(
        io: &mut dyn Io,
        bootstrap: SocketAddr,
        spec: &CellSpec,
    ) -> MetadataClient {
        let mut client = MetadataClient::create_topic(io, bootstrap, spec);
        client.step = Step::Describe;
        client
    }

    /// Asks for a new view, unless one is being asked for; shortly after the last one, if that was
    /// just now.
    pub fn refresh(&mut self, now: MonotonicTime) {
        if self.step == Step::Settled {
            self.step = Step::Describe;
            self.ask_at = self.ask_at.max(now);
        }
    }

    /// What the cluster is being asked, for the message when it does not answer.
    pub fn waiting_for(&self) -> ApiKey {
        self.step.request().map_or(ApiKey::Metadata, |(api, _)| api)
    }

    /// Whether `connection` is this client's.
    pub fn owns(&self, connection: ConnectionId) -> bool {
        self.link.owns(connection)
    }

    /// The engine says that the connection is up.
    pub fn on_connected(&mut self) {
        self.link.on_connected();
    }

    /// The engine says that the connection is gone: the next known broker is asked.
    pub fn on_closed(&mut self, now: MonotonicTime) {
        self.asked = None;
        self.link.on_closed(now);
        let current = self.known.iter().position(|known| *known == self.link.address());
        let next = current.map_or(0, |index| (index + 1) % self.known.len());
        self.link.redirect(self.known[next]);
    }

    /// Sends what is due and gives up a connection that does not answer.
    pub fn on_tick(&mut self, io: &mut dyn Io, now: MonotonicTime) -> Result<(), DriverError> {
        if self.asked.is_some_and(|asked| asked.at.plus(self.request_timeout) <= now) {
            self.link.give_up(io, now);
            self.on_closed(now);
        }
        self.link.reopen_if_due(io, now);
        let Some((api, version)) = self.step.request() else { return Ok(()) };
        let (Some(connection), None) = (self.link.up(), self.asked) else { return Ok(()) };
        if self.ask_at > now {
            return Ok(());
        }
        let correlation_id = self.link.correlation_id();
        let request = self.request(api);
        let frame = wire::encode_request(correlation_id, CLIENT_ID, version, &request)
            .map_err(DriverError::Request)?;
        io.send(connection, frame, &[]);
        self.create_attempts += u32::from(api == ApiKey::CreateTopics);
        self.asked = Some(Asked { correlation_id, at: now });
        Ok(())
    }

    /// When [`MetadataClient::on_tick`] has something to do.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        if let Some(asked) = self.asked {
            return Some(asked.at.plus(self.request_timeout));
        }
        let ask_at = self.step.request().and(self.link.up()).map(|_| self.ask_at);
        ask_at.or(self.link.reopen_at())
    }

    /// Takes an answer in; a view if that is what it was.
    pub fn on_frame(
        &mut self,
        frame: BytesMut,
        now: MonotonicTime,
    ) -> Result<Option<View>, DriverError> {
        let (Some(asked), Some((api, version))) = (self.asked.take(), self.step.request()) else {
            return Ok(None);
        };
        self.ask_at = now.plus(ASK_AGAIN);
        let address = self.link.address();
        let answer = |source| DriverError::Answer { address, source };
        let (correlation_id, response) =
            wire::parse_response(api, version, frame.freeze()).map_err(answer)?;
        if correlation_id != asked.correlation_id {
            return Ok(None);
        }
        match response {
            Response::ApiVersions(response) => self.on_versions(&response, now)?,
            Response::CreateTopics(response) => self.on_created(&response)?,
            Response::Metadata(response) => return self.on_metadata(&response).map(Some),
            _ => {}
        }
        Ok(None)
    }

    fn request(&self, api: ApiKey) -> Request {
        match api {
            ApiKey::ApiVersions => Request::ApiVersions(
                ApiVersionsRequest::default()
                    .with_client_software_name(StrBytes::from_static_str(CLIENT_ID))
                    .with_client_software_version(StrBytes::from_static_str(env!(
                        "CARGO_PKG_VERSION"
                    ))),
            ),
            ApiKey::CreateTopics => Request::CreateTopics(self.create_request()),
            _ => {
                let topic = MetadataRequestTopic::default()
                    .with_name(Some(TopicName(self.topic.name.clone())));
                Request::Metadata(MetadataRequest::default().with_topics(Some(vec![topic])))
            }
        }
    }

    fn create_request(&self) -> CreateTopicsRequest {
        let configs = self.topic.configs.iter().map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string(name.clone()))
                .with_value(Some(StrBytes::from_string(value.clone())))
        });
        let topic = CreatableTopic::default()
            .with_name(TopicName(self.topic.name.clone()))
            .with_num_partitions(self.topic.partitions)
            .with_replication_factor(self.topic.replication_factor)
            .with_configs(configs.collect());
        let timeout_ms = i32::try_from(self.request_timeout.as_millis()).unwrap_or(i32::MAX);
        CreateTopicsRequest::default().with_topics(vec![topic]).with_timeout_ms(timeout_ms)
    }

    fn on_versions(
        &mut self,
        response: &ApiVersionsResponse,
        now: MonotonicTime,
    ) -> Result<(), DriverError> {
        let needed = [
            (ApiKey::CreateTopics, CREATE_TOPICS_VERSION),
            (ApiKey::Metadata, METADATA_VERSION),
            (ApiKey::Produce, PRODUCE_VERSION),
            (ApiKey::Fetch, FETCH_VERSION),
        ];
        for (api, version) in needed {
            let is_served = response.api_keys.iter().any(|served| {
                served.api_key == api.code()
                    && (served.min_version..=served.max_version).contains(&version)
            });
            if !is_served {
                return Err(DriverError::Version { address: self.link.address(), api, version });
            }
        }
        self.step = Step::Create;
        self.ask_at = now;
        Ok(())
    }

    fn on_created(&mut self, response: &CreateTopicsResponse) -> Result<(), DriverError> {
        let topic = || self.topic.name.to_string();
        let Some(result) = response.topics.first() else { return Ok(()) };
        match ErrorCode::from_code(result.error_code) {
            ErrorCode::None => self.step = Step::Describe,
            // The first attempt's answer was lost: it is this cell's topic.
            ErrorCode::TopicAlreadyExists if self.create_attempts > 1 => {
                self.step = Step::Describe;
            }
            ErrorCode::TopicAlreadyExists => return Err(DriverError::TopicExists(topic())),
            ErrorCode::RequestTimedOut
            | ErrorCode::NotController
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NetworkException => {}
            code => {
                let reason = result.error_message.as_ref();
                let reason = reason.map_or(String::new(), |words| format!(": {words}"));
                return Err(DriverError::TopicRefused { topic: topic(), code, reason });
            }
        }
        Ok(())
    }

    fn on_metadata(&mut self, response: &MetadataResponse) -> Result<View, DriverError> {
        let brokers = response
            .brokers
            .iter()
            .map(|broker| Ok((BrokerId(broker.node_id.0), resolve(&broker.host, broker.port)?)))
            .collect::<Result<Vec<_>, DriverError>>()?;
        // None is forgotten: of those that are down now, one may be the first that is back.
        for (_, address) in &brokers {
            if !self.known.contains(address) {
                self.known.push(*address);
            }
        }
        let mut view = View {
            leaders: vec![None; self.topic.partitions.unsigned_abs() as usize],
            not_ready: Vec::new(),
            brokers,
        };
        let mut ready = vec![false; view.leaders.len()];
        let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
        for partition in partitions {
            let Ok(index) = usize::try_from(partition.partition_index) else { continue };
            let leader = BrokerId(partition.leader_id.0);
            if index >= ready.len() || view.address_of(leader).is_none() {
                continue;
            }
            view.leaders[index] = Some(leader);
            ready[index] = partition.isr_nodes.len() == partition.replica_nodes.len();
        }
        view.not_ready = (0_i32..)
            .zip(&ready)
            .filter(|(_, ready)| !**ready)
            .map(|(index, _)| PartitionId(index))
            .collect();
        self.step = Step::Settled;
        Ok(view)
    }
}

/// A broker's advertised address: of several that its name has, the first at which somebody listens.
/// Names are looked up, which blocks: before the load begins or while a broker is away.
fn resolve(host: &str, port: i32) -> Result<SocketAddr, DriverError> {
    let unusable = || DriverError::Address(format!("{host}:{port}"));
    let port = u16::try_from(port).map_err(|_| unusable())?;
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let addresses: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|_| unusable())?.collect();
    let listens = |address: &&SocketAddr| {
        addresses.len() == 1 || TcpStream::connect_timeout(address, ADDRESS_PATIENCE).is_ok()
    };
    // A broker that is away now may be back at the first one.
    addresses.iter().find(listens).or(addresses.first()).copied().ok_or_else(unusable)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_name_with_several_addresses_means_the_one_that_listens() {
        let names: Vec<SocketAddr> =
            ("localhost", 1).to_socket_addrs().expect("a hosts file").collect();
        for name in names {
            let listener = TcpListener::bind((name.ip(), 0)).expect("a loopback address");
            let address = listener.local_addr().expect("it listens");
            let found = resolve("localhost", address.port().into()).expect("an address");
            assert_eq!(found, address);
        }
    }
}

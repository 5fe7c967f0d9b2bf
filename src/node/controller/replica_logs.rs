//! The controller as a broker's client: asks where replicas' logs end (GetReplicaLogInfo), away from
//! the queue; the answer comes back as a request to the controller machine.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use super::connection::{Ask, read_frame, write_frame};
use crate::protocol::controller::{QueryId, ReplicaLog, ReplicaLogs, ReplicaLogsAnswer, Request};
use crate::protocol::metadata::Endpoint;
use crate::types::{BrokerId, ErrorCode, TopicId, TopicPartition};
use crate::wire::{self, ApiKey, ReplicaLogInfo, ReplicaLogInfoRequest, ReplicaLogInfoResponse};

const VERSION: i16 = 0;
/// A broker that has not answered by then is asked again later.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(2);
/// Largest answer read; a thousand partitions take some 40 KiB.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// One question on its way.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) query: QueryId,
    pub(super) broker: BrokerId,
    pub(super) endpoint: Endpoint,
    pub(super) partitions: Vec<TopicPartition>,
}

/// Asks, waits for the answer or the end of patience, and queues what came of it.
pub(super) async fn ask(question: Question, queue: mpsc::Sender<Ask>) {
    let answer = tokio::time::timeout(ANSWER_TIME_MAX, exchange(&question)).await;
    // Why a broker did not answer changes nothing: it is asked again.
    let answer = answer.ok().and_then(Result::ok).flatten();
    let logs = ReplicaLogs { query: question.query, broker: question.broker, answer };
    let (done, _) = oneshot::channel();
    // The queue is gone only when the controller is stopping.
    let _ = queue.send(Ask::new(Request::ReplicaLogs(logs), done)).await;
}

/// `None`: the broker closed the connection, or its answer is not one.
async fn exchange(question: &Question) -> io::Result<Option<ReplicaLogsAnswer>> {
    let Endpoint { host, port, .. } = &question.endpoint;
    let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
    stream.set_nodelay(true)?;
    let request = wire::Request::GetReplicaLogInfo(request(&question.partitions));
    let Ok(frame) = wire::encode_request(0, "ackmark-controller", VERSION, &request) else {
        return Ok(None);
    };
    let mut buffer = bytes::BytesMut::new();
    let frame = match write_frame(&mut stream, &[frame]).await {
        Ok(()) => read_frame(&mut stream, &mut buffer, ANSWER_BYTES_MAX).await,
        Err(closed) => Err(closed),
    };
    let Ok(Some(frame)) = frame else { return Ok(None) };
    Ok(match wire::parse_response(ApiKey::GetReplicaLogInfo, VERSION, frame) {
        Ok((_, wire::Response::GetReplicaLogInfo(response))) => Some(answer(response)),
        Ok(_) | Err(_) => None,
    })
}

fn request(partitions: &[TopicPartition]) -> ReplicaLogInfoRequest {
    let mut topics: Vec<(TopicId, Vec<_>)> = Vec::new();
    for id in partitions {
        match topics.last_mut().filter(|(topic, _)| *topic == id.topic) {
            Some((_, asked)) => asked.push(id.partition),
            None => topics.push((id.topic, vec![id.partition])),
        }
    }
    ReplicaLogInfoRequest { topics: Some(topics) }
}

fn answer(response: ReplicaLogInfoResponse) -> ReplicaLogsAnswer {
    let logs = response.topics.into_iter().flat_map(|(topic, replicas)| {
        replicas.into_iter().map(move |replica| {
            let partition = replica.partition;
            (TopicPartition { topic, partition }, log(&replica))
        })
    });
    ReplicaLogsAnswer { broker_epoch: response.broker_epoch, logs: logs.collect() }
}

fn log(replica: &ReplicaLogInfo) -> Result<ReplicaLog, ErrorCode> {
    match replica.error {
        ErrorCode::None => Ok(ReplicaLog {
            last_written_leader_epoch: replica.last_written_leader_epoch,
            log_end_offset: replica.log_end_offset,
            current_leader_epoch: replica.current_leader_epoch,
        }),
        error => Err(error),
    }
}

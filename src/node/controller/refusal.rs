//! What a controller that is not the active one answers: NOT_CONTROLLER, in the place where each
//! answer says such things, so that brokers and clients ask another one.

use crate::protocol::controller::{Refusal, Request, Response};
use crate::types::ErrorCode;

const ERROR: ErrorCode = ErrorCode::NotController;

/// The answer; `None` where it has no place for an error (an election of everything): then nobody
/// answers and the connection ends.
pub(super) fn not_controller(request: &Request) -> Option<Response> {
    let refusal = || Refusal::new(ERROR, "this controller is not the active one");
    Some(match request {
        Request::RegisterBroker(_) => Response::RegisterBroker(Err(ERROR)),
        Request::Heartbeat(_) => Response::Heartbeat(Err(ERROR)),
        Request::UnregisterBroker(_) => Response::UnregisterBroker(Err(ERROR)),
        Request::AlterPartition(_) => Response::AlterPartition(Err(ERROR)),
        Request::CreateTopics(create) => {
            let topics = create.topics.iter();
            Response::CreateTopics(topics.map(|new| (new.name.clone(), Err(refusal()))).collect())
        }
        Request::DeleteTopics(topics) => {
            let topics = topics.iter();
            Response::DeleteTopics(topics.map(|topic| (topic.clone(), Err(ERROR))).collect())
        }
        Request::AlterConfigs(alter) => {
            let resources = alter.resources.iter();
            let refused = resources.map(|change| (change.resource.clone(), Err(refusal())));
            Response::AlterConfigs(refused.collect())
        }
        Request::ElectLeaders(elect) => {
            let named = elect.partitions.as_ref()?.iter();
            Response::ElectLeaders(named.map(|one| (one.clone(), Err(refusal()))).collect())
        }
        Request::ReplicaLogs(_) => Response::ReplicaLogs,
        Request::Reassign(_) => Response::Reassign(Err(refusal())),
        Request::AssignDirectory(_) => Response::AssignDirectory(Err(ERROR)),
        Request::UpdateFeature(_) => Response::UpdateFeature(Err(refusal())),
        Request::AllocateProducerIds { .. } => Response::AllocateProducerIds(Err(ERROR)),
    })
}
